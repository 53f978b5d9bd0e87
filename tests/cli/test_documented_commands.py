"""Every command in the documentation exists."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from equipoise.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md", "docs/install.md", "docs/operate.md", "docs/diagnose.md", "docs/colocation.md", "docs/extending.md",
    "docs/lab.md", "docs/benchmarks.md", "docs/metrics.md",
)  # fmt: skip


def commands() -> Iterator[tuple[str, str]]:
    """Lines of shell blocks and words in backticks that begin with the program's name."""
    for page in PAGES:
        text = (ROOT / page).read_text().replace("\\\n", " ")
        blocks = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
        lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
        inline = re.findall(r"`(equipoise [a-z][^`]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
        for line in dict.fromkeys([*lines, *inline]):
            if line.startswith("equipoise "):
                yield page, line


@pytest.mark.parametrize(("page", "line"), list(commands()))
def test_every_command_of_the_pages_exists(page: str, line: str) -> None:
    """With all of its options."""
    words = shlex.split(line.replace("\n", " "), comments=True)[1:]
    command: click.Command = main
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        alternatives = [command.get_command(click.Context(command), name) for name in words.pop(0).split("|")]
        assert None not in alternatives, f"{page}: there is no such command: {line}"
        command = next(each for each in alternatives if each is not None)
    known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    options = {word.partition("=")[0] for word in words if word.startswith("-") and word != "-"}

    assert options <= known | {"-h", "--help"}, f"{page}: {line}"
