"""Writes the hint of one workload: terms of preferred nodes, and a term of nodes to avoid."""

from collections.abc import Collection, Iterable, Sequence

from equipoise.contracts.messages.placement import MAX_HOSTNAMES, WeightedNodes, WorkloadHint
from equipoise.scorer.decisions.placement_hints.settings import HintSettings

TARGET_WEIGHT = 100
"""The weight of the intended targets of evicted pods."""

OTHER_TARGET_WEIGHT = 80
"""The weight of the nodes that are named beside them, in case that kube-scheduler does not score the targets."""

_BESIDE_TARGETS = 0.1
"""Factor of the weights of all other nodes while there are targets. These nodes then matter only if no target is
feasible: kube-scheduler scales the weights so that the best feasible node has 100 points."""


def workload_hint(
    best: Sequence[str], grades: Sequence[int], worst: Iterable[str], settings: HintSettings
) -> WorkloadHint | None:
    """The hint without regard to evictions; None without any nodes. `best`, `worst`: hostnames, the best and the worst
    first. `grades`: the grade of each of `best`.

    There is one term for each binary digit of the grades: it names the nodes whose grade has this digit set. A hostname
    that occurs twice (two nodes have the same label) counts once.
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
    return _hint(terms, avoided, settings.avoided_weight)


def hint_for_replacements(
    hint: WorkloadHint | None,
    targets: Iterable[str],
    other_targets: Iterable[str],
    vacated_nodes: Iterable[str],
    settings: HintSettings,
) -> WorkloadHint | None:
    """The hint while replacements of evicted pods are expected.

    The intended targets come first, then others in case that kube-scheduler scores none of them. The remaining nodes
    have low weights. The vacated nodes, which the evicted pods have left or are about to leave, are avoided first.
    """
    vacated_nodes = tuple(dict.fromkeys(vacated_nodes))
    named, terms = vacated_nodes, []
    first = _without(targets, vacated_nodes)
    for weight, hostnames in ((TARGET_WEIGHT, first), (OTHER_TARGET_WEIGHT, other_targets if first else ())):
        if nodes := _without(hostnames, named)[:MAX_HOSTNAMES]:
            terms.append(WeightedNodes(weight=weight, hostnames=nodes))
            named += nodes
    factor = _BESIDE_TARGETS if first else 1.0
    for term in hint.prefer if hint is not None else ():
        if others := _without(term.hostnames, named):
            terms.append(WeightedNodes(weight=_scaled(term.weight, factor), hostnames=others))
    worst = () if hint is None or hint.avoid is None else hint.avoid.hostnames
    avoided = (*vacated_nodes, *_without(worst, named))[:MAX_HOSTNAMES]
    return _hint(terms, avoided, _scaled(settings.avoided_weight, factor))


def _scaled(weight: int, factor: float) -> int:
    return max(1, round(factor * weight))


def _hint(terms: Sequence[WeightedNodes], avoided: tuple[str, ...], avoided_weight: int) -> WorkloadHint | None:
    avoid = WeightedNodes(weight=avoided_weight, hostnames=avoided) if avoided else None
    return WorkloadHint(prefer=tuple(terms), avoid=avoid) if terms or avoid else None


def _without(hostnames: Iterable[str], others: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(hostnames) if name not in others)
