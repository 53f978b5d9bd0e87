"""Writes the hint of one workload: preferred nodes in terms of decreasing weight, and a term of nodes to avoid."""

from collections.abc import Collection, Iterable

from equipoise.contracts.messages.placement import MAX_HOSTNAMES, WeightedNodes, WorkloadHint
from equipoise.scorer.decisions.placement_hints.settings import HintSettings

TARGET_WEIGHT = 100
"""Of the intended targets of evicted pods."""

_BESIDE_TARGETS = 0.5
"""Factor of the other weights while there are targets."""


def workload_hint(best: Iterable[str], worst: Iterable[str], settings: HintSettings) -> WorkloadHint | None:
    """`best` and `worst` are hostnames, the best and the worst first; None without any.

    Fewer nodes than all terms have are divided among the terms in proportion. A hostname that occurs twice (two nodes
    have the same label) counts once.
    """
    preferred = tuple(dict.fromkeys(best))
    avoided = _without(worst, preferred)[:MAX_HOSTNAMES]
    terms, start, nodes = [], 0, 0
    for term in settings.terms:
        nodes += term.nodes
        end = -(-len(preferred) * nodes // settings.preferred)
        if hostnames := preferred[start:end]:
            terms.append(WeightedNodes(weight=term.weight, hostnames=hostnames))
        start = end
    avoid = WeightedNodes(weight=settings.avoided_weight, hostnames=avoided) if avoided else None
    return WorkloadHint(prefer=tuple(terms), avoid=avoid) if terms or avoid else None


def hint_for_replacements(
    hint: WorkloadHint | None, targets: Iterable[str], left: Iterable[str], settings: HintSettings
) -> WorkloadHint | None:
    """The hint while replacements of evicted pods are expected.

    The intended targets come first. The other nodes remain, with lower weights: in clusters of more than 100 nodes
    kube-scheduler scores only some of them, often without the target. The nodes that the pods left are avoided first.
    """
    left = tuple(dict.fromkeys(left))
    first = _without(targets, left)[:MAX_HOSTNAMES]
    terms = [WeightedNodes(weight=TARGET_WEIGHT, hostnames=first)] if first else []
    factor = _BESIDE_TARGETS if first else 1.0
    for term in hint.prefer if hint is not None else ():
        if others := _without(term.hostnames, (*first, *left)):
            terms.append(WeightedNodes(weight=max(1, round(factor * term.weight)), hostnames=others))
    worst = () if hint is None or hint.avoid is None else hint.avoid.hostnames
    avoided = (*left, *_without(worst, (*first, *left)))[:MAX_HOSTNAMES]
    avoid = WeightedNodes(weight=settings.avoided_weight, hostnames=avoided) if avoided else None
    return WorkloadHint(prefer=tuple(terms), avoid=avoid) if terms or avoid else None


def _without(hostnames: Iterable[str], others: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(hostnames) if name not in others)
