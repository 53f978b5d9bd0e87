"""Pods that kube-scheduler preempted on the target of an eviction."""

from typing import Any

import msgspec
import pytest
from binder.ledgers import a_ledger, an_entry
from binder.worlds import World
from builders import NOW, a_placement, a_workload

from equipoise.binder.decisions.preemptions import with_preempted
from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.placement import GonePod


def _preempted(name: str, at: float) -> GonePod:
    return GonePod(
        uid=f"uid-{name}",
        namespace="shop",
        name=name,
        workload=a_workload("batch"),
        running_since=NOW - 9_000,
        gone_at=at + 1,
        preempted_at=at,
    )


async def test_a_preemption_on_the_target_stops_the_workload(world: World) -> None:
    """The preempted pod is in the ledger as if it had been evicted."""
    await world.start(world.binder())
    await world.propose("web-1")
    target, now = world.outcomes[0].target, world.clock.now()
    placement = a_placement(target, gone=[_preempted("batch-1", now + 30)], sequence=2)
    await world.bus.publish(subjects.node_placement(target), placement)
    await world.clock.advance(60)
    (_, victim) = world.ledger.entries
    assert (victim.pod, victim.workload, victim.preempted_for) == ("batch-1", a_workload("batch"), (a_workload("web"),))
    await world.propose("web-2", "db-1")
    stopped, other = sorted(world.outcomes[1:], key=lambda outcome: outcome.pod, reverse=True)
    assert (stopped.outcome, stopped.limit) == (Outcome.REJECTED_LIMIT, "preemptions")
    assert other.outcome == Outcome.EVICTED


@pytest.mark.parametrize(
    ("node", "fields", "counted"),
    [
        ("node-b", {}, True),
        ("node-c", {}, False),
        ("node-b", {"preempted_at": NOW - 10}, False),
        ("node-b", {"preempted_at": NOW + 599}, True),
        ("node-b", {"preempted_at": NOW + 601}, False),
        ("node-b", {"workload": None}, True),
    ],
)
def test_preemptions_on_the_target_after_the_eviction_count(node: str, fields: dict[str, Any], counted: bool) -> None:
    """At most ten minutes after it; each once."""
    ledger = a_ledger(an_entry("web-1", target="node-b"))
    victim = (node, msgspec.structs.replace(_preempted("v", NOW), **fields))
    changed = with_preempted(ledger, [victim], NOW + 700, within=600, retention=3_600)
    assert len(changed.entries) - 1 == counted
    assert with_preempted(changed, [victim], NOW + 700, within=600, retention=3_600) == changed
    assert with_preempted(ledger, [victim], NOW + 5_000, within=600, retention=3_600) == ledger
