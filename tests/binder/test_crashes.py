"""A binder may crash, or be suspended, at any point: one outcome, at most one eviction, no limit exceeded."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from binder.ledgers import a_ledger, an_entry
from binder.stepping import SteppingBus, SteppingKube, Steps
from binder.worlds import GENEROUS, OWN, World
from builders import NOW, a_workload
from kube_objects import a_pod, owned_by

from equipoise.binder.decisions.limits import (
    EvictionsPerWorkload,
    Limits,
)
from equipoise.binder.shell.ledger_store import (
    pause,
)
from equipoise.contracts.bus import subjects
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.workload import CustomStatus, CustomWorkload, Scale, ScaleSpec, ScaleStatus
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.bus import Delivery, Redeliver
from equipoise.runtime.kubernetes.client import PODS, Resource, scale_of

STEPS = 60
"""More points than the longest path has."""

ONE_PER_WORKLOAD = msgspec.structs.replace(GENEROUS, evictions_per_workload=EvictionsPerWorkload(max=1))

NONE_PER_WORKLOAD = msgspec.structs.replace(GENEROUS, evictions_per_workload=EvictionsPerWorkload(max=0))


async def _stopped(world: World, stop_at: int, **how: Any) -> tuple[Steps, asyncio.Task[None]]:
    """A binder that stops at this point of its first intent, if it gets there."""
    steps = Steps(stop_at)
    kube: Any = SteppingKube(world.kube, steps)
    bus: Any = SteppingBus(world.bus, steps)
    binder = world.binder(kube=kube, bus=bus, **how)
    task = await world.start(binder)
    steps.armed = True
    return steps, task


def _nothing(world: World) -> None:
    """The world as it is."""


def _another_pending_replacement(world: World) -> None:
    """Its replacement is read before the next eviction."""
    entry = an_entry("db-1", workload=a_workload("db"))
    world.write_ledger(msgspec.json.encode(a_ledger(entry, started_at=NOW - 9_000)).decode())
    world.kube.remove(PODS, "db-1", "shop")


def _of_a_custom_kind(world: World) -> None:
    """Both pods belong to a workload that is read through its scale subresource."""
    etcd = Resource(group="coreos.com", version="v1", plural="etcds", kind="Etcd", model=CustomWorkload)
    world.kube.scalable["coreos.com", "Etcd"] = etcd
    for name in ("web-1", "web-2"):
        world.kube.put(PODS, a_pod(name, metadata={"owner_references": owned_by("Etcd", "main", "coreos.com")}))
    named = {"name": "main", "namespace": "shop", "uid": "uid-main"}
    status = CustomStatus(ready_replicas=10)
    world.kube.put(etcd, CustomWorkload(metadata=ObjectMeta(**named), status=status))
    counts = {"spec": ScaleSpec(replicas=10), "status": ScaleStatus(replicas=10)}
    world.kube.put(scale_of(etcd), Scale(metadata=ObjectMeta(**named), **counts))


@pytest.mark.parametrize(
    ("evict", "limits", "leaves", "prepare", "expected"),
    [
        (True, ONE_PER_WORKLOAD, False, _nothing, Outcome.EVICTED),
        (True, ONE_PER_WORKLOAD, True, _nothing, Outcome.EVICTED),
        (False, ONE_PER_WORKLOAD, False, _nothing, Outcome.DRY_RUN),
        (True, NONE_PER_WORKLOAD, False, _nothing, Outcome.REJECTED_LIMIT),
        (True, ONE_PER_WORKLOAD, False, _another_pending_replacement, Outcome.EVICTED),
        (True, ONE_PER_WORKLOAD, False, _of_a_custom_kind, Outcome.EVICTED),
    ],
    ids=["evicted", "terminating", "dry run", "refused", "another pending replacement", "custom kind"],
)
async def test_a_crash_at_any_point_changes_no_outcome(
    evict: bool, limits: Limits, leaves: bool, prepare: Callable[[World], None], expected: Outcome
) -> None:
    """Another binder takes the intent over: the same single outcome as without a crash, and the limits hold."""
    points = 0
    for stop_at in range(1, STEPS):
        world = World()
        world.kube.terminating_first = leaves
        await world.populate()
        prepare(world)
        steps, task = await _stopped(world, stop_at, evict=evict, limits=limits)
        await world.propose("web-1")
        if not steps.stopped_at:
            break
        points += 1
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await world.start(world.binder(evict=evict, limits=limits))
        assert [outcome.outcome for outcome in world.outcomes] == [expected], steps.stopped_at
        assert len(world.evicted) == (expected == Outcome.EVICTED), steps.stopped_at
        assert world.bus.errors.total("worker") == 0, steps.stopped_at
        await world.propose("web-2")
        assert world.outcomes[-1].outcome == Outcome.REJECTED_LIMIT, steps.stopped_at
        await world.stop()
    else:
        pytest.fail("the path has more points than the test tries")
    await world.stop()
    assert points >= 16


def _throttling(world: World) -> None:
    world.kube.fail_next("evict", status=429, times=None, retry_after=1.0)


@pytest.mark.parametrize(
    ("prepare", "expected"),
    [
        (lambda world: world.block("none"), {Outcome.BLOCKED_PDB}),
        (_throttling, {Outcome.FAILED, Outcome.REJECTED_STALE}),
    ],
    ids=["blocked", "throttled"],
)
async def test_a_crash_at_any_point_of_a_delayed_intent_gives_one_outcome(
    prepare: Callable[[World], None], expected: set[Outcome]
) -> None:
    """Another binder retries within the intent's lifetime; nothing is evicted."""
    points = 0
    for stop_at in range(1, STEPS):
        world = World()
        await world.populate()
        prepare(world)
        steps, task = await _stopped(world, stop_at)
        await world.propose("web-1")
        if not steps.stopped_at:
            break
        points += 1
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await world.start(world.binder())
        for sequence in range(2, 10):
            await world.clock.advance(25)
            await world.publish_cluster(sequence)
        (outcome,) = world.outcomes
        assert outcome.outcome in expected, steps.stopped_at
        assert world.evicted == [], steps.stopped_at
        assert world.bus.errors.total("worker") == 0, steps.stopped_at
        await world.stop()
    else:
        pytest.fail("the path has more points than the test tries")
    await world.stop()
    assert points >= 16


@pytest.mark.parametrize("evict", [True, False])
async def test_a_suspended_binder_that_resumes_does_no_harm(evict: bool) -> None:
    """Another one has done its work meanwhile: one outcome, one eviction."""
    for stop_at in range(1, STEPS):
        world = World()
        await world.populate()
        steps, _ = await _stopped(world, stop_at, evict=evict, limits=ONE_PER_WORKLOAD)
        (intent,) = await world.propose("web-1")
        if not steps.stopped_at:
            break
        other = world.binder(evict=evict, limits=ONE_PER_WORKLOAD)
        await other.attach()
        subject = subjects.eviction_intent("shop", "web-1")
        result = await other.on_eviction_intent(Delivery(subject=subject, message=intent))
        steps.go.set()
        await world.clock.advance(40)
        if isinstance(result, Redeliver):
            await other.on_eviction_intent(Delivery(subject=subject, message=intent))
        await world.bus.settled()
        expected = Outcome.EVICTED if evict else Outcome.DRY_RUN
        assert [outcome.outcome for outcome in world.outcomes] == [expected], steps.stopped_at
        assert len(world.evicted) == evict, steps.stopped_at
        assert [entry.outcome for entry in world.ledger.entries] == [expected], steps.stopped_at
        assert world.bus.errors.total("worker") == 0, steps.stopped_at
        await world.stop()
    else:
        pytest.fail("the path has more points than the test tries")
    await world.stop()


async def test_a_late_post_counts_in_its_window(world: World) -> None:
    """A binder resumes after another one recorded a refusal, and posts: the ledger allows for that."""
    for stop_at in range(1, STEPS):
        world = World()
        await world.populate()
        steps, _ = await _stopped(world, stop_at)
        (intent,) = await world.propose("web-1")
        assert steps.stopped_at, "the path has no POST"
        if steps.stopped_at == "before evict":
            break
        await world.stop()
    other = world.binder()
    await other.attach()
    await pause(world.kube, OWN, "")
    await other.on_eviction_intent(Delivery(subject=subjects.eviction_intent("shop", "web-1"), message=intent))
    await world.clock.advance(30)
    steps.go.set()
    await world.bus.settled()
    (eviction,), (entry,) = world.evicted, world.ledger.entries
    assert entry.outcome == Outcome.PAUSED
    assert entry.counted
    assert entry.latest >= eviction.at
    await world.stop()
