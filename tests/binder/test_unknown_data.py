"""What the bus has not delivered yet delays an intent. It neither refuses it nor allows an eviction."""

from collections.abc import AsyncIterator, Collection
from typing import Any

import msgspec
import pytest
from binder.ledgers import a_ledger, an_entry
from binder.worlds import GENEROUS, SlowWrites, World, a_cycle
from builders import a_node_utilization, a_placed_pod, a_placement, a_workload, a_workload_utilization

from equipoise.binder.decisions.limits import EvictionRate
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.values.resources import Resources

NODES = ("node-a", "node-b", "node-c")
LOST: dict[str, Collection[str]] = {
    "cycles": [subjects.utilization_cycle("all")],
    "placements": [subjects.node_placement(node) for node in NODES],
    "loads": [subjects.node_utilization(node) for node in NODES],
    "placement of the pod's node": [subjects.node_placement("node-a")],
    "placements of the other nodes": [subjects.node_placement("node-b"), subjects.node_placement("node-c")],
    "load of the pod's node": [subjects.node_utilization("node-a")],
    "load of the target": [subjects.node_utilization("node-b")],
}
"""Subjects of messages that a binder has not received yet, for example because NATS restarted without a volume."""


@pytest.fixture(params=LOST)
async def incomplete(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A cluster of which the bus does not have all messages."""
    world = World()
    await world.populate(lost=LOST[request.param])
    yield world
    await world.stop()


async def test_messages_that_arrive_late_delay_an_eviction(incomplete: World) -> None:
    """As after a restart of the binder or of NATS: a refusal would count against the pod for ten minutes."""
    await incomplete.start(incomplete.binder())
    await incomplete.propose("web-1")
    assert incomplete.outcomes == []

    await incomplete.publish_cluster(sequence=2)
    await incomplete.clock.advance(40)

    assert [each.outcome for each in incomplete.outcomes] == [Outcome.EVICTED]


async def test_without_them_nothing_is_evicted(incomplete: World) -> None:
    """The outcome is that of old data, which is no reason against the pod, and gives what is missing."""
    await incomplete.start(incomplete.binder())
    await incomplete.propose("web-1")
    await incomplete.clock.advance(180)

    assert [each.outcome for each in incomplete.outcomes] == [Outcome.REJECTED_STALE]
    assert "known" in incomplete.outcomes[0].detail or "no collector" in incomplete.outcomes[0].detail
    assert incomplete.kube.evictions == []
    assert incomplete.ledger.entries == ()


async def test_a_reservation_is_kept_while_another_binders_messages_arrive(incomplete: World) -> None:
    """The binder that reserved it may have sent a POST."""
    entry = an_entry("web-1", settled_at=None, outcome=None, intent_id="web-1-1")
    incomplete.write_ledger(msgspec.json.encode(a_ledger(entry)).decode())
    await incomplete.start(incomplete.binder())
    await incomplete.propose("web-1", id="web-1-1")
    assert incomplete.outcomes == []
    assert [each.intent_id for each in incomplete.ledger.entries] == ["web-1-1"]

    await incomplete.publish_cluster(sequence=2)
    await incomplete.clock.advance(40)

    assert [each.outcome for each in incomplete.outcomes] == [Outcome.EVICTED]


async def test_loads_that_become_unknown_while_an_intent_waits_for_the_rate_delay_it(world: World) -> None:
    limits = msgspec.structs.replace(GENEROUS, rate=EvictionRate(max=1, window=Duration(10)))
    await world.start(world.binder(limits=limits))
    await world.propose("web-1", "db-1")
    await world.bus.publish(subjects.utilization_cycle("all"), a_cycle(fresh=0, sequence=2))
    await world.clock.advance(11)
    assert [each.outcome for each in world.outcomes] == [Outcome.EVICTED]
    assert len(world.ledger.entries) == 1

    await world.publish_cluster(sequence=3)
    await world.clock.advance(40)

    assert [each.outcome for each in world.outcomes] == [Outcome.EVICTED, Outcome.EVICTED]


async def test_loads_that_become_unknown_after_the_reservation_return_it(world: World) -> None:
    """The eviction was not requested, and the intent is decided again later."""
    kube: Any = SlowWrites(world, 20.0)
    await world.start(world.binder(kube=kube))
    await world.propose("web-1")
    await world.bus.publish(subjects.utilization_cycle("all"), a_cycle(fresh=0, sequence=2))
    await world.clock.advance(50)
    assert world.outcomes == []
    assert world.kube.evictions == []
    assert world.ledger.entries == ()

    await world.publish_cluster(sequence=3)
    await world.clock.advance(100)

    assert [each.outcome for each in world.outcomes] == [Outcome.EVICTED]


async def test_windows_without_values_delay_an_eviction(world: World) -> None:
    """The samples of a node are fresh, but do not cover a window yet."""
    now = world.clock.now()
    for node in ("node-b", "node-c"):
        unfilled = a_node_utilization(node, windows={}, sampled_at=now - 1, queried_at=now, sequence=2)
        await world.bus.publish(subjects.node_utilization(node), unfilled)
    await world.start(world.binder())
    await world.propose("web-1")
    assert world.outcomes == []

    await world.publish_cluster(sequence=3)
    await world.clock.advance(40)

    assert [each.outcome for each in world.outcomes] == [Outcome.EVICTED]


async def test_new_pods_on_the_target_count_with_the_usage_of_their_workload(world: World) -> None:
    """As in the plan. After an upgrade of services with high requests, all pods of a node may be new."""
    now = world.clock.now()
    service = a_workload("service")
    new = [
        a_placed_pod(
            f"service-{number}", workload=service, placed_at=now - 30, running_since=now - 20,
            requests=Resources(cpu=1.0),
        )
        for number in range(9)
    ]  # fmt: skip
    for node in ("node-b", "node-c"):
        await world.bus.publish(subjects.node_placement(node), a_placement(node, new, sequence=2))
    usage = a_workload_utilization(service, cpu=0.01, memory=1e6, sampled_at=now - 1, queried_at=now)
    await world.bus.publish(subjects.workload_utilization(service), usage)

    assert await world.outcome_of("web-1") == "evicted"


async def test_new_pods_of_unknown_usage_delay_an_eviction_to_their_node(world: World) -> None:
    """If the node is too hot only with what they request: they are measured soon."""
    now = world.clock.now()
    new = [
        a_placed_pod(
            f"new-{number}", workload=None, placed_at=now - 30, running_since=now - 20, requests=Resources(cpu=1.0)
        )
        for number in range(9)
    ]
    for node in ("node-b", "node-c"):
        await world.bus.publish(subjects.node_placement(node), a_placement(node, new, sequence=2))
    await world.start(world.binder())
    await world.propose("web-1")
    assert world.outcomes == []
    await world.clock.advance(180)

    assert [each.outcome for each in world.outcomes] == [Outcome.REJECTED_STALE]
    assert "pods that are not measured yet" in world.outcomes[0].detail
    assert world.kube.evictions == []
