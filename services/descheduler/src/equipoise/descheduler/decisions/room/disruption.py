"""How much the moves of a set of pods disrupt."""

import math

from equipoise.contracts.load.correction import known
from equipoise.descheduler.decisions.cluster_node import MovablePod

Pods = tuple[MovablePod, ...]

Disruption = tuple[int, int, int, int, float, tuple[str, ...]]

_GIB = 2.0**30
_DAY = 86_400.0


def disruption(pods: Pods, now: float) -> Disruption:
    """The sort key of a set: the fewest pods, then the fewest with a gap, then the costs that their owners declare
    (`controller.kubernetes.io/pod-deletion-cost`, eviction cost), then the cost of the moves."""
    return (
        len(pods),
        sum(not pod.without_gap for pod in pods),
        max(pod.deletion_cost for pod in pods),
        max(pod.eviction_cost for pod in pods),
        sum(_cost(pod, now) for pod in pods),
        tuple(sorted(f"{pod.namespace}/{pod.name}" for pod in pods)),
    )


def _cost(pod: MovablePod, now: float) -> float:
    """What is lost when a replacement takes the place of the pod: GiB of memory in use + its age in days, at most one.

    Memory in use has to be filled again: caches, heaps. A young pod has lost little since its last start. Infinite if
    the usage is unknown; an unknown age counts as a day.
    """
    memory = known(pod.usage.memory)
    if memory is None:
        return math.inf
    age = max(0.0, now - pod.created_at) if pod.created_at else _DAY
    return memory / _GIB + min(age / _DAY, 1.0)
