"""Which pods an evaluation moves without a gap, and how `equipoise plan` shows them."""

import asyncio
from typing import Any

import msgspec
import pytest
from builders import NOW, a_workload
from descheduler.cluster import Cluster, a_workload_object
from descheduler.snapshots import RULES, a_pod, a_snapshot, evaluation_settings, owners_of

from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.moves import MovesLevel
from equipoise.contracts.configuration.surge import SurgeMode, SurgeSettings
from equipoise.contracts.eviction.surge import SURGE_OPT_OUT, TEMPLATE_HASH
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, ObjectMeta
from equipoise.contracts.kubernetes.objects.workload import (
    DeploymentStrategy,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    RollingUpdateOfDeployment,
    WorkloadSpec,
)
from equipoise.contracts.messages.plan import PlanRequest, PlanResponse
from equipoise.descheduler.decisions.cluster_node import MovablePod
from equipoise.descheduler.state.cluster_builder import ClusterBuilder
from equipoise.runtime.kubernetes.client import DEPLOYMENTS, PODS, REPLICA_SETS

replace = msgspec.structs.replace
SELECTOR = LabelSelector(match_labels={"app": "web"})
BLOCKING = PodDisruptionBudget(
    metadata=ObjectMeta(name="web", namespace="shop"),
    spec=PodDisruptionBudgetSpec(selector=SELECTOR),
    status=PodDisruptionBudgetStatus(disruptions_allowed=0),
)


def movable(
    mode: SurgeMode,
    replicas: int,
    *budgets: PodDisruptionBudget,
    level: MovesLevel | None = None,
    **metadata: Any,
) -> MovablePod:
    """A pod of a Deployment whose rollouts surge, as strategies see it."""
    owners = owners_of("web", replicas=replicas)
    strategy = DeploymentStrategy(type="RollingUpdate", rolling_update=RollingUpdateOfDeployment(max_surge=1))
    deployment, replica_set = a_workload(), a_workload("web-1", kind="ReplicaSet")
    owners[deployment] = replace(owners[deployment], spec=replace(owners[deployment].spec, strategy=strategy))
    selected = LabelSelector(match_labels={"app": "web", TEMPLATE_HASH: "h1"})
    spec = replace(owners[replica_set].spec, selector=selected)
    owners[replica_set] = replace(owners[replica_set], spec=spec)
    pod = a_pod()
    pod = replace(pod, metadata=replace(pod.metadata, labels={"app": "web", TEMPLATE_HASH: "h1"}, **metadata))
    snapshot = a_snapshot(pod, owners=owners, now=NOW)
    snapshot = replace(snapshot, watched=replace(snapshot.watched, budgets=budgets))
    settings = replace(evaluation_settings(), rules=replace(RULES, surge=mode, level=level))
    node = next(node for node in ClusterBuilder(snapshot, settings).cluster().nodes if node.name == "node-a")
    (found,) = node.pods
    return found


@pytest.mark.parametrize(
    ("pod", "why", "without_gap"),
    [
        (movable("none", 1), "1 replica(s)", False),
        (movable("singleReplicas", 1), "", True),
        (movable("singleReplicas", 1, BLOCKING), "", True),
        (movable("singleReplicas", 3), "", False),
        (movable("singleReplicas", 3, BLOCKING), "allows no disruption", False),
        (movable("blocked", 3), "", False),
        (movable("blocked", 3, BLOCKING), "", True),
        (movable("always", 3), "", True),
        (movable("always", 1, annotations={SURGE_OPT_OUT: "false"}), "cannot be moved without a gap", False),
        (movable("always", 1, BLOCKING, BLOCKING), "more than one PodDisruptionBudget", False),
        (movable("always", 3, level="withoutGap"), "", True),
        (movable("singleReplicas", 1, level="withoutGap"), "", True),
        (movable("singleReplicas", 3, level="withoutGap"), "no eviction before the replacement is ready", False),
        (movable("blocked", 3, level="withoutGap"), "no eviction before the replacement is ready", False),
        (movable("none", 3, level="withoutGap"), "no eviction before the replacement is ready", False),
        (movable("always", 3, level="withoutGap", annotations={SURGE_OPT_OUT: "false"}), "annotation", False),
        (movable("none", 3, level="hotNodes"), "", False),
    ],
)
def test_a_pod_is_not_protected_by_what_a_move_without_a_gap_keeps(
    pod: MovablePod, why: str, without_gap: bool
) -> None:
    """Neither by `protection.minReplicas` nor by a budget that allows no disruption, if its mode includes the pod.

    At the level `withoutGap`, every other pod is protected.
    """
    assert why in pod.protection
    assert bool(pod.protection) == bool(why)
    assert pod.without_gap == without_gap


@pytest.mark.parametrize("mode", [None, "none", "singleReplicas"])
async def test_single_replicas_are_proposed_where_they_are_moved_without_a_gap(mode: SurgeMode | None) -> None:
    """And the plan states it, also for a level that is not the configured one."""
    cluster = Cluster()
    cluster.hot_and_idle()
    labels = {TEMPLATE_HASH: "h1"}
    strategy = DeploymentStrategy(type="RollingUpdate", rolling_update=RollingUpdateOfDeployment(max_surge=1))
    for number in range(8):
        cluster.kube.put(DEPLOYMENTS, a_workload_object(f"app{number}", 1, spec=WorkloadSpec(strategy=strategy)))
    for replica_set in cluster.kube.stored(REPLICA_SETS):
        spec = replace(replica_set.spec, selector=LabelSelector(match_labels=labels))
        cluster.kube.put(REPLICA_SETS, replace(replica_set, spec=spec))
    for pod in cluster.kube.stored(PODS):
        cluster.kube.put(PODS, replace(pod, metadata=replace(pod.metadata, labels=pod.metadata.labels | labels)))
    async with cluster.bus:
        descheduler = cluster.descheduler(surge=SurgeSettings(mode=mode))
        await descheduler.attach()
        await cluster.measure()
        task = asyncio.create_task(descheduler.run())
        await cluster.pass_time(30.0)
        plan = await cluster.bus.request(subjects.PLAN_PREVIEW, PlanRequest(), PlanResponse, timeout=5.0)
        request = PlanRequest(level="withoutGap")
        at_level = await cluster.bus.request(subjects.PLAN_PREVIEW, request, PlanResponse, timeout=5.0)
        await cluster.pass_time(4 * 120.0)
        task.cancel()
        await asyncio.wait([task])
    assert bool(cluster.intents) == (mode == "singleReplicas")
    assert bool(plan.moves) == (mode == "singleReplicas")
    assert all(move.without_gap for move in (*plan.moves, *cluster.intents))
    assert bool(at_level.moves) == (mode != "none"), "the level permits no more than surge.mode"
