"""Rules between one pod and one node: cordon, taints, selectors, volumes, ports, resources."""

from collections.abc import Sequence

import msgspec

from equipoise.contracts.fit.values import FitNode, FitPod
from equipoise.contracts.kubernetes.labels import selects_node
from equipoise.contracts.kubernetes.objects import Taint, Toleration
from equipoise.contracts.kubernetes.taints import BLOCKING_EFFECTS, tolerates

_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def untolerated(tolerations: Sequence[Toleration], taints: Sequence[Taint]) -> Taint | None:
    """The first taint that is not tolerated."""
    return next(
        (taint for taint in taints if taint.effect in BLOCKING_EFFECTS and not tolerates(tolerations, taint)), None
    )


def chosen_by(pod: FitPod, node: FitNode) -> bool:
    """Whether the pod's node selector and required node affinity match this node."""
    return all(node.labels.get(key) == value for key, value in pod.node_selector.items()) and (
        pod.node_affinity is None or selects_node(pod.node_affinity, node.name, node.labels)
    )


def _amount(resource: str, amount: float) -> str:
    return f"{amount / 2**30:.4g} Gi" if resource in ("memory", "ephemeral-storage") else f"{amount:.4g}"


class Shortage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A resource of which the node has too little left, in its base unit."""

    resource: str
    requested: float
    used: float
    """Requested by the node's other pods."""

    allocatable: float

    def __str__(self) -> str:
        free = _amount(self.resource, max(0.0, self.allocatable - self.used))
        return f"insufficient {self.resource}: {_amount(self.resource, self.requested)} requested, {free} free"


def shortages(pod: FitPod, node: FitNode) -> list[Shortage]:
    """Every resource that is short, by name. The pod itself does not count if it is there already."""
    itself = _itself(pod, node)
    found = []
    for resource, requested in sorted(pod.requests.items()):
        allocatable = node.allocatable.get(resource, 0.0)
        used = node.requested.get(resource, 0.0) - (itself.requests.get(resource, 0.0) if itself else 0.0)
        # Requests are sums of decimal fractions: a difference of a billionth is not a shortage.
        if requested > 0 and requested > allocatable - used + 1e-9 * max(1.0, allocatable):
            found.append(Shortage(resource=resource, requested=requested, used=used, allocatable=allocatable))
    return found


def no_room(pod: FitPod, node: FitNode) -> str:
    """ "" when the requests fit, else what is missing."""
    allowed = node.allocatable.get("pods", 0.0)
    if len(node.pods) - (_itself(pod, node) is not None) + 1 > allowed:
        return f"too many pods: {allowed:g} allowed"
    return "; ".join(map(str, shortages(pod, node)))


def _itself(pod: FitPod, node: FitNode) -> FitPod | None:
    return next((other for other in node.pods if other.uid == pod.uid), None)


def constraint_refusal(pod: FitPod, node: FitNode) -> str:
    """ "" when cordon, taints, labels and volumes allow the pod, else which does not. Other pods do not affect it."""
    if node.cordoned and untolerated(pod.tolerations, (_UNSCHEDULABLE,)) is not None:
        return "node is cordoned"
    taint = untolerated(pod.tolerations, node.taints)
    if taint is not None:
        return f"untolerated taint {taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}"
    if not chosen_by(pod, node):
        return "node does not match the pod's node selector or affinity"
    if not all(selects_node(selector, node.name, node.labels) for selector in pod.volume_nodes):
        return "a volume of the pod is not reachable from the node"
    return ""


def capacity_refusal(pod: FitPod, node: FitNode) -> str:
    """ "" when the node has room and free ports for the pod, else what is missing."""
    if pod.host_ports:
        taken = [port for other in node.pods if other.uid != pod.uid for port in other.host_ports]
        port = next((port.port for port in pod.host_ports if any(port.conflicts(other) for other in taken)), None)
        if port is not None:
            return f"host port {port} is taken"
    return no_room(pod, node)


def node_refusal(pod: FitPod, node: FitNode) -> str:
    """ "" when the rules between the pod and this node allow it, else why not."""
    return constraint_refusal(pod, node) or capacity_refusal(pod, node)
