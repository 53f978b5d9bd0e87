"""The order in which pods leave a hot node: priority class, QoS, the costs that their owners declare, and their usage.

Source of Koordinator's QoS: koordinator, apis/extension/qos.go. A label with an unknown value counts as absent.
"""

from collections.abc import Iterable, Mapping

from equipoise.contracts.kubernetes.labels import integer
from equipoise.contracts.load.correction import known
from equipoise.contracts.load.pod_priority import PriorityClass, Qos, labeled_qos
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster_node import MovablePod, Resource, shares

PRIORITY_CLASS_ORDER: Mapping[PriorityClass, int] = {"free": 0, "batch": 1, "mid": 2, "prod": 3}
"""The least important first."""

_KOORDINATOR_QOS = {"BE": 0, "LS": 1, "LSR": 2, "LSE": 3, "SYSTEM": 3}
_NO_QOS = 4
KUBERNETES_QOS: Mapping[Qos, int] = {"BestEffort": 0, "Burstable": 1, "Guaranteed": 2}
"""The least important first."""

Importance = tuple[int, int, int, int, int, int]
Key = tuple[Importance, float, float, str, str]


def cost_of(annotations: Mapping[str, str], name: str) -> int:
    """The cost in this annotation; 0 when it is absent or not a 64-bit integer."""
    return integer(annotations.get(name, "")) or 0


def qos_rank(labels: Mapping[str, str]) -> int:
    """The labeled QoS class as a number, in the order BE, LS, LSR, LSE and SYSTEM; pods without the label come last."""
    return _KOORDINATOR_QOS.get(labeled_qos(labels), _NO_QOS)


def reduction_score(
    reduction: Mapping[Resource, float], excess: Mapping[Resource, float], weights: Mapping[Resource, float]
) -> float:
    """A score of 0..2, highest for the pod whose load is exactly the excess of the node.

    It is the weighted mean over the resources with an excess. With ratio = reduction / excess, a resource scores the
    ratio if it is below 1, else 1 + 1/ratio. So a small excess does not move the largest pod.
    Source: Koordinator's LowNodeLoad (its pull request 2092).
    """
    total = weight = 0.0
    for resource, amount in excess.items():
        if amount <= 0:
            continue
        ratio = reduction.get(resource, 0.0) / amount
        total += weights.get(resource, 1.0) * (ratio if ratio < 1 else 1 + 1 / ratio)
        weight += weights.get(resource, 1.0)
    return total / weight if weight else 0.0


def load_of_pod(pod: MovablePod, base: Resources, capacity: float = 0.0) -> dict[Resource, float]:
    """The load (0..1) of the pod on a node with this base that allows `capacity` pods, for the resources that are
    known."""
    load = shares(pod.usage, base)
    return {**load, "pods": 1 / capacity} if capacity > 0 else load


def importance(pod: MovablePod) -> Importance:
    """The classes, priorities and costs of a pod: the lowest leaves first, whatever it uses. Source of the order:
    Koordinator's LowNodeLoad."""
    return (
        PRIORITY_CLASS_ORDER[pod.priority_class], pod.priority, KUBERNETES_QOS[pod.qos], qos_rank(pod.info.labels),
        pod.deletion_cost, pod.eviction_cost,
    )  # fmt: skip


def in_order(
    pods: Iterable[MovablePod],
    *,
    base: Resources,
    excess: Mapping[Resource, float],
    weights: Mapping[Resource, float],
    capacity: float = 0.0,
) -> list[MovablePod]:
    """The pods in the order in which they should leave. Source of the order: Koordinator's LowNodeLoad.

    Lowest class, priority, Kubernetes QoS, Koordinator QoS, deletion cost and eviction cost first; then the best
    reduction (unmeasured pods last), then the youngest. `excess`: load (0..1 of `base`) above the target, per resource;
    `capacity`: the number of pods that the node allows.
    """

    def key(pod: MovablePod) -> Key:
        measured = known(pod.usage.cpu) is not None or known(pod.usage.memory) is not None
        score = reduction_score(load_of_pod(pod, base, capacity), excess, weights) if measured else -1.0
        return importance(pod), -score, -pod.created_at, pod.namespace, pod.name

    return sorted(pods, key=key)
