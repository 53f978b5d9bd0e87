"""Reservations by compare-and-swap: what is read before them, and when one is returned."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
import pytest
from binder.ledgers import a_ledger, an_entry
from binder.worlds import GENEROUS, LEADER, OWN, World
from builders import NOW, a_workload, an_intent
from kube_objects import a_deployment, a_pod

from equipoise.binder.decisions.limits import (
    EvictionRate,
    EvictionsPerWorkload,
    FailingReplacements,
    MigratingPerWorkload,
    UnavailablePerWorkload,
)
from equipoise.binder.decisions.result import Finish
from equipoise.binder.decisions.status import LimitUsage, ledger_status
from equipoise.binder.shell.ledger_store import (
    resume,
)
from equipoise.binder.shell.ledger_writer import HandledByAnotherBinder, LedgerWriter
from equipoise.binder.shell.live_reads import read_replacement, read_workload
from equipoise.binder.state.ledger import clock_tolerance
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.kubernetes.objects.metadata import Condition, ObjectMeta
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject, WorkloadSpec, WorkloadStatus
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.bus import Delivery
from equipoise.runtime.kubernetes.client import DEPLOYMENTS, PODS, STATEFUL_SETS

ONE_PER_WORKLOAD = msgspec.structs.replace(GENEROUS, evictions_per_workload=EvictionsPerWorkload(max=1))


async def test_two_binders_keep_one_set_of_limits(world: World) -> None:
    """Of twenty concurrent intents every one has its outcome, and each workload loses one pod."""
    for _ in range(2):
        await world.start(world.binder(limits=ONE_PER_WORKLOAD))
    pods = [f"{owner}-{number}" for owner in ("web", "db") for number in range(1, 11)]
    await world.propose(*pods)
    await world.clock.advance(1)
    outcomes = [outcome.outcome for outcome in world.outcomes]
    assert len(outcomes) == 20
    assert outcomes.count(Outcome.EVICTED) == 2
    assert outcomes.count(Outcome.REJECTED_LIMIT) == 18
    assert {eviction.name.split("-")[0] for eviction in world.evicted} == {"web", "db"}


async def test_the_limits_decide_again_after_a_conflict(world: World) -> None:
    """With the reservation of the other binder in the ledger."""
    first = await world.start(world.binder(limits=ONE_PER_WORKLOAD))
    await world.start(world.binder(limits=ONE_PER_WORKLOAD))
    calls = 0

    async def other_reserves_first(call: Any) -> None:
        nonlocal calls
        if call.verb == "replace":
            calls += 1
            if calls == 1:
                entry = {
                    "intentId": "other",
                    "podUid": "uid-web-9",
                    "namespace": "shop",
                    "pod": "web-9",
                    "node": "node-a",
                    "workload": {"kind": "Deployment", "group": "apps", "namespace": "shop", "name": "web"},
                    "reservedAt": world.clock.now(),
                    "expiresAt": world.clock.now() + 180,
                }
                document = msgspec.to_builtins(world.ledger) | {"entries": [entry]}
                world.write_ledger(msgspec.json.encode(document).decode())

    world.kube.on_call = other_reserves_first
    await world.propose("web-1")
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.REJECTED_LIMIT]
    assert world.evicted == []
    assert not first.done()


async def test_a_refusal_does_not_settle_the_reservation_of_another_binder(world: World) -> None:
    """The other one may be posting."""
    writer = LedgerWriter(world.kube, world.clock, GENEROUS, OWN, dry_run=False)
    intent = an_intent("web-1")
    entry = an_entry("web-1", settled_at=None, outcome=None)
    world.write_ledger(msgspec.json.encode(a_ledger(entry)).decode())
    refused = Finish(outcome=Outcome.REJECTED_FIT)
    with pytest.raises(HandledByAnotherBinder):
        await writer.settle(intent, refused)
    assert world.ledger.entries == (entry,)


async def test_a_reservation_that_was_taken_over_is_never_returned(world: World) -> None:
    """The first binder finds the pod gone because the second one's POST, whose response was lost, evicted it."""
    writer, intent = LedgerWriter(world.kube, world.clock, GENEROUS, OWN, dry_run=False), an_intent("web-1")
    entry = an_entry("web-1", settled_at=None, outcome=None)
    world.write_ledger(msgspec.json.encode(a_ledger(entry)).decode())
    await writer.take_over(intent)
    await writer.release(intent)
    await writer.settle(intent, Finish(outcome=Outcome.ALREADY_GONE, reservation="returned"))
    (settled,) = world.ledger.entries
    assert settled.counted


async def test_a_pause_before_the_reservation_wins(world: World) -> None:
    """It is written after the validation and conflicts with the compare-and-swap."""

    async def pause_before_reserve(call: object) -> None:
        if getattr(call, "verb", "") == "replace" and not world.ledger.paused:
            world.write_ledger(msgspec.json.encode(world.ledger.pause("now")).decode())

    world.kube.on_call = pause_before_reserve
    assert await world.outcome_of("web-1") == "paused"
    assert world.kube.evictions == []


async def test_a_second_pod_may_leave_when_the_first_replacement_is_ready(world: World) -> None:
    await world.start(world.binder())
    world.kube.put(DEPLOYMENTS, a_deployment(replicas=3))
    await world.propose("web-1", id="first")
    world.kube.put(DEPLOYMENTS, a_deployment(replicas=3, ready_replicas=2))
    await world.clock.advance(60)
    await world.publish_cluster(2)
    await world.propose("web-2", id="second")
    world.kube.put(DEPLOYMENTS, a_deployment(replicas=3))
    await world.propose("web-2", id="third")
    assert [outcome.outcome for outcome in world.outcomes] == [
        Outcome.EVICTED,
        Outcome.REJECTED_LIMIT,
        Outcome.EVICTED,
    ]
    assert world.ledger.entries[0].recovered_at is not None


def reads_of(world: World, deployment: str) -> int:
    return [(call.verb, call.resource, call.name) for call in world.kube.calls].count(
        ("get", "deployments", deployment)
    )


async def test_the_workloads_of_other_pending_evictions_are_read_once_a_second_for_all_decisions(world: World) -> None:
    """The number of reads does not grow with the number of intents."""
    limits = msgspec.structs.replace(
        GENEROUS,
        migrating_per_workload=MigratingPerWorkload(max=5),
        unavailable_per_workload=UnavailablePerWorkload(max=5),
    )
    await world.start(world.binder(limits=limits))
    await world.propose("db-1")
    before = reads_of(world, "db")
    for number in range(1, 6):
        await world.propose(f"web-{number}")
    assert reads_of(world, "db") == before + 1
    assert [eviction.name for eviction in world.evicted] == ["db-1", *(f"web-{number}" for number in range(1, 6))]


async def test_a_status_right_after_an_eviction_is_not_trusted(world: World) -> None:
    """The workload still shows all replicas as ready."""
    world.kube.put(DEPLOYMENTS, a_deployment(replicas=3))
    await world.start(world.binder())
    await world.propose("web-1")
    await world.propose("web-2")
    await world.clock.advance(11)
    await world.propose("web-3")
    outcomes = [outcome.outcome for outcome in world.outcomes]
    assert outcomes == [Outcome.EVICTED, Outcome.REJECTED_LIMIT, Outcome.EVICTED]


async def test_a_replacement_ends_when_the_workload_is_complete(world: World) -> None:
    """Within seconds, although no other pod is proposed: an eviction, the Deployment incomplete, and complete again."""
    await world.start(world.binder())
    await world.propose("web-1")
    world.kube.put(DEPLOYMENTS, a_deployment(ready_replicas=9))
    await world.clock.advance(330)
    limits = {usage.limit: usage.counted for usage in usage_of(world)}
    assert limits["lateReplacements"] == 1

    world.kube.put(DEPLOYMENTS, a_deployment())
    await world.clock.advance(10)
    assert world.ledger.entries[0].recovered_at is not None
    assert {usage.limit: usage.counted for usage in usage_of(world)}["lateReplacements"] == 0


COMPLETE: dict[str, tuple[Callable[[World], object], bool]] = {
    "nothing has changed": (lambda world: world.kube.put(DEPLOYMENTS, a_deployment(ready_replicas=9)), False),
    "scaled down": (lambda world: world.kube.put(DEPLOYMENTS, a_deployment(replicas=3)), True),
    "scaled to 0": (lambda world: world.kube.put(DEPLOYMENTS, a_deployment(replicas=0)), True),
    "scaled up, new pods are not ready": (
        lambda world: world.kube.put(DEPLOYMENTS, a_deployment(replicas=30, ready_replicas=10)),
        True,
    ),
    "scaled up, and the replacement is not ready": (
        lambda world: world.kube.put(DEPLOYMENTS, a_deployment(replicas=30, ready_replicas=9)),
        False,
    ),
    "a rollout with a surge": (
        lambda world: world.kube.put(DEPLOYMENTS, a_deployment(replicas=13, spec_replicas=10, ready_replicas=11)),
        True,
    ),
    "a rollout that lacks a replica": (
        lambda world: world.kube.put(DEPLOYMENTS, a_deployment(replicas=13, spec_replicas=10, ready_replicas=8)),
        False,
    ),
    "deleted": (lambda world: world.kube.remove(DEPLOYMENTS, "web", "shop"), True),
}


@pytest.mark.parametrize("change", COMPLETE)
async def test_a_workload_that_changes_meanwhile_is_complete_with_its_replicas(change: str, world: World) -> None:
    """The replicas are those of the time of the eviction, or those desired now if these are fewer."""
    apply, complete = COMPLETE[change]
    await world.start(world.binder())
    await world.propose("web-1")
    apply(world)
    await world.clock.advance(30)

    assert (world.ledger.entries[0].recovered_at is not None) == complete


async def test_a_pod_that_terminates_for_hours_is_not_late_once_it_was_replaced(world: World) -> None:
    """A ReplicaSet creates the replacement at once. For a minute, its status is not trusted."""
    world.kube.terminating_first = True
    await world.start(world.binder())
    await world.propose("web-1")
    await world.clock.advance(40)
    assert world.ledger.entries[0].recovered_at is None
    await world.clock.advance(40)
    assert world.ledger.entries[0].recovered_at is not None


async def test_a_stateful_set_waits_for_the_pod_of_the_same_name(world: World) -> None:
    """It is not complete while the old pod terminates, whatever its status shows, nor before the new one is ready."""
    status = WorkloadStatus(replicas=3, ready_replicas=3, updated_replicas=3)
    stateful_set = WorkloadObject(
        kind="StatefulSet",
        metadata=ObjectMeta(name="web", namespace="shop", uid="uid-stateful"),
        spec=WorkloadSpec(replicas=3),
        status=status,
    )
    world.kube.put(STATEFUL_SETS, stateful_set)
    entry = an_entry("web-1", workload=a_workload("web", kind="StatefulSet"), replicas=3)
    old = a_pod("web-1", metadata={"deletion_timestamp": datetime.fromtimestamp(NOW, UTC)})

    async def state() -> str:
        return (
            await read_replacement(
                world.kube, entry, partial(read_workload, world.kube), settled=True, long_settled=True
            )
        ).state

    world.kube.put(PODS, old)
    assert await state() == "pending"
    world.kube.put(PODS, a_pod("web-1", metadata={"uid": "uid-new"}))
    assert await state() == "ready"
    lacking = msgspec.structs.replace(status, ready_replicas=2)
    world.kube.put(STATEFUL_SETS, msgspec.structs.replace(stateful_set, status=lacking))
    assert await state() == "pending"


@pytest.mark.parametrize("outcome", [None, Outcome.FAILED, Outcome.EXPIRED])
async def test_a_pod_that_was_not_evicted_after_all_is_not_waited_for(outcome: Outcome | None, world: World) -> None:
    """A binder was killed, or got no response: once its intent is over, a pod that still runs needs no replacement."""
    settled_at = None if outcome is None else NOW - 30
    entry = an_entry("web-1", outcome=outcome, settled_at=settled_at, reserved_at=NOW - 100, expires_at=NOW + 30)
    world.write_ledger(msgspec.json.encode(msgspec.structs.replace(world.ledger, entries=(entry,))).decode())
    world.kube.put(DEPLOYMENTS, a_deployment(ready_replicas=9))
    await world.start(world.binder())
    await world.clock.advance(38)
    assert world.ledger.entries[0].recovered_at is None, "the request may still arrive"
    await world.clock.advance(20)
    assert world.ledger.entries[0].recovered_at is not None


@pytest.mark.parametrize("kind", ["Job", "CronJob"])
async def test_a_preempted_pod_of_a_job_is_not_waited_for(kind: str, world: World) -> None:
    """Its owner has no ready replicas to compare with."""
    entry = an_entry("run-1", workload=a_workload("run", kind=kind, group="batch"))
    world.kube.put(PODS, a_pod("run-1"))
    assert (
        await read_replacement(world.kube, entry, partial(read_workload, world.kube), settled=True)
    ).state == "pending"
    world.kube.remove(PODS, "run-1", "shop")
    assert (
        await read_replacement(world.kube, entry, partial(read_workload, world.kube), settled=True)
    ).state == "ready"


def usage_of(world: World) -> list[LimitUsage]:
    """The usage that `equipoise status` shows now."""
    return ledger_status(world.ledger, GENEROUS, world.clock.now()).usage


async def test_a_terminating_pod_is_still_migrating(world: World) -> None:
    """Whatever the workload's status shows."""
    world.kube.terminating_first = True
    world.kube.put(DEPLOYMENTS, a_deployment(replicas=3))
    await world.start(world.binder())
    await world.propose("web-1")
    await world.clock.advance(11)
    await world.propose("web-2")
    world.kube.remove(PODS, "web-1", "shop")
    await world.propose("web-3")
    outcomes = [outcome.outcome for outcome in world.outcomes]
    assert outcomes == [Outcome.EVICTED, Outcome.REJECTED_LIMIT, Outcome.EVICTED]


async def test_evictions_wait_for_the_rate(world: World) -> None:
    """Concurrent intents are carried out one after the other; none is refused."""
    limits = msgspec.structs.replace(GENEROUS, rate=EvictionRate(max=1, window=Duration(2)))
    await world.start(world.binder(limits=limits))
    await world.propose("web-1", "db-1")
    assert len(world.evicted) == 1
    await world.clock.advance(1.9)
    assert len(world.evicted) == 1
    await world.clock.advance(0.3)
    assert len(world.evicted) == 2


async def test_an_intent_becomes_stale_while_it_waits_for_the_rate(world: World) -> None:
    limits = msgspec.structs.replace(GENEROUS, rate=EvictionRate(max=1, window=Duration(30)))
    await world.start(world.binder(limits=limits))
    await world.propose("web-1")
    await world.propose("db-1", sampled_at=world.clock.now() - 100)
    assert len(world.outcomes) == 1
    await world.clock.advance(40)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED, Outcome.REJECTED_STALE]


async def test_a_window_is_longer_by_the_error_of_the_clock(world: World) -> None:
    """At both ends, while the API server's time is known to half a second."""
    limits = msgspec.structs.replace(GENEROUS, evictions_per_workload=EvictionsPerWorkload(max=1))
    world.kube.time_error = 0.5
    await world.start(world.binder(limits=limits))
    await world.propose("web-1")
    await world.clock.advance(300 + clock_tolerance(300) + 0.9)
    await world.publish_cluster(2)
    await world.propose("web-2")
    await world.clock.advance(0.3)
    await world.propose("web-3")
    outcomes = [outcome.outcome for outcome in world.outcomes]
    assert outcomes == [Outcome.EVICTED, Outcome.REJECTED_LIMIT, Outcome.EVICTED]


FAILING = [Condition(type="ReplicaFailure", status="True", reason="FailedCreate")]


async def test_a_failing_replacement_stops_all_evictions(world: World) -> None:
    """When admission refuses the replacement of the first pod, no workload loses a second one."""
    await world.start(world.binder())
    await world.propose("web-1")
    world.kube.put(DEPLOYMENTS, a_deployment(replicas=9, spec_replicas=10, conditions=FAILING))
    await world.propose("db-1", "db-2")
    assert len(world.evicted) == 1
    assert [(outcome.outcome, outcome.limit) for outcome in world.outcomes[1:]] == [
        (Outcome.REJECTED_LIMIT, "failingReplacements")
    ] * 2
    assert "FailedCreate" in world.outcomes[-1].detail
    assert world.ledger.entries[0].failing_since is not None


async def test_a_failing_replacement_stops_evictions_beyond_the_migration_timeout(world: World) -> None:
    """It ends when the replica is ready."""
    await world.start(world.binder())
    await world.propose("web-1")
    world.kube.put(DEPLOYMENTS, a_deployment(replicas=9, spec_replicas=10, conditions=FAILING))
    await world.propose("db-1", id="first")
    await world.clock.advance(3_600)
    await world.publish_cluster(2)
    await world.propose("db-1", id="second")
    world.kube.put(DEPLOYMENTS, a_deployment())
    await world.propose("db-1", id="third")
    assert [outcome.outcome for outcome in world.outcomes[1:]] == [
        Outcome.REJECTED_LIMIT,
        Outcome.REJECTED_LIMIT,
        Outcome.EVICTED,
    ]


async def test_a_replacement_that_is_never_created_is_failing(world: World) -> None:
    """The controller reports nothing: the pod is gone, and a replica is missing after the settling period."""
    await world.start(world.binder())
    await world.propose("web-1")
    world.kube.put(DEPLOYMENTS, a_deployment(replicas=9, spec_replicas=10))
    await world.propose("db-1")
    await world.clock.advance(11)
    await world.propose("db-2")
    assert [outcome.outcome for outcome in world.outcomes] == [
        Outcome.EVICTED,
        Outcome.EVICTED,
        Outcome.REJECTED_LIMIT,
    ]
    assert "9 of 10 pods" in world.outcomes[-1].detail


async def test_resume_accepts_a_failing_replacement(world: World) -> None:
    """A quota may refuse it for ever: a person decides."""
    entry = an_entry("web-1", settled_at=NOW - 4_000, failing_since=NOW - 3_900, failure="a quota")
    world.write_ledger(msgspec.json.encode(a_ledger(entry)).decode())
    world.kube.put(DEPLOYMENTS, a_deployment(conditions=FAILING))
    await world.start(world.binder())
    await world.propose("db-1", id="first")
    await resume(world.kube, OWN, world.clock)
    await world.propose("db-1", id="second", decided_at=world.clock.now() + 1)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.REJECTED_LIMIT, Outcome.EVICTED]


async def test_zero_failing_replacements_allowed_stops_everything(world: World) -> None:
    """As every limit of 0."""
    limits = msgspec.structs.replace(GENEROUS, failing_replacements=FailingReplacements(max=0))
    assert await world.outcome_of("web-1", limits=limits) == "rejected_limit"


async def test_a_longer_window_that_is_rolled_out_counts_what_other_binders_evicted(world: World) -> None:
    """A binder that is not restarted yet, and needs five minutes, keeps what the new window of a day counts."""
    short, long = (
        msgspec.structs.replace(GENEROUS, evictions_per_workload=EvictionsPerWorkload(max=1, window=Duration(window)))
        for window in (300, 86_400)
    )
    await world.start(world.binder(limits=long))
    entry = an_entry("web-1", settled_at=NOW - 7_200, expires_at=NOW - 7_100, reserved_at=NOW - 7_200)
    world.write_ledger(
        msgspec.json.encode(msgspec.structs.replace(world.ledger, entries=(entry,), created_at=NOW - 9_000)).decode()
    )
    old = world.binder(limits=short)
    await old.attach()
    (intent,) = (an_intent("db-1", epoch=LEADER, workload=a_workload("db")),)
    await old.on_eviction_intent(Delivery(subject=subjects.eviction_intent("shop", "db-1"), message=intent))
    assert [entry.pod for entry in world.ledger.entries] == ["web-1", "db-1"]
    await world.propose("web-2")
    assert world.outcomes[-1].limit == "evictionsPerWorkload"
