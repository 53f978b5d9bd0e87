"""Refused intents write nothing to the ledger, and get one outcome each, also when they are delivered again."""

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from binder.stepping import SteppingBus, Steps
from binder.worlds import GENEROUS, LEADER, OWN, World
from builders import NOW, an_intent
from kube_objects import a_deployment

from equipoise.binder.decisions.limits import EvictionsPerNamespace
from equipoise.binder.decisions.result import Finish
from equipoise.binder.shell.ledger_store import NAME
from equipoise.binder.state.published_outcomes import PublishedOutcomes
from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.eviction import EVICTION_OUTCOME, EvictionOutcome, Outcome
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.runtime.bus import Delivery
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, DEPLOYMENTS
from equipoise.testbed.memory.clock import settle
from equipoise.testbed.memory.faults import Call

FORGED = LeaseEpoch(lease_uid="lease", transitions=7, holder="nobody")


def _writes(world: World) -> int:
    return sum(call.verb in ("create", "replace") for call in world.kube.calls)


async def test_many_intents_of_a_wrong_epoch_write_nothing(world: World) -> None:
    """Each has its outcome. The ledger would have 1,500 entries, and be written as often."""
    await world.start(world.binder())
    before, ledger = _writes(world), world.ledger
    for number in range(1_500):
        await world.propose("web-1", id=f"forged-{number}", epoch=FORGED)
    assert len(world.outcomes) == 1_500
    assert {outcome.outcome for outcome in world.outcomes} == {Outcome.REJECTED_STALE}
    assert _writes(world) == before
    assert world.ledger == ledger


async def test_an_intent_that_a_limit_refuses_writes_nothing(world: World) -> None:
    limits = msgspec.structs.replace(GENEROUS, evictions_per_namespace=EvictionsPerNamespace(max=1))
    await world.start(world.binder(limits=limits))
    await world.propose("web-1")
    before = _writes(world)
    await world.propose(*(f"db-{number}" for number in range(1, 11)))
    assert [outcome.outcome for outcome in world.outcomes[1:]] == [Outcome.REJECTED_LIMIT] * 10
    assert _writes(world) == before


@pytest.mark.parametrize("where", ["before publish", "after publish"])
async def test_a_refused_intent_gets_one_outcome_when_its_binder_crashes(where: str) -> None:
    """Another binder starts, and the cause of the refusal is gone: what was published counts, nothing else."""
    world = World()
    await world.populate()
    steps = Steps(1 if where == "before publish" else 2)
    bus: Any = SteppingBus(world.bus, steps)
    task = await world.start(world.binder(bus=bus))
    steps.armed = True
    world.kube.put(DEPLOYMENTS, a_deployment(ready_replicas=2))
    await world.propose("web-1")
    assert steps.stopped_at == where
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    world.kube.put(DEPLOYMENTS, a_deployment())
    await world.start(world.binder())
    expected = Outcome.EVICTED if where == "before publish" else Outcome.REJECTED_LIMIT
    assert [outcome.outcome for outcome in world.outcomes] == [expected]
    assert len(world.evicted) == (expected == Outcome.EVICTED)
    await world.stop()


async def test_another_binder_publishes_the_same_outcome_again(world: World) -> None:
    """It has received the outcome of the first one, and does not decide anew."""
    first, second = world.binder(), world.binder()
    for binder in (first, second):
        await binder.attach()
    world.kube.put(DEPLOYMENTS, a_deployment(ready_replicas=2))
    intent = an_intent("web-1", epoch=LEADER)
    delivery = Delivery(subject=subjects.eviction_intent("shop", "web-1"), message=intent)
    await first.on_eviction_intent(delivery)
    await world.bus.settled()
    world.kube.put(DEPLOYMENTS, a_deployment())
    received = list(world.outcomes)
    await world.bus.subscribe("equipoise.eviction.outcome.>", type(received[0]), _append_to(received))
    await second.on_eviction_intent(delivery)
    await world.bus.settled()
    assert {outcome.outcome for outcome in received} == {Outcome.REJECTED_LIMIT}
    assert all(outcome == received[0] for outcome in received)
    assert world.kube.evictions == []


async def test_a_reserved_intent_that_another_binder_has_refused_is_not_posted(world: World) -> None:
    """Both received it at the same time. The reservation is returned, and there is one outcome."""

    async def refused_by_another(call: Call) -> None:
        if call.verb == "replace" and not world.outcomes:
            outcome = Finish(outcome=Outcome.REJECTED_FIT, detail="no room").message(an_intent("web-1"), NOW)
            await world.bus.publish(subjects.eviction_outcome("shop", "web-1"), outcome, message_id=outcome.intent_id)
            await settle()  # the binder receives it before its write is done

    await world.start(world.binder())
    world.kube.on_call = refused_by_another
    await world.propose("web-1")
    await world.clock.advance(1)
    assert {outcome.outcome for outcome in world.outcomes} == {Outcome.REJECTED_FIT}
    assert world.kube.evictions == []
    assert [(entry.outcome, entry.counted) for entry in world.ledger.entries] == [(Outcome.REJECTED_FIT, False)]


def _append_to(received: list[Any]) -> Any:
    async def append(delivery: Delivery[Any]) -> None:
        received.append(delivery.message)

    return append


def test_only_the_latest_outcomes_are_kept() -> None:
    known = PublishedOutcomes()
    for number in range(6_000):
        known.add(msgspec.structs.replace(EVICTION_OUTCOME, intent_id=str(number), settled_at=NOW))
    assert known.get("0") is None
    assert known.get("5999") is not None


class _PublishedTwice:
    """A bus that also shows outcomes which the stream drops because of their id: subscribers receive those, too."""

    def __init__(self, world: World) -> None:
        self._bus = world.bus
        self.outcomes: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def publish(self, subject: str, message: Any, *, message_id: str | None = None) -> None:
        if isinstance(message, EvictionOutcome):
            self.outcomes.append(message.outcome.value)
        await self._bus.publish(subject, message, message_id=message_id)


@pytest.mark.parametrize("why", ["throttled", "delivered too often", "no ledger"])
async def test_an_outcome_remains_when_the_ledger_cannot_be_read(why: str) -> None:
    """The intent of an eviction is delivered again: it was published as failed or paused before."""
    world = World()
    await world.populate()
    bus: Any = _PublishedTwice(world)
    binder = world.binder(bus=bus)
    await world.start(binder)
    (intent,) = await world.propose("web-1")
    assert bus.outcomes == ["evicted"]
    delivery = Delivery(
        subject=subjects.eviction_intent("shop", "web-1"), message=intent, last_attempt=why == "delivered too often"
    )
    if why == "no ledger":
        world.kube.remove(CONFIG_MAPS, NAME, OWN)
    else:
        world.kube.fail_next("get", status=429 if why == "throttled" else 503, times=None, retry_after=200.0)
    assert await binder.on_eviction_intent(delivery) is None
    assert bus.outcomes == ["evicted", "evicted"]
    await world.stop()
