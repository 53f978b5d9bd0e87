"""What `equipoise explain` shows of reclaimed resources: of a node, and of a pod that requests them."""

import io

import pytest
from builders import NOW, a_placed_pod, a_placement
from cli.buses import Bus
from cli.narrow import assert_never_cut
from cli.reclaimed_nodes import a_band, a_reclaimed_node, a_stale_node, cores
from rich.console import Console

from equipoise.cli.explain.colocation import (
    CoLocatedPod,
    co_located_pod,
    difference,
    node_parts,
    read_co_located_pod,
    read_node_bands,
)
from equipoise.cli.reclaimed.nodes import NodeBands, node_bands
from equipoise.contracts.bus.subjects import node_placement, reclaimed_node
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.bus import connect
from equipoise.runtime.process.clock import SystemClock


def text_of(message: ReclaimedNode) -> str:
    """With one space between words."""
    text = io.StringIO()
    for part in node_parts(node_bands(message, NOW, 300.0), NOW):
        Console(file=text, width=400).print(part)
    return "\n".join(" ".join(line.split()) for line in text.getvalue().splitlines())


def test_no_terminal_is_too_narrow() -> None:
    def show(bands: NodeBands, to: Console) -> None:
        for part in node_parts(bands, NOW):
            to.print(part)

    assert_never_cut(show, node_bands(a_reclaimed_node(), NOW, 300.0))


def a_batch_pod(name: str = "batch-1") -> PlacedPod:
    return a_placed_pod(
        name, priority_class="batch", requests=Resources(), reclaimed_requests=cores(1.0), qos="BestEffort"
    )


def test_a_node_shows_how_what_is_idle_was_computed() -> None:
    text = text_of(a_reclaimed_node())
    assert "reclaimed: mode enforce, written to its status; evaluated 10 s ago" in text
    assert "capacity − margin − max(system, reserved) − high priority = idle now" in text
    assert "cpu, cores 8.00 3.00 1.00 0.50 2.00 2.00" in text
    assert "memory, GiB 32.00 12.00 4.00 2.00 8.00 8.00" in text
    assert "mid 24 h cpu, cores 1.00 1.00 0.00" in text
    assert "batch 6 h cpu, cores 1.50 1.50 1.00" in text


def test_a_node_without_samples_shows_why_less_is_offered() -> None:
    """It has no formula: its terms are unknown."""
    text = text_of(a_stale_node("c", mode="observe", written=False))
    assert "mode observe, not written to its status; " in text
    assert "note: its newest sample is 500 s old: 67% of the last known amounts are offered" in text
    assert "capacity" not in text
    assert "mid 24 h cpu, cores ? 0.50 0.00" in text


def test_a_due_write_and_an_old_evaluation_are_shown() -> None:
    assert "not written to its status yet; " in text_of(a_reclaimed_node(written=False))
    assert "no longer evaluated: check that a reclaimer" in text_of(a_reclaimed_node(evaluated_at=NOW - 500))


@pytest.mark.parametrize(
    ("idle", "offered", "requested", "why"),
    [
        (2.0, 2.0, 0.0, ""),
        (2.0, 1.995, 0.0, ""),
        (2.0, 0.8, 0.0, "grows step by step (reclaimer.offer.growth)"),
        (1.0, 1.5, 1.5, "never less than bound pods request"),
        (1.0, 1.05, 0.5, "a small decrease is written later (reclaimer.offer.minChange)"),
        (1.0, 1.05, None, "a small decrease is written later (reclaimer.offer.minChange)"),
        (None, 1.0, 0.0, ""),
        (0.0, 0.0, 0.0, ""),
    ],
)
def test_the_difference_between_idle_and_offered_has_a_reason(
    idle: float | None, offered: float, requested: float | None, why: str
) -> None:
    assert difference(a_band(offered, requested, reclaimed=cores(idle)), "cpu") == why


def test_a_co_located_pod_shows_its_band_its_qos_class_and_what_it_requests() -> None:
    pod = co_located_pod(a_batch_pod(), node_bands(a_reclaimed_node(), NOW, 300.0))
    assert str(pod) == "co-located: band batch, for 6 h; QoS BestEffort; requests 1.00 cores, 4.00 GiB"
    assert "band batch, for an unknown time" in str(co_located_pod(a_batch_pod(), None))


async def test_the_user_tap_reads_what_a_node_offers_and_what_a_pod_requests(bus: Bus) -> None:
    """Of pods without reclaimed resources, and without a reclaimer, there is nothing."""
    clock, tap = SystemClock(), bus.settings("tap")
    async with connect(bus.settings("collector"), "collector", clock=clock) as link:
        await link.publish(node_placement("n1"), a_placement("n1", [a_batch_pod(), a_placed_pod("web-1")]))
    assert await read_node_bands(tap, "n1", clock) is None
    assert await read_co_located_pod(tap, "n1", "shop/web-1", clock) is None
    assert await read_co_located_pod(tap, "n1", "shop/batch-1", clock) == CoLocatedPod(
        band="batch", hours=None, qos="BestEffort", requests=cores(1.0), limits=Resources()
    )
    async with connect(bus.settings("reclaimer"), "reclaimer", clock=clock) as link:
        await link.publish(reclaimed_node("n1"), a_reclaimed_node("n1", evaluated_at=clock.now()))
    found = await read_node_bands(tap, "n1", clock)
    assert found is not None
    assert (found.node, found.outdated) == ("n1", False)
    pod = await read_co_located_pod(tap, "n1", "shop/batch-1", clock)
    assert pod is not None
    assert pod.hours == 6.0
