"""Writes the hint of one workload: terms of preferred nodes, and a term of nodes to avoid."""

from collections.abc import Collection, Iterable, Sequence

from equipoise.contracts.messages.placement import MAX_HOSTNAMES, WeightedNodes, WorkloadHint
from equipoise.scorer.decisions.placement_hints.settings import HintSettings

TARGET_WEIGHT = 100
"""Of the intended targets of evicted pods."""

_BESIDE_TARGETS = 0.5
"""Factor of the other weights while there are targets."""


def workload_hint(
    best: Sequence[str], grades: Sequence[int], worst: Iterable[str], settings: HintSettings
) -> WorkloadHint | None:
    """`best` and `worst` are hostnames, the best and the worst first; None without any. `grades`: of the best ones.

    Each term stands for one binary digit of the grades. A hostname that occurs twice (two nodes have the same label)
    counts once.
    """
    preferred: dict[str, int] = {}
    for name, grade in zip(best, grades, strict=True):
        preferred.setdefault(name, grade)
    avoided = _without(worst, preferred)[:MAX_HOSTNAMES]
    terms = []
    for number in range(settings.terms):
        bit = 1 << (settings.terms - 1 - number)
        if hostnames := tuple(name for name, grade in preferred.items() if grade & bit):
            terms.append(WeightedNodes(weight=settings.preferred_weight >> number, hostnames=hostnames))
    return _hint(terms, avoided, settings)


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
    return _hint(terms, avoided, settings)


def _hint(terms: Sequence[WeightedNodes], avoided: tuple[str, ...], settings: HintSettings) -> WorkloadHint | None:
    avoid = WeightedNodes(weight=settings.avoided_weight, hostnames=avoided) if avoided else None
    return WorkloadHint(prefer=tuple(terms), avoid=avoid) if terms or avoid else None


def _without(hostnames: Iterable[str], others: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(hostnames) if name not in others)
