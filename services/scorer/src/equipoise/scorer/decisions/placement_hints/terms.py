"""Writes the hint of one workload: preferred nodes in terms of decreasing weight, and a term of nodes to avoid."""

from collections.abc import Collection, Iterable, Sequence

from equipoise.contracts.messages.placement import MAX_HOSTNAMES, WeightedNodes, WorkloadHint
from equipoise.scorer.decisions.placement_hints.settings import HintSettings

TARGET_WEIGHT = 100
"""Of the intended targets of evicted pods."""

_BESIDE_TARGETS = 0.5
"""Factor of the other weights while there are targets."""


def workload_hint(
    best: Sequence[str],
    worst: Iterable[str],
    settings: HintSettings,
    *,
    targets: Sequence[str] = (),
    avoided: Collection[str] = (),
) -> WorkloadHint | None:
    """`best` and `worst` are hostnames, the best and the worst first; None without any.

    `targets` of evicted pods come before the best, and nodes that evicted pods left (`avoided`) before the worst.
    """
    used: set[str] = set()

    def unused(hostnames: Iterable[str]) -> tuple[str, ...]:
        found = tuple(name for name in dict.fromkeys(hostnames) if name not in used)
        used.update(found)
        return found

    first = unused(name for name in targets if name not in avoided)[:MAX_HOSTNAMES]
    left = unused(avoided)
    others = unused(best)
    prefer = [WeightedNodes(weight=TARGET_WEIGHT, hostnames=first)] if first else []
    factor = _BESIDE_TARGETS if first else 1.0
    weights = settings.weights
    for index, weight in enumerate(weights):
        size = -(-len(others) // (len(weights) - index))
        if size:
            prefer.append(WeightedNodes(weight=max(1, round(factor * weight)), hostnames=others[:size]))
        others = others[size:]
    last = (*left, *unused(worst))[:MAX_HOSTNAMES]
    avoid = WeightedNodes(weight=settings.avoided_weight, hostnames=last) if last else None
    return WorkloadHint(prefer=tuple(prefer), avoid=avoid) if prefer or avoid else None
