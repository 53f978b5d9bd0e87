"""Rules between pods: affinity, anti-affinity in both directions, topology spread.

What depends only on the pod and the cluster is computed once (`InterPodRules`). Then a node needs few lookups.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from equipoise.contracts.fit.node_rules import chosen_by, untolerated
from equipoise.contracts.fit.pod_index import PodGroup, PodIndex
from equipoise.contracts.fit.values import FitNode, FitPod
from equipoise.contracts.kubernetes.labels import selects
from equipoise.contracts.kubernetes.objects import PodAffinityTerm, TopologySpreadConstraint

Domain = tuple[str, str]
"""Topology key and value."""


class _Attraction(msgspec.Struct, frozen=True, kw_only=True):
    """One required affinity term: the domains with a matching pod."""

    key: str
    domains: set[str]
    starts_group: bool
    """There is no matching pod, and the pod matches its own term: it may be the first."""


class _Spread(msgspec.Struct, frozen=True, kw_only=True):
    """One spread constraint: the number of matching pods in each eligible domain."""

    constraint: TopologySpreadConstraint
    counts: dict[str, int]
    counts_itself: bool

    @property
    def lowest(self) -> int:
        if len(self.counts) < (self.constraint.min_domains or 1):
            return 0
        return min(self.counts.values(), default=0)


class InterPodRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules between one pod and the pods of the cluster."""

    excluded: dict[Domain, str] = {}
    """Domains that are excluded for the pod, and by which rule."""

    attractions: list[_Attraction] = []
    spreads: list[_Spread] = []


def _covers_namespace(term: PodAffinityTerm, owner: str, namespace: str, *, unknown: bool) -> bool:
    """Whether the term of a pod in namespace `owner` applies to pods of `namespace`.

    The labels of namespaces are not known here: `unknown` is returned where the result depends on them.
    """
    if namespace in term.namespaces:
        return True
    if term.namespace_selector is None:
        return not term.namespaces and namespace == owner
    empty = not term.namespace_selector.match_labels and not term.namespace_selector.match_expressions
    return empty or unknown or selects(term.namespace_selector, {"kubernetes.io/metadata.name": namespace})


def _matches(term: PodAffinityTerm, owner: FitPod, other: FitPod, *, unknown: bool) -> bool:
    return _covers_namespace(term, owner.namespace, other.namespace, unknown=unknown) and selects(
        term.label_selector, other.labels
    )


def _excluded(pod: FitPod, nodes: Mapping[str, FitNode], index: PodIndex) -> dict[Domain, str]:
    """Domains excluded by the pod's own anti-affinity and by that of other pods."""
    excluded: dict[Domain, str] = {}
    for group in index.pods_with_anti_affinity():
        for term in group.example.pod_anti_affinity:
            if _matches(term, group.example, pod, unknown=True):
                for value, other in _places(group, term.topology_key, pod, nodes):
                    excluded[term.topology_key, value] = f"anti-affinity of {other.namespace}/{other.name}"
    for term in pod.pod_anti_affinity:
        for group in index.groups(term.label_selector):
            if _matches(term, pod, group.example, unknown=True):
                for value, other in _places(group, term.topology_key, pod, nodes):
                    why = f"its anti-affinity to {other.namespace}/{other.name}"
                    excluded.setdefault((term.topology_key, value), why)
    return excluded


def _places(group: PodGroup, key: str, pod: FitPod, nodes: Mapping[str, FitNode]) -> Iterator[tuple[str, FitPod]]:
    """The domains with a pod of the group other than `pod`, with one such pod per node."""
    for name, pods in group.nodes.items():
        value = nodes[name].labels.get(key)
        other = next((other for other in pods if other.uid != pod.uid), None)
        if value is not None and other is not None:
            yield value, other


def _attraction(pod: FitPod, term: PodAffinityTerm, nodes: Mapping[str, FitNode], index: PodIndex) -> _Attraction:
    domains = {
        value
        for group in index.groups(term.label_selector)
        if _matches(term, pod, group.example, unknown=False)
        for value, _ in _places(group, term.topology_key, pod, nodes)
    }
    return _Attraction(
        key=term.topology_key,
        domains=domains,
        starts_group=not domains and _matches(term, pod, pod, unknown=False),
    )


def _counts(pod: FitPod, rule: TopologySpreadConstraint, other: FitPod) -> bool:
    """Whether another pod counts for the pod's constraint."""
    if other.namespace != pod.namespace or other.terminating:
        return False
    same = {key: pod.labels[key] for key in rule.match_label_keys if key in pod.labels}
    return selects(rule.label_selector, other.labels) and same.items() <= other.labels.items()


def _spread(pod: FitPod, rule: TopologySpreadConstraint, nodes: Mapping[str, FitNode], index: PodIndex) -> _Spread:
    found: Counter[str] = Counter()
    for group in index.groups(rule.label_selector):
        if _counts(pod, rule, group.example):
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
    return _Spread(constraint=rule, counts=counts, counts_itself=_counts(pod, rule, pod))


def inter_pod_rules(pod: FitPod, nodes: Sequence[FitNode], index: PodIndex | None = None) -> InterPodRules:
    """The rules between `pod` and all pods. The pod itself does not count where it runs now.

    `index`: of the same nodes, for callers that check many pods.
    """
    by_name = {node.name: node for node in nodes}
    known = index or PodIndex(nodes)
    return InterPodRules(
        excluded=_excluded(pod, by_name, known),
        attractions=[_attraction(pod, term, by_name, known) for term in pod.pod_affinity],
        spreads=[_spread(pod, rule, by_name, known) for rule in pod.spread],
    )


def inter_pod_refusal(node: FitNode, rules: InterPodRules) -> str:
    """ "" when no rule between pods excludes this node, else the rule."""
    if rules.excluded:
        for key, value in node.labels.items():
            if (key, value) in rules.excluded:
                return f"{rules.excluded[key, value]} in {key}={value}"
    for attraction in rules.attractions:
        value_here = node.labels.get(attraction.key)
        if value_here is None or (value_here not in attraction.domains and not attraction.starts_group):
            return f"no pod that the pod's affinity requires in this {attraction.key}"
    for spread in rules.spreads:
        rule = spread.constraint
        domain = node.labels.get(rule.topology_key)
        if domain is None:
            return f"node has no label {rule.topology_key}, by which the pod is spread"
        skew = spread.counts.get(domain, 0) + spread.counts_itself - spread.lowest
        if skew > rule.max_skew:
            return f"spread over {rule.topology_key} would be uneven by {skew}, {rule.max_skew} allowed"
    return ""
