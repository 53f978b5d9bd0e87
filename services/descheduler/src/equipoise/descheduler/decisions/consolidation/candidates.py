"""Nodes that are not emptied, whatever they and others use."""

from collections.abc import Iterator, Sequence

from equipoise.contracts.eviction.opt_out import DO_NOT_DISRUPT
from equipoise.contracts.eviction.protection import MIRROR
from equipoise.contracts.kubernetes.nodes.consolidation_taint import is_consolidation
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.plain_text import plain_text
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod
from equipoise.descheduler.decisions.consolidation.consolidation_settings import Consolidation

SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
DO_NOT_CONSOLIDATE = "karpenter.sh/do-not-consolidate"
"""The annotation of older versions of Karpenter."""

CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")

_OF_NODES = ("DaemonSet", "Node")
_FORBIDDING = (SCALE_DOWN_DISABLED, DO_NOT_DISRUPT, DO_NOT_CONSOLIDATE)
_VALUE_LIMIT = 40


def removal_obstacle(node: ClusterNode, settings: Consolidation, now: float) -> str:
    """Why a node is not to be removed, by its object and its known load; empty if it may be."""
    if not settings.node_selector.matches(node.labels):
        return "the nodeSelector of consolidation does not select it"
    if settled := permanent_obstacle(node):
        return settled
    if why := node.unknown or node.source_refusal or node.target_refusal:
        return why
    created = node.object.metadata.creation_timestamp
    if created is None:
        return "its age is not known"
    if abs(now - created.timestamp()) < settings.min_age:
        return f"it is younger than {settings.min_age} (minAge): an autoscaler has just added it"
    return ""


def permanent_obstacle(node: ClusterNode) -> str:
    """Why nobody wants a node to be removed, whatever its state; empty if nothing is known."""
    taints = {taint.key for taint in node.object.spec.taints}
    if any(key in node.labels or key in taints for key in CONTROL_PLANE):
        return "it is a node of the control plane"
    annotations = node.object.metadata.annotations
    for name in _FORBIDDING:
        value = annotations.get(name)
        if value is not None and value.strip().lower() != "false":
            return f'annotation {name}="{plain_text(value, _VALUE_LIMIT)}" forbids its removal'
    return ""


def pods_to_move(node: ClusterNode) -> Iterator[MovablePod]:
    """The pods that must leave before the node is empty: all but those that end with it, terminate or leave already."""
    going = set(node.going)
    for pod in node.pods:
        if not (pod.belongs_to_node or pod.info.terminating or pod.uid in going):
            yield pod


def count_of_pods_to_move(node: ClusterNode) -> int:
    """The number of `pods_to_move`, without evaluating whether each may be moved."""
    going = set(node.going)
    return sum(not (info.terminating or info.uid in going or _ends_with_node(info.pod)) for info in node.occupying)


def _ends_with_node(pod: Pod) -> bool:
    controller = pod.metadata.controller
    return MIRROR in pod.metadata.annotations or (controller is not None and controller.kind in _OF_NODES)


def is_empty(node: ClusterNode) -> bool:
    """Whether only pods remain that end with the node, and none is expected on it."""
    return not node.going and not pod_obstacle(node, ()) and next(pods_to_move(node), None) is None


def pod_obstacle(node: ClusterNode, pods: Sequence[MovablePod]) -> str:
    """Why a node cannot be emptied, by its pods; empty if each of them may be moved, now or after a cooldown.

    `pods`: those to move.
    """
    own = {pod.uid for pod in node.pods}
    if any(info.uid not in own for info in node.occupying):
        return "a pod is expected on it"
    protected = next((pod for pod in pods if pod.protection and not pod.postponed), None)
    return f"{protected.namespace}/{protected.name} stays: {protected.protection}" if protected is not None else ""


def is_being_emptied(node: ClusterNode) -> bool:
    """Whether this leader empties the node, or it has the taint of a node that is being emptied."""
    return node.being_emptied or any(map(is_consolidation, node.object.spec.taints))
