"""A binder may die, or fall asleep, at any point of its way: one outcome, at most one eviction, no limit broken."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from binder.ledgers import a_ledger, an_entry
from binder.stepping import SteppingBus, SteppingKube, Steps
from binder.worlds import GENEROUS, LEADER, OWN, World
from builders import NOW, a_workload, an_intent
from kube_objects import a_pod, owned_by

from equipoise.binder.decisions.limits import EvictionsPerWorkload, Limits
from equipoise.binder.decisions.result import Finish
from equipoise.binder.shell.ledger_store import pause
from equipoise.binder.shell.ledger_writer import HandledByAnotherBinder, LedgerWriter
from equipoise.contracts.bus import subjects
from equipoise.contracts.kubernetes import objects
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.bus import Again, Delivery
from equipoise.runtime.kubernetes.client import BUDGETS, PODS, Resource, scale_of

STEPS = 60
"""More points than the longest way has."""

ONE_PER_WORKLOAD = msgspec.structs.replace(GENEROUS, evictions_per_workload=EvictionsPerWorkload(max=1))
NONE_PER_WORKLOAD = msgspec.structs.replace(GENEROUS, evictions_per_workload=EvictionsPerWorkload(max=0))


async def _stopped(world: World, stop_at: int, **how: Any) -> tuple[Steps, asyncio.Task[None]]:
    """A binder that has stopped at that point of its first intent, or has finished it."""
    steps = Steps(stop_at)
    kube: Any = SteppingKube(world.kube, steps)
    bus: Any = SteppingBus(world.bus, steps)
    binder = world.binder(kube=kube, bus=bus, **how)
    task = await world.start(binder)
    steps.armed = True
    return steps, task


def _nothing(world: World) -> None:
    """The world as it is."""


def _another_move_under_way(world: World) -> None:
    """Its replacement is looked after before anything else goes."""
    entry = an_entry("db-1", workload=a_workload("db"))
    world.write_ledger(msgspec.json.encode(a_ledger(entry, started_at=NOW - 9_000)).decode())
    world.kube.remove(PODS, "db-1", "shop")


def _of_a_custom_kind(world: World) -> None:
    """Both pods belong to a workload that is asked for its scale."""
    etcd = Resource(group="coreos.com", version="v1", plural="etcds", kind="Etcd", model=objects.CustomWorkload)
    world.kube.scalable["coreos.com", "Etcd"] = etcd
    for name in ("web-1", "web-2"):
        world.kube.put(PODS, a_pod(name, metadata={"owner_references": owned_by("Etcd", "main", "coreos.com")}))
    named = {"name": "main", "namespace": "shop", "uid": "uid-main"}
    status = objects.CustomStatus(ready_replicas=10)
    world.kube.put(etcd, objects.CustomWorkload(metadata=objects.ObjectMeta(**named), status=status))
    counts = {"spec": objects.ScaleSpec(replicas=10), "status": objects.ScaleStatus(replicas=10)}
    world.kube.put(scale_of(etcd), objects.Scale(metadata=objects.ObjectMeta(**named), **counts))


@pytest.mark.parametrize(
    ("evict", "limits", "leaves", "prepare", "expected"),
    [
        (True, ONE_PER_WORKLOAD, False, _nothing, Outcome.EVICTED),
        (True, ONE_PER_WORKLOAD, True, _nothing, Outcome.EVICTED),
        (False, ONE_PER_WORKLOAD, False, _nothing, Outcome.DRY_RUN),
        (True, NONE_PER_WORKLOAD, False, _nothing, Outcome.REJECTED_LIMIT),
        (True, ONE_PER_WORKLOAD, False, _another_move_under_way, Outcome.EVICTED),
        (True, ONE_PER_WORKLOAD, False, _of_a_custom_kind, Outcome.EVICTED),
    ],
    ids=["evicted", "terminating", "dry run", "refused", "another move", "custom kind"],
)
async def test_death_at_every_point(
    evict: bool, limits: Limits, leaves: bool, prepare: Callable[[World], None], expected: Outcome
) -> None:
    """Another binder takes the intent over: the same single outcome as without a death, and the limits hold."""
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
        assert world.bus.troubles.errors("worker") == 0, steps.stopped_at
        await world.propose("web-2")
        assert world.outcomes[-1].outcome == Outcome.REJECTED_LIMIT, steps.stopped_at
        await world.stop()
    else:
        pytest.fail("the way is longer than the test goes")
    await world.stop()
    assert points >= 16


def _budget_that_allows_nothing(world: World) -> None:
    selector = objects.LabelSelector(match_labels={"app": "web"})
    spec = objects.PodDisruptionBudgetSpec(selector=selector)
    meta = objects.ObjectMeta(name="none", namespace="shop")
    world.kube.put(BUDGETS, objects.PodDisruptionBudget(metadata=meta, spec=spec))


def _flow_control(world: World) -> None:
    world.kube.fail_next("evict", status=429, times=None, retry_after=1.0)


@pytest.mark.parametrize(
    ("prepare", "expected"),
    [
        (_budget_that_allows_nothing, {Outcome.BLOCKED_PDB}),
        (_flow_control, {Outcome.FAILED, Outcome.REJECTED_STALE}),
    ],
    ids=["blocked", "throttled"],
)
async def test_death_at_every_point_of_what_is_put_off(
    prepare: Callable[[World], None], expected: set[Outcome]
) -> None:
    """Whoever comes after asks again within the intent's life, and then tells one outcome; nothing is evicted."""
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
            await world.say_fleet(sequence)
        (outcome,) = world.outcomes
        assert outcome.outcome in expected, steps.stopped_at
        assert world.evicted == [], steps.stopped_at
        assert world.bus.troubles.errors("worker") == 0, steps.stopped_at
        await world.stop()
    else:
        pytest.fail("the way is longer than the test goes")
    await world.stop()
    assert points >= 16


@pytest.mark.parametrize("evict", [True, False])
async def test_sleep_at_every_point(evict: bool) -> None:
    """A binder that sleeps while another does its work wakes up without harm: one outcome, one eviction."""
    for stop_at in range(1, STEPS):
        world = World()
        await world.populate()
        steps, _ = await _stopped(world, stop_at, evict=evict, limits=ONE_PER_WORKLOAD)
        (intent,) = await world.propose("web-1")
        if not steps.stopped_at:
            break
        twin = world.binder(evict=evict, limits=ONE_PER_WORKLOAD)
        await twin.attach()
        subject = subjects.eviction_intent("shop", "web-1")
        answer = await twin.on_eviction_intent(Delivery(subject=subject, message=intent))
        steps.go.set()
        await world.clock.advance(40)
        if isinstance(answer, Again):
            await twin.on_eviction_intent(Delivery(subject=subject, message=intent))
        await world.bus.settled()
        expected = Outcome.EVICTED if evict else Outcome.DRY_RUN
        assert [outcome.outcome for outcome in world.outcomes] == [expected], steps.stopped_at
        assert len(world.evicted) == evict, steps.stopped_at
        assert [entry.outcome for entry in world.ledger.entries] == [expected], steps.stopped_at
        assert world.bus.troubles.errors("worker") == 0, steps.stopped_at
        await world.stop()
    else:
        pytest.fail("the way is longer than the test goes")
    await world.stop()


async def test_a_late_post_is_in_its_window(world: World) -> None:
    """Who wakes up after another has written an outcome without an eviction still posts: the ledger allows for that."""
    for stop_at in range(1, STEPS):
        world = World()
        await world.populate()
        steps, _ = await _stopped(world, stop_at)
        (intent,) = await world.propose("web-1")
        assert steps.stopped_at, "the way has no POST"
        if steps.stopped_at == "before evict":
            break
        await world.stop()
    twin = world.binder()
    await twin.attach()
    await pause(world.kube, OWN, "")
    await twin.on_eviction_intent(Delivery(subject=subjects.eviction_intent("shop", "web-1"), message=intent))
    await world.clock.advance(30)
    steps.go.set()
    await world.bus.settled()
    (eviction,), (entry,) = world.evicted, world.ledger.entries
    assert entry.outcome == Outcome.PAUSED
    assert entry.counted
    assert entry.latest >= eviction.at
    await world.stop()


async def test_a_refusal_gives_nothing_back_that_was_taken_over(world: World) -> None:
    """The first binder's POST finds the pod gone because the second one's, unanswered, had evicted it: it counts."""
    books, intent = LedgerWriter(world.kube, world.clock, GENEROUS, OWN, dry_run=False), an_intent("web-1")
    entry = an_entry("web-1", settled_at=None, outcome=None)
    world.write_ledger(msgspec.json.encode(a_ledger(entry)).decode())
    await books.take_over(intent)
    await books.release(intent)
    await books.settle(intent, Finish(outcome=Outcome.ALREADY_GONE, reservation="returned"))
    (settled,) = world.ledger.entries
    assert settled.counted


async def test_two_binders_share_the_work_within_one_set_of_limits(world: World) -> None:
    """Two binders, twenty intents at once: every intent has its outcome, and each workload loses one pod only."""
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


async def test_a_conflict_is_decided_anew(world: World) -> None:
    """When another binder reserves first, the limits are asked again with its reservation in the ledger."""
    first = await world.start(world.binder(limits=ONE_PER_WORKLOAD))
    steps, _ = await _stopped(world, 0, limits=ONE_PER_WORKLOAD)
    assert steps.armed
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


async def test_another_binders_reservation_is_left_alone(world: World) -> None:
    """Who only examined an intent never writes its outcome while another may be posting it."""
    books = LedgerWriter(world.kube, world.clock, GENEROUS, OWN, dry_run=False)
    intent = an_intent("web-1")
    entry = an_entry("web-1", settled_at=None, outcome=None)
    world.write_ledger(msgspec.json.encode(a_ledger(entry)).decode())
    refused = Finish(outcome=Outcome.REJECTED_FIT)
    with pytest.raises(HandledByAnotherBinder):
        await books.settle(intent, refused)
    assert world.ledger.entries == (entry,)


async def test_the_last_delivery_leaves_the_outcome_to_who_reserved_meanwhile(world: World) -> None:
    """The eviction may still happen: a word of failure would be the only one that is kept."""
    binder = world.binder(limits=GENEROUS)
    await world.start(binder)
    intent = an_intent("web-1", epoch=LEADER)
    entry = an_entry("web-1", settled_at=None, outcome=None, intent_id=intent.id)

    async def other_reserves_first(call: Any) -> None:
        if call.verb == "replace" and not world.ledger.entries:
            document = msgspec.to_builtins(world.ledger) | {"entries": [msgspec.to_builtins(entry)]}
            world.write_ledger(msgspec.json.encode(document).decode())

    world.kube.on_call = other_reserves_first
    subject = subjects.eviction_intent("shop", "web-1")
    last = await binder.on_eviction_intent(Delivery(subject=subject, message=intent, final=True))
    await world.bus.settled()

    assert last is None
    assert world.ledger.entries == (entry,)
    assert world.outcomes == world.evicted == []
