"""Live reads of the objects that decide about a move without a gap."""

import asyncio

from equipoise.binder.decisions.surge.observation import ObservedMove, node_leaving
from equipoise.binder.state.surge_move import SurgeMove
from equipoise.contracts.eviction.candidate import Candidate
from equipoise.contracts.eviction.surge import SurgeCandidate
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.runtime.kubernetes.client import (
    BUDGETS,
    DEPLOYMENTS,
    NODES,
    PODS,
    QUOTAS,
    REPLICA_SETS,
    SERVICES,
    Kube,
    UnreadableObject,
    find,
)


async def read_surge_candidate(kube: Kube, candidate: Candidate) -> SurgeCandidate:
    """The candidate with the objects of its namespace. Raises KubeError."""
    namespace = candidate.pod.metadata.namespace
    services, budgets, quotas, leaving = await asyncio.gather(
        kube.list(SERVICES, namespace),
        kube.list(BUDGETS, namespace),
        kube.list(QUOTAS, namespace),
        read_leaving(kube, candidate.pod.spec.node_name),
    )
    return SurgeCandidate(candidate=candidate, services=services, budgets=budgets, quotas=quotas, leaving=leaving)


async def read_move(kube: Kube, move: SurgeMove) -> ObservedMove:
    """What the API server shows of a move. Raises KubeError: while an object cannot be read, nothing is done."""
    namespace, workload = move.intent.namespace, move.workload
    pod, deployment, replica_set, leaving = await asyncio.gather(
        find(kube, PODS, move.intent.pod, namespace),
        find(kube, DEPLOYMENTS, workload.name, namespace),
        find(kube, REPLICA_SETS, move.replica_set, namespace),
        read_leaving(kube, move.intent.node),
    )
    owner = deployment or replica_set
    return ObservedMove(
        pod=pod,
        deployment=deployment,
        replica_set=replica_set,
        siblings=() if owner is None else await _siblings(kube, move, owner, deployment),
        leaving=leaving,
    )


async def read_leaving(kube: Kube, node: str) -> str:
    """Why all pods of the node are about to leave it; empty if they are not. Raises KubeError."""
    try:
        return node_leaving(await find(kube, NODES, node))
    except UnreadableObject:  # it is not known, and the move can end without it
        return ""


async def _siblings(
    kube: Kube, move: SurgeMove, owner: WorkloadObject, deployment: WorkloadObject | None
) -> tuple[Pod, ...]:
    """The pods of the ReplicaSets of the Deployment, or of its former ReplicaSet, without the one that is moved."""
    selector = owner.spec.selector
    wanted = {} if selector is None else selector.match_labels
    pods = await kube.list(PODS, move.intent.namespace, ",".join(f"{key}={value}" for key, value in wanted.items()))
    owned: dict[str, bool] = {}
    for name in {pod.metadata.controller.name for pod in pods if pod.metadata.controller is not None}:
        replica_set = await find(kube, REPLICA_SETS, name, move.intent.namespace)
        owned[name] = replica_set is not None and _belongs(replica_set, move, deployment)
    return tuple(
        pod
        for pod in pods
        if pod.metadata.uid != move.intent.pod_uid
        and pod.metadata.controller is not None
        and pod.metadata.controller.kind == "ReplicaSet"
        and owned[pod.metadata.controller.name]
    )


def _belongs(replica_set: WorkloadObject, move: SurgeMove, deployment: WorkloadObject | None) -> bool:
    if deployment is None:
        return replica_set.metadata.name == move.replica_set
    controller = replica_set.metadata.controller
    return controller is not None and controller.uid == deployment.metadata.uid
