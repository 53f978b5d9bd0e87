"""Which pod of a hot node leaves first."""

from collections.abc import Iterable, Mapping

from equipoise.contracts.messages import Resources
from equipoise.descheduler.fleet import MovablePod, QosClass, Resource, shares

_QOS: Mapping[QosClass, int] = {"BestEffort": 0, "Burstable": 1, "Guaranteed": 2}


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


def in_order(
    pods: Iterable[MovablePod],
    *,
    base: Resources,
    excess: Mapping[Resource, float],
    weights: Mapping[Resource, float],
) -> list[MovablePod]:
    """The pods, first to leave first: low priority, low QoS class, low deletion cost, best relief, youngest.

    `excess`: load (0..1 of `base`) that the node has too much, per resource.
    """

    def key(pod: MovablePod) -> tuple[int, int, int, float, float, str, str]:
        score = relief_score(shares(pod.usage, base), excess, weights)
        return (
            pod.priority, _QOS[pod.qos], pod.deletion_cost, -score, -pod.created_at, pod.namespace, pod.name,
        )  # fmt: skip

    return sorted(pods, key=key)
