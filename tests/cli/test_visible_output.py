"""What others wrote never controls the terminal: in every command, on stdout and stderr."""

import ast
import asyncio
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from cli.buses import Bus
from cli.explain.test_explain_eviction import HOT, INTENT, a_decision
from cli.http_clusters import a_kubeconfig
from cli.programs import invoke, run
from cli.views.test_live_state import a_state
from rich.text import Text
from textual.color import Color

from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.main import COMMANDS, main
from equipoise.cli.tap.text import describe
from equipoise.cli.terminal import VisibleConsole, json_line, print_section, result_console, table, yaml_text
from equipoise.cli.views.terminal.screen import TopApp, VisibleText
from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.channels import CHANNELS, Channel
from equipoise.contracts.messages.descheduling import RefusedMove
from equipoise.contracts.plain_text import visible
from equipoise.runtime.bus.nats.nats_bus import open_bus
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.visible_stream import VisibleStream

HOSTILE = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x9b1A\u202etxet\u202c\u200b\r[/x][link=https://evil.example]here[/link]"

CLI = Path(__file__).parents[2] / "libs" / "cli" / "src" / "equipoise" / "cli"


def raw(text: str) -> str:
    """The characters of a text that a terminal would follow."""
    return "".join(each for each in text if visible(each) != each)


def every_command() -> Iterator[tuple[str, ...]]:
    def below(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield path
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                found = command.get_command(click.Context(command), name)
                assert found is not None
                yield from below(found, (*path, name))

    yield from below(main, ())


@pytest.mark.parametrize("path", list(every_command()), ids=" ".join)
def test_click_quotes_the_arguments_in_usage_errors(path: tuple[str, ...]) -> None:
    """The control characters are in an option or in an argument. This holds by click alone, without our stream."""
    for argument in (f"--{HOSTILE}", HOSTILE):
        found = invoke(*path, argument, "--help-me")
        assert raw(found.output) == "", found.output
    assert "\\x1b]52" in invoke(*path, f"--{HOSTILE}").output


def test_whatever_a_command_prints_is_text() -> None:
    """The text is written by `print` and by click, to stdout and stderr, and in its error."""

    @click.command()
    def hostile_command() -> None:
        print(HOSTILE)
        click.echo(HOSTILE, err=True)
        raise CommandFailed(HOSTILE)

    main.add_command(hostile_command, "hostile")
    try:
        found = invoke("hostile")
    finally:
        del main.commands["hostile"]

    assert found.output.count("\\x1b]52") == 3
    assert raw(found.output) == ""


def test_every_command_has_the_stream_and_the_console_that_make_text_visible() -> None:
    """No module of a command has a console of its own, or a way around the stream."""
    assert {path[0] for path in every_command() if path} == set(COMMANDS)
    for file in CLI.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                allowed = file.name == "terminal.py"
                assert allowed or called not in ("Console", "rich.console.Console", "rich.print", "os.write"), file
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("__stdout__", "__stderr__"), file
                assert not ast.unparse(node).endswith(("stdout.buffer", "stderr.buffer")), file


@contextmanager
def printing() -> Iterator[io.StringIO]:
    """What a command prints to stdout."""
    to = io.StringIO()
    with redirect_stdout(VisibleStream(to)):
        yield to


def test_a_table_of_others_text_is_no_markup_and_keeps_its_columns() -> None:
    """`[/x]` would end the command with an error, and `[link=…]` would be a link."""
    made = table("pod", "why")
    made.add_row(HOSTILE, "ordinary")
    made.add_row("web", Text(HOSTILE, "bold"))
    with printing() as printed:
        print_section(result_console(), "title", made)
        result_console().print(HOSTILE)

    assert raw(printed.getvalue()) == ""
    assert printed.getvalue().count("[/x][link=https://evil.example]here[/link]") == 3
    [first] = [line for line in printed.getvalue().splitlines() if "ordinary" in line]
    assert first.index("ordinary") == len(visible(HOSTILE)) + 2


def test_colors_are_ours_only() -> None:
    """The console writes colors between what is made visible on a terminal, and no links."""
    to = io.StringIO()
    console = VisibleConsole(file=to, force_terminal=True, color_system="standard", width=500)
    console.print(Text(HOSTILE, "bold"))
    console.print(Text("here", "link https://evil.example"))

    assert to.getvalue().startswith("\x1b[1m\\x1b]52")
    assert raw(to.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "")) == ""


def hostile(value: Any) -> Any:
    """Every text in it is one of an attacker."""
    match value:
        case str() if type(value) is str:
            return HOSTILE
        case list():
            return [hostile(item) for item in value]
        case dict():
            return {key: hostile(item) for key, item in value.items()}
        case msgspec.Struct():
            fields = {field: hostile(getattr(value, field)) for field in value.__struct_fields__}
            return msgspec.structs.replace(value, **fields)
    return value


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.pattern)
def test_no_message_of_the_bus_controls_the_terminal(channel: Channel) -> None:
    """Whatever its texts are; for programs they stay what they are."""
    message = hostile(channel.example[1])
    document = json.loads(msgspec.json.encode(message))
    with printing() as printed:
        print(describe(message))
        print(json_line(message))
        print(yaml_text(document))

    assert raw(printed.getvalue()) == ""
    assert json.loads(json_line(message)) == document
    assert yaml.safe_load(yaml_text(document)) == document


def test_the_screen_of_top_shows_text_as_text() -> None:
    """A filter of all lines applies to every widget."""
    app = TopApp(a_state(), None, None)  # type: ignore[arg-type]  # it does not run
    [filter_] = [each for each in app.get_line_filters() if isinstance(each, VisibleText)]
    segments = list(Text(HOSTILE, "bold").render(VisibleConsole()))

    shown = filter_.apply(segments, Color(0, 0, 0))

    assert raw("".join(segment.text for segment in shown)) == ""
    assert [segment.style for segment in shown] == [segment.style for segment in segments]


async def test_reasons_of_tenants_are_text(bus: Bus) -> None:
    """Also when a forged message has them."""
    refused = RefusedMove(pod="shop/web-1", node="node-a", why=HOSTILE)
    now = SystemClock().now()
    intent = msgspec.structs.replace(INTENT, namespace="shop", pod="web-1", reason=HOT + HOSTILE, decided_at=now)
    async with open_bus(bus.settings("descheduler"), "descheduler", SystemClock(), None) as link:
        await link.publish(
            subjects.decision("descheduler", "low_node_load"), a_decision(now, 5, intent, refused=[refused])
        )
    _, output = await bus.run("explain", "eviction", "shop/web-1")

    assert "\\x1b]52" in output, output
    assert raw(output) == ""


async def test_an_error_of_the_api_server_is_text(tmp_path: Path) -> None:
    """A proxy or a webhook writes its body."""

    async def refuse(_request: web.Request) -> web.Response:
        return web.Response(status=403, text=HOSTILE)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", refuse)
    async with TestServer(app) as server:
        file = a_kubeconfig(tmp_path / "kubeconfig", str(server.make_url("")).rstrip("/"))
        commands = (("status",), ("doctor",), ("pause", "--for", "1h"), ("annotations", "clear"), ("resume",))
        found = await asyncio.gather(
            *(run(*command, KUBECONFIG=str(file), EQUIPOISE_NATS__URL="nats://127.0.0.1:1") for command in commands)
        )

    assert [raw(output) for _, output in found] == [""] * len(found)
    assert any("]52" in output for _, output in found), found
