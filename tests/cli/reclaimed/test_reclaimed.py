"""`equipoise colocation nodes`: totals, order, text, output formats and exit codes."""

import io
import json
from functools import partial

import pytest
import yaml
from builders import GIB, NOW
from cli.buses import Bus
from cli.narrow import assert_never_cut, printed
from cli.programs import invoke
from cli.reclaimed_nodes import a_band, a_reclaimed_node, a_stale_node, cores
from rich.console import Console

from equipoise.cli.bus.cluster import BusCluster
from equipoise.cli.reclaimed.nodes import NodeBands, SortBy, by, node_bands, summary_of
from equipoise.cli.reclaimed.show import ReclaimedList, show
from equipoise.cli.terminal import plain
from equipoise.contracts.bus.subjects import reclaimed_node
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.bus import connect
from equipoise.runtime.process.clock import SystemClock


def found(*messages: ReclaimedNode) -> list[NodeBands]:
    return [node_bands(message, NOW, 300.0) for message in messages]


def listed(*messages: ReclaimedNode) -> ReclaimedList:
    nodes = found(*messages)
    cluster = BusCluster(name=None, state="unknown", why="no kubeconfig")
    return ReclaimedList(cluster=cluster, at=NOW, summary=summary_of(nodes), nodes=nodes)


def text_of(*messages: ReclaimedNode, wide: bool = False) -> str:
    """With one space between words."""
    text = printed(partial(show, listed(*messages), wide=wide), 1_000)
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


def test_totals_add_each_column_over_the_same_nodes() -> None:
    """A node without samples offers something, but its capacity and what is idle are unknown: it counts nowhere."""
    totals = summary_of(found(a_reclaimed_node("a"), a_reclaimed_node("b"), a_stale_node("c"))).totals

    assert totals is not None
    assert (totals.nodes, totals.capacity, totals.free) == (2, cores(16.0), cores(4.0))
    assert (totals.mid.offered, totals.mid.requested, totals.mid.hours) == (cores(2.0), cores(0.0), 24.0)
    assert (totals.batch.offered, totals.batch.requested) == (cores(3.0), cores(2.0))
    assert (totals.batch.available, totals.batch.hours) == (cores(1.0), 6.0)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (a_stale_node("x"), "its newest sample is 500 s old: 67% of the last known amounts are offered"),
        (a_reclaimed_node("x", evaluated_at=NOW - 301), "no longer evaluated"),
        (a_reclaimed_node("x", bands={}), "unknown: free, offered mid, requested mid, offered batch, requested batch"),
        (
            a_reclaimed_node("x", bands=a_reclaimed_node().bands | {"batch": a_band(1.5, None)}),
            "unknown: requested batch",
        ),
        (a_reclaimed_node("x", terms={"cpu": a_reclaimed_node().terms["cpu"]}), "unknown: capacity"),
    ],
)
def test_a_node_without_all_amounts_is_named_and_not_part_of_the_totals(message: ReclaimedNode, why: str) -> None:
    summary = summary_of(found(a_reclaimed_node("a"), message))

    assert summary.not_counted == {"x": why}
    assert summary.totals == summary_of(found(a_reclaimed_node("a"))).totals
    assert f"not in the totals: 1 node (x): {why}" in text_of(a_reclaimed_node("a"), message)


def test_unknown_requests_are_shown_as_unknown() -> None:
    """Not as none: more would seem available than is."""
    unknown = a_reclaimed_node("x", bands=a_reclaimed_node().bands | {"batch": a_band(1.5, None)})
    assert "x cores 8.0 1.0 0.0 1.5 ? 2.0" in text_of(unknown)
    assert "total of" not in text_of(unknown)


def test_a_node_without_terms_has_no_bar_and_an_unknown_capacity() -> None:
    assert "c cores ? 0.5 0.0 0.8 0.5 ? yes 10 s\n" in text_of(a_stale_node("c"))


def test_the_bar_divides_the_capacity_by_how_long_it_is_idle() -> None:
    """Of 8 cores 3 are used, 1 is idle for a day, half a core for 6 hours more, half a core now; 3 are margin."""
    row = next(line for line in text_of(a_reclaimed_node("a")).splitlines() if line.startswith("a cores"))
    assert row.endswith("yes 10 s ██████▓▓▒░······")
    assert "█ used ▓ idle for 24 h ▒ for 6 h ░ now · margin" in text_of(a_reclaimed_node("a"))


def test_the_rows_of_a_node_are_its_cpu_and_its_memory() -> None:
    lines = text_of(a_reclaimed_node("a")).splitlines()
    assert "node capacity mid requested batch requested free now written age" in lines
    assert any(line.startswith("a cores 8.0 1.0 0.0 1.5 1.0 2.0 yes") for line in lines)
    assert any(line.startswith("GiB 32.0 4.0 0.0 6.0 4.0 8.0") for line in lines)
    assert "total of 1 node cores 8.0 1.0 0.0 1.5 1.0 2.0" in lines


def test_wide_output_has_the_forecast_and_the_terms() -> None:
    text = text_of(a_reclaimed_node("a"), wide=True)
    assert "mid idle batch idle margin system reserved high priority written age sample age note" in text
    assert "a cores 8.0 1.0 0.0 1.5 1.0 2.0 1.0 1.5 3.0 1.0 0.5 2.0 yes 10 s ██████▓▓▒░······ 20 s" in text


def observed(name: str, **fields: object) -> ReclaimedNode:
    return a_reclaimed_node(name, mode="observe", written=False, **fields)


def test_in_observation_the_headline_states_that_nothing_is_written() -> None:
    text = text_of(observed("a"), observed("b", evaluated_at=NOW - 60))
    assert "mode observe: written to no node, 2 nodes evaluated; the latest 10 s ago, the oldest 60 s ago" in text
    assert "batch: 1.00 cores, 4.00 GiB could still be requested for 6 h; 3.00 cores, 12.00 GiB offered" in text
    assert "a cores 8.0 1.0 0.0 1.5 1.0 2.0 no" in text


def test_while_writes_are_due_the_headline_counts_them() -> None:
    """Also when no node is written yet: that is no observation."""
    due = a_reclaimed_node("b", written=False)
    assert "mode enforce: written to the status of 1 of 2 nodes, 1 due;" in text_of(a_reclaimed_node("a"), due)
    assert "mode enforce: written to the status of 0 of 1 node, 1 due;" in text_of(due)
    assert "b cores 8.0 1.0 0.0 1.5 1.0 2.0 due" in text_of(due)
    assert "batch: 0.50 cores, 2.00 GiB can still be requested for 6 h" in text_of(due)


def test_nodes_that_are_no_longer_evaluated_are_neither_written_nor_due() -> None:
    old = a_reclaimed_node("b", evaluated_at=NOW - 5_000, written=False)
    assert "written to the status of 1 of 1 node, 0 due" in text_of(a_reclaimed_node("a"), old)


def test_without_recent_evaluations_the_headline_states_it() -> None:
    text = text_of(a_reclaimed_node("a", evaluated_at=NOW - 7_200))
    assert "no node was evaluated recently, the last one 2 h ago: check that a reclaimer is running" in text
    assert "requested for" not in text


def test_many_nodes_of_one_reason_are_a_line() -> None:
    text = text_of(a_reclaimed_node("a"), *(a_stale_node(f"n{number}") for number in range(7)))
    assert "not in the totals: 7 nodes (n0, n1, n2, n3, n4 and 2 more): its newest sample" in text


@pytest.mark.parametrize(
    ("order", "names"),
    [("batch", "bac"), ("mid", "abc"), ("free", "abc"), ("age", "cab"), ("name", "abc")],
)
def test_nodes_are_ordered_by_what_is_available_and_unknown_ones_are_last(order: SortBy, names: str) -> None:
    nodes = found(
        a_reclaimed_node("a", evaluated_at=NOW - 50),
        a_reclaimed_node("b", bands=a_reclaimed_node().bands | {"batch": a_band(1.5, 0.5), "mid": a_band(0.5)}),
        a_reclaimed_node("c", evaluated_at=NOW - 100, bands={}),
    )
    assert "".join(node.node for node in sorted(nodes, key=by(order))) == names


def test_nothing_is_cut_on_narrow_terminals() -> None:
    assert_never_cut(partial(show, wide=False), listed(a_reclaimed_node("a"), a_stale_node("c")))


def test_without_colors_the_text_has_no_escape_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = io.StringIO()
    show(listed(a_reclaimed_node("a")), Console(file=text, width=200, force_terminal=True), wide=False)
    assert "\x1b[3" not in text.getvalue()


async def published(bus: Bus, *messages: ReclaimedNode) -> None:
    async with connect(bus.settings("reclaimer"), "reclaimer", clock=SystemClock()) as link:
        for message in messages:
            await link.publish(reclaimed_node(message.node), message)


async def test_the_user_tap_reads_the_last_evaluation_of_each_node(bus: Bus) -> None:
    """On a real bus with the permissions of an installation."""
    code, text = await bus.run("colocation", "nodes")
    assert code == 1
    assert "no node was evaluated within the last 24 h: set reclaimer.enabled to true" in text
    now = SystemClock().now()
    current = {"evaluated_at": now, "sampled_at": now}
    await published(bus, a_reclaimed_node("a", **current), a_reclaimed_node("b", written=False, **current))

    code, text = await bus.run("colocation", "nodes", NO_COLOR="1")
    assert (code, "\x1b" in text) == (0, False), text
    assert "mode enforce: written to the status of 1 of 2 nodes, 1 due" in text
    code, text = await bus.run("colocation", "nodes", "-o", "json", "--node", "b")
    one = json.loads(text)
    assert [node["node"] for node in one["nodes"]] == ["b"]
    assert (one["summary"]["nodes"], one["summary"]["due"], one["summary"]["written"]) == (1, 1, 0)
    assert one["nodes"][0]["batch"]["requested"] == plain(Resources(cpu=1.0, memory=4 * GIB))
    assert one["nodes"][0]["evaluated_at"].endswith("Z")
    code, text = await bus.run("colocation", "nodes", "-o", "yaml", "--sort", "name")
    assert [node["node"] for node in yaml.safe_load(text)["nodes"]] == ["a", "b"]
    code, text = await bus.run("colocation", "nodes", "--node", "nobody")
    assert code == 2
    assert "--node nobody: the reclaimer has not evaluated a node of this name" in text


def test_an_unknown_order_is_invalid_input() -> None:
    result = invoke("colocation", "nodes", "--sort", "color")
    assert result.exit_code == 2
