"""Moves without a gap by binders, in memory: the pod serves until its replacement does, whoever crashes."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from binder.ledgers import an_entry
from binder.replica_sets import Controllers
from binder.stepping import SteppingBus, SteppingKube, Steps
from binder.worlds import GENEROUS, OWN, SlowWrites, World
from builders import NOW, a_node_utilization, a_placed_pod, a_placement

from equipoise.binder.decisions.limits import MigratingPerWorkload, UnavailablePerWorkload
from equipoise.binder.service import SURGE_PROBE, Binder
from equipoise.binder.shell.ledger_store import pause
from equipoise.binder.state.ledger_json import encode
from equipoise.binder.state.surge_move import DETACHED, READY, with_stage
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.moves import MovesLevel
from equipoise.contracts.configuration.surge import SurgeMode, SurgeSettings
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.contracts.eviction.opt_out import DO_NOT_DISRUPT
from equipoise.contracts.eviction.surge import TEMPLATE_HASH
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeSpec, Taint
from equipoise.contracts.kubernetes.objects.pod import TopologySpreadConstraint
from equipoise.contracts.kubernetes.objects.workload import (
    DeploymentStrategy,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    RollingUpdateOfDeployment,
)
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.kubernetes.client import BUDGETS, DEPLOYMENTS, NODES, PODS, REPLICA_SETS
from equipoise.runtime.kubernetes.fence import PROBE, RETRY_PERIOD
from equipoise.testbed.memory.faults import Call

WEB = LabelSelector(match_labels={"app": "web"})
replace = msgspec.structs.replace
MANY_OF_A_WORKLOAD = replace(
    GENEROUS,
    migrating_per_workload=MigratingPerWorkload(max=3),
    unavailable_per_workload=UnavailablePerWorkload(max=3),
)
"""Limits that permit several moves of a workload, so that `surge` decides."""


def controllers_of(world: World, replicas: int = 1, nodes: Sequence[str] = ("node-a",), **spec: object) -> Controllers:
    """Makes `web` a Deployment of so many pods, whose rollouts surge. `spec`: fields of its pods."""
    for number in range(1, 11):
        for owner in ("web", "db"):
            world.kube.remove(PODS, f"{owner}-{number}", "shop")
    controllers = Controllers(world.kube, world.clock, replicas, random.Random(0), nodes, **spec)
    deployment = controllers.deployment
    assert deployment is not None
    strategy = DeploymentStrategy(type="RollingUpdate", rolling_update=RollingUpdateOfDeployment(max_surge=1))
    controllers.put_deployment(replace(deployment, spec=replace(deployment.spec, selector=WEB, strategy=strategy)))
    return controllers


def surging(world: World, mode: SurgeMode = "singleReplicas", **more: object) -> Binder:
    return world.binder(surge=SurgeSettings(mode=mode, **more))  # type: ignore[arg-type]  # fields of the settings


def put_budget(world: World, allowed: int) -> None:
    spec = PodDisruptionBudgetSpec(selector=WEB)
    status = PodDisruptionBudgetStatus(disruptions_allowed=allowed)
    metadata = ObjectMeta(name="web", namespace="shop")
    world.kube.put(BUDGETS, PodDisruptionBudget(metadata=metadata, spec=spec, status=status))


async def seconds(world: World, count: int = 10, *, controllers: Controllers | None = None, serving: int = 1) -> None:
    """Lets time pass. At no time are there fewer ready endpoints."""
    for _ in range(count):
        await world.clock.advance(1.0)
        if controllers is not None:
            controllers.synchronize()
            assert controllers.serving >= serving


async def test_a_single_replica_moves_when_its_replacement_is_ready(world: World) -> None:
    controllers = controllers_of(world)
    await world.start(surging(world))
    await world.propose("web-1")
    pod = controllers.pod("web-1")
    assert pod is not None
    assert TEMPLATE_HASH not in pod.metadata.labels
    assert pod.metadata.annotations == {DETACHED_HASH: "h1", DO_NOT_DISRUPT: "true"}
    await seconds(world, controllers=controllers)
    assert world.outcomes == []
    controllers.bind("web-rs-new-1")
    await seconds(world, controllers=controllers)
    assert [move.stage for move in world.ledger.surge_moves] == ["placed"]
    controllers.set_ready("web-rs-new-1")
    await seconds(world, controllers=controllers)
    assert [(outcome.outcome, outcome.without_gap) for outcome in world.outcomes] == [(Outcome.EVICTED, True)]
    assert [pod.metadata.name for pod in controllers.pods] == ["web-rs-new-1"]
    assert world.ledger.surge_moves == ()
    assert [entry.outcome for entry in world.ledger.entries] == [Outcome.EVICTED]


async def test_without_the_setting_a_single_replica_is_protected(world: World) -> None:
    controllers = controllers_of(world)
    await world.start(world.binder())
    await world.propose("web-1")
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.REJECTED_POLICY]
    assert controllers.serving == 1


@pytest.mark.parametrize(
    ("level", "surge", "strategy", "moved"),
    [
        (None, "none", "low_node_load", "evicted"),
        ("off", "always", "low_node_load", "refused"),
        ("scaleDowns", "always", "low_node_load", "refused"),
        ("withoutGap", None, "low_node_load", "begun"),
        ("withoutGap", "none", "low_node_load", "refused"),
        ("withoutGap", "singleReplicas", "low_node_load", "refused"),
        ("withoutGap", "blocked", "low_node_load", "refused"),
        ("withoutGap", None, "level_day", "refused"),
        ("hotNodes", None, "low_node_load", "begun"),
        ("hotNodes", "none", "low_node_load", "evicted"),
        ("hotNodes", "none", "level_day", "refused"),
        ("hotNodes", "none", "another", "refused"),
        ("levelDay", "none", "level_day", "evicted"),
        ("levelDay", "none", "another", "evicted"),
    ],
)
async def test_a_binder_carries_out_only_what_its_own_level_permits(
    world: World, level: MovesLevel | None, surge: SurgeMode | None, strategy: str, moved: str
) -> None:
    """Whatever a descheduler with another configuration proposes."""
    controllers_of(world, 3)
    await world.start(world.binder(level=level, surge=SurgeSettings(mode=surge)))
    await world.propose("web-1", strategy=strategy)
    outcomes = {Outcome.EVICTED: "evicted", Outcome.REJECTED_POLICY: "refused"}
    found = [outcomes[outcome.outcome] for outcome in world.outcomes] + ["begun" for _ in world.ledger.surge_moves]
    assert found == [moved]
    assert moved != "refused" or f"moves.level {level}" in world.outcomes[0].detail


async def test_a_level_that_is_lowered_gives_the_pod_of_an_open_move_back(world: World) -> None:
    controllers = controllers_of(world)
    first = await world.start(world.binder(level="withoutGap"))
    await world.propose("web-1")
    assert len(world.ledger.surge_moves) == 1
    first.cancel()
    await world.start(world.binder(level="off"))
    controllers.synchronize()
    await seconds(world, 20, controllers=controllers)
    (outcome,) = world.outcomes
    assert "moves.level" in outcome.detail
    (pod,) = controllers.pods
    assert pod.metadata.name == "web-1"
    assert world.ledger.surge_moves == ()


async def test_a_pod_whose_replacement_is_not_ready_in_time_is_given_back(world: World) -> None:
    controllers = controllers_of(world)
    await world.start(surging(world))
    await world.propose("web-1")
    controllers.synchronize()
    controllers.bind("web-rs-new-1")
    await seconds(world, 320, controllers=controllers)
    (outcome,) = world.outcomes
    assert outcome.outcome == Outcome.FAILED
    assert "readyTimeout" in outcome.detail
    (pod,) = controllers.pods
    assert (pod.metadata.name, pod.metadata.labels[TEMPLATE_HASH]) == ("web-1", "h1")
    assert pod.metadata.annotations == {}
    assert pod.metadata.controller is not None
    assert world.ledger.surge_moves == ()


@pytest.mark.parametrize(("before", "meanwhile"), [("false", "false"), ("false", "true"), (None, "2h"), (None, "")])
async def test_an_annotation_of_the_owner_against_disruptions_stays_as_it_is(
    world: World, before: str | None, meanwhile: str
) -> None:
    """Also what the owner writes while the pod is detached. `meanwhile`: empty if the owner removes it."""
    controllers = controllers_of(world)
    if before is not None:
        controllers.edit("web-1", annotations={DO_NOT_DISRUPT: before})
    await world.start(surging(world))
    await world.propose("web-1")
    (pod,) = controllers.pods
    assert pod.metadata.annotations[DO_NOT_DISRUPT] == (before or "true")
    controllers.edit("web-1", annotations={DO_NOT_DISRUPT: meanwhile})
    controllers.synchronize()
    await seconds(world, 320, controllers=controllers)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.FAILED]
    (pod,) = controllers.pods
    assert pod.metadata.annotations == ({DO_NOT_DISRUPT: meanwhile} if meanwhile else {})


ZONES = ("node-a", "node-b", "node-c")
SPREAD = TopologySpreadConstraint(topology_key="zone", label_selector=WEB, max_skew=1)


async def in_zones(world: World) -> None:
    """Each node is a zone of its own."""
    for node in ZONES:
        pods = [a_placed_pod(f"{node}-{number}") for number in range(10)]
        placement = a_placement(node, pods, labels={"zone": node}, sequence=2)
        await world.bus.publish(subjects.node_placement(node), placement)


async def test_a_replacement_that_would_violate_the_spread_of_the_workload_is_given_up(world: World) -> None:
    """Zones with 1, 1 and 1 pods: beside the pod any zone is allowed, but 0, 2 and 1 pods would remain."""
    controllers = controllers_of(world, 3, ZONES, topology_spread_constraints=[SPREAD])
    await in_zones(world)
    await world.start(surging(world, "always"))
    await world.propose("web-1")
    controllers.synchronize()
    controllers.bind("web-rs-new-1", "node-b")
    await seconds(world, 4, controllers=controllers, serving=3)
    (outcome,) = world.outcomes
    assert outcome.outcome == Outcome.FAILED
    assert "the replacement runs on node-b: node(s) didn't match pod topology spread constraints" in outcome.detail
    assert sorted(pod.spec.node_name for pod in controllers.pods) == list(ZONES)


async def test_a_replacement_that_is_ready_before_it_is_judged_is_kept(world: World) -> None:
    """Beside it, a restored pod might be the one that the ReplicaSet deletes. The outcome states it."""
    controllers = controllers_of(world, 3, ZONES, topology_spread_constraints=[SPREAD])
    await in_zones(world)
    await world.start(surging(world, "always"))
    await world.propose("web-1")
    controllers.synchronize()
    controllers.bind("web-rs-new-1", "node-b")
    controllers.set_ready("web-rs-new-1")
    await seconds(world, controllers=controllers, serving=3)
    (outcome,) = world.outcomes
    assert outcome.outcome == Outcome.EVICTED
    assert "although its replacement runs on node-b" in outcome.detail


async def test_a_replacement_on_another_node_than_the_target_is_judged_as_a_target(world: World) -> None:
    """Here the node is hotter than the one that the pod leaves."""
    controllers = controllers_of(world)
    await world.start(surging(world))
    await world.propose("web-1")
    hot = a_node_utilization("node-c", cpu=9.5, sampled_at=NOW, queried_at=NOW + 1, sequence=2)
    await world.bus.publish(subjects.node_utilization("node-c"), hot)
    controllers.synchronize()
    controllers.bind("web-rs-new-1", "node-c")
    await seconds(world, 4, controllers=controllers)
    (outcome,) = world.outcomes
    assert "the replacement runs on node-c" in outcome.detail
    assert "high threshold" in outcome.detail


REMOVED = Taint(key="ToBeDeletedByClusterAutoscaler", effect="NoSchedule")
EMPTIED = {"cordoned": NodeSpec(unschedulable=True), "removed": NodeSpec(taints=[REMOVED]), "deleted": None}


def empty(world: World, how: str) -> None:
    """Announces that all pods of node-a leave it, or deletes it."""
    spec = EMPTIED[how]
    if spec is None:
        world.kube.remove(NODES, "node-a", "")
    else:
        world.kube.put(NODES, Node(metadata=ObjectMeta(name="node-a"), spec=spec))


@pytest.mark.parametrize("how", EMPTIED)
async def test_a_move_ends_within_ten_seconds_when_the_node_of_its_pod_is_emptied(world: World, how: str) -> None:
    """The detached pod would stop `kubectl drain`, and keep an autoscaler from removing the node."""
    controllers = controllers_of(world)
    await world.start(surging(world))
    await world.propose("web-1")
    controllers.synchronize()
    controllers.bind("web-rs-new-1")
    await seconds(world, 20, controllers=controllers)
    empty(world, how)
    await seconds(world, 10, controllers=controllers)
    (outcome,) = world.outcomes
    assert outcome.outcome == Outcome.FAILED
    assert "node node-a: " in outcome.detail
    (pod,) = controllers.pods
    assert (pod.metadata.name, pod.metadata.controller is not None) == ("web-1", True)


@pytest.mark.parametrize("how", EMPTIED)
async def test_a_move_whose_replacement_is_ready_is_finished_when_the_node_is_emptied(world: World, how: str) -> None:
    """Also before the replacement has been ready for `minReadySeconds`."""
    controllers = controllers_of(world)
    deployment = controllers.deployment
    assert deployment is not None
    controllers.put_deployment(replace(deployment, spec=replace(deployment.spec, min_ready_seconds=600)))
    await world.start(surging(world))
    await world.propose("web-1")
    controllers.synchronize()
    controllers.bind("web-rs-new-1")
    controllers.set_ready("web-rs-new-1")
    await seconds(world, 20, controllers=controllers)
    assert world.outcomes == []
    empty(world, how)
    await seconds(world, 10, controllers=controllers)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED]


@pytest.mark.parametrize("how", ["cordoned", "removed"])
async def test_no_move_begins_on_a_node_that_is_emptied(world: World, how: str) -> None:
    controllers = controllers_of(world)
    empty(world, how)
    await world.start(surging(world))
    await world.propose("web-1")
    (outcome,) = world.outcomes
    assert outcome.outcome == Outcome.REJECTED_POLICY
    assert "cannot be moved without a gap: node is" in outcome.detail
    assert controllers.serving == 1


async def test_a_pod_whose_annotation_somebody_removed_is_named_until_it_can_be_evicted(world: World) -> None:
    """The admission policy does not permit the binder to restore it."""
    controllers = controllers_of(world)
    await world.start(surging(world))
    await world.propose("web-1")
    controllers.edit("web-1", annotations={DETACHED_HASH: ""})
    controllers.synchronize()
    controllers.bind("web-rs-new-1")
    await seconds(world, 320, controllers=controllers)
    assert world.outcomes == []
    assert "kubectl label pod --overwrite --namespace shop web-1 pod-template-hash=h1" in str(world.health.problems)
    controllers.set_ready("web-rs-new-1")
    await seconds(world, controllers=controllers)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED]
    await seconds(world, 2)
    assert "moves without a gap wait" not in str(world.health.problems)


SWITCHED_OFF: dict[str, dict[str, Any]] = {
    "dry runs": {"evict": False, "surge": SurgeSettings(mode="always")},
    "none": {"surge": SurgeSettings(mode="none")},
}


@pytest.mark.parametrize("how", SWITCHED_OFF)
@pytest.mark.parametrize("ready", [False, True])
async def test_a_switch_off_leaves_no_detached_pod_behind(world: World, how: str, ready: bool) -> None:
    """A pod without a ready replacement is given back at once. Otherwise the move is finished."""
    controllers = controllers_of(world)
    first = await world.start(surging(world))
    await world.propose("web-1")
    await stopped(first)
    controllers.synchronize()
    controllers.bind("web-rs-new-1")
    controllers.set_ready("web-rs-new-1", ready)
    await world.start(world.binder(**SWITCHED_OFF[how]))
    await seconds(world, controllers=controllers)
    (outcome,) = world.outcomes
    assert outcome.outcome == (Outcome.EVICTED if ready else Outcome.FAILED)
    assert not outcome.dry_run
    (pod,) = controllers.pods
    assert (pod.metadata.name == "web-1") != ready
    assert pod.metadata.controller is not None
    assert world.ledger.surge_moves == ()


async def stopped(binder: asyncio.Task[None]) -> None:
    binder.cancel()
    with suppress(asyncio.CancelledError):
        await binder


async def test_a_pod_is_not_detached_on_reads_that_are_too_old_and_its_intent_is_decided_again(world: World) -> None:
    """The response to the reservation is three seconds late. No pod of the intent is blocked by it."""
    controllers = controllers_of(world)
    slow = SlowWrites(world, 3.0)
    await world.start(world.binder(kube=slow, surge=SurgeSettings(mode="always")))  # type: ignore[arg-type]
    await world.propose("web-1")
    await seconds(world, 7, controllers=controllers)
    assert (world.ledger.surge_moves, world.ledger.entries, world.outcomes) == ((), (), [])
    slow.seconds = 0.0
    await seconds(world, 40, controllers=controllers)
    assert [move.intent.pod for move in world.ledger.surge_moves] == ["web-1"]


async def test_a_pod_whose_label_was_not_removed_may_be_moved_at_once(world: World) -> None:
    """The API server refuses the request; the move has failed, and counts in no limit."""
    controllers = controllers_of(world)
    await world.start(surging(world))
    world.kube.faults.fail_next("annotate", resource="pods", status=403)
    await world.propose("web-1")
    await seconds(world, controllers=controllers)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.FAILED]
    await world.propose("web-1", id="intent-2")
    await seconds(world, 1, controllers=controllers)
    assert [move.intent.id for move in world.ledger.surge_moves] == ["intent-2"]


async def test_a_request_that_arrives_late_leaves_no_pod_without_owner(world: World) -> None:
    """The binder got no response in time; half a minute later, the API server executes the request after all."""
    controllers = controllers_of(world)
    await world.start(surging(world))
    world.kube.faults.fail_next("annotate", resource="pods", status=0)
    await world.propose("web-1")
    await seconds(world, 30, controllers=controllers)
    controllers.detach("web-1")
    await seconds(world, 5, controllers=controllers)
    for pod in controllers.pods:
        controllers.bind(pod.metadata.name)
        controllers.set_ready(pod.metadata.name)
    await seconds(world, controllers=controllers)
    assert [(outcome.outcome, outcome.without_gap) for outcome in world.outcomes] == [(Outcome.EVICTED, True)]
    assert [pod.metadata.name for pod in controllers.pods] == ["web-rs-new-1"]


async def test_a_pod_that_was_reserved_for_an_eviction_is_not_evicted_when_it_must_be_moved(world: World) -> None:
    """The workload was scaled to one replica since; the binder that has reserved it has crashed."""
    controllers = controllers_of(world, 1)
    entry = an_entry(outcome=None, settled_at=None)
    world.write_ledger(encode(replace(world.ledger, entries=(entry,))))
    await world.start(surging(world))
    await world.propose("web-1")
    await seconds(world, 20, controllers=controllers)
    assert controllers.pod("web-1") is not None


async def test_a_pod_that_its_budget_protects_moves_when_the_budget_allows_it(world: World) -> None:
    controllers = controllers_of(world, 3)
    put_budget(world, 0)
    await world.start(surging(world, "blocked"))
    await world.propose("web-1")
    controllers.synchronize()
    controllers.bind("web-rs-new-1")
    controllers.set_ready("web-rs-new-1")
    await seconds(world, 20, controllers=controllers, serving=3)
    assert world.outcomes == []
    assert "PodDisruptionBudget shop/web refused lately" in str(world.health.problems)
    put_budget(world, 1)
    await seconds(world, 20, controllers=controllers, serving=3)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED]


async def test_a_budget_that_is_left_of_a_deleted_deployment_is_named(world: World) -> None:
    """Nothing else shows why the pod remains: the Deployment is gone, with all its other pods.

    The eviction is requested again after 10, 20 and 40 s, as any other that a budget blocks.
    """
    controllers = controllers_of(world, 3)
    put_budget(world, 0)
    await world.start(surging(world, "blocked"))
    await world.propose("web-1")
    controllers.synchronize()
    for pod in ("web-2", "web-3", "web-rs-new-1"):
        world.kube.remove(PODS, pod, "shop")
    world.kube.remove(REPLICA_SETS, "web-rs", "shop")
    world.kube.remove(DEPLOYMENTS, "web", "shop")
    for _ in range(12):
        await seconds(world)
        assert "Its Deployment was deleted: delete the budget, or the pod" in str(world.health.problems)
    assert controllers.pod("web-1") is not None
    assert [eviction.status for eviction in world.kube.evictions] == [429] * 4
    world.kube.remove(BUDGETS, "web", "shop")
    await seconds(world, 90)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED]


@pytest.mark.parametrize(("mode", "moved"), [("singleReplicas", False), ("blocked", False), ("always", True)])
async def test_a_pod_that_may_be_evicted_at_once_is_moved_only_if_all_are(
    world: World, mode: SurgeMode, moved: bool
) -> None:
    controllers_of(world, 3)
    put_budget(world, 1)
    await world.start(surging(world, mode))
    await world.propose("web-1")
    assert bool(world.ledger.surge_moves) == moved
    assert [outcome.without_gap for outcome in world.outcomes] == ([] if moved else [False])


async def test_a_dry_run_detaches_no_pod(world: World) -> None:
    controllers = controllers_of(world)
    await world.start(world.binder(evict=False, surge=SurgeSettings(mode="always")))
    await world.propose("web-1")
    assert [(outcome.outcome, outcome.without_gap) for outcome in world.outcomes] == [(Outcome.DRY_RUN, True)]
    pod = controllers.pod("web-1")
    assert pod is not None
    assert TEMPLATE_HASH in pod.metadata.labels
    assert world.ledger.surge_moves == ()


async def test_a_pause_lets_an_open_move_end(world: World) -> None:
    controllers = controllers_of(world)
    await world.start(surging(world))
    await world.propose("web-1")
    await pause(world.kube, OWN, "")
    controllers.synchronize()
    controllers.bind("web-rs-new-1")
    controllers.set_ready("web-rs-new-1")
    await seconds(world, 15, controllers=controllers)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED]


async def test_a_binder_works_on_no_intent_before_the_policy_restricts_what_it_detaches(world: World) -> None:
    """The policy refuses an Event of one name."""
    world.kube.as_service_account = True
    denied = "ValidatingAdmissionPolicy '{}' denied request"
    policies = (("equipoise-binder-fence", PROBE), ("equipoise-surge-fence", SURGE_PROBE))
    await world.start(surging(world))
    for policy, probe in policies:
        await world.propose("web-1")
        assert f"the admission policy {policy}" in str(world.health.problems)
        assert world.outcomes == []
        world.kube.fail_next(
            "create", status=422, message=denied.format(policy), resource="events", name=probe, times=None
        )
        await world.clock.advance(RETRY_PERIOD)
    await world.clock.advance(2.0)
    assert "fence" not in str(world.health.problems)
    assert len(world.outcomes) == 1


async def test_a_heartbeat_names_the_pods_of_open_moves(world: World) -> None:
    """Also of a pause, and of a binder that no longer begins any. The descheduler keeps their approvals."""
    controllers = controllers_of(world)
    await world.start(surging(world))
    await world.propose("web-1")
    pod = controllers.pod("web-1")
    assert pod is not None
    assert world.health.surge_pods == (pod.metadata.uid,)
    await pause(world.kube, OWN, "maintenance")
    await world.start(world.binder())
    assert world.health.evictions.startswith("paused")
    assert world.health.surge_pods == (pod.metadata.uid,)
    await end_moves(world, controllers)
    await world.clock.advance(10)
    assert world.health.surge_pods == ()


async def test_no_more_pods_are_detached_at_the_same_time_than_allowed(world: World) -> None:
    """An intent whose samples will be too old at the next attempt is refused."""
    controllers_of(world, 3)
    await world.start(world.binder(surge=SurgeSettings(mode="always"), limits=MANY_OF_A_WORKLOAD))
    await world.propose("web-1")
    await world.propose("web-2", sampled_at=world.clock.now() - 100)
    assert ["a pod of Deployment/shop/web is being moved without a gap"] == [each.detail for each in world.outcomes]
    assert [Outcome.REJECTED_LIMIT] == [each.outcome for each in world.outcomes]
    assert len(world.ledger.surge_moves) == 1


async def test_an_intent_that_waits_for_another_move_reads_no_workload_of_open_moves(world: World) -> None:
    """Only its own, to know that it waits for nothing else."""
    controllers_of(world, 3)
    await world.start(world.binder(surge=SurgeSettings(mode="always", max_moves=1), limits=MANY_OF_A_WORKLOAD))
    await world.propose("web-1")
    world.kube.calls.clear()
    await world.propose("web-2")
    assert [call.resource for call in world.kube.calls].count("deployments") == 1
    assert [move.intent.pod for move in world.ledger.surge_moves] == ["web-1"]


async def test_a_move_that_waits_for_another_begins_when_that_has_ended(world: World) -> None:
    controllers = controllers_of(world, 3)
    await world.start(world.binder(surge=SurgeSettings(mode="always"), limits=MANY_OF_A_WORKLOAD))
    await world.propose("web-1", "web-2")
    (first,) = world.ledger.surge_moves
    await seconds(world, 1, controllers=controllers)
    controllers.bind("web-rs-new-1", first.intent.node)  # the node that the pod was to leave: it is restored
    await seconds(world, 100, controllers=controllers)
    assert [first.intent.pod] == [outcome.pod for outcome in world.outcomes]
    assert {"web-1", "web-2"} == {first.intent.pod, *(move.intent.pod for move in world.ledger.surge_moves)}


async def test_a_pod_that_another_binder_evicts_meanwhile_is_reported_as_evicted(world: World) -> None:
    """This one has read the stage before the other one wrote the next, and the pod after its eviction."""
    controllers_of(world)
    await world.start(surging(world))
    await world.propose("web-1")

    async def other_binder_evicts(call: Call) -> None:
        (move,) = world.ledger.surge_moves or (None,)
        if (
            move is not None
            and move.stage == DETACHED
            and (call.verb, call.resource, call.name) == ("get", "pods", "web-1")
        ):
            ledger = world.ledger.with_surge_move(with_stage(move, READY, world.clock.now()))
            world.write_ledger(msgspec.json.encode(ledger).decode())
            world.kube.remove(PODS, "web-1", "shop")

    world.kube.on_call = other_binder_evicts
    await seconds(world, 5)
    assert [Outcome.EVICTED] == [outcome.outcome for outcome in world.outcomes]


async def end_moves(world: World, controllers: Controllers) -> None:
    """Lets every replacement become ready."""
    for _ in range(4):
        await seconds(world, 20, controllers=controllers)
        for pod in controllers.pods:
            controllers.bind(pod.metadata.name)
            controllers.set_ready(pod.metadata.name)


async def test_a_binder_that_crashes_at_any_request_leaves_a_move_that_another_one_ends() -> None:
    """Takes seconds: the first binder stops before or after each of its requests in turn, and resumes at the end."""
    for stop_at in range(1, 400):
        world = World()
        await world.populate()
        controllers = controllers_of(world)
        steps = Steps(stop_at)
        kube, bus = SteppingKube(world.kube, steps), SteppingBus(world.bus, steps)  # type: ignore[arg-type]
        await world.start(world.binder(kube=kube, bus=bus, surge=SurgeSettings(mode="always")))  # type: ignore[arg-type]
        steps.armed = True
        await world.propose("web-1")
        for second in range(12):
            await seconds(world, 1, controllers=controllers)
            if second == 5:
                for pod in controllers.pods:
                    controllers.bind(pod.metadata.name)
                    controllers.set_ready(pod.metadata.name)
        if not steps.stopped_at:
            await world.stop()
            assert stop_at > 40
            return
        await world.start(surging(world, "always"))
        await end_moves(world, controllers)
        assert world.ledger.surge_moves == (), steps.stopped_at
        steps.go.set()
        await end_moves(world, controllers)  # the first binder may begin only now
        assert world.ledger.surge_moves == (), steps.stopped_at
        assert all(pod.metadata.controller is not None for pod in controllers.pods), steps.stopped_at
        assert len(world.outcomes) <= 1, steps.stopped_at
        await world.stop()
    pytest.fail("the path has more requests than the test tries")
