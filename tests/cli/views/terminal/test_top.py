"""`equipoise top`: its screen, driven by keys, and its plain table."""

import asyncio
import io
import json
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from builders import NOW, a_node_utilization
from cli.buses import Bus
from cli.live_pages import ShownCluster
from cli.programs import PROGRAM, invoke, run
from cli.views.test_live_state import a_cycle, a_decision, a_state, an_outcome
from msgspec import structs
from rich.console import Console
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from equipoise.cli.views.explanations import Explained
from equipoise.cli.views.rows import NodeRow
from equipoise.cli.views.state import LiveState
from equipoise.cli.views.terminal.screen import MAX_ROWS, TopApp
from equipoise.cli.views.terminal.screen_text import bar, node_cells, show, sorted_rows, state_words, summary_line
from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.contracts.messages.values.pressure import NodePressure, Pressure
from equipoise.runtime.bus import connect
from equipoise.runtime.process.clock import SystemClock


class Screen:
    """The app with a state that a test changes, and the explanations that were requested."""

    def __init__(self, state: LiveState) -> None:
        self.state = state
        self.explained: list[tuple[str, str]] = []
        self.ticked: Callable[[], object] = lambda: None
        self.app = TopApp(state, self._run, self._explain)
        self.pilot: Pilot[None]

    async def _run(self, on_tick: Callable[[], object]) -> None:
        self.ticked = on_tick
        self.app.show_view()
        await asyncio.Event().wait()

    async def _explain(self, kind: str, name: str) -> Explained:
        self.explained.append((kind, name))
        return Explained(kind=kind, name=name, text=f"\x1b[1mpolicy profile\x1b[0m for {name}")

    def cells(self, table: str = "node-table", column: int = 0) -> list[str]:
        found = self.app.query_one(f"#{table}", DataTable)
        return [str(found.get_row_at(row)[column]) for row in range(found.row_count)]

    def text(self, widget: str) -> str:
        return str(self.app.query_one(f"#{widget}", Static).render())


@asynccontextmanager
async def a_screen(state: LiveState, columns: int = 120) -> AsyncIterator[Screen]:
    screen = Screen(state)
    async with screen.app.run_test(size=(columns, 30)) as pilot:
        screen.pilot = pilot
        await pilot.pause()
        yield screen


def a_cluster(nodes: int = 12) -> ShownCluster:
    return ShownCluster(nodes, NOW)


async def test_nodes_are_sorted_by_keys() -> None:
    """By CPU at first; unknown loads are last, whatever the order."""
    state = a_cluster().state
    rows = {row.node: row for row in state.rows}
    async with a_screen(state) as screen:
        by_cpu = screen.cells()
        await screen.pilot.press("m")
        by_memory = screen.cells()
        await screen.pilot.press("n")
        by_name = screen.cells()

    assert sorted(rows, key=lambda name: -(rows[name].cpu or -1)) == by_cpu
    assert sorted(rows, key=lambda name: -(rows[name].memory or -1)) == by_memory
    assert sorted(rows) == by_name
    assert rows[by_cpu[-1]].unknown


async def test_a_change_is_shown_and_the_cursor_stays_on_its_node() -> None:
    """The load of another node may change its row."""
    loads = {"node-a": 9.0, "node-b": 5.0, "node-c": 3.0}
    state = a_state(*(a_node_utilization(node, cpu=cpu) for node, cpu in loads.items()))
    async with a_screen(state) as screen:
        await screen.pilot.press("down", "down")
        state.apply(a_node_utilization("node-b", cpu=9.5, sequence=2), NOW)
        state.tick(NOW)
        screen.ticked()
        await screen.pilot.pause()
        table = screen.app.query_one("#node-table", DataTable)

        assert ["node-b", "node-a", "node-c"] == screen.cells()
        assert "95.0%" in screen.cells(column=1)[0]
        assert "node-c" == table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value


async def test_enter_explains_a_node_and_escape_returns() -> None:
    """With the same text as `equipoise explain`."""
    async with a_screen(a_cluster().state) as screen:
        first = screen.cells()[0]
        await screen.pilot.press("enter")
        await screen.pilot.pause()
        shown = str(screen.app.screen.query_one("#explanation", Static).render())
        await screen.pilot.press("escape")
        await screen.pilot.pause()

        assert f"policy profile for {first}" == shown
        assert [("node", first)] == screen.explained
        assert screen.app.screen.query("#node-table")


async def test_moves_plan_limits_and_unknown_have_a_tab_each() -> None:
    """Enter on a move explains its eviction."""
    async with a_screen(a_cluster().state) as screen:
        await screen.pilot.press("2")
        await screen.pilot.pause()
        outcomes = screen.cells("move-table", 1)
        await screen.pilot.press("enter")
        await screen.pilot.pause()
        await screen.pilot.press("escape")
        await screen.pilot.press("3")
        limits = screen.text("limit-text")
        await screen.pilot.press("4")
        unknown = screen.text("unknown-text")

    assert {"proposed", "evicted", "dry_run", "blocked_pdb", "rejected_limit (perNamespace)"} == set(outcomes)
    assert [("eviction", "shop/mail-6c8d9f-0057")] == screen.explained
    assert "perNamespace  shop  5 of 5 in 1h" in limits
    assert "perWorkload  Deployment/shop/web  2 of 4 (20 %) in 1h" in limits
    assert "no sample within 180 s" in unknown


@pytest.mark.parametrize("columns", [80, 100, 120])
async def test_every_column_is_on_the_screen(columns: int) -> None:
    """At 80 columns the state of nodes and the reason of moves were cut off: cells are folded between words."""
    async with a_screen(a_cluster().state, columns) as screen:
        for key, name in (("1", "node-table"), ("2", "move-table")):
            await screen.pilot.press(key)
            await screen.pilot.pause()
            table = screen.app.query_one(f"#{name}", DataTable)
            assert table.virtual_size.width <= columns
            assert table.max_scroll_x == 0
        reasons = {"".join(cell.split()) for cell in screen.cells("move-table", 4)}
        states = {" ".join(cell.split()) for cell in screen.cells("node-table", 6)}
        await screen.pilot.resize_terminal(columns * 2, 30)
        await screen.pilot.pause()
        assert reasons == {"".join(cell.split()) for cell in screen.cells("move-table", 4)}

    assert "between, cordoned" in states
    assert any("no sample" in state for state in states)


async def test_pressure_and_further_resources_are_on_the_screen_at_80_columns() -> None:
    """Only if a node has them, and instead of requests, for which there is room on a wider one. Unknown is `?`."""
    state = a_state(*(a_node_utilization(f"node-{letter}") for letter in "ab"))
    async with a_screen(state, 80) as screen:
        table = screen.app.query_one("#node-table", DataTable)
        before = [str(column.label) for column in table.ordered_columns]
        state.apply(with_pressure_and_network(a_node_utilization("node-a", sequence=2)), NOW)
        state.tick(NOW)
        screen.ticked()
        await screen.pilot.pause()

        assert "waits for" not in before
        assert [str(column.label) for column in table.ordered_columns][-3:] == ["network", "waits for", "state"]
        assert table.virtual_size.width <= 80
        assert screen.cells(column=4) == ["33.3%", "?"]
        assert [" ".join(cell.split()) for cell in screen.cells(column=5)] == ["CPU 31%, disks 2%", "?"]
        await screen.pilot.resize_terminal(120, 30)
        await screen.pilot.pause()
        assert [str(column.label) for column in table.ordered_columns][3:5] == ["cpu req.", "mem. req."]


def test_the_plain_table_has_pressure_and_further_resources() -> None:
    state = a_state(with_pressure_and_network(a_node_utilization("node-a")))
    console = Console(file=io.StringIO(), width=200)
    show(state.everything(), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]

    for part in ("network", "33.3%", "waits for", "CPU 31%, disks 2%"):
        assert part in text


def with_pressure_and_network(utilization: NodeUtilization) -> NodeUtilization:
    """A third of the network is used; processes wait for CPU and disks, and for memory it is unknown."""
    windows = {
        name: structs.replace(window, mean=structs.replace(window.mean, further={"network": 30.0}))
        for name, window in utilization.windows.items()
    }
    return structs.replace(
        utilization,
        base=structs.replace(utilization.base, further={"network": 90.0}),
        windows=windows,
        pressure=NodePressure(sampled_at=NOW, waiting=Pressure(cpu=0.31, io=0.02)),
    )


async def test_a_terminal_that_is_too_narrow_can_be_scrolled() -> None:
    async with a_screen(a_cluster().state, 30) as screen:
        assert screen.app.query_one("#node-table", DataTable).max_scroll_x > 0


async def test_a_filter_shows_the_nodes_whose_name_contains_it() -> None:
    """An empty one shows all."""
    async with a_screen(a_cluster().state) as screen:
        await screen.pilot.press("slash", "0", "5")
        filtered = screen.cells()
        await screen.pilot.press("backspace", "backspace", "enter")

        assert ["node-05.example.com"] == filtered
        assert 12 == len(screen.cells())


async def test_a_large_cluster_shows_its_first_nodes() -> None:
    """And a note that these are not all."""
    state = a_state(*(a_node_utilization(f"node-{number}") for number in range(MAX_ROWS + 1)))
    async with a_screen(state) as screen:
        assert MAX_ROWS == len(screen.cells())
        assert f"first {MAX_ROWS} rows" in screen.text("head")


async def test_an_error_of_the_feed_ends_the_screen() -> None:
    """The terminal is restored before it is reported."""

    async def fail(on_tick: Callable[[], object]) -> None:
        raise OSError("no more")

    async def explain(kind: str, name: str) -> Explained:
        raise AssertionError

    app = TopApp(a_cluster().state, fail, explain)
    async with app.run_test():
        pass

    assert "no more" == str(app.failure)


def test_unknown_is_a_question_mark() -> None:
    """Never 0, neither in cells, nor as a bar, nor in the order."""
    unknown, idle = NodeRow("node-a", unknown="no sample"), NodeRow("node-b", 0.0, 0.0, "", 0.0, 0.0, 0)

    assert ("node-a", "?", "?", "?", "?", "?", "unknown: no sample") == node_cells(unknown)
    assert ("node-b", "0.0%", "0.0%", "0.0%", "0.0%", "0", "") == node_cells(idle)
    assert ("?", "0.0%") == (bar(None).plain.split()[-1], bar(0.0).plain.split()[-1])
    assert [idle, unknown] == sorted_rows([unknown, idle], "cpu")


@pytest.mark.parametrize(("load", "blocks"), [(0.0, 0), (0.5, 6), (1.0, 12), (1.7, 12)])
def test_a_bar_is_as_long_as_the_load(load: float, blocks: int) -> None:
    """Above 100 % it is full; the number is exact."""
    assert (blocks, f"{load:.1%}") == (bar(load).plain.count("█"), bar(load).plain.split()[-1])


def test_the_summary_has_the_spread_and_what_is_known() -> None:
    """In one line."""
    state = a_state(a_node_utilization("node-a", cpu=9.0), a_node_utilization("node-b", cpu=2.0), a_cycle(expected=3))
    summary = state.everything().summary
    assert summary is not None

    assert summary_line(summary).startswith("spread in points: cpu 70.0 (mean 55.0%), memory 0.0")
    assert "known: 2 of 3 nodes   hot: ?" in summary_line(summary)
    assert ["idle", "being emptied"] == state_words(NodeRow("node-a", 0.1, 0.1, state="idle", emptied="being emptied"))
    assert ["hot", "cordoned"] == state_words(NodeRow("node-a", 0.9, 0.5, state="hot", set_apart="cordoned"))


async def test_once_without_any_node_fails_with_the_reason(bus: Bus) -> None:
    """Nothing was published on this bus yet; another one cannot be reached."""
    access = ("--nats", bus.url, "--user", "tap", "--password-file", bus.password_file("tap"))
    empty = await run("top", "--once", "--wait", "1", *access, KUBECONFIG="/nowhere")
    unreachable = await run("top", "--once", "--wait", "1", "--nats", "nats://127.0.0.1:1", KUBECONFIG="/nowhere")

    assert (1, 1) == (empty[0], unreachable[0])
    assert f"no node was published at {bus.url} within 1 s" in empty[1]
    assert "nats://127.0.0.1:1" in unreachable[1]


async def test_once_prints_all_nodes_as_soon_as_they_are_known(bus: Bus) -> None:
    """A cycle has the number of nodes. Loads of the last evaluation count."""
    now = SystemClock().now()
    decision = a_decision(("node-y", "hot"), ("node-z", "idle"), evaluated_at=now - 5)
    access = ("--nats", bus.url, "--user", "tap", "--password-file", bus.password_file("tap"))
    async with (
        connect(bus.settings("collector"), "collector") as collector,
        connect(bus.settings("descheduler"), "descheduler") as descheduler,
        connect(bus.settings("binder"), "binder") as binder,
    ):
        await binder.publish(subjects.eviction_outcome("shop", "web-1"), an_outcome(Outcome.DRY_RUN))
        nodes = [structs.replace(each, sampled_at=now - 1) for each in decision.nodes]
        subject = subjects.decision("descheduler", "low_node_load")
        await descheduler.publish(subject, structs.replace(decision, nodes=nodes))
        commands = (["--once"], ["-o", "json"])
        running = asyncio.gather(
            *(run("top", *options, "--wait", "100", *access, KUBECONFIG="/nowhere") for options in commands)
        )
        while not running.done():
            await collector.publish(
                subjects.utilization_cycle("all"), a_cycle(queried_at=now, expected=2, fresh=2, sequence=1)
            )
            await asyncio.wait({running}, timeout=0.2)
        (code, output), encoded = running.result()

    assert 0 == code, output
    lines = [line.split() for line in output.splitlines()]
    assert ["node-y", "90.0%", "?", "40.0%", "?", "?", "hot"] in lines
    assert ["node-z", "90.0%", "?", "40.0%", "?", "?", "idle"] in lines
    assert {"node-y", "node-z"} == {row["node"] for row in json.loads(encoded[1])["nodes"]}


def test_without_the_extra_it_names_the_command_that_installs_it() -> None:
    """The base installation has no textual."""
    script = (
        "import sys; sys.modules['textual'] = None; import importlib.util as util; find = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'textual' else find(name, *more)\n"
        "from equipoise.cli.main import main; main(['top'])"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)

    assert 1 == ended.returncode
    assert "pip install 'equipoise[top]'" in ended.stderr


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed (Debian: apt-get install tmux)")
async def test_it_runs_in_a_real_terminal_and_q_ends_it(bus: Bus) -> None:
    """Drawn on the terminal, which is as before afterwards."""
    tmux = ["tmux", "-L", f"equipoise-{time.monotonic_ns()}"]
    access = f"--nats {bus.url} --user tap --password-file {bus.password_file('tap')}"
    command = f'{PROGRAM[0]} -c "{PROGRAM[2]}" top {access}; echo ended: $?; exec cat'

    async def in_tmux(*arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(*tmux, *arguments, stdout=asyncio.subprocess.PIPE)
        output, _ = await process.communicate()
        assert process.returncode == 0
        return output.decode()

    async def until(text: str, *, keys: Sequence[str] = ()) -> None:
        """The keys are pressed again and again: they may be lost while the program asks the terminal what it can do."""
        async with asyncio.timeout(60):
            while text not in await in_tmux("capture-pane", "-p"):
                if keys:
                    await in_tmux("send-keys", *keys)
                await asyncio.sleep(0.5)

    await in_tmux("new-session", "-d", "-x", "110", "-y", "24", command)
    try:
        await until("known: ")
        await until("ended: 0", keys=["q"])
    finally:
        await in_tmux("kill-server")


def test_a_wait_below_zero_is_invalid_input() -> None:
    """Exit code 2."""
    assert 2 == invoke("top", "--once", "--wait", "-1").exit_code
