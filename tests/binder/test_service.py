"""The path of one intent through one binder, from its delivery to its outcome."""

import asyncio
from typing import Any

import msgspec
import pytest
from binder.ledgers import a_ledger, an_entry
from binder.worlds import GENEROUS, LEADER, OWN, SlowWrites, World, a_cycle
from builders import NOW, a_placement, an_intent

from equipoise.binder.decisions.limits import (
    EvictionsPerWorkload,
    Limits,
)
from equipoise.binder.settings import BinderSettings
from equipoise.binder.shell.ledger_store import (
    NAME,
    pause,
    resume,
)
from equipoise.contracts.bus import subjects
from equipoise.contracts.kubernetes.objects.cluster import Lease, LeaseSpec
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.runtime.bus import Delivery, Redeliver
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, LEASES, PODS
from equipoise.runtime.kubernetes.fence import PROBE, RETRY_PERIOD


async def test_a_valid_intent_becomes_one_eviction(world: World) -> None:
    """One POST with the intent's UID, one outcome, and an Event on the pod and on its workload."""
    assert await world.outcome_of("web-1") == "evicted"
    (eviction,) = world.evicted
    assert (eviction.namespace, eviction.name, eviction.uid) == ("shop", "web-1", "uid-web-1")
    event, on_workload = world.kube.events
    assert event.note == ('Pod evicted from node "node-a" by the reason "node is hot: cpu 68.5% is above 50%"')
    assert (event.type, event.reason, event.action) == ("Normal", "Descheduled", "Migrating")
    assert event.reporting_controller == "equipoise.dev/binder"
    assert event.reporting_instance == "binder-1"
    assert event.regarding.uid == "uid-web-1"
    assert event.event_time is not None
    assert event.event_time.microsecond
    assert (on_workload.regarding.kind, on_workload.regarding.uid) == ("Deployment", "uid-web")
    assert on_workload.regarding.api_version == "apps/v1"
    assert on_workload.note.startswith("Pod web-1 evicted from node")


async def test_without_evict_every_post_is_a_dry_run(world: World) -> None:
    """The outcome states it, and no Event is written."""
    assert await world.outcome_of("web-1", evict=False) == "dry_run"
    assert world.evicted == []
    assert [eviction.dry_run for eviction in world.kube.evictions] == [True]
    assert world.kube.events == []
    assert world.kube.stored(PODS)[0].metadata.deletion_timestamp is None


async def test_a_dry_run_reserves_its_pod(world: World) -> None:
    """A second intent for the pod is refused, although the pod is still there."""
    await world.start(world.binder(evict=False))
    await world.propose("web-1", id="first")
    await world.propose("web-1", id="second")
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.DRY_RUN, Outcome.REJECTED_LIMIT]


async def test_dry_runs_do_not_count_against_evictions(world: World) -> None:
    """A dry run has its own entries."""
    limits = Limits(evictions_per_workload=EvictionsPerWorkload(max=1))
    task = await world.start(world.binder(evict=False, limits=limits))
    await world.propose("web-1", id="first")
    task.cancel()
    await world.start(world.binder(limits=limits))
    await world.propose("web-1", id="second")
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.DRY_RUN, Outcome.EVICTED]


async def test_outcomes_of_dry_runs_are_marked(world: World) -> None:
    """Refusals too: they are none of evictions."""
    limits = Limits(evictions_per_workload=EvictionsPerWorkload(max=1))
    task = await world.start(world.binder(evict=False, limits=limits))
    await world.propose("web-1", id="first")
    await world.propose("web-2", id="second")
    task.cancel()
    await world.start(world.binder(limits=limits))
    await world.propose("web-1", id="third")
    await world.propose("web-2", id="fourth")

    assert [(outcome.outcome, outcome.dry_run) for outcome in world.outcomes] == [
        (Outcome.DRY_RUN, True),
        (Outcome.REJECTED_LIMIT, True),
        (Outcome.EVICTED, False),
        (Outcome.REJECTED_LIMIT, False),
    ]


async def test_dry_runs_are_limited_as_evictions_would_be(world: World) -> None:
    """Earlier evictions count, too."""
    limits = Limits(evictions_per_workload=EvictionsPerWorkload(max=1))
    task = await world.start(world.binder(limits=limits))
    await world.propose("web-1", id="first")
    task.cancel()
    await world.start(world.binder(evict=False, limits=limits))
    await world.propose("web-2", id="second")
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED, Outcome.REJECTED_LIMIT]


async def test_an_intent_older_than_the_ledger_is_refused(world: World) -> None:
    """With a new ledger only what was decided afterwards is carried out."""
    world.kube.remove(CONFIG_MAPS, NAME, OWN)
    await world.start(world.binder())
    (early,) = await world.propose("web-1", id="early")
    await world.clock.advance(1)
    assert "forgotten" in await resume(world.kube, OWN, world.clock)
    await world.propose("web-1", id="old", decided_at=early.decided_at)
    await world.propose("web-1", id="new")
    assert [outcome.outcome for outcome in world.outcomes] == [
        Outcome.PAUSED,
        Outcome.REJECTED_STALE,
        Outcome.EVICTED,
    ]


async def test_a_missing_ledger_is_reported_and_not_created(world: World) -> None:
    """Outcome and /readyz name the command that creates one; a binder never does."""
    world.kube.remove(CONFIG_MAPS, NAME, OWN)
    await world.outcome_of("web-1")
    assert "equipoise resume" in world.outcomes[0].detail
    assert "equipoise resume" in world.health.problems[0]
    assert world.kube.stored(CONFIG_MAPS) == []


async def test_nothing_is_reserved_between_pause_and_resume(world: World) -> None:
    await world.start(world.binder())
    await pause(world.kube, OWN, "deploying")
    await world.propose("web-1", id="first")
    await resume(world.kube, OWN, world.clock)
    await world.propose("web-1", id="second")
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.PAUSED, Outcome.EVICTED]
    assert "deploying" in world.outcomes[0].detail


async def test_a_reserved_intent_is_not_posted_after_a_pause(world: World) -> None:
    """It was reserved before the pause and is retried after it."""
    world.kube.fail_next("evict", status=504)
    await world.start(world.binder())
    await world.propose("web-1")
    await pause(world.kube, OWN, "")
    await world.clock.advance(37)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.PAUSED]
    assert world.evicted == []


@pytest.mark.parametrize("meanwhile", ["pause", "new leader", "nothing"])
async def test_a_binder_that_was_suspended_checks_its_decision_again(world: World, meanwhile: str) -> None:
    """Before the POST; what it does not post does not count."""
    kube: Any = SlowWrites(world, 20.0)
    await world.start(world.binder(kube=kube))
    await world.propose("web-1")
    await world.clock.advance(5)
    if meanwhile == "pause":
        await pause(world.kube, OWN, "maintenance")
    if meanwhile == "new leader":
        newer = msgspec.structs.replace(world.ledger.epoch, transitions=2) if world.ledger.epoch else None
        changed = msgspec.structs.replace(world.ledger, epoch=newer)
        world.write_ledger(msgspec.json.encode(changed).decode())
    await world.clock.advance(60)
    expected = {"pause": Outcome.PAUSED, "new leader": Outcome.REJECTED_STALE, "nothing": Outcome.EVICTED}[meanwhile]
    assert [outcome.outcome for outcome in world.outcomes] == [expected]
    assert len(world.evicted) == (meanwhile == "nothing")
    assert world.ledger.entries[0].counted == (meanwhile == "nothing")


async def test_an_intent_that_expires_after_its_reservation_is_not_posted(world: World) -> None:
    """The reservation is returned."""

    async def delay_writes(call: object) -> None:
        if getattr(call, "verb", "") == "replace":
            await proceed.wait()

    proceed = asyncio.Event()
    world.kube.on_call = delay_writes
    await world.start(world.binder())
    await world.propose("web-1", sampled_at=NOW + 4)
    await world.clock.advance(181)
    proceed.set()
    await world.bus.settled()
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EXPIRED]
    assert world.kube.evictions == []
    assert not world.ledger.entries[0].counted


async def test_intents_wait_while_the_api_server_is_unavailable(world: World) -> None:
    """They are decided when it responds again."""
    await world.start(world.binder())
    world.kube.refuse(status=0)
    await world.propose("web-1")
    assert world.outcomes == []
    world.kube.clear_faults()
    await world.clock.advance(37)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED]


async def test_an_intent_fails_when_the_api_server_is_unavailable_for_its_lifetime(world: World) -> None:
    """Every intent has an outcome."""
    await world.start(world.binder())
    world.kube.refuse(status=0)
    await world.propose("web-1")
    await world.clock.advance(181)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.FAILED]
    assert "not decided within its lifetime" in world.outcomes[0].detail


async def test_a_redelivery_gets_the_recorded_outcome(world: World) -> None:
    """Even a refusal whose cause is gone by now; nothing else is done."""
    await world.start(world.binder())
    world.elect_another_leader()
    (intent,) = await world.propose("web-1")
    lease = Lease(
        metadata=ObjectMeta(name="equipoise-descheduler", namespace=OWN, uid=LEADER.lease_uid),
        spec=LeaseSpec(holder_identity=LEADER.holder, lease_transitions=LEADER.transitions),
    )
    world.kube.put(LEASES, lease)  # it would be valid now
    await world.bus.publish(subjects.eviction_intent("shop", "web-1"), intent, message_id="again")
    await world.bus.settled()
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.REJECTED_STALE]
    assert world.kube.evictions == []


def test_nothing_is_evicted_by_default() -> None:
    """Evictions are dry runs until the user enables them."""
    assert not BinderSettings().evict


async def test_a_redelivery_without_a_ledger_gets_the_published_outcome(world: World) -> None:
    """Not `paused`: its pod was evicted."""
    await world.start(world.binder())
    (intent,) = await world.propose("web-1")
    world.kube.remove(CONFIG_MAPS, NAME, OWN)
    await world.clock.advance(600)  # the bus drops no message with the same id any more
    await world.bus.publish(subjects.eviction_intent("shop", "web-1"), intent, message_id="again")
    await world.bus.settled()
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED, Outcome.EVICTED]


async def test_a_ledger_that_may_not_be_read_delays_an_intent(world: World) -> None:
    """An API server that has just started refuses for a second. Here another binder has evicted the pod."""
    entry = an_entry("web-1", settled_at=None, outcome=None, intent_id="web-1-1")
    world.write_ledger(msgspec.json.encode(a_ledger(entry)).decode())
    await world.start(world.binder())
    world.kube.remove(PODS, "web-1", "shop")
    world.kube.fail_next("get", status=403, resource="configmaps")
    await world.propose("web-1", id="web-1-1")
    assert world.outcomes == []
    await world.clock.advance(60)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED]


async def test_an_older_leader_is_refused_after_a_newer_one(world: World) -> None:
    """The ledger has the newest epoch, also when the read of the Lease is late."""
    world.write_ledger(
        msgspec.json.encode(
            msgspec.structs.replace(
                world.ledger, epoch=LeaseEpoch(lease_uid=LEADER.lease_uid, transitions=2, holder="descheduler-2")
            )
        ).decode()
    )
    assert await world.outcome_of("web-1") == "rejected_stale"


async def test_an_older_message_does_not_replace_a_newer_one(world: World) -> None:
    """Neither a placement nor a cycle."""
    await world.start(world.binder())
    for node in ("node-b", "node-c"):
        await world.bus.publish(subjects.node_placement(node), a_placement(node, cordoned=True, sequence=3))
        await world.bus.publish(subjects.node_placement(node), a_placement(node, sequence=2))
    await world.propose("web-1")
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.REJECTED_FIT]
    await world.bus.publish(subjects.utilization_cycle("all"), a_cycle(fresh=0, sequence=3))
    await world.bus.publish(subjects.utilization_cycle("all"), a_cycle(fresh=3, sequence=2))
    await world.propose("web-2")
    await world.clock.advance(180)
    assert world.outcomes[-1].outcome == Outcome.REJECTED_STALE


async def test_twenty_concurrent_intents_need_a_bounded_number_of_requests(world: World) -> None:
    """None fails by an error of the binder."""
    await world.start(world.binder())
    before = len(world.kube.calls)
    await world.propose(*(f"web-{number}" for number in range(1, 11)), *(f"db-{number}" for number in range(1, 11)))
    await world.clock.advance(1)
    assert len(world.outcomes) == 20
    assert world.bus.errors.total("worker") == 0
    assert len(world.kube.calls) - before <= 20 * 14


async def test_the_last_delivery_publishes_an_outcome(world: World) -> None:
    """However often binders crashed with it before."""
    binder = world.binder()
    await world.start(binder)
    world.kube.fail_next("evict", status=504, times=None)
    intent = an_intent("web-1", epoch=LEADER)
    subject = subjects.eviction_intent("shop", "web-1")
    again = await binder.on_eviction_intent(Delivery(subject=subject, message=intent))
    last = await binder.on_eviction_intent(Delivery(subject=subject, message=intent, last_attempt=True))
    await world.bus.settled()
    assert isinstance(again, Redeliver)
    assert last is None
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.FAILED]
    assert world.ledger.entries[0].counted


async def test_the_last_delivery_publishes_nothing_when_another_binder_reserved(world: World) -> None:
    """The eviction may still happen, and only one outcome is kept."""
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
    last = await binder.on_eviction_intent(Delivery(subject=subject, message=intent, last_attempt=True))
    await world.bus.settled()

    assert last is None
    assert world.ledger.entries == (entry,)
    assert world.outcomes == world.evicted == []


async def test_it_evicts_nothing_until_its_admission_policy_is_in_effect(world: World) -> None:
    """Not even in a dry run; the intent waits in the queue."""
    world.kube.as_service_account = True
    await world.start(world.binder())
    await world.propose("web-1")
    await world.clock.advance(2 * RETRY_PERIOD)
    assert world.kube.evictions == []
    assert world.kube.events == []
    assert any("equipoise-binder-fence" in problem for problem in world.health.report().problems)
    denied = "ValidatingAdmissionPolicy 'equipoise-binder-fence' with binding 'x' denied request"
    world.kube.fail_next("create", status=422, message=denied, name=PROBE, times=None)
    await world.clock.advance(RETRY_PERIOD + 2)
    assert len(world.evicted) == 1
