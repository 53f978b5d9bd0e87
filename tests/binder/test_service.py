"""One intent through one binder: what is done, and what is said of it."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from binder.worlds import GENEROUS, LEADER, OWN, World, a_cycle
from builders import NOW, a_node_utilization, a_placement, an_intent
from kube_objects import a_deployment, a_pod, a_replica_set

from equipoise.binder.decisions.limits import EvictionRate, EvictionsPerWorkload, Limits
from equipoise.binder.shell.ledger_store import NAME, pause, resume
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.kubernetes import objects
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.lease import LeaseEpoch
from equipoise.runtime.bus import Again, Delivery
from equipoise.runtime.kubernetes.client import (
    BUDGETS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
)


async def test_evicts_within_all_rules(world: World) -> None:
    """A good intent becomes exactly one eviction with the intent's UID, one outcome and one Event."""
    assert await world.outcome_of("web-1") == "evicted"
    (eviction,) = world.evicted
    assert (eviction.namespace, eviction.name, eviction.uid) == ("shop", "web-1", "uid-web-1")
    event, of_workload = world.kube.events
    assert event.note == (
        'Pod evicted from node "node-a" by the reason "node is overutilized, cpu usage(68.53%)>threshold(50.00%)"'
    )
    assert (event.type, event.reason, event.action) == ("Normal", "Descheduled", "Migrating")
    assert event.reporting_controller == "equipoise.dev/binder"
    assert event.reporting_instance == "binder-1"
    assert event.regarding.uid == "uid-web-1"
    assert event.event_time is not None
    assert event.event_time.microsecond
    assert (of_workload.regarding.kind, of_workload.regarding.uid) == ("Deployment", "uid-web")
    assert of_workload.regarding.api_version == "apps/v1"
    assert of_workload.note.startswith("Pod web-1 evicted from node")


async def test_observes_by_default(world: World) -> None:
    """Without `evict` every POST is a dry run, the outcome says so, and no Event is written."""
    assert await world.outcome_of("web-1", evict=False) == "dry_run"
    assert world.evicted == []
    assert [eviction.dry_run for eviction in world.kube.evictions] == [True]
    assert world.kube.events == []
    assert world.kube.stored(PODS)[0].metadata.deletion_timestamp is None


async def test_a_dry_run_cools_its_pod_down(world: World) -> None:
    """The same pod is not dry-run again at once, though it is still there."""
    await world.start(world.binder(evict=False))
    await world.propose("web-1", id="first")
    await world.propose("web-1", id="second")
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.DRY_RUN, Outcome.REJECTED_LIMIT]


async def test_dry_runs_do_not_hold_up_real_evictions(world: World) -> None:
    """A dry run has its own entries."""
    limits = Limits(evictions_per_workload=EvictionsPerWorkload(max=1))
    task = await world.start(world.binder(evict=False, limits=limits))
    await world.propose("web-1", id="first")
    task.cancel()
    await world.start(world.binder(limits=limits))
    await world.propose("web-1", id="second")
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.DRY_RUN, Outcome.EVICTED]


def _replace_lease(world: World) -> None:
    (lease,) = world.kube.stored(LEASES)
    spec = msgspec.structs.replace(lease.spec, lease_transitions=2, holder_identity="descheduler-2")
    world.kube.put(LEASES, msgspec.structs.replace(lease, spec=spec))


def _put_pod(**fields: Any) -> Callable[[World], None]:
    return lambda world: void(world.kube.put(PODS, a_pod("web-1", **fields)))


def void(_: object) -> None:
    """For lambdas that only act."""


CHANGES: dict[str, tuple[Callable[[World], None], Outcome]] = {
    "another leader": (_replace_lease, Outcome.REJECTED_STALE),
    "no Lease": (lambda world: world.kube.remove(LEASES, "equipoise-descheduler", OWN), Outcome.REJECTED_STALE),
    "pod gone": (lambda world: world.kube.remove(PODS, "web-1", "shop"), Outcome.ALREADY_GONE),
    "other pod": (_put_pod(metadata={"uid": "other"}), Outcome.UID_CHANGED),
    "other node": (_put_pod(node="node-c"), Outcome.REJECTED_STALE),
    "terminating": (
        _put_pod(metadata={"deletion_timestamp": datetime.fromtimestamp(NOW, UTC)}),
        Outcome.REJECTED_POLICY,
    ),
    "owner gone": (lambda world: world.kube.remove(DEPLOYMENTS, "web", "shop"), Outcome.REJECTED_POLICY),
    "owner secret": (lambda world: world.kube.refuse("get", resource="deployments"), Outcome.REJECTED_POLICY),
    "owner replaced": (
        lambda world: void(
            world.kube.put(
                REPLICA_SETS,
                msgspec.structs.replace(
                    a_replica_set(), metadata=msgspec.structs.replace(a_replica_set().metadata, uid="another")
                ),
            )
        ),
        Outcome.REJECTED_POLICY,
    ),
    "namespace gone": (lambda world: world.kube.remove(NAMESPACES, "shop"), Outcome.REJECTED_POLICY),
    "too many missing": (
        lambda world: void(world.kube.put(DEPLOYMENTS, a_deployment(ready_replicas=7))),
        Outcome.REJECTED_LIMIT,
    ),
    "too big": (
        _put_pod(
            spec={"containers": [objects.Container(resources=objects.ResourceRequirements(requests={"cpu": "64"}))]}
        ),
        Outcome.REJECTED_FIT,
    ),
    "no ledger": (lambda world: world.kube.remove(CONFIG_MAPS, NAME, OWN), Outcome.PAUSED),
    "ledger of nonsense": (lambda world: world.write_ledger("{"), Outcome.PAUSED),
    "empty ledger": (lambda world: world.write_ledger("{}"), Outcome.PAUSED),
    "ledger unreadable": (lambda world: world.kube.refuse("get", resource="configmaps"), Outcome.PAUSED),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_refuses(world: World, name: str) -> None:
    """Whatever speaks against an eviction at the last moment stops it, and the outcome says why."""
    change, expected = CHANGES[name]
    change(world)
    assert await world.outcome_of("web-1") == expected.value
    assert world.kube.evictions == []
    assert world.outcomes[0].detail


async def test_a_closed_ledger_says_what_to_do(world: World) -> None:
    """A person learns from the outcome and from /readyz how to open the ledger, and a binder never makes one."""
    world.kube.remove(CONFIG_MAPS, NAME, OWN)
    await world.outcome_of("web-1")
    assert "equipoise resume" in world.outcomes[0].detail
    assert "equipoise resume" in world.health.problems[0]
    assert world.kube.stored(CONFIG_MAPS) == []


async def test_resume_makes_a_ledger_but_no_old_intent_goes(world: World) -> None:
    """With a ledger made anew, only what was decided afterwards may move."""
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


async def test_pause_and_resume(world: World) -> None:
    """Nothing is reserved after a pause; everything goes on after a resume."""
    await world.start(world.binder())
    await pause(world.kube, OWN, "deploying")
    await world.propose("web-1", id="first")
    await resume(world.kube, OWN, world.clock)
    await world.propose("web-1", id="second")
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.PAUSED, Outcome.EVICTED]
    assert "deploying" in world.outcomes[0].detail


async def test_a_pause_in_the_last_moment_holds(world: World) -> None:
    """A pause written between the examination and the reservation wins by compare-and-swap."""

    async def pause_before_reserve(call: object) -> None:
        if getattr(call, "verb", "") == "replace" and not world.ledger.paused:
            world.write_ledger(msgspec.json.encode(world.ledger.pause("now")).decode())

    world.kube.on_call = pause_before_reserve
    assert await world.outcome_of("web-1") == "paused"
    assert world.kube.evictions == []


async def test_stale_expired_and_unborn_samples(world: World) -> None:
    """Old samples, samples of the future and expired intents move nothing."""
    await world.start(world.binder())
    now = world.clock.now()
    await world.propose("web-1", id="old", sampled_at=now - 121)
    await world.propose("web-1", id="future", sampled_at=now + 6)
    await world.propose("web-1", id="late", expires_at=now)
    assert [outcome.outcome for outcome in world.outcomes] == [
        Outcome.REJECTED_STALE,
        Outcome.REJECTED_STALE,
        Outcome.EXPIRED,
    ]


@pytest.mark.parametrize(
    "fields",
    [{"fresh": 2}, {"problem": "down"}, {"skew": 11.0}, {"expected": 0, "fresh": 0}, {"queried_at": NOW - 200}],
)
async def test_blind(world: World, fields: dict[str, Any]) -> None:
    """When too little of the fleet is measured nothing moves."""
    await world.bus.publish(subjects.utilization_cycle("all"), a_cycle(sequence=2, **fields))
    assert await world.outcome_of("web-1") == "rejected_stale"


async def test_nothing_moves_while_many_nodes_are_away(world: World) -> None:
    """One of three is more than a fifth."""
    await world.bus.publish(subjects.node_placement("node-c"), a_placement("node-c", ready=False, sequence=2))
    assert await world.outcome_of("web-1") == "rejected_stale"
    assert "2 of 3 nodes are Ready" in world.outcomes[0].detail


async def test_no_target_that_stays_below_its_mark(world: World) -> None:
    """A pod that fits everywhere by its requests stays when every other node would become hot or is unknown."""
    await world.bus.publish(
        subjects.node_utilization("node-b"), a_node_utilization("node-b", cpu=8.5, sampled_at=NOW - 1, sequence=2)
    )
    await world.bus.publish(
        subjects.node_utilization("node-c"), a_node_utilization("node-c", cpu=1.0, sampled_at=NOW - 200, sequence=2)
    )
    assert await world.outcome_of("web-1") == "rejected_fit"
    assert "node-b" in world.outcomes[0].detail


@pytest.mark.parametrize(
    "fields",
    [
        {"ready_since": NOW - 10},
        {"created_at": NOW - 10},
        {"cordoned": True},
        {"removed": True},
    ],
)
async def test_unfit_targets(world: World, fields: dict[str, Any]) -> None:
    """A node that came back a moment ago, is new, cordoned or gone is no target."""
    for node in ("node-b", "node-c"):
        await world.bus.publish(subjects.node_placement(node), a_placement(node, sequence=2, **fields))
    assert await world.outcome_of("web-1") == "rejected_fit"


def _forbid(world: World, budget: str, *, app: str = "web") -> None:
    """A disruption budget that allows nothing."""
    selector = objects.LabelSelector(match_labels={"app": app})
    world.kube.put(
        BUDGETS,
        objects.PodDisruptionBudget(
            metadata=objects.ObjectMeta(name=budget, namespace="shop"),
            spec=objects.PodDisruptionBudgetSpec(selector=selector),
        ),
    )


async def test_definite_refusals(world: World) -> None:
    """Two budgets are a policy error, a missing right is a problem to see; neither counts."""
    await world.start(world.binder())
    _forbid(world, "one")
    _forbid(world, "two")
    await world.propose("web-1", id="first")
    world.kube.fail_next("evict", status=403)
    await world.propose("db-1", id="second")
    assert "pods/eviction" in world.health.problems[0]
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.REJECTED_POLICY, Outcome.FAILED]
    assert world.evicted == []
    assert not any(entry.counted for entry in world.ledger.entries)


async def test_two_budgets_are_told_to_the_owner_of_the_workload(world: World) -> None:
    """Nobody but him can put that right: a warning on the workload."""
    _forbid(world, "one")
    _forbid(world, "two")
    assert await world.outcome_of("web-1") == "rejected_policy"
    (event,) = world.kube.events
    assert (event.type, event.regarding.kind, event.regarding.name) == ("Warning", "Deployment", "web")
    assert "more than one PodDisruptionBudget" in event.note


async def _let_pass(world: World, seconds: float, sequence: int) -> None:
    """Time passes while the collector speaks."""
    await world.clock.advance(seconds)
    await world.say_fleet(sequence)


async def test_a_blocking_budget_is_asked_again_while_the_intent_is_good(world: World) -> None:
    """A pod that its budget did not allow at first is evicted once it does; until then nothing is reserved for it."""
    _forbid(world, "one")
    await world.start(world.binder())
    await world.propose("web-1")
    assert world.outcomes == []
    assert world.ledger.entries == ()
    world.kube.remove(BUDGETS, "one", "shop")
    await world.clock.advance(37)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED]


async def test_a_budget_that_never_allows_ends_as_blocked(world: World) -> None:
    """Before its samples are too old to be acted upon, so that the outcome tells of the budget and not of their age."""
    _forbid(world, "one")
    await world.start(world.binder())
    await world.propose("web-1")
    for sequence in range(2, 6):
        await _let_pass(world, 30, sequence)
    (outcome,) = world.outcomes
    assert outcome.outcome == Outcome.BLOCKED_PDB
    assert "one" in outcome.detail
    assert not any(entry.counted for entry in world.ledger.entries)


async def test_a_blocking_budget_holds_up_its_own_pods_only(world: World) -> None:
    """While a budget is left alone no pod of its workload is tried; others go at once."""
    _forbid(world, "one")
    await world.start(world.binder())
    await world.propose("web-1", "web-2", "db-1", "web-3")
    assert [eviction.name for eviction in world.evicted] == ["db-1"]
    tried = [eviction.name for eviction in world.kube.evictions]
    await world.propose("web-4", sampled_at=world.clock.now() - 110)
    assert world.outcomes[-1].outcome == Outcome.BLOCKED_PDB
    assert "shop/one" in world.outcomes[-1].detail
    assert tried == [eviction.name for eviction in world.kube.evictions]


async def test_throttling_stops_every_intent_of_the_process(world: World) -> None:
    """After a 429 that is no budget's, of whatever request, nothing is asked of the API server for a while."""
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


async def test_a_strange_answer_ends_an_intent_and_counts(world: World) -> None:
    """An answer that the API server never gives is not tried again, and nobody knows what it did."""
    world.kube.fail_next("evict", status=302)
    assert await world.outcome_of("web-1") == "failed"
    assert world.ledger.entries[0].counted


async def test_flow_control_is_waited_for(world: World) -> None:
    """A 429 without a budget puts the intent off for as long as the server asks, and gives the reservation back."""
    world.kube.fail_next("evict", status=429, retry_after=40.0)
    await world.start(world.binder())
    await world.propose("web-1")
    assert world.outcomes == []
    assert world.ledger.entries == ()
    await world.clock.advance(39)
    assert world.outcomes == []
    await world.say_fleet(2)
    await world.clock.advance(2)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED]


async def test_a_lost_answer_is_looked_up(world: World) -> None:
    """When the answer is lost but the pod has left, it was evicted: one POST, one outcome."""
    world.kube.fail_next("evict", status=0, committed=True)
    assert await world.outcome_of("web-1") == "evicted"
    assert len(world.evicted) == 1


async def test_no_answer_and_no_eviction_is_tried_again(world: World) -> None:
    """When nothing happened the reservation stays and the next try evicts, once."""
    world.kube.fail_next("evict", status=504)
    await world.start(world.binder())
    await world.propose("web-1")
    assert [entry.outcome for entry in world.ledger.entries] == [None]
    await world.clock.advance(37)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED]
    assert len(world.evicted) == 1


async def test_never_answered_is_failed_and_counted(world: World) -> None:
    """An intent that is never answered ends within its life with an outcome, and stays on the books."""
    world.kube.refuse("evict", status=503)
    await world.start(world.binder())
    await world.propose("web-1", sampled_at=NOW + 4)
    for sequence in range(2, 6):
        await world.clock.advance(30)
        await world.say_fleet(sequence)
    await world.clock.advance(60)
    assert len(world.outcomes) == 1
    assert world.outcomes[0].outcome in (Outcome.FAILED, Outcome.REJECTED_STALE)
    assert world.ledger.entries[0].counted


async def test_an_outage_of_the_api_server_is_survived(world: World) -> None:
    """While the API server is away intents wait; when it is back they are decided."""
    await world.start(world.binder())
    world.kube.refuse(status=0)
    await world.propose("web-1")
    assert world.outcomes == []
    world.kube.heal()
    await world.clock.advance(37)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED]


async def test_an_outage_for_its_whole_life_ends_an_intent(world: World) -> None:
    """Every intent has an outcome, even when the API server never answers."""
    await world.start(world.binder())
    world.kube.refuse(status=0)
    await world.propose("web-1")
    await world.clock.advance(181)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.FAILED]
    assert "not decided within its life" in world.outcomes[0].detail


async def test_a_second_delivery_repeats_the_first_outcome(world: World) -> None:
    """An intent that comes again after its outcome, even a refusal, gets the same one and does nothing else."""
    await world.start(world.binder())
    _replace_lease(world)
    (intent,) = await world.propose("web-1")
    lease = objects.Lease(
        metadata=objects.ObjectMeta(name="equipoise-descheduler", namespace=OWN, uid=LEADER.lease_uid),
        spec=objects.LeaseSpec(holder_identity=LEADER.holder, lease_transitions=LEADER.transitions),
    )
    world.kube.put(LEASES, lease)  # now it would pass
    await world.bus.publish(subjects.eviction_intent("shop", "web-1"), intent, message_id="again")
    await world.bus.settled()
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.REJECTED_STALE]
    assert world.kube.evictions == []


async def test_nothing_moves_for_an_older_leader_once_a_newer_has_acted(world: World) -> None:
    """The ledger remembers the newest leader, even when a read of the Lease is behind."""
    world.write_ledger(
        msgspec.json.encode(
            msgspec.structs.replace(
                world.ledger, epoch=LeaseEpoch(lease_uid=LEADER.lease_uid, transitions=2, holder="descheduler-2")
            )
        ).decode()
    )
    assert await world.outcome_of("web-1") == "rejected_stale"


async def test_limits_end_when_the_replacement_is_ready(world: World) -> None:
    """A second pod may leave a workload as soon as it has the replica of the first one back."""
    await world.start(world.binder())
    world.kube.put(DEPLOYMENTS, a_deployment(replicas=3))
    await world.propose("web-1", id="first")
    world.kube.put(DEPLOYMENTS, a_deployment(replicas=3, ready_replicas=2))
    await world.clock.advance(60)
    await world.say_fleet(2)
    await world.propose("web-2", id="second")
    world.kube.put(DEPLOYMENTS, a_deployment(replicas=3))
    await world.propose("web-2", id="third")
    assert [outcome.outcome for outcome in world.outcomes] == [
        Outcome.EVICTED,
        Outcome.REJECTED_LIMIT,
        Outcome.EVICTED,
    ]
    assert world.ledger.entries[0].recovered_at is not None


async def test_evictions_keep_their_pace(world: World) -> None:
    """Intents that arrive together are carried out one after the other, none is refused for it."""
    limits = msgspec.structs.replace(GENEROUS, rate=EvictionRate(max=1, window=Duration(2)))
    await world.start(world.binder(limits=limits))
    await world.propose("web-1", "db-1")
    assert len(world.evicted) == 1
    await world.clock.advance(1.9)
    assert len(world.evicted) == 1
    await world.clock.advance(0.3)
    assert len(world.evicted) == 2


async def test_nothing_is_given_back_after_an_unanswered_post(world: World) -> None:
    """When an earlier POST may still be carried out, a later refusal does not free its place in the windows."""
    world.kube.fail_next("evict", status=504)
    await world.start(world.binder())
    await world.propose("web-1")
    _forbid(world, "one")
    for sequence in range(2, 6):
        await _let_pass(world, 30, sequence)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.BLOCKED_PDB]
    assert world.ledger.entries[0].counted


async def test_a_pause_stops_what_is_reserved(world: World) -> None:
    """An intent that was reserved before the pause and is tried again after it is not posted."""
    world.kube.fail_next("evict", status=504)
    await world.start(world.binder())
    await world.propose("web-1")
    await pause(world.kube, OWN, "")
    await world.clock.advance(37)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.PAUSED]
    assert world.evicted == []


async def test_samples_age_while_waiting_for_the_pace(world: World) -> None:
    """Whoever waits for its turn until its samples are too old does not go."""
    limits = msgspec.structs.replace(GENEROUS, rate=EvictionRate(max=1, window=Duration(30)))
    await world.start(world.binder(limits=limits))
    await world.propose("web-1")
    await world.propose("db-1", sampled_at=world.clock.now() - 100)
    assert len(world.outcomes) == 1
    await world.clock.advance(40)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED, Outcome.REJECTED_STALE]


async def test_a_fresh_status_is_not_trusted(world: World) -> None:
    """Just after an eviction a workload still looks whole: that is no recovery."""
    world.kube.put(DEPLOYMENTS, a_deployment(replicas=3))
    await world.start(world.binder())
    await world.propose("web-1")
    await world.propose("web-2")
    await world.clock.advance(11)
    await world.propose("web-3")
    outcomes = [outcome.outcome for outcome in world.outcomes]
    assert outcomes == [Outcome.EVICTED, Outcome.REJECTED_LIMIT, Outcome.EVICTED]


async def test_a_terminating_pod_is_still_in_migration(world: World) -> None:
    """As long as the old pod shuts down its move is not over, whatever the workload's status says."""
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


async def test_expired_between_reservation_and_post(world: World) -> None:
    """A binder that was held up after reserving does not post any more, and the place is given back."""

    async def hold_up(call: object) -> None:
        if getattr(call, "verb", "") == "replace":
            await go_on.wait()

    go_on = asyncio.Event()
    world.kube.on_call = hold_up
    await world.start(world.binder())
    await world.propose("web-1", sampled_at=NOW + 4)
    await world.clock.advance(181)
    go_on.set()
    await world.bus.settled()
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EXPIRED]
    assert world.kube.evictions == []
    assert not world.ledger.entries[0].counted


async def test_an_unsettled_source_keeps_its_pods(world: World) -> None:
    """A node that came back a moment ago loses nothing."""
    placement = a_placement("node-a", ready_since=NOW - 10, sequence=2)
    await world.bus.publish(subjects.node_placement("node-a"), placement)
    assert await world.outcome_of("web-1") == "rejected_fit"


async def test_messages_out_of_order(world: World) -> None:
    """An older placement, or round, does not replace a newer one."""
    await world.start(world.binder())
    for node in ("node-b", "node-c"):
        await world.bus.publish(subjects.node_placement(node), a_placement(node, cordoned=True, sequence=3))
        await world.bus.publish(subjects.node_placement(node), a_placement(node, sequence=2))
    await world.propose("web-1")
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.REJECTED_FIT]
    await world.bus.publish(subjects.utilization_cycle("all"), a_cycle(fresh=0, sequence=3))
    await world.bus.publish(subjects.utilization_cycle("all"), a_cycle(fresh=3, sequence=2))
    await world.propose("web-2")
    assert world.outcomes[-1].outcome == Outcome.REJECTED_STALE


async def test_twenty_at_once_are_quick_and_never_raise(world: World) -> None:
    """No intent fails for a fault of ours, and the API server is asked a bounded number of times for each."""
    await world.start(world.binder())
    before = len(world.kube.calls)
    await world.propose(*(f"web-{number}" for number in range(1, 11)), *(f"db-{number}" for number in range(1, 11)))
    await world.clock.advance(1)
    assert len(world.outcomes) == 20
    assert world.bus.troubles.errors("worker") == 0
    assert len(world.kube.calls) - before <= 20 * 14


async def test_windows_hold_whatever_the_clocks_say(world: World) -> None:
    """As long as the API server's time is known to half a second only, a window lasts that much longer at both ends."""
    limits = msgspec.structs.replace(GENEROUS, evictions_per_workload=EvictionsPerWorkload(max=1))
    world.kube.time_error = 0.5
    await world.start(world.binder(limits=limits))
    await world.propose("web-1")
    await world.clock.advance(300.9)
    await world.say_fleet(2)
    await world.propose("web-2")
    await world.clock.advance(0.3)
    await world.propose("web-3")
    outcomes = [outcome.outcome for outcome in world.outcomes]
    assert outcomes == [Outcome.EVICTED, Outcome.REJECTED_LIMIT, Outcome.EVICTED]


async def test_no_post_outlives_its_intent(world: World) -> None:
    """A POST that hangs is given up when the intent expires, and counts: nobody knows what became of it."""

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


async def test_the_last_delivery_of_an_intent_has_an_outcome(world: World) -> None:
    """However often binders died over it before: who gets it for the last time tells what became of it."""
    binder = world.binder()
    await world.start(binder)
    world.kube.fail_next("evict", status=504, times=None)
    intent = an_intent("web-1", epoch=LEADER)
    subject = subjects.eviction_intent("shop", "web-1")
    again = await binder.on_eviction_intent(Delivery(subject=subject, message=intent))
    last = await binder.on_eviction_intent(Delivery(subject=subject, message=intent, final=True))
    await world.bus.settled()
    assert isinstance(again, Again)
    assert last is None
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.FAILED]
    assert world.ledger.entries[0].counted
