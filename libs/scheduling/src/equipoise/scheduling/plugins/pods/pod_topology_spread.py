"""PodTopologySpread: the pods that a selector selects are spread evenly over topology domains.

Formulas: pkg/scheduler/framework/plugins/podtopologyspread of Kubernetes 1.37.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from equipoise.contracts.kubernetes.labels import HOSTNAME, ZONE, selects
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import TopologySpreadConstraint
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.events import ClusterEvent, changed, is_update_of, pods_of
from equipoise.scheduling.framework.plugin import MAX_SCORE, SKIPPED, PreFiltered, Refusal
from equipoise.scheduling.framework.status import SKIP, SUCCESS, Code, PluginStatus
from equipoise.scheduling.model.arrays import Flags, Floats, Ints, Rows
from equipoise.scheduling.model.pod_groups import count_by_node
from equipoise.scheduling.model.pod_info import PodInfo, with_label_keys
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.normalization import all_equal
from equipoise.scheduling.plugins.pods.topology_counts import TopologyCounts, count_by_domain

REASON = "node(s) didn't match pod topology spread constraints"
REASON_LABEL = f"{REASON} (missing required label)"

DO_NOT_SCHEDULE, SCHEDULE_ANYWAY = "DoNotSchedule", "ScheduleAnyway"

SYSTEM_CONSTRAINTS = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=3),
    TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=5),
)
"""The constraints of pods without any, if the configuration lists none either (`defaultingType: System`)."""

Rule = tuple[TopologySpreadConstraint, LabelSelector | None]
"""The constraint, and the selector that is used instead of the `labelSelector` of the constraint."""

_MOST_COUNTS = 100
"""The highest number of matching pods on a node with which scores are computed once per number, not once per node."""


class PodTopologySpread:
    name = "PodTopologySpread"

    def __init__(
        self,
        default_selector: Callable[[PodInfo], LabelSelector | None],
        default_constraints: Sequence[TopologySpreadConstraint] | None = None,
    ) -> None:
        """`default_constraints`: the constraints of pods without any (`defaultingType: List`); None:
        SYSTEM_CONSTRAINTS.

        They count the pods that `default_selector` selects: the union of the selectors of the pod's Services and of its
        ReplicaSet, StatefulSet or ReplicationController. Without a selector the pod has no constraints.
        """
        self._default_selector = default_selector
        self._system = default_constraints is None
        defaults = SYSTEM_CONSTRAINTS if default_constraints is None else default_constraints
        self._default_constraints = {
            when: [each for each in defaults if each.when_unsatisfiable == when]
            for when in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY)
        }

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot) -> PreFiltered:
        rules = self._rules(pod, DO_NOT_SCHEDULE)
        if not rules:
            return SKIPPED
        labelled = _with_all_keys(rules, snapshot)
        counted = _selected_pods(pod, rules, snapshot)
        spreads = [
            _spread(pod, rule, by_node, labelled, snapshot) for rule, by_node in zip(rules, counted, strict=True)
        ]
        state.write(self.name, _FilterState(spreads))
        return PreFiltered()

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, row: int, snapshot: ClusterSnapshot) -> None:
        state.read(self.name, _FilterState).change(pod, added, row, 1)

    def remove_pod(
        self, state: CycleState, pod: PodInfo, removed: PodInfo, row: int, snapshot: ClusterSnapshot
    ) -> None:
        state.read(self.name, _FilterState).change(pod, removed, row, -1)

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Sequence[Refusal]:
        """A node is refused for the first constraint that it does not meet."""
        refusals = []
        left = np.ones(len(rows), dtype=np.bool_)
        for spread in state.read(self.name, _FilterState).spreads:
            unlabelled = left & (spread.counts.codes[rows] < 0)
            left &= ~unlabelled
            skewed = left & (spread.skew(rows) > spread.constraint.max_skew)
            left &= ~skewed
            refusals.append(Refusal(nodes=unlabelled, reason=REASON_LABEL, code=Code.UNSCHEDULABLE_AND_UNRESOLVABLE))
            refusals.append(Refusal(nodes=skewed, reason=REASON))
        return refusals

    def may_help(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Whether the event changes the number of pods that a constraint counts, or a node with its topology keys."""
        rules = self._rules(pod, DO_NOT_SCHEDULE)
        if event.kind == "Node":
            nodes = [each for each in (event.old, event.new) if isinstance(each, Node)]
            relevant = any(all(rule.topology_key in each.metadata.labels for rule, _ in rules) for each in nodes)
            return relevant and changed(event, lambda node: (node.metadata.labels, node.spec.taints))
        others = [each for each in pods_of(event) if each.namespace == pod.namespace]
        # If a selector selects only one of the old and the new pod, the count changes.
        return is_update_of(event, pod) or any(
            sum(selects(selector, each.labels) for each in others) == 1 for _, selector in rules
        )

    # Score

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> PluginStatus:
        rules = self._rules(pod, SCHEDULE_ANYWAY)
        if not rules:
            return SKIP
        labelled, scored = None, rows
        if pod.pod.spec.topology_spread_constraints or not self._system:
            labelled = _with_all_keys(rules, snapshot)
            scored = rows[labelled[rows]]
        # Without a node that has its label, a constraint adds 0 to all nodes.
        rules = [rule for rule in rules if snapshot.labels.column(rule[0].topology_key).values]
        scores = _scores(pod, rules, labelled, snapshot, scored)
        if labelled is not None:
            everywhere = np.zeros(snapshot.columns, dtype=np.int64)
            everywhere[scored] = scores
            scores = everywhere.take(rows)
        state.write(self._score_key, _ScoreState(scores, labelled))
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Ints:
        """Scores before they are normalized: the higher, the more pods the domain has. 0 for nodes that lack a topology
        key."""
        return state.read(self._score_key, _ScoreState).scores

    def normalize(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows, scores: Ints) -> Ints:
        """100 · (highest + lowest − score) / highest, and 0 for nodes that lack a topology key."""
        labelled = state.read(self._score_key, _ScoreState).labelled
        scored = None if labelled is None else labelled[rows]
        compared = scores if scored is None else scores[scored]
        highest = int(compared.item(compared.argmax())) if len(compared) else 0
        if highest == 0:
            normal = all_equal(len(compared), MAX_SCORE)
        else:
            normal = highest + int(compared.item(compared.argmin())) - compared
            normal *= MAX_SCORE
            normal //= highest
        if scored is None:
            return normal
        found = np.zeros_like(scores)
        found[scored] = normal
        return found

    @property
    def _score_key(self) -> str:
        return "PodTopologySpread.score"

    def _rules(self, pod: PodInfo, when_unsatisfiable: str) -> Sequence[Rule]:
        """The rules of the pod; default ones if the pod has none of either kind."""
        own = pod.pod.spec.topology_spread_constraints
        if own:
            return [
                (each, with_label_keys(each.label_selector, pod.labels, each.match_label_keys))
                for each in own
                if each.when_unsatisfiable == when_unsatisfiable
            ]
        defaults = self._default_constraints[when_unsatisfiable]
        selector = self._default_selector(pod) if defaults else None
        if selector is None or _is_empty(selector):
            return ()
        return [(each, selector) for each in defaults]


class _Spread:
    """A DoNotSchedule constraint, and the pods that it counts."""

    def __init__(
        self,
        rule: Rule,
        counts: TopologyCounts,
        eligible: Flags,
        domains: Rows,
        selects_pod: bool,
    ) -> None:
        self._rule = rule
        self.constraint, self._selector = rule
        self.counts = counts
        """The numbers of pods on eligible nodes."""

        self.eligible = eligible
        """Whether the pods of each node count."""

        self.domains = domains
        """The domains with an eligible node."""

        self.selects_pod = selects_pod
        self._minimum: int | None = None

    @property
    def minimum(self) -> int:
        """The number of pods of the domain with the fewest; 0 if there are fewer domains than `minDomains`."""
        if self._minimum is None:
            enough = len(self.domains) >= (self.constraint.min_domains or 1)
            self._minimum = self.counts.lowest(self.domains) if enough else 0
        return self._minimum

    def skew(self, rows: Rows) -> Ints:
        """The pods in the domain of each row, plus the new pod if it is selected, minus the minimum of all domains."""
        return self.counts.of(rows) + int(self.selects_pod) - self.minimum

    def change(self, other: PodInfo, row: int, pods: int) -> None:
        """Counts a pod that was added or removed. As in kube-scheduler, it also counts terminating pods and those of an
        empty selector, which the initial counts leave out."""
        if self.eligible[row] and selects(self._selector, other.labels):
            self.counts.add(row, pods)
            self._minimum = None

    def clone(self) -> "_Spread":
        copy = _Spread(self._rule, self.counts.clone(), self.eligible, self.domains, self.selects_pod)
        copy._minimum = self._minimum
        return copy


class _FilterState:
    def __init__(self, spreads: Sequence[_Spread]) -> None:
        self.spreads = spreads

    def change(self, pod: PodInfo, other: PodInfo, row: int, pods: int) -> None:
        if other.namespace == pod.namespace:
            for spread in self.spreads:
                spread.change(other, row, pods)

    def clone(self) -> "_FilterState":
        return _FilterState([each.clone() for each in self.spreads])


class _ScoreState:
    def __init__(self, scores: Ints, labelled: Flags | None) -> None:
        self.scores = scores
        """The scores of the feasible nodes."""

        self.labelled = labelled
        """Whether each node has the topology keys that it needs; None: it needs none."""

    def clone(self) -> "_ScoreState":
        return self


def _spread(pod: PodInfo, rule: Rule, by_node: Ints, labelled: Flags, snapshot: ClusterSnapshot) -> _Spread:
    """`by_node`: the pods that it selects; `labelled`: nodes with the topology keys of all constraints."""
    constraint, selector = rule
    eligible = labelled & _included(pod, constraint, snapshot)
    column = snapshot.labels.column(constraint.topology_key)
    has_nodes = np.zeros(len(column.values), dtype=np.bool_)
    has_nodes[column.codes[eligible]] = True
    return _Spread(
        rule,
        count_by_domain(column, np.where(eligible, by_node, 0)),
        eligible,
        has_nodes.nonzero()[0],
        selects(selector, pod.labels),
    )


def _scores(pod: PodInfo, rules: Sequence[Rule], labelled: Flags | None, snapshot: ClusterSnapshot, rows: Rows) -> Ints:
    """The score of each row. `labelled`: nodes with the topology keys of all constraints; None: none is required."""
    counted = _selected_pods(pod, rules, snapshot)
    if len(rules) == 1 and rules[0][0].topology_key == HOSTNAME and snapshot.labels.column(HOSTNAME).everywhere:
        # The default constraints without zones. Most nodes have no pod of the workload, and some have a few.
        counts = counted[0].take(rows)
        if (highest := int(counts.item(counts.argmax())) if len(counts) else 0) <= _MOST_COUNTS:
            score_by_count = [
                _rounded_number(number * math.log(len(rows) + 2) + (rules[0][0].max_skew - 1))
                for number in range(highest + 1)
            ]
            return np.array(score_by_count, dtype=np.int64).take(counts)
    total = np.zeros(len(rows), dtype=np.float64)
    for (constraint, _), by_node in zip(rules, counted, strict=True):
        total += _score(pod, constraint, by_node, labelled, snapshot, rows)
    return _rounded(total)


def _score(
    pod: PodInfo,
    constraint: TopologySpreadConstraint,
    by_node: Ints,
    labelled: Flags | None,
    snapshot: ClusterSnapshot,
    rows: Rows,
) -> Floats:
    """The score of each row: count · ln(size + 2) + maxSkew − 1; size is the number of domains of these nodes.

    For `kubernetes.io/hostname`, each node is a domain of its own.
    """
    column = snapshot.labels.column(constraint.topology_key)
    if constraint.topology_key == HOSTNAME:
        counts: Ints = by_node.take(rows)
        size = len(rows)
    else:
        included = _included(pod, constraint, snapshot)
        if labelled is not None:
            included &= labelled
        counted = np.where(included, by_node, 0)
        # Nodes without the label (code -1, therefore + 1) are one domain with those that have an empty value. It counts
        # in `size`, and their own score becomes 0 below. If all keys are required, they are not scored.
        domains = column.codes if "" not in column.values else column.codes_with_missing_as("")
        by_domain = np.bincount(domains[counted > 0] + 1, counted[counted > 0], len(column.values) + 1)
        row_domains = domains.take(rows) + 1
        counts = by_domain[row_domains].astype(np.int64)
        size = int(np.count_nonzero(np.bincount(row_domains)))
    scores: Floats = counts.astype(np.float64)
    scores *= math.log(size + 2)
    scores += constraint.max_skew - 1
    if not column.everywhere:
        scores[column.codes.take(rows) < 0] = 0.0
    return scores


def _with_all_keys(rules: Sequence[Rule], snapshot: ClusterSnapshot) -> Flags:
    """Whether each node has the topology keys of all rules."""
    found: Flags = np.logical_and.reduce([snapshot.labels.column(each.topology_key).codes >= 0 for each, _ in rules])
    return found


def _included(pod: PodInfo, constraint: TopologySpreadConstraint, snapshot: ClusterSnapshot) -> Flags:
    """Whether `nodeAffinityPolicy` and `nodeTaintsPolicy` let the pods of each node count."""
    found = np.ones(snapshot.columns, dtype=np.bool_)
    if constraint.node_affinity_policy == "Honor" and (required := pod.required_nodes) is not None:
        found &= snapshot.labels.selected(required, pod.shape.required_nodes_key)
    if constraint.node_taints_policy == "Honor":
        untolerated = snapshot.untolerated(pod.pod.spec.tolerations)
        if untolerated is not None:
            found &= ~untolerated
    return found


def _selected_pods(pod: PodInfo, rules: Sequence[Rule], snapshot: ClusterSnapshot) -> Sequence[Ints]:
    """The pods that each rule selects on each node, without terminating ones. An empty selector counts none."""
    found: list[Ints] = []
    for place, (_, selector) in enumerate(rules):
        # Constraints of a pod mostly differ in the topology key only.
        if place and selector == rules[place - 1][1]:
            found.append(found[-1])
            continue
        empty = selector is None or _is_empty(selector)
        groups = [] if empty else snapshot.groups.selected(pod.namespace, selector)
        found.append(count_by_node([group for group in groups if not group.pod.terminating], snapshot.columns))
    return found


def _is_empty(selector: LabelSelector) -> bool:
    return not selector.match_labels and not selector.match_expressions


def _rounded(values: Floats) -> Ints:
    """math.Round of Go, of values that are not negative: halves are rounded up."""
    whole = np.floor(values)
    whole += values - whole >= 0.5
    return whole.astype(np.int64)


def _rounded_number(value: float) -> int:
    """The same of one value."""
    whole = math.floor(value)
    return whole + (value - whole >= 0.5)
