"""Explains the scores of a pod's candidate nodes: all inputs, and what would have changed the order."""

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from equipoise.contracts.bus.subjects import token
from equipoise.contracts.configuration.settings import Window
from equipoise.contracts.load.correction import (
    RESOURCES,
    PodLifetime,
    age_of,
    amounts,
    correction_factor,
    known,
    partial_lifetimes,
    share_measured,
)
from equipoise.contracts.messages.explanation import (
    Correction,
    ExplainRequest,
    Explanation,
    NodeExplanation,
    WindowExplanation,
)
from equipoise.contracts.messages.placement import GonePod, NodePlacement, PlacedPod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.scorer.decisions.counterfactual import rank_change
from equipoise.scorer.decisions.ranking import AVOIDED, PREFERRED, Ranking, rank
from equipoise.scorer.decisions.score_integers import neutral
from equipoise.scorer.decisions.scoring_state import ScoringState
from equipoise.scorer.state.arrays import Array, expected_load, resources
from equipoise.scorer.state.demand import demand_of_placed
from equipoise.scorer.state.load_correction import base_of

_MAX_LISTED = 10
"""Nodes that are explained, and pods that are named per correction: the explanation must fit into one message."""

_NO_REQUESTS = PodDemand(namespace="", name="", uid="")


class _Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What is explained."""

    pod: PodDemand | None
    placed: PlacedPod | None = None
    """The pod on its current node."""

    current_node: str = ""
    node: str = ""
    """The node that the request names."""


def explain(state: ScoringState, request: ExplainRequest, now: float, *, neutral_by: str = "") -> Explanation:
    """The scores as of now; reserves nothing. A placed pod is scored without itself on its current node.

    `neutral_by`: a setting that makes all scores neutral.
    """
    subject = _subject_of(state, request)
    if isinstance(subject, str):
        return Explanation(problem=subject, explained_at=now)
    pod, placed = subject.pod or _NO_REQUESTS, subject.placed
    names = request.nodes or state.nodes.with_headroom(np.nan_to_num(amounts(pod.requests)), subject.current_node)[0]
    names = list(dict.fromkeys([*names, *(node for node in (subject.current_node, subject.node) if node)]))
    if not names:
        return Explanation(problem="no known node has enough free requests for the pod", explained_at=now)
    without = None if placed is None else state.nodes.without(subject.current_node, placed, now)
    demand, nodes, rows = state.inputs(pod, names, now, without=without)
    hint = state.hints.hint(pod.uid, pod.workload, names, now)
    ranking = rank(state.policy, nodes, demand, hint, state.settings, state.max_score)
    data_problem = state.coverage_problem(now)
    if why := neutral_by or data_problem:
        ranking = msgspec.structs.replace(ranking, scores=neutral(len(names), why))
    policy, view = state.policy, _View(state, ranking, subject, pod, now)
    return Explanation(
        pod=subject.pod,
        current_node=subject.current_node,
        policy=policy.policy_name(),
        demand=resources(demand.usage[0]),
        demand_sources={resource: str(link) for resource, link in demand.sources.items()},
        chain=[str(link) for link in policy.demand_chain],
        windows_used=list(policy.windows),
        level=policy.level(nodes),
        compensation=state.load.compensation,
        considered=len(names),
        neutral=ranking.scores.neutral,
        why=ranking.scores.why,
        data_problem=data_problem,
        nodes=view.nodes(),
        rank_change=rank_change(policy, ranking, rows) if len(names) > 1 else None,
        notes=_notes(state, subject, all_nodes=not request.nodes),
        explained_at=now,
    )


def _subject_of(state: ScoringState, request: ExplainRequest) -> _Subject | str:
    """What is explained; as text, why nothing can be explained and what to do."""
    node = request.node
    if node and state.nodes.latest_messages(node) == (None, None):
        return f"the scorer has received nothing about node {node}: see `equipoise tap '*.node.{token(node)}'`"
    if request.pod is not None:
        return _Subject(pod=request.pod, node=node)
    if request.name:
        found = state.nodes.find_pod(request.namespace, request.name)
        if found is None:
            return (
                f"the scorer has not received a placement of pod {request.namespace}/{request.name}, and can explain "
                f"only placed pods: see `kubectl -n {request.namespace} get pod {request.name} -o wide`"
            )
        current_node, placed = found
        return _Subject(pod=demand_of_placed(placed), placed=placed, current_node=current_node, node=node)
    if node:
        return _Subject(pod=None, node=node)
    return "name a pod (namespace and name, or the whole pod) or a node"


def _notes(state: ScoringState, subject: _Subject, *, all_nodes: bool) -> list[str]:
    policy, load, notes = state.policy, state.load, []
    if all_nodes:
        notes.append(
            "the candidates are the nodes that are ready, neither cordoned nor tainted, and have enough free requests: "
            "kube-scheduler may use others, because it knows tolerations and affinities"
        )
    if missing := [name for name in policy.windows if load.window(name) is None]:
        notes.append(f"the policy uses {', '.join(missing)}, which is not in load.windows: unknown for every node")
    if policy.uses_daily_loads:
        notes.append("the policy uses the daily load of every node; the windows are shown for information")
    if load.compensation != "proportional":
        notes.append(
            f"load.compensation is {load.compensation}: recent arrivals and departures are not fully corrected"
        )
    if "deviation" in policy.statistics:
        notes.append("standard deviations are as measured: the effect of a pod on them is not known")
    if subject.current_node and {"p95", "max"} & set(policy.statistics):
        notes.append(f"the part of the pod itself in p95 and max of {subject.current_node} is an estimate")
    return notes


class _NodeInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of one node."""

    index: int
    """Of the node in the ranking."""

    utilization: NodeUtilization | None
    placement: NodePlacement | None
    """Without the explained pod."""

    explained_pod: PlacedPod | None
    """The explained pod, if this is its current node."""

    reserved: Array
    """windows × resources: cores and bytes."""

    why_unknown: str


class _View:
    """Explains the nodes of one ranking."""

    def __init__(self, state: ScoringState, ranking: Ranking, subject: _Subject, pod: PodDemand, now: float) -> None:
        self._state, self._ranking, self._subject, self._pod, self._now = state, ranking, subject, pod, now
        self._expected = expected_load(ranking.nodes, ranking.demand)
        self._usage_of = state.nodes.pod_usage(now)

    def nodes(self) -> list[NodeExplanation]:
        """The best nodes, the current node of the pod, and the node that the request names."""
        state, ranking, subject = self._state, self._ranking, self._subject
        reserved = state.reserved(self._now, without=self._pod.uid)
        targets = state.hints.reserved(self._now, without=self._pod.uid, reservations=state.reservations)
        by_part = state.policy.scores_by_part(ranking.nodes, ranking.demand)
        found = []
        for position, index in enumerate(map(int, ranking.order), 1):
            name = ranking.names[index]
            if position > _MAX_LISTED and name not in (subject.current_node, subject.node):
                continue
            row = int(state.nodes.rows([name])[0])
            utilization, placement = state.nodes.latest_messages(name)
            explained_pod = subject.placed if name == subject.current_node else None
            if placement is not None and explained_pod is not None:
                rest = [each for each in placement.pods if each.uid != explained_pod.uid]
                placement = msgspec.structs.replace(placement, pods=rest)
            inputs = _NodeInputs(
                index=index,
                utilization=utilization,
                placement=placement,
                explained_pod=explained_pod,
                reserved=np.zeros(self._expected.shape[1:])
                if reserved is None or row < 0
                else np.maximum(reserved[row], 0.0),
                why_unknown=state.nodes.why_unknown(name, self._now),
            )
            status, why = self._status(inputs)
            nodes = ranking.nodes
            found.append(
                NodeExplanation(
                    node=name,
                    rank=position,
                    extender_score=int(ranking.scores.scores[index]),
                    score=round(float(ranking.points[index]), 2),
                    parts={part: round(float(scores[index]), 2) for part, scores in by_part.items()},
                    status=status,
                    why=why,
                    base=resources(nodes.base[index]),
                    requests=resources(nodes.requests[index]),
                    limits=resources(nodes.limits[index]),
                    age=None if utilization is None else age_of(utilization.sampled_at, self._now),
                    lifetime=float(state.load.freshness.score),
                    reserved_by_responses=state.reservations.count(row, without=self._pod.uid),
                    reserved_for_replacements=sum(target == name for target, _ in targets),
                    windows=[self._window(inputs, *each) for each in enumerate(state.load.windows)],
                )
            )
        return found

    def _status(self, inputs: _NodeInputs) -> tuple[Literal["", "unknown", "avoided", "overfull", "preferred"], str]:
        ranking, name, expected = self._ranking, self._ranking.names[inputs.index], self._expected[inputs.index]
        if name in ranking.hint.avoided:
            return "avoided", AVOIDED
        if np.isnan(ranking.nodes.load[inputs.index]).all():
            return "unknown", inputs.why_unknown or "its load is unknown"
        if (expected > 1.0).any():
            window, resource = np.unravel_index(np.nanargmax(expected), expected.shape)
            load = f"{RESOURCES[resource]} {expected[window, resource]:.1%} ({ranking.nodes.windows[window]})"
            return "overfull", f"with the pod it would be overfull: {load}"
        return ("preferred", PREFERRED) if name == ranking.hint.preferred else ("", "")

    def _window(self, inputs: _NodeInputs, position: int, window: Window) -> WindowExplanation:
        nodes, index, utilization = self._ranking.nodes, inputs.index, inputs.utilization
        value = None if utilization is None else utilization.windows.get(window.name)
        lifetime = float(self._state.load.lifetime(window))
        if utilization is None or value is None:
            return WindowExplanation(window=window.name, lifetime=lifetime, unknown_reason="samples do not cover it")
        added, subtracted = self._corrections(inputs, utilization, window, value.sampled_at)
        unknown_reason, age = "", age_of(value.sampled_at, self._now)
        if np.isnan(nodes.load[index, position]).all():
            expired = f"its newest sample is {age:.1f} s old" if age > lifetime else ""
            unknown_reason = expired or inputs.why_unknown or "it has no value"
        return WindowExplanation(
            window=window.name,
            measured=value,
            added=added,
            subtracted=subtracted,
            reserved=resources(inputs.reserved[position]) if inputs.reserved.any() else Resources(),
            load=resources(nodes.load[index, position]),
            load_with_pod=resources(self._expected[index, position]),
            statistics={name: resources(values[index, position]) for name, values in nodes.statistics.items()},
            age=age,
            lifetime=lifetime,
            unknown_reason=unknown_reason,
        )

    def _corrections(
        self, inputs: _NodeInputs, utilization: NodeUtilization, window: Window, sampled_at: float
    ) -> tuple[Correction, Correction]:
        """What was added to the window's mean, and what was subtracted from it."""
        load, usage_of, changes = self._state.load, self._usage_of, list[tuple[str, Array]]()

        def change(pod: PlacedPod | GonePod, factor: float, usage: Resources) -> None:
            if factor:
                used = Resources(cpu=known(usage.cpu), memory=known(usage.memory))
                changes.append((f"{pod.namespace}/{pod.name}", factor * np.nan_to_num(amounts(used))))

        if (pod := inputs.explained_pod) is not None:
            usage = usage_of(pod, utilization.pods.get(pod.uid, Resources()))
            lifetime = PodLifetime(placed_at=pod.placed_at, running_since=pod.running_since, usage=usage)
            change(
                pod,
                -share_measured(lifetime, sampled_at, window.length, pod_start_timeout=load.pod_start_timeout),
                usage,
            )
        if inputs.placement is not None:
            for other, lifetime in partial_lifetimes(utilization, inputs.placement, usage_of, load=load):
                factor = correction_factor(lifetime, sampled_at=sampled_at, length=window.length, load=load)
                change(other, factor, lifetime.usage)
        base = base_of(utilization)
        changes.sort(key=lambda each: -float(np.nansum(np.abs(each[1]) / base)))
        added = [(name, amount) for name, amount in changes if (amount > 0.0).any()]
        subtracted = [(name, -amount) for name, amount in changes if (amount < 0.0).any()]
        return _correction(added), _correction(subtracted)


def _correction(changes: Sequence[tuple[str, Array]]) -> Correction:
    if not changes:
        return Correction()
    total: Array = np.sum([amount for _, amount in changes], axis=0)
    return Correction(amount=resources(total), pods=[name for name, _ in changes[:_MAX_LISTED]], count=len(changes))
