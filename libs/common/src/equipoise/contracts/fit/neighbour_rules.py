"""What other pods may have against a pod on a node: affinity, anti-affinity both ways, topology spread.

Everything that depends on the pod and the fleet alone is gathered once into `Neighbours`; then each node costs a few
look-ups, however many nodes there are.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from equipoise.contracts.fit.census import Group, PodIndex
from equipoise.contracts.fit.node_rules import chosen_by, untolerated
from equipoise.contracts.fit.values import FitNode, FitPod
from equipoise.contracts.kubernetes.labels import selects
from equipoise.contracts.kubernetes.objects import PodAffinityTerm, TopologySpreadConstraint

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


def _repelled(pod: FitPod, nodes: Mapping[str, FitNode], census: PodIndex) -> dict[Domain, str]:
    """Domains closed by the pod's own anti-affinity and by that of the pods already there."""
    closed: dict[Domain, str] = {}
    for group in census.pods_with_anti_affinity():
        for term in group.example.pod_anti_affinity:
            if _wants(term, group.example, pod, doubtful=True):
                for value, other in _places(group, term.topology_key, pod, nodes):
                    closed[term.topology_key, value] = f"anti-affinity of {other.namespace}/{other.name}"
    for term in pod.pod_anti_affinity:
        for group in census.groups(term.label_selector):
            if _wants(term, pod, group.example, doubtful=True):
                for value, other in _places(group, term.topology_key, pod, nodes):
                    why = f"its anti-affinity to {other.namespace}/{other.name}"
                    closed.setdefault((term.topology_key, value), why)
    return closed


def _places(group: Group, key: str, pod: FitPod, nodes: Mapping[str, FitNode]) -> Iterator[tuple[str, FitPod]]:
    """The domains with a pod of the group, other than `pod` itself, and one such pod in each node."""
    for name, pods in group.nodes.items():
        value = nodes[name].labels.get(key)
        other = next((other for other in pods if other.uid != pod.uid), None)
        if value is not None and other is not None:
            yield value, other


def _attraction(pod: FitPod, term: PodAffinityTerm, nodes: Mapping[str, FitNode], census: PodIndex) -> _Attraction:
    domains = {
        value
        for group in census.groups(term.label_selector)
        if _wants(term, pod, group.example, doubtful=False)
        for value, _ in _places(group, term.topology_key, pod, nodes)
    }
    return _Attraction(
        key=term.topology_key,
        domains=domains,
        starts_group=not domains and _wants(term, pod, pod, doubtful=False),
    )


def _chooses(pod: FitPod, rule: TopologySpreadConstraint, other: FitPod) -> bool:
    """Does another pod count for the pod's constraint?"""
    if other.namespace != pod.namespace or other.terminating:
        return False
    same = {key: pod.labels[key] for key in rule.match_label_keys if key in pod.labels}
    return selects(rule.label_selector, other.labels) and same.items() <= other.labels.items()


def _spread(pod: FitPod, rule: TopologySpreadConstraint, nodes: Mapping[str, FitNode], census: PodIndex) -> _Spread:
    found: Counter[str] = Counter()
    for group in census.groups(rule.label_selector):
        if _chooses(pod, rule, group.example):
            for name, pods in group.nodes.items():
                found[name] += sum(other.uid != pod.uid for other in pods)
    counts: dict[str, int] = {}
    keys = [other.topology_key for other in pod.spread]
    for name, node in nodes.items():
        if any(key not in node.labels for key in keys):
            continue
        if rule.node_affinity_policy == "Honor" and not chosen_by(pod, node):
            continue
        if rule.node_taints_policy == "Honor" and untolerated(pod.tolerations, node.taints) is not None:
            continue
        domain = node.labels[rule.topology_key]
        counts[domain] = counts.get(domain, 0) + found[name]
    return _Spread(constraint=rule, counts=counts, counts_itself=_chooses(pod, rule, pod))


def neighbours(pod: FitPod, fleet: Sequence[FitNode], census: PodIndex | None = None) -> Neighbours:
    """Gathers what the fleet's pods mean to `pod`. The pod itself, wherever it runs now, does not count.

    `census`: of the same fleet, for those that ask for many pods.
    """
    nodes = {node.name: node for node in fleet}
    known = census or PodIndex(fleet)
    return Neighbours(
        repelled=_repelled(pod, nodes, known),
        attractions=[_attraction(pod, term, nodes, known) for term in pod.pod_affinity],
        spreads=[_spread(pod, rule, nodes, known) for rule in pod.spread],
    )


def neighbour_refusal(node: FitNode, around: Neighbours) -> str:
    """ "" when no other pod speaks against this node; else who or what does."""
    if around.repelled:
        for key, value in node.labels.items():
            if (key, value) in around.repelled:
                return f"{around.repelled[key, value]} in {key}={value}"
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
