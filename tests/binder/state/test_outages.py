"""Outages halve the limits of every binder."""

import msgspec
import pytest
from binder.ledgers import a_ledger
from binder.worlds import GENEROUS, World, a_cycle
from builders import NOW, a_node_utilization

from equipoise.binder.decisions.limits import (
    EvictionsPerCluster,
)
from equipoise.binder.state.outages import Outages
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.messages.eviction import Outcome

HALVING = msgspec.structs.replace(
    GENEROUS,
    startup_grace_period=Duration(3_600),
    evictions_per_cluster=EvictionsPerCluster(max=2, window=Duration(600)),
)


def _started_long_ago(world: World) -> None:
    """A ledger whose grace period is over."""
    ledger = a_ledger(created_at=NOW - 9_000, started_at=NOW - 9_000)
    world.write_ledger(msgspec.json.encode(ledger).decode())


@pytest.mark.parametrize("outage", ["the API server", "the ledger", "the bus", "nothing"])
async def test_limits_are_halved_after_an_outage(world: World, outage: str) -> None:
    """For the binder that saw it and, through the ledger, for every other one."""
    _started_long_ago(world)
    await world.start(world.binder(limits=HALVING))
    for sequence in range(2, 9):
        unavailable = sequence < 7
        if outage == "the API server":
            world.kube.refuse(status=0) if unavailable else world.kube.clear_faults()
        if outage == "the ledger":
            world.kube.refuse("get", resource="configmaps") if unavailable else world.kube.clear_faults()
        await world.clock.advance(15)
        if outage != "the bus" or not unavailable:
            await world.publish_cluster(sequence)
    await world.propose("web-1")
    await world.propose("db-1")
    expected = [Outcome.EVICTED, Outcome.EVICTED if outage == "nothing" else Outcome.REJECTED_LIMIT]
    assert [outcome.outcome for outcome in world.outcomes] == expected
    if outage == "nothing":
        assert world.ledger.outage_ended_at is None
    else:
        assert world.ledger.outage_ended_at is not None
        assert "was unavailable" in world.ledger.outage


async def test_measurements_of_the_far_future_are_no_outage(world: World) -> None:
    """The clock of Prometheus is wrong, and the bus is available. The measurements are not used."""
    _started_long_ago(world)
    await world.start(world.binder(limits=HALVING))
    for sequence in range(2, 8):
        await world.clock.advance(15)
        times = {"queried_at": world.clock.now() + 600, "sequence": sequence}
        await world.bus.publish(subjects.node_utilization("node-a"), a_node_utilization("node-a", **times))
        await world.bus.publish(subjects.utilization_cycle("all"), a_cycle(**times))
    await world.publish_cluster(sequence=8)
    await world.propose("web-1")
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED]
    assert world.ledger.outage_ended_at is None
    assert world.bus.errors.total("outdated") == 12


def test_unavailability_up_to_the_threshold_is_no_outage() -> None:
    """Each side is timed by itself."""
    outages = Outages(60, started_at=0)
    outages.request_failed(10)
    outages.request_failed(60)
    outages.ledger_read(70)
    outages.message_received(60)
    outages.message_received(119)
    assert outages.pending == ""
    outages.request_failed(100)
    outages.ledger_read(161)
    assert "61 s" in outages.pending
    outages.written(outages.pending)
    assert outages.pending == ""
