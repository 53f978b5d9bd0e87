"""rules: moves pods away from nodes whose metrics match rules, such as a further resource, or pressure, above a target.

After the strategy `deschedule` of Telemetry Aware Scheduling, which labels such nodes and leaves the evictions to the
descheduler: all pods with a matching affinity at once. Here pods leave one after the other, to nodes that match no
rule, and no more than it takes as far as that is known. Source: intel/platform-aware-scheduling,
telemetry-aware-scheduling/pkg/strategies/deschedule.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from equipoise.contracts.configuration.settings import Namespaces, Section
from equipoise.contracts.load.correction import known, load_of, plus
from equipoise.contracts.load.metric_rule import FIXED_METRICS, PRESSURE_METRICS, Match, MetricRule, matching
from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster import ClusterView, MovePlan
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod, Resource
from equipoise.descheduler.decisions.planning.pod_order import in_order
from equipoise.descheduler.decisions.planning.pools import Selector
from equipoise.descheduler.decisions.planning.target_selection import TargetNodes, least_loaded_target, target_nodes
from equipoise.descheduler.decisions.planning.thresholds import AppliedThresholds, Ceilings, filling
from equipoise.descheduler.state.draft import PlanDraft

Values = dict[str, float | None]
"""The metrics of a node in percent; None: unknown."""

LEAST_REDUCTION = 0.5
"""Percentage points. A pod that uses less of every metric that matches does not relieve its node."""


class MoveByRules(Section, frozen=True, kw_only=True, tag_field="name", tag="rules"):
    """The strategy `rules` and its settings. Targets stay below the shared thresholds."""

    rules: Annotated[tuple[MetricRule, ...], Meta(min_length=1)]
    """Pods leave nodes that match them."""

    match: Match = "any"
    """Whether one rule has to match, or all."""

    node_selector: Selector = Selector()
    """Other nodes are neither source nor target."""

    namespaces: Namespaces | None = None
    """Namespaces whose pods it may move, among those from which pods may be moved at all. null: all of them."""

    pod_selector: Selector = Selector()
    """The pods that it may move."""

    @property
    def levels(self) -> bool:
        """A node has to match its rules."""
        return False

    def windows_of(self, cluster: ClusterView) -> Sequence[str]:
        """The shortest window."""
        return (cluster.windows[0],)

    def classify(self, cluster: ClusterView) -> list[NodeClassification]:
        """Every selected node: hot if it matches the rules, and unknown if its load is."""
        return [self._classification(node, cluster) for node in self._selected(cluster)]

    def plan(self, cluster: ClusterView, abnormal: Collection[str]) -> MovePlan:
        """Moves away from the nodes among `abnormal` that match the rules."""
        nodes, matches = self._selected(cluster), self._matches(cluster)
        sources = [node for node in nodes if node.name in abnormal and matches[node.name] and not node.unknown]
        if not sources:
            any_match = any(matches.values())
            return MovePlan(
                why=f"no node {'has matched the rules for long enough' if any_match else 'matches the rules'}"
            )
        applied, production = filling(cluster.thresholds)
        applied = msgspec.structs.replace(applied, ceiling=self._ceiling(applied))
        draft = PlanDraft(self._with_own_metrics(cluster), self.windows_of(cluster), production=production is not None)
        others = [node for node in nodes if not matches[node.name] and self._is_known(node, cluster)]
        targets = target_nodes(others, draft.projection, applied, production, target_threshold=1.0)
        for node in sources:
            if node.source_refusal:
                draft.refuse(node, node.source_refusal)
            else:
                self._relieve(node, cluster, draft, targets)
        return draft.plan("the pending moves are sufficient")

    def ceilings(self, cluster: ClusterView) -> dict[str, Ceilings]:
        """The load up to which each node may be filled: that at which no rule matches it."""
        applied, production = filling(cluster.thresholds)
        ceilings = Ceilings(node=self._ceiling(applied), production={} if production is None else production.ceiling)
        return {node.name: ceilings for node in self._selected(cluster)}

    def _ceiling(self, applied: AppliedThresholds) -> dict[str, float]:
        ceiling = dict(applied.ceiling)
        for rule in self.rules:
            if rule.operator == "GreaterThan" and rule.metric not in PRESSURE_METRICS:
                limit = max(0.0, rule.target / 100)
                ceiling[rule.metric] = min(ceiling.get(rule.metric, limit), limit)
        return ceiling

    def _with_own_metrics(self, cluster: ClusterView) -> ClusterView:
        """The cluster with the further resources of the rules, whether these have a threshold or not."""
        own = (rule.metric for rule in self.rules if rule.metric not in FIXED_METRICS)
        return msgspec.structs.replace(cluster, further=tuple(dict.fromkeys((*cluster.further, *own))))

    def _is_known(self, node: ClusterNode, cluster: ClusterView) -> bool:
        """Whether the further resources of the rules are known, of those that the node has: as a target, a node of
        unknown load is full."""
        values = self._values(node, self.windows_of(cluster)[0])
        return not any(value is None and metric in node.resources for metric, value in values.items())

    def _selected(self, cluster: ClusterView) -> list[ClusterNode]:
        return [node for node in cluster.nodes if self.node_selector.matches(node.labels)]

    def _matches(self, cluster: ClusterView) -> Mapping[str, str]:
        """The rules that each node matches, as a text."""
        window = self.windows_of(cluster)[0]
        return {
            node.name: "" if node.unknown else matching(self.rules, self._values(node, window), self.match)
            for node in self._selected(cluster)
        }

    def _classification(self, node: ClusterNode, cluster: ClusterView) -> NodeClassification:
        windows = self.windows_of(cluster)
        values = self._values(node, windows[0])
        why = "" if node.unknown else matching(self.rules, values, self.match)
        return NodeClassification(
            node=node.name,
            state="unknown" if node.unknown else "hot" if why else "between",
            load=node.load(windows[0]),
            why=node.unknown or (f"node matches the rules: {why}" if why else ""),
            over=[rule.metric for rule in self.rules if why and rule.matches(values[rule.metric])],
            sampled_at=node.oldest_sample(windows),
        )

    def _values(self, node: ClusterNode, window: str) -> Values:
        """The metrics of the rules, without what is only expected of pods that are not measured yet."""
        usage = node.usage.get(window, Resources())
        measured = load_of(plus(usage, node.expected.get(window, Resources()), -1.0), node.base)
        values: Values = {}
        for metric in {rule.metric for rule in self.rules}:
            if (resource := PRESSURE_METRICS.get(metric)) is not None:
                share = None if node.pressure is None else getattr(node.pressure.waiting, resource)
            else:
                share = measured.amount(metric)
            values[metric] = None if share is None else 100.0 * share
        return values

    def _relieve(self, node: ClusterNode, cluster: ClusterView, draft: PlanDraft, targets: TargetNodes) -> None:
        """Plans moves until the node matches no more; only one if its effect on a metric is not known."""
        values = self._values(node, self.windows_of(cluster)[0])
        _add(values, shares_of_base(node.coming, node.base), 1.0)
        _add(values, shares_of_base(node.terminating, node.base), -1.0)
        reason = matching(self.rules, values, self.match)
        if reason and node.leaving and self._has_unknown_effects(values):
            draft.refuse(node, "the effect of a pending move is not measured yet")
            return
        waiting = [pod for pod in node.pods if self._may_leave(pod, draft)] if reason else []
        while reason:
            if draft.room <= 0 or draft.room_from(node) <= 0:
                draft.refuse(node, "a limit of pending moves is reached")
                return
            pod = self._move_one(node, waiting, values, reason, draft, targets)
            if pod is None:
                return
            load = load_of(pod.usage, node.base)
            known_effect = all(
                rule.operator == "GreaterThan" and load.amount(rule.metric) is not None
                for rule in self._matched(values)
            )
            waiting.remove(pod)
            _add(values, load, -1.0)
            reason = matching(self.rules, values, self.match) if known_effect else ""

    def _move_one(
        self,
        node: ClusterNode,
        waiting: Sequence[MovablePod],
        values: Values,
        reason: str,
        draft: PlanDraft,
        targets: TargetNodes,
    ) -> MovablePod | None:
        """Plans the move of the pod whose load is nearest to what the node must lose. Returns it; None if none can
        move."""
        excess = self._excess(values)
        relieved = [rule.metric for rule in self._matched(values)]
        for pod in in_order(waiting, base=node.base, excess=excess, weights={}):
            load = load_of(pod.usage, node.base)
            amounts = [load.amount(metric) for metric in relieved]
            if all(amount is not None and 100.0 * amount < LEAST_REDUCTION for amount in amounts):
                draft.refuse(node, f"it uses little or no {' and '.join(relieved)}", pod)
                continue
            if draft.busy(pod):
                draft.refuse(node, "another pod of its workload moves first", pod)
                continue
            choice = least_loaded_target(pod, node, targets, draft.projection, hot=tuple(excess), weights={})
            if choice.target is not None:
                draft.add(pod, node, choice.target, f"node matches the rules: {reason}")
                return pod
            draft.refuse(node, choice.why, pod)
        return None

    def _matched(self, values: Values) -> list[MetricRule]:
        return [rule for rule in self.rules if rule.matches(values[rule.metric])]

    def _excess(self, values: Values) -> dict[Resource, float]:
        """How far loads (0..1) are above their targets, by metric."""
        return {
            rule.metric: (value - rule.target) / 100
            for rule in self._matched(values)
            if rule.operator == "GreaterThan"
            and rule.metric not in PRESSURE_METRICS
            and (value := values[rule.metric]) is not None
        }

    def _has_unknown_effects(self, values: Values) -> bool:
        """Whether it cannot be predicted how much a move changes one of the metrics that match."""
        matched = self._matched(values)
        return any(rule.operator != "GreaterThan" or rule.metric in PRESSURE_METRICS for rule in matched)

    def _may_leave(self, pod: MovablePod, draft: PlanDraft) -> bool:
        why = pod.protection or self._may_move(pod)
        if why:
            draft.protect(pod, why)
        return not why

    def _may_move(self, pod: MovablePod) -> str:
        """Why the pod may not be moved; "" if it may."""
        if known(pod.usage.cpu) is None or known(pod.usage.memory) is None:
            return "its usage is not known"
        if self.namespaces is not None and not self.namespaces.allow(pod.namespace, ""):
            return "its namespace is excluded by the strategy"
        return "" if self.pod_selector.matches(pod.info.labels) else "the strategy's podSelector does not select it"


def shares_of_base(amounts: Resources, base: Resources) -> Resources:
    """Amounts that may be negative, as a share of the base."""

    def share(name: str) -> float | None:
        amount, whole = amounts.amount(name), known(base.amount(name))
        return amount / whole if amount is not None and whole else None

    further = {name: value for name in amounts.further or {} if (value := share(name)) is not None}
    return Resources(cpu=share("cpu"), memory=share("memory"), further=further or None)


def _add(values: Values, load: Resources, sign: float) -> None:
    """Adds a load (0..1) to the metrics in percent that are known."""
    for metric, value in values.items():
        share = load.amount(metric)
        if value is not None and share is not None:
            values[metric] = max(0.0, value + sign * 100.0 * share)
