"""What the API server shows of a move without a gap."""

from datetime import UTC, datetime

import msgspec

from equipoise.binder.state.surge_move import SurgeMove, restore_commands
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.contracts.eviction.node_eligibility import leaving_reason
from equipoise.contracts.eviction.protection import cannot_create
from equipoise.contracts.eviction.surge import TEMPLATE_HASH
from equipoise.contracts.kubernetes.labels import selects
from equipoise.contracts.kubernetes.nodes.occupied_nodes import FINISHED
from equipoise.contracts.kubernetes.objects.metadata import ready_condition
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject

_REVISION = "deployment.kubernetes.io/revision"
"""The annotation that the newest ReplicaSet of a Deployment has in common with it."""


class ObservedMove(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of a move, all read within `MAX_READ_AGE`."""

    pod: Pod | None
    """The pod with the name of the one that is moved; None if there is none."""

    deployment: WorkloadObject | None
    """None if it was deleted."""

    replica_set: WorkloadObject | None
    """The ReplicaSet that had the pod; None if it was deleted."""

    siblings: tuple[Pod, ...] = ()
    """The pods of all ReplicaSets of the Deployment, without the one that is moved."""

    leaving: str = ""
    """Why all pods of the node are about to leave it; empty if they are not. The detached pod would be in the way."""

    switched_off: str = ""
    """Why the configuration has no moves without a gap any more; empty if it has."""

    misplaced: str = ""
    """Why a replacement that has just been bound should not run on its node; empty if it may."""


def needed_pods(move: SurgeMove, observed: ObservedMove) -> int:
    """The number of ready pods that the workload must have without the one that is moved.

    Replicas that were added since need no eviction to wait for them: the pod replaces none of these. The ReplicaSet of
    a Deployment that was deleted with `--cascade=orphan` keeps its pods.
    """
    workload = remaining_workload(observed)
    if workload is None:
        return 0
    return min(_replicas(workload), move.replicas)


def _replicas(workload: WorkloadObject) -> int:
    return 1 if workload.spec.replicas is None else workload.spec.replicas


def remaining_workload(observed: ObservedMove) -> WorkloadObject | None:
    """The Deployment, or the ReplicaSet that is left of it; None if both are deleted."""
    workload = observed.deployment or observed.replica_set
    return None if workload is None or workload.metadata.deletion_timestamp is not None else workload


def node_leaving(node: Node | None) -> str:
    """Why all pods of a node are about to leave it; empty if they are not. None: the node was deleted."""
    if node is None:
        return "node was deleted"
    return leaving_reason(cordoned=node.spec.unschedulable, taints=node.spec.taints)


def ready_pods(observed: ObservedMove, now: float, period: float = 0.0) -> int:
    """The number of siblings that have been ready for this time, in seconds."""
    return sum(is_available(pod, period, now) for pod in observed.siblings)


def required_period(observed: ObservedMove) -> float:
    """The seconds for which a replacement must have been ready: `minReadySeconds` of the workload. 0 on a node that is
    being emptied, where the pod would be evicted anyway."""
    workload = observed.deployment or observed.replica_set
    return 0.0 if workload is None or observed.leaving else float(workload.spec.min_ready_seconds)


def is_available(pod: Pod, period: float, now: float) -> bool:
    """Whether the pod does not terminate and has been ready for `period` seconds."""
    ready = ready_condition(pod.status.conditions)
    if pod.metadata.deletion_timestamp is not None or ready is None or ready.status != "True":
        return False
    since = ready.last_transition_time
    return period <= 0 or (since is not None and since.timestamp() + period <= now)


def replacement_of(move: SurgeMove, observed: ObservedMove) -> Pod | None:
    """The newest pod of the ReplicaSet, once it has all of its pods. Before, the replacement is not created yet, and
    the newest pod is one that ran already."""
    replica_set = observed.replica_set
    pods = [
        pod
        for pod in observed.siblings
        if (owner := pod.metadata.controller) is not None
        and owner.name == move.replica_set
        and pod.metadata.deletion_timestamp is None
        and pod.status.phase not in FINISHED
    ]
    if replica_set is None or len(pods) < _replicas(replica_set):
        return None
    return max(pods, key=lambda pod: (pod.metadata.creation_timestamp or _EPOCH, pod.metadata.name), default=None)


def placed_replacement(move: SurgeMove, observed: ObservedMove) -> Pod | None:
    """The replacement if it is bound, and the ledger does not have it on this node; else None."""
    pod = replacement_of(move, observed)
    if pod is None or not pod.spec.node_name:
        return None
    known = (move.replacement, move.replacement_node) == (pod.metadata.name, pod.spec.node_name)
    return None if known else pod


_EPOCH = datetime.fromtimestamp(0, UTC)


def is_rolling_out(observed: ObservedMove) -> bool:
    """Whether the ReplicaSet of the pod is not the newest of its Deployment, or may soon not be.

    A ReplicaSet that is scaled down may delete any of its ready pods, a restored one included.
    """
    deployment, replica_set = observed.deployment, observed.replica_set
    if replica_set is None:
        return True
    if deployment is None:
        return False
    if deployment.status.observed_generation < deployment.metadata.generation:
        return True
    newest, own = (each.metadata.annotations.get(_REVISION) for each in (deployment, replica_set))
    return newest != own


def restoring_problem(move: SurgeMove, observed: ObservedMove) -> str:
    """Why the pod cannot be given back to its ReplicaSet, and what a person can do; empty if it can.

    The owner of the pod can change its labels and annotations at any time. The admission policy permits the binder to
    write back only the value that the annotation has.
    """
    pod, replica_set, intent = observed.pod, observed.replica_set, move.intent
    if pod is None or replica_set is None:
        return ""
    labels = pod.metadata.labels
    if not selects(replica_set.spec.selector, {**labels, TEMPLATE_HASH: move.template_hash}):
        return (
            f"ReplicaSet {move.replica_set} does not select its labels any more. When the workload is ready without "
            f"it: kubectl delete pod --namespace {intent.namespace} {intent.pod}"
        )
    written = pod.metadata.annotations.get(DETACHED_HASH) == move.template_hash
    if written or labels.get(TEMPLATE_HASH) == move.template_hash:
        return ""
    return (
        f"its annotation {DETACHED_HASH} was removed or edited. To give it back to its ReplicaSet: "
        f"{restore_commands(move)}"
    )


def creation_problem(observed: ObservedMove) -> str:
    """Why the ReplicaSet cannot create the replacement; empty if it can."""
    return "" if observed.replica_set is None else cannot_create(observed.replica_set)
