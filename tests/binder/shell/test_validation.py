"""The live checks of an intent before the ledger decides."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from binder.worlds import OWN, World, a_cycle
from builders import NOW, a_node_utilization, a_placed_pod, a_placement
from kube_objects import a_deployment, a_pod, a_replica_set

from equipoise.binder.shell.ledger_store import (
    NAME,
)
from equipoise.contracts.bus import subjects
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import Condition, Object, ObjectMeta, ResourceRequirements
from equipoise.contracts.kubernetes.objects.pod import Container, SchedulingGroup
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, DEPLOYMENTS, LEASES, NAMESPACES, PODS, REPLICA_SETS


def _put_pod(**fields: Any) -> Callable[[World], None]:
    return lambda world: void(world.kube.put(PODS, a_pod("web-1", **fields)))


def void(_: object) -> None:
    """For lambdas that only act."""


def bad_time(value: Object) -> bytes:
    """The object as JSON, with a year that does not exist here."""
    document = msgspec.to_builtins(value)
    document["metadata"]["creationTimestamp"] = "0000-01-01T00:00:00Z"
    return msgspec.json.encode(document)


CHANGES: dict[str, tuple[Callable[[World], None], Outcome]] = {
    "another leader": (World.elect_another_leader, Outcome.REJECTED_STALE),
    "no Lease": (lambda world: world.kube.remove(LEASES, "equipoise-descheduler", OWN), Outcome.REJECTED_STALE),
    "pod gone": (lambda world: world.kube.remove(PODS, "web-1", "shop"), Outcome.ALREADY_GONE),
    "other pod": (_put_pod(metadata={"uid": "other"}), Outcome.UID_CHANGED),
    "other node": (_put_pod(node="node-c"), Outcome.REJECTED_STALE),
    "terminating": (
        _put_pod(metadata={"deletion_timestamp": datetime.fromtimestamp(NOW, UTC)}),
        Outcome.REJECTED_POLICY,
    ),
    "owner gone": (lambda world: world.kube.remove(DEPLOYMENTS, "web", "shop"), Outcome.REJECTED_POLICY),
    "owner not readable": (lambda world: world.kube.refuse("get", resource="deployments"), Outcome.REJECTED_POLICY),
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
    "pod not decoded": (
        lambda world: void(world.kube.put_json(PODS, bad_time(a_pod("web-1")))),
        Outcome.REJECTED_POLICY,
    ),
    "owner not decoded": (
        lambda world: void(world.kube.put_json(REPLICA_SETS, bad_time(a_replica_set()))),
        Outcome.REJECTED_POLICY,
    ),
    "workload not decoded": (
        lambda world: void(world.kube.put_json(DEPLOYMENTS, bad_time(a_deployment()))),
        Outcome.REJECTED_POLICY,
    ),
    "namespace not decoded": (
        lambda world: void(
            world.kube.put_json(NAMESPACES, bad_time(Namespace(metadata=ObjectMeta(name="shop", uid="uid-shop"))))
        ),
        Outcome.REJECTED_POLICY,
    ),
    "an amount that no machine has": (
        _put_pod(spec={"containers": [Container(resources=ResourceRequirements(requests={"cpu": "1e308"}))]}),
        Outcome.REJECTED_POLICY,
    ),
    "pod of a gang": (
        _put_pod(spec={"scheduling_group": SchedulingGroup(pod_group_name="train")}),
        Outcome.REJECTED_POLICY,
    ),
    "namespace gone": (lambda world: world.kube.remove(NAMESPACES, "shop"), Outcome.REJECTED_POLICY),
    "too many missing": (
        lambda world: void(world.kube.put(DEPLOYMENTS, a_deployment(ready_replicas=7))),
        Outcome.REJECTED_LIMIT,
    ),
    "too big": (
        _put_pod(spec={"containers": [Container(resources=ResourceRequirements(requests={"cpu": "64"}))]}),
        Outcome.REJECTED_FIT,
    ),
    "no ledger": (lambda world: world.kube.remove(CONFIG_MAPS, NAME, OWN), Outcome.PAUSED),
    "invalid ledger": (lambda world: world.write_ledger("{"), Outcome.PAUSED),
    "empty ledger": (lambda world: world.write_ledger("{}"), Outcome.PAUSED),
}


async def test_an_error_in_the_rules_of_a_pod_refuses_its_intent_only(world: World) -> None:
    no_text: Any = {"karpenter.sh/do-not-disrupt": 5}
    _put_pod(metadata={"annotations": no_text})(world)
    assert await world.outcome_of("web-1") == Outcome.REJECTED_POLICY.value
    assert world.outcomes[0].detail.startswith("the rules cannot be applied to it (AttributeError: ")
    assert world.kube.evictions == []


@pytest.mark.parametrize("name", CHANGES)
async def test_an_obstacle_at_the_last_moment_refuses_the_intent(world: World, name: str) -> None:
    """The outcome gives the reason."""
    change, expected = CHANGES[name]
    change(world)
    assert await world.outcome_of("web-1") == expected.value
    assert world.kube.evictions == []
    assert world.outcomes[0].detail


async def test_an_intent_that_lives_for_ten_years_is_not_reserved(world: World) -> None:
    """Its reservation would count against the limits of its workload until it has expired."""
    assert await world.outcome_of("web-1", expires_at=NOW + 10 * 365 * 86_400) == "rejected_stale"
    assert "binder.maxIntentLifetime" in world.outcomes[0].detail
    assert world.ledger.entries == ()
    assert world.kube.evictions == []


async def test_stale_and_future_samples_and_expired_intents_are_refused(world: World) -> None:
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


@pytest.mark.parametrize("forged", ["node", "cycle"])
async def test_a_measurement_of_the_far_future_is_dropped(world: World, forged: str) -> None:
    """A single one could stop all evictions until then: the collectors publish lower epochs, and other shards."""
    far: dict[str, Any] = {"queried_at": 1e11, "epoch": 2_000_000_000_000}
    await world.start(world.binder())
    if forged == "node":
        old = a_node_utilization("node-b", sampled_at=world.clock.now() - 1_000, **far)
        await world.bus.publish(subjects.node_utilization("node-b"), old)
    else:
        await world.bus.publish(subjects.utilization_cycle("ghost"), a_cycle(shard="ghost", expected=10**6, **far))
    await world.bus.settled()
    await world.propose("web-1")
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED]


async def test_a_binder_with_a_slow_clock_refuses_expired_intents_and_old_samples(world: World) -> None:
    """The API server's clock is 9 s later, which is allowed."""
    world.kube.skew = 9.0
    now = world.clock.now()
    await world.start(world.binder())
    await world.propose("web-1", id="late", decided_at=now, expires_at=now + 8)
    await world.propose("web-1", id="old", sampled_at=now - 112)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EXPIRED, Outcome.REJECTED_STALE]
    assert world.kube.evictions == []


@pytest.mark.parametrize(
    "fields",
    [{"fresh": 2}, {"problem": "down"}, {"skew": 11.0}, {"expected": 0, "fresh": 0}, {"queried_at": NOW - 200}],
)
async def test_nothing_is_evicted_when_too_few_nodes_are_measured(world: World, fields: dict[str, Any]) -> None:
    await world.bus.publish(subjects.utilization_cycle("all"), a_cycle(sequence=2, **fields))
    assert await world.outcome_of("web-1") == "rejected_stale"


@pytest.mark.parametrize(("silent", "outcome"), [(1_600, Outcome.REJECTED_STALE), (1_900, Outcome.EVICTED)])
async def test_the_skew_of_a_removed_shard_is_forgotten(world: World, silent: float, outcome: Outcome) -> None:
    """Half an hour after its last cycle: it has no nodes any more, so that its clock concerns none."""
    await world.start(world.binder())
    removed = a_cycle(shard="removed", expected=0, fresh=0, skew=60.0)
    await world.bus.publish(subjects.utilization_cycle("removed"), removed)
    await world.bus.settled()
    await world.clock.advance(silent)
    await world.publish_cluster(sequence=2)
    await world.bus.settled()
    await world.propose("web-1")
    await world.clock.advance(120)
    assert [each.outcome for each in world.outcomes] == [outcome]


async def test_nothing_is_evicted_while_the_binder_knows_too_few_loads(world: World) -> None:
    """The collector counts samples of up to 180 s; an eviction needs younger ones, and the bus may lose them."""
    late = a_node_utilization("node-c", cpu=1.0, sampled_at=NOW - 150, sequence=2)
    await world.bus.publish(subjects.node_utilization("node-c"), late)
    assert await world.outcome_of("web-1") == "rejected_stale"
    assert "the load of 2 of 3 nodes is known, 80% needed" in world.outcomes[0].detail


async def test_nothing_is_evicted_when_too_many_nodes_are_not_ready(world: World) -> None:
    """One of three is more than a fifth."""
    await world.bus.publish(subjects.node_placement("node-c"), a_placement("node-c", ready=False, sequence=2))
    assert await world.outcome_of("web-1") == "rejected_stale"
    assert "2 of 3 nodes are Ready" in world.outcomes[0].detail


async def test_a_pod_needs_a_node_that_stays_below_the_threshold(world: World) -> None:
    """It fits everywhere by its requests, but one node would become hot and the other is unknown."""
    await world.bus.publish(
        subjects.node_utilization("node-b"), a_node_utilization("node-b", cpu=8.5, sampled_at=NOW - 1, sequence=2)
    )
    await world.bus.publish(
        subjects.node_utilization("node-c"), a_node_utilization("node-c", cpu=1.0, sampled_at=NOW - 200, sequence=2)
    )
    await world.bus.publish(subjects.utilization_cycle("all"), a_cycle(expected=2, fresh=2, sequence=2))
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
async def test_an_unsettled_cordoned_or_removed_node_is_no_target(world: World, fields: dict[str, Any]) -> None:
    for node in ("node-b", "node-c"):
        await world.bus.publish(subjects.node_placement(node), a_placement(node, sequence=2, **fields))
    expected = 1 if "removed" in fields else 3
    await world.bus.publish(subjects.utilization_cycle("all"), a_cycle(expected=expected, fresh=expected, sequence=2))
    assert await world.outcome_of("web-1") == "rejected_fit"


async def test_a_node_that_became_ready_lately_loses_no_pods(world: World) -> None:
    placement = a_placement("node-a", ready_since=NOW - 10, sequence=2)
    await world.bus.publish(subjects.node_placement("node-a"), placement)
    assert await world.outcome_of("web-1") == "rejected_fit"


FAILING = [Condition(type="ReplicaFailure", status="True", reason="FailedCreate")]


async def test_a_workload_that_cannot_create_pods_loses_none(world: World) -> None:
    """Its replacement would be refused as well."""
    world.kube.put(DEPLOYMENTS, a_deployment(conditions=FAILING))
    assert await world.outcome_of("web-1") == "rejected_policy"
    assert "cannot create" in world.outcomes[0].detail


@pytest.mark.parametrize(("placed", "desired", "protected"), [(NOW - 10, 12, True), (NOW - 400, 12, False)])
async def test_a_workload_that_was_scaled_lately_loses_no_pods(
    world: World, placed: float, desired: int, protected: bool
) -> None:
    """The bus reports its pods five minutes ago: two more now are the work of an autoscaler."""
    pods = [a_placed_pod(f"web-{number}") for number in range(1, 11)]
    pods += [a_placed_pod(f"web-{number}", placed_at=placed, running_since=placed) for number in (11, 12)]
    await world.bus.publish(subjects.node_placement("node-c"), a_placement("node-c", pods, sequence=2))
    world.kube.put(DEPLOYMENTS, a_deployment(replicas=desired))
    assert await world.outcome_of("web-1") == ("rejected_policy" if protected else "evicted")
