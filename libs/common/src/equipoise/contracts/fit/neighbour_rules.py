"""What other pods may have against a pod on a node: affinity, anti-affinity both ways, topology spread.

Everything that depends on the pod and the fleet alone is gathered once into `Neighbours`; then each node costs a few
look-ups, however many nodes there are.
"""

from collections.abc import Callable, Sequence

import msgspec

from equipoise.contracts.fit.node_rules import chosen_by, untolerated
from equipoise.contracts.fit.values import FitNode, FitPod
from equipoise.contracts.labels import selects
from equipoise.contracts.objects import PodAffinityTerm, TopologySpreadConstraint

Domain = tuple[str, str]
"""Topology key and value."""


class _Attraction(msgspec.Struct, frozen=True, kw_only=True):
    """One required affinity term: the domains with a pod it wants."""

    key: str
    domains: set[str]
    starts_group: bool
    """No such pod anywhere and the pod satisfies its own term: it may be the first."""


class _Spread(msgspec.Struct, frozen=True, kw_only=True):
    """One spread constraint: how many matching pods each eligible domain holds."""

    constraint: TopologySpreadConstraint
    counts: dict[str, int]
    counts_itself: bool

    @property
    def lowest(self) -> int:
        if len(self.counts) < (self.constraint.min_domains or 1):
            return 0
        return min(self.counts.values(), default=0)


class Neighbours(msgspec.Struct, frozen=True, kw_only=True):
    """What the pods of a fleet mean to one pod."""

    repelled: dict[Domain, str] = {}
    """Domains the pod must not enter, and who keeps it off."""

    attractions: list[_Attraction] = []
    spreads: list[_Spread] = []


def _covers_namespace(term: PodAffinityTerm, owner: str, namespace: str, *, doubtful: bool) -> bool:
    """Does the term of a pod in `owner` look at pods of `namespace`?

    The labels of namespaces are not known here; `doubtful` is the answer where only they could tell.
    """
    if namespace in term.namespaces:
        return True
    if term.namespace_selector is None:
        return not term.namespaces and namespace == owner
    empty = not term.namespace_selector.match_labels and not term.namespace_selector.match_expressions
    return empty or doubtful or selects(term.namespace_selector, {"kubernetes.io/metadata.name": namespace})


def _wants(term: PodAffinityTerm, owner: FitPod, other: FitPod, *, doubtful: bool) -> bool:
    return _covers_namespace(term, owner.namespace, other.namespace, doubtful=doubtful) and selects(
        term.label_selector, other.labels
    )


def _repelled(pod: FitPod, fleet: Sequence[FitNode]) -> dict[Domain, str]:
    """Domains closed by the pod's own anti-affinity and by that of the pods already there."""
    closed: dict[Domain, str] = {}
    for node in fleet:
        for other in node.keeping_away:
            for term in other.pod_anti_affinity:
                value = node.labels.get(term.topology_key)
                if value is not None and other.uid != pod.uid and _wants(term, other, pod, doubtful=True):
                    closed[term.topology_key, value] = f"anti-affinity of {other.namespace}/{other.name}"
        for term in pod.pod_anti_affinity:
            value = node.labels.get(term.topology_key)
            if value is None or (term.topology_key, value) in closed:
                continue
            for other in node.pods:
                if other.uid != pod.uid and _wants(term, pod, other, doubtful=True):
                    closed[term.topology_key, value] = f"its anti-affinity to {other.namespace}/{other.name}"
                    break
    return closed


def _attraction(pod: FitPod, term: PodAffinityTerm, fleet: Sequence[FitNode]) -> _Attraction:
    domains = {
        node.labels[term.topology_key]
        for node in fleet
        if term.topology_key in node.labels
        and any(other.uid != pod.uid and _wants(term, pod, other, doubtful=False) for other in node.pods)
    }
    return _Attraction(
        key=term.topology_key,
        domains=domains,
        starts_group=not domains and _wants(term, pod, pod, doubtful=False),
    )


def _chooses(pod: FitPod, rule: TopologySpreadConstraint) -> Callable[[FitPod], bool]:
    """Whether another pod counts for the pod's constraint."""
    same = {key: pod.labels[key] for key in rule.match_label_keys if key in pod.labels}
    answers: dict[int, bool] = {}
    """By identity of labels: the pods of a workload share theirs, and a fleet has far more pods than workloads."""

    def chooses(other: FitPod) -> bool:
        if other.namespace != pod.namespace or other.terminating:
            return False
        answer = answers.get(id(other.labels))
        if answer is None:
            answer = selects(rule.label_selector, other.labels) and same.items() <= other.labels.items()
            answers[id(other.labels)] = answer
        return answer

    return chooses


def _spread(pod: FitPod, rule: TopologySpreadConstraint, fleet: Sequence[FitNode]) -> _Spread:
    chooses = _chooses(pod, rule)
    counts: dict[str, int] = {}
    keys = [other.topology_key for other in pod.spread]
    for node in fleet:
        if any(key not in node.labels for key in keys):
            continue
        if rule.node_affinity_policy == "Honor" and not chosen_by(pod, node):
            continue
        if rule.node_taints_policy == "Honor" and untolerated(pod.tolerations, node.taints) is not None:
            continue
        domain = node.labels[rule.topology_key]
        found = sum(chooses(other) for other in node.pods if other.uid != pod.uid)
        counts[domain] = counts.get(domain, 0) + found
    return _Spread(constraint=rule, counts=counts, counts_itself=chooses(pod))


def neighbours(pod: FitPod, fleet: Sequence[FitNode]) -> Neighbours:
    """Gathers what the fleet's pods mean to `pod`. The pod itself, wherever it runs now, does not count."""
    return Neighbours(
        repelled=_repelled(pod, fleet),
        attractions=[_attraction(pod, term, fleet) for term in pod.pod_affinity],
        spreads=[_spread(pod, rule, fleet) for rule in pod.spread],
    )


def neighbour_refusal(node: FitNode, around: Neighbours) -> str:
    """ "" when no other pod speaks against this node; else who or what does."""
    for (key, value), why in around.repelled.items():
        if node.labels.get(key) == value:
            return f"{why} in {key}={value}"
    for attraction in around.attractions:
        value_here = node.labels.get(attraction.key)
        if value_here is None or (value_here not in attraction.domains and not attraction.starts_group):
            return f"no pod that the pod's affinity asks for in this {attraction.key}"
    for spread in around.spreads:
        rule = spread.constraint
        domain = node.labels.get(rule.topology_key)
        if domain is None:
            return f"node has no label {rule.topology_key}, which the pod is spread by"
        skew = spread.counts.get(domain, 0) + spread.counts_itself - spread.lowest
        if skew > rule.max_skew:
            return f"spread over {rule.topology_key} would be uneven by {skew}, {rule.max_skew} allowed"
    return ""
