"""Which pod of a hot node leaves first."""

from collections.abc import Iterable, Mapping

from equipoise.contracts.load.correction import known
from equipoise.contracts.messages.resources import Resources
from equipoise.descheduler.state.cluster import MovablePod, QosClass, Resource, shares
from equipoise.descheduler.state.pod_priority import PRIORITY_CLASS_ORDER, qos_rank

_QOS: Mapping[QosClass, int] = {"BestEffort": 0, "Burstable": 1, "Guaranteed": 2}

Key = tuple[int, int, int, int, int, int, float, float, str, str]


def relief_score(
    relief: Mapping[Resource, float], excess: Mapping[Resource, float], weights: Mapping[Resource, float]
) -> float:
    """0..2, highest for the pod that just covers what a node has too much.

    Per resource with an excess, ratio = relief / excess; below 1 the ratio, from 1 on 1 + 1/ratio; weighted mean.
    Source: Koordinator's LowNodeLoad (its pull request 2092), so that a small excess does not cost the biggest pod.
    """
    total = weight = 0.0
    for resource, amount in excess.items():
        if amount <= 0:
            continue
        ratio = relief.get(resource, 0.0) / amount
        total += weights.get(resource, 1.0) * (ratio if ratio < 1 else 1 + 1 / ratio)
        weight += weights.get(resource, 1.0)
    return total / weight if weight else 0.0


def relief_of(pod: MovablePod, base: Resources, capacity: float = 0.0) -> dict[Resource, float]:
    """What its leaving takes off the load (0..1) of a node of that base and so many pods; without what is unknown."""
    relief = shares(pod.usage, base)
    return {**relief, "pods": 1 / capacity} if capacity > 0 else relief


def in_order(
    pods: Iterable[MovablePod],
    *,
    base: Resources,
    excess: Mapping[Resource, float],
    weights: Mapping[Resource, float],
    capacity: float = 0.0,
) -> list[MovablePod]:
    """The pods, first to leave first. Source of the order: Koordinator's LowNodeLoad.

    Low class, low priority, low QoS of Kubernetes, low QoS of Koordinator, low deletion cost, low eviction cost, best
    relief (pods without measurement last), youngest. `excess`: load (0..1 of `base`) that the node has too much, per
    resource; `capacity`: how many pods it allows.
    """

    def key(pod: MovablePod) -> Key:
        measured = known(pod.usage.cpu) is not None or known(pod.usage.memory) is not None
        score = relief_score(relief_of(pod, base, capacity), excess, weights) if measured else -1.0
        return (
            PRIORITY_CLASS_ORDER[pod.priority_class], pod.priority, _QOS[pod.qos], qos_rank(pod.fit.labels),
            pod.deletion_cost, pod.eviction_cost, -score, -pod.created_at, pod.namespace, pod.name,
        )  # fmt: skip

    return sorted(pods, key=key)
