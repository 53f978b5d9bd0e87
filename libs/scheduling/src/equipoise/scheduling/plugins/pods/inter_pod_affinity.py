"""InterPodAffinity: affinity and anti-affinity between pods, of the new pod and of those that run.

Formulas: pkg/scheduler/framework/plugins/interpodaffinity of Kubernetes 1.37.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from equipoise.contracts.kubernetes.labels import selects
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.events import ClusterEvent, changed, is_update_of, pods_of
from equipoise.scheduling.framework.plugin import MAX_SCORE, SKIPPED, PreFiltered, Refusal
from equipoise.scheduling.framework.status import SKIP, SUCCESS, Code, PluginStatus
from equipoise.scheduling.model.arrays import Flags, Ints, Rows
from equipoise.scheduling.model.pod_groups import SimilarPods, count_by_node
from equipoise.scheduling.model.pod_info import AffinityTerm, PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.pods.topology_counts import TopologyCounts, count_by_domain

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

Counts = dict[str, TopologyCounts]
"""The counts by topology key."""


class InterPodAffinity:
    name = "InterPodAffinity"

    def __init__(
        self, hard_pod_affinity_weight: int = 1, *, ignore_preferred_terms_of_existing_pods: bool = False
    ) -> None:
        """`hard_pod_affinity_weight`: the weight (0..100) of required affinity terms of existing pods.

        `ignore_preferred_terms_of_existing_pods`: the preferred terms of other pods do not count for a pod without any.
        """
        self._hard_weight = hard_pod_affinity_weight
        self._ignore_preferred = ignore_preferred_terms_of_existing_pods

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot) -> PreFiltered:
        selecting = snapshot.groups.selecting(pod)
        existing = _existing_anti_affinity(pod, selecting, snapshot) if selecting else {}
        if not (existing or pod.required_affinity or pod.required_anti_affinity):
            return SKIPPED
        state.write(
            self.name,
            _FilterState(
                _affinity(pod, snapshot), _anti_affinity(pod, snapshot), existing, _selects_itself(pod, snapshot)
            ),
        )
        return PreFiltered()

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, row: int, snapshot: ClusterSnapshot) -> None:
        state.read(self.name, _FilterState).change(pod, added, row, snapshot, 1)

    def remove_pod(
        self, state: CycleState, pod: PodInfo, removed: PodInfo, row: int, snapshot: ClusterSnapshot
    ) -> None:
        state.read(self.name, _FilterState).change(pod, removed, row, snapshot, -1)

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Sequence[Refusal]:
        """A node is refused for the first that it violates: affinity, anti-affinity, anti-affinity of existing pods."""
        found = state.read(self.name, _FilterState)
        without = ~found.satisfies_affinity(rows)
        against = ~without & _any(found.anti_affinity, rows)
        refused = ~without & ~against & _any(found.existing, rows)
        return (
            Refusal(nodes=without, reason=REASON_AFFINITY, code=Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
            Refusal(nodes=against, reason=REASON_ANTI_AFFINITY),
            Refusal(nodes=refused, reason=REASON_EXISTING),
        )

    def may_help(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Whether a pod that a term of either pod selects was added, was removed or has other labels, or a node or its
        labels are new."""
        if event.kind == "Node":
            return event.action != "delete" and changed(event, lambda node: node.metadata.labels)
        others = pods_of(event) if changed(event, lambda other: other.labels) else ()
        return is_update_of(event, pod) or any(_may_concern(pod, each) for each in others)

    # Score

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> PluginStatus:
        """SKIP if no preferred term selects a pod."""
        selecting = snapshot.groups.selecting(pod)
        if not pod.preferred and (self._ignore_preferred or not selecting):
            return SKIP
        by_key: dict[str, Ints] = {}
        for key, weight, groups in self._weighted(pod, selecting, snapshot):
            pods = count_by_node(groups, snapshot.columns)
            if pods[snapshot.labels.column(key).codes >= 0].any():
                by_key[key] = by_key.get(key, 0) + weight * pods
        if not by_key:
            return SKIP
        counts = {key: count_by_domain(snapshot.labels.column(key), by_node) for key, by_node in by_key.items()}
        state.write(self._score_key, _ScoreState(counts))
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Ints:
        """The sum of the weights of the terms; negative for anti-affinity."""
        total = np.zeros(len(rows), dtype=np.int64)
        for counts in state.read(self._score_key, _ScoreState).counts.values():
            total += counts.of(rows)
        return total

    def normalize(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows, scores: Ints) -> Ints:
        """Scales the scores from the lowest, 0, to the highest, 100. All 0 if they are equal."""
        lowest, highest = (int(scores.min()), int(scores.max())) if len(scores) else (0, 0)
        if lowest == highest:
            return np.zeros_like(scores)
        found: Ints = (float(MAX_SCORE) * ((scores - lowest) / float(highest - lowest))).astype(np.int64)
        return found

    @property
    def _score_key(self) -> str:
        return "InterPodAffinity.score"

    def _weighted(
        self, pod: PodInfo, selecting: Sequence[SimilarPods], snapshot: ClusterSnapshot
    ) -> Iterator[tuple[str, int, Sequence[SimilarPods]]]:
        """The topology key and weight of each term, and the groups whose pods it counts. `selecting`: the groups of the
        snapshot with a term that selects the pod."""
        for term in pod.preferred:
            yield term.topology_key, term.weight, _selected_groups(term, snapshot)
        existing: dict[tuple[str, int], list[SimilarPods]] = {}
        labels = snapshot.namespaces.get(pod.namespace, {})
        for group in selecting:
            terms = [(term, term.weight) for term in group.pod.preferred]
            if self._hard_weight:
                terms += [(term, self._hard_weight) for term in group.pod.required_affinity]
            for term, weight in terms:
                if term.selects(pod.namespace, labels, pod.labels):
                    existing.setdefault((term.topology_key, weight), []).append(group)
        for (key, weight), groups in existing.items():
            yield key, weight, groups


class _FilterState:
    def __init__(self, affinity: Counts, anti_affinity: Counts, existing: Counts, selects_itself: bool) -> None:
        self.affinity = affinity
        """The numbers of pods that all terms of the pod's affinity select."""

        self.anti_affinity = anti_affinity
        """The numbers of pods that a term of its anti-affinity selects, once for each term."""

        self.existing = existing
        """The numbers of pods with a term of anti-affinity that selects the pod, once for each term."""

        self.selects_itself = selects_itself
        """All terms of its affinity select the pod itself."""

    def satisfies_affinity(self, rows: Rows) -> Flags:
        """The first pod of a group that has affinity to itself may run on every node with the topology keys."""
        first = self.selects_itself and all(counts.empty for counts in self.affinity.values())
        found = np.ones(len(rows), dtype=np.bool_)
        for counts in self.affinity.values():
            found &= counts.codes[rows] >= 0 if first else counts.of(rows) > 0
        return found

    def change(self, pod: PodInfo, other: PodInfo, row: int, snapshot: ClusterSnapshot, pods: int) -> None:
        if pod.required_affinity and all(_selects(term, other, snapshot) for term in pod.required_affinity):
            for counts in self.affinity.values():
                counts.add(row, pods)
        for term in pod.required_anti_affinity:
            if _selects(term, other, snapshot):
                self.anti_affinity[term.topology_key].add(row, pods)
        labels = snapshot.namespaces.get(pod.namespace, {})
        for term in other.required_anti_affinity:
            if term.selects(pod.namespace, labels, pod.labels):
                if term.topology_key not in self.existing:
                    self.existing[term.topology_key] = _counts(term.topology_key, (), snapshot)
                self.existing[term.topology_key].add(row, pods)

    def clone(self) -> "_FilterState":
        affinity, anti_affinity, existing = (
            {key: counts.clone() for key, counts in each.items()}
            for each in (self.affinity, self.anti_affinity, self.existing)
        )
        return _FilterState(affinity, anti_affinity, existing, self.selects_itself)


class _ScoreState:
    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        """The sums of the weights of the terms."""

    def clone(self) -> "_ScoreState":
        return self


def _may_concern(pod: PodInfo, other: PodInfo) -> bool:
    """Whether a term of one may select the other. A namespace selector counts as selecting every namespace."""
    pairs = [(term, other) for term in (*pod.required_affinity, *pod.required_anti_affinity)]
    pairs += [(term, pod) for term in other.required_anti_affinity]
    return any(
        (each.namespace in term.namespaces or term.namespace_selector is not None)
        and selects(term.selector, each.labels)
        for term, each in pairs
    )


def _affinity(pod: PodInfo, snapshot: ClusterSnapshot) -> Counts:
    terms = pod.required_affinity
    if not terms:
        return {}
    first, *others = terms
    groups = [
        group
        for group in _selected_groups(first, snapshot)
        if all(_selects(term, group.pod, snapshot) for term in others)
    ]
    return {key: _counts(key, groups, snapshot) for key in dict.fromkeys(term.topology_key for term in terms)}


def _anti_affinity(pod: PodInfo, snapshot: ClusterSnapshot) -> Counts:
    groups: dict[str, list[SimilarPods]] = {}
    for term in pod.required_anti_affinity:
        groups.setdefault(term.topology_key, []).extend(_selected_groups(term, snapshot))
    return {key: _counts(key, each, snapshot) for key, each in groups.items()}


def _existing_anti_affinity(pod: PodInfo, selecting: Sequence[SimilarPods], snapshot: ClusterSnapshot) -> Counts:
    """The counts by topology key, without keys that no node of such a pod has. `selecting`: the groups of the snapshot
    with a term that selects the pod."""
    labels = snapshot.namespaces.get(pod.namespace, {})
    groups: dict[str, list[SimilarPods]] = {}
    for group in selecting:
        for term in group.pod.required_anti_affinity:
            if term.selects(pod.namespace, labels, pod.labels):
                groups.setdefault(term.topology_key, []).append(group)
    found = {key: _counts(key, each, snapshot) for key, each in groups.items()}
    return {key: counts for key, counts in found.items() if not counts.empty}


def _counts(key: str, groups: Sequence[SimilarPods], snapshot: ClusterSnapshot) -> TopologyCounts:
    return count_by_domain(snapshot.labels.column(key), count_by_node(groups, snapshot.columns))


def _selected_groups(term: AffinityTerm, snapshot: ClusterSnapshot) -> Sequence[SimilarPods]:
    """The groups that a term of the new pod selects."""
    namespaces: Iterable[str] = term.namespaces
    if term.namespace_selector is not None:
        namespaces = [each for each in snapshot.groups.namespaces if _covers(term, each, snapshot.namespaces)]
    return [group for each in namespaces for group in snapshot.groups.selected(each, term.selector)]


def _selects(term: AffinityTerm, other: PodInfo, snapshot: ClusterSnapshot) -> bool:
    """Whether a term of the new pod selects the other one."""
    return _covers(term, other.namespace, snapshot.namespaces) and selects(term.selector, other.labels)


def _selects_itself(pod: PodInfo, snapshot: ClusterSnapshot) -> bool:
    return all(_selects(term, pod, snapshot) for term in pod.required_affinity)


def _covers(term: AffinityTerm, namespace: str, known: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether a term of the new pod is about this namespace.

    An empty namespace selector selects all namespaces; any other one selects only known namespaces. (A term of an
    existing pod is compared with the labels of the new pod's namespace.)
    """
    selector = term.namespace_selector
    if namespace in term.namespaces or selector is None:
        return namespace in term.namespaces
    if not (selector.match_labels or selector.match_expressions):
        return True
    return namespace in known and selects(selector, known[namespace])


def _any(counts: Counts, rows: Rows) -> Flags:
    """Whether the domain of each row, of any topology key, has pods."""
    found = np.zeros(len(rows), dtype=np.bool_)
    for each in counts.values():
        found |= each.of(rows) > 0
    return found
