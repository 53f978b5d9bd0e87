"""The POST of an eviction: responses, retries, blocked budgets and throttling."""

import asyncio

from binder.worlds import World
from builders import NOW

from equipoise.contracts.eviction.approval import NOT_APPROVED
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.kubernetes.client import BUDGETS


async def _advance(world: World, seconds: float, sequence: int) -> None:
    """Time passes, and the collector publishes."""
    await world.clock.advance(seconds)
    await world.publish_cluster(sequence)


async def test_a_definite_refusal_returns_the_reservation(world: World) -> None:
    """Two budgets are a policy error, a missing right is a reported problem; neither counts."""
    await world.start(world.binder())
    world.block("one")
    world.block("two")
    await world.propose("web-1", id="first")
    world.kube.fail_next("evict", status=403)
    await world.propose("db-1", id="second")
    assert "pods/eviction" in world.health.problems[0]
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.REJECTED_POLICY, Outcome.FAILED]
    assert world.evicted == []
    assert not any(entry.counted for entry in world.ledger.entries)


async def test_a_blocked_pod_is_evicted_when_its_budget_allows_it(world: World) -> None:
    """It is retried while its samples are fresh; until then nothing is reserved for it."""
    world.block("one")
    await world.start(world.binder())
    await world.propose("web-1")
    assert world.outcomes == []
    assert world.ledger.entries == ()
    world.kube.remove(BUDGETS, "one", "shop")
    await world.clock.advance(37)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED]


async def test_an_intent_ends_as_blocked_before_its_samples_are_stale(world: World) -> None:
    """So the outcome names the budget and not the age."""
    world.block("one")
    await world.start(world.binder())
    await world.propose("web-1")
    for sequence in range(2, 6):
        await _advance(world, 30, sequence)
    (outcome,) = world.outcomes
    assert outcome.outcome == Outcome.BLOCKED_PDB
    assert "one" in outcome.detail
    assert not any(entry.counted for entry in world.ledger.entries)


async def test_a_blocked_budget_delays_only_its_own_pods(world: World) -> None:
    """While it is in backoff no pod of its workload is tried; others are evicted at once."""
    world.block("one")
    await world.start(world.binder())
    await world.propose("web-1", "web-2", "db-1", "web-3")
    assert [eviction.name for eviction in world.evicted] == ["db-1"]
    tried = [eviction.name for eviction in world.kube.evictions]
    await world.propose("web-4", sampled_at=world.clock.now() - 110)
    assert world.outcomes[-1].outcome == Outcome.BLOCKED_PDB
    assert "shop/one" in world.outcomes[-1].detail
    assert tried == [eviction.name for eviction in world.kube.evictions]


async def test_throttling_delays_every_intent_of_the_process(world: World) -> None:
    """After a 429 that no budget caused, of any request, nothing is sent to the API server for a while."""
    world.kube.fail_next("get", resource="pods", status=429, retry_after=20.0)
    await world.start(world.binder())
    await world.propose("web-1")
    assert any("throttles" in problem for problem in world.health.problems)
    before = len(world.kube.calls)
    await world.propose("db-1")
    assert len(world.kube.calls) == before
    assert world.outcomes == []
    await world.clock.advance(37)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED] * 2
    assert world.health.problems == []


async def test_a_throttled_post_is_retried_after_the_requested_time(world: World) -> None:
    """The reservation is returned."""
    world.kube.fail_next("evict", status=429, retry_after=40.0)
    await world.start(world.binder())
    await world.propose("web-1")
    assert world.outcomes == []
    assert world.ledger.entries == ()
    await world.clock.advance(39)
    assert world.outcomes == []
    await world.publish_cluster(2)
    await world.clock.advance(2)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED]


async def test_an_approval_that_the_api_server_applies_late_is_waited_for(world: World) -> None:
    """For a second; everything is checked again."""
    await world.start(world.binder())
    world.kube.fail_next("evict", status=422, message=f"denied request: {NOT_APPROVED}")
    await world.propose("web-1")
    assert world.outcomes == []
    assert world.ledger.entries == ()
    await world.clock.advance(1.1)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED]


async def test_an_eviction_that_is_never_approved_fails_and_does_not_count(world: World) -> None:
    """The outcome has the reason. It is no problem of the binder."""
    await world.start(world.binder())
    world.kube.fail_next("evict", status=422, message=f"denied request: {NOT_APPROVED}", times=None)
    await world.propose("web-1")
    for sequence in range(2, 18):
        await _advance(world, 10, sequence)
        assert world.health.problems == []
    (outcome,) = world.outcomes
    assert outcome.outcome == Outcome.FAILED
    assert NOT_APPROVED in outcome.detail
    assert not any(entry.counted for entry in world.ledger.entries)


async def test_an_unexpected_response_ends_the_intent_and_counts(world: World) -> None:
    """It is not retried, because its effect is unknown."""
    world.kube.fail_next("evict", status=302)
    assert await world.outcome_of("web-1") == "failed"
    assert world.ledger.entries[0].counted


async def test_after_a_lost_response_the_pod_is_read(world: World) -> None:
    """It has left, so it was evicted: one POST, one outcome."""
    world.kube.fail_next("evict", status=0, committed=True)
    assert await world.outcome_of("web-1") == "evicted"
    assert len(world.evicted) == 1


async def test_a_post_without_effect_is_retried_with_its_reservation(world: World) -> None:
    """The next attempt evicts, once."""
    world.kube.fail_next("evict", status=504)
    await world.start(world.binder())
    await world.propose("web-1")
    assert [entry.outcome for entry in world.ledger.entries] == [None]
    await world.clock.advance(37)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED]
    assert len(world.evicted) == 1


async def test_an_intent_without_any_response_fails_and_counts(world: World) -> None:
    """Within its lifetime."""
    world.kube.refuse("evict", status=503)
    await world.start(world.binder())
    await world.propose("web-1", sampled_at=NOW + 4)
    for sequence in range(2, 6):
        await world.clock.advance(30)
        await world.publish_cluster(sequence)
    await world.clock.advance(60)
    assert len(world.outcomes) == 1
    assert world.outcomes[0].outcome in (Outcome.FAILED, Outcome.REJECTED_STALE)
    assert world.ledger.entries[0].counted


async def test_a_refusal_after_a_lost_response_returns_nothing(world: World) -> None:
    """The earlier POST may still be carried out."""
    world.kube.fail_next("evict", status=504)
    await world.start(world.binder())
    await world.propose("web-1")
    world.block("one")
    for sequence in range(2, 6):
        await _advance(world, 30, sequence)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.BLOCKED_PDB]
    assert world.ledger.entries[0].counted


async def test_a_post_is_canceled_when_its_intent_expires(world: World) -> None:
    """It counts: its effect is unknown."""

    async def hang(call: object) -> None:
        if getattr(call, "verb", "") == "evict":
            await asyncio.Event().wait()

    world.kube.on_call = hang
    await world.start(world.binder())
    await world.propose("web-1", expires_at=NOW + 30)
    await world.clock.advance(30)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.FAILED]
    (entry,) = world.ledger.entries
    assert entry.counted
    assert entry.latest > NOW + 30
