"""The code blocks of docs/extending.md, and how they are applied to a copy of the repository."""

import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text()
SECTION = re.compile(r"^## ", re.MULTILINE)
FILE = re.compile(r"Write\s+`([\w./-]+)`[^`]*?(?:`[^`]*`[^`]*?)?:\n\n```python\n(.*?)```", re.DOTALL)
CHANGE = re.compile(r"change\s+`([\w./-]+)`[^`]*?:\n\n```diff\n(.*?)```", re.DOTALL | re.IGNORECASE)


def sections() -> dict[str, str]:
    """The text of each kind, by its heading."""
    return {part.partition("\n")[0]: part for part in SECTION.split(PAGE)[1:]}


def changed(text: str, change: str) -> str:
    """`text` after a change of the page. Each of its places must occur exactly once."""
    for place in change.removesuffix("\n").split("\n@@\n"):
        lines = place.split("\n")
        old = "\n".join(line[1:] for line in lines if not line.startswith("+"))
        new = "\n".join(line[1:] for line in lines if not line.startswith("-"))
        assert text.count(old) == 1, f"it occurs {text.count(old)} times:\n{old}"
        text = text.replace(old, new)
    return text


def extend(copy: Path, kinds: Iterable[str]) -> None:
    """Applies the sections of these kinds to a copy of the repository."""
    for text in (sections()[kind] for kind in kinds):
        for path, content in FILE.findall(text):
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).parent.joinpath("__init__.py").touch()
            (copy / path).write_text(content)
        for path, change in CHANGE.findall(text):
            (copy / path).write_text(changed((copy / path).read_text(), change))
