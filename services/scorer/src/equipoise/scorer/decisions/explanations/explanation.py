"""Explains the scores of a pod's candidate nodes: all inputs, and what would have changed the order."""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from equipoise.contracts.bus.subjects import token
from equipoise.contracts.colocation.bands import OFFERED_BANDS
from equipoise.contracts.configuration.settings import Window
from equipoise.contracts.load.correction import (
    RESOURCES,
    age_of,
    amounts,
    correction_factor,
    lifetime_on_node,
    measured_usage,
    partial_lifetimes,
    share_measured,
)
from equipoise.contracts.messages.placement import GonePod, PlacedPod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.reclaimed import ReclaimedBand
from equipoise.contracts.messages.score import (
    BandExplanation,
    Correction,
    ExplainRequest,
    Explanation,
    NodeExplanation,
    WindowExplanation,
)
from equipoise.contracts.messages.utilization import NodeUtilization, WindowUsage
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array, np
from equipoise.scorer.decisions.arrays import CandidateNodes, expected_load, resources
from equipoise.scorer.decisions.demand import demand_of_placed
from equipoise.scorer.decisions.explanations.rank_change import rank_change
from equipoise.scorer.decisions.load_correction import base_of, included_usage, weighted_pods
from equipoise.scorer.decisions.neutral_scores import neutral
from equipoise.scorer.decisions.node_messages import find_pod, latest_messages
from equipoise.scorer.decisions.ranking import PREFERRED, Ranking, rank
from equipoise.scorer.state.rows.band_rows import requested
from equipoise.scorer.state.scoring_state import ScoringState

_MAX_LISTED = 10
"""Nodes that are explained, and pods that are named per correction: the explanation must fit into one message."""

_NO_REQUESTS = PodDemand(namespace="", name="", uid="")


def explain(state: ScoringState, request: ExplainRequest, now: float, *, neutral_by: str = "") -> Explanation:
    """The scores as of now; reserves nothing. A placed pod is scored without itself on its current node.

    `neutral_by`: a setting that makes all scores neutral.
    """
    subject = _subject_of(state, request)
    if isinstance(subject, str):
        return Explanation(problem=subject, explained_at=now)
    demanded, placed, current_node = subject
    pod = demanded or _NO_REQUESTS
    names = request.nodes or state.nodes.with_headroom(np.nan_to_num(amounts(pod.requests)), current_node)[0]
    names = list(dict.fromkeys([*names, *filter(None, (current_node, request.node))]))
    if not names:
        return Explanation(problem="no known node has enough free requests for the pod", explained_at=now)
    without = None if placed is None else state.nodes.without(current_node, placed, now)
    demand, nodes, rows = state.inputs(pod, names, now, without=without)
    hint = state.replacements.hint(pod.uid, pod.workload, names, now)
    ranking = rank(state.policy, nodes, demand, hint, state.settings, state.max_score)
    data_problem = state.coverage_problem(now)
    if why := neutral_by or data_problem:
        ranking = msgspec.structs.replace(ranking, scores=neutral(len(names), why))
    policy = state.policy
    return Explanation(
        pod=demanded,
        current_node=current_node,
        placed_hint=None if placed is None else placed.hint,
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
        nodes=_View(state, ranking, placed, current_node, pod.uid, now).nodes(also=request.node),
        rank_change=rank_change(policy, ranking, rows) if len(names) > 1 else None,
        notes=_notes(state, ranking, current_node, all_nodes=not request.nodes),
        explained_at=now,
    )


def _subject_of(state: ScoringState, request: ExplainRequest) -> tuple[PodDemand | None, PlacedPod | None, str] | str:
    """The pod to explain, its placement, and its current node (None and "" if it is not placed).

    If nothing can be explained, a text that states why and what to do.
    """
    node = request.node
    if node and latest_messages(state.nodes.messages, node) == (None, None):
        return f"the scorer has received nothing about node {node}: see `equipoise tap '*.node.{token(node)}'`"
    if request.pod is not None:
        return request.pod, None, ""
    if request.name:
        found = find_pod(state.nodes.messages, request.namespace, request.name)
        if found is None:
            return (
                f"the scorer has not received a placement of pod {request.namespace}/{request.name}, and can explain "
                f"only placed pods: see `kubectl -n {request.namespace} get pod {request.name} -o wide`"
            )
        current_node, placed = found
        return demand_of_placed(placed), placed, current_node
    return (None, None, "") if node else "name a pod (namespace and name, or the whole pod) or a node"


def _notes(state: ScoringState, ranking: Ranking, current_node: str, *, all_nodes: bool) -> list[str]:
    policy, load, notes = state.policy, state.load, []
    if all_nodes:
        notes.append(
            "the candidates are the nodes that are ready, neither cordoned nor tainted, and have enough free requests: "
            "kube-scheduler may use others, because it knows tolerations and affinities"
        )
    if ranking.scored_band is not None:
        notes.append(
            f"the score is what is left of the band {ranking.scored_band}, not that of the policy: loads are shown for "
            "information"
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
    if current_node and {"p95", "max"} & set(policy.statistics):
        notes.append(f"the part of the pod itself in p95 and max of {current_node} is an estimate")
    return notes


class _View:
    """Explains the nodes of one ranking."""

    def __init__(
        self, state: ScoringState, ranking: Ranking, placed: PlacedPod | None, current_node: str, uid: str, now: float
    ) -> None:
        """`placed` is the pod with this UID on its current node."""
        self._state, self._ranking, self._now = state, ranking, now
        self._placed, self._current_node, self._uid = placed, current_node, uid
        self._placed_uid = "" if placed is None else placed.uid
        self._expected = expected_load(ranking.nodes, ranking.demand)
        self._by_part = state.policy.scores_by_part(ranking.nodes, ranking.demand)
        self._usage_of = state.nodes.pod_usage(now)
        self._reserved = state.reserved(now, without=uid)
        self._targets = [
            node for node, _ in state.replacements.reserved(now, without=uid, reservations=state.reservations)
        ]

    def nodes(self, also: str) -> list[NodeExplanation]:
        """The best nodes, the current node of the pod, and the node `also`."""
        return [
            self._node(index, position)
            for position, index in enumerate(map(int, self._ranking.order), 1)
            if position <= _MAX_LISTED or self._ranking.names[index] in (self._current_node, also)
        ]

    def _node(self, index: int, rank: int) -> NodeExplanation:
        state, ranking, nodes = self._state, self._ranking, self._ranking.nodes
        name = ranking.names[index]
        row = int(state.nodes.rows([name])[0])
        utilization, _ = latest_messages(state.nodes.messages, name)
        reserved = np.zeros(self._expected.shape[1:])
        if self._reserved is not None and row >= 0:
            reserved = np.maximum(self._reserved[row], 0.0)
        why_unknown = state.nodes.why_unknown(name, self._now)
        band = self._band(index)
        status, why = self._status(index, why_unknown, band)
        high_priority, total = self._loads(index, utilization)
        return NodeExplanation(
            node=name,
            rank=rank,
            extender_score=int(ranking.scores.scores[index]),
            score=round(float(ranking.points[index]), 2),
            parts={part: round(float(scores[index]), 2) for part, scores in self._by_part.items()},
            status=status,
            why=why,
            base=resources(nodes.base[index]),
            requests=resources(nodes.requests[index]),
            limits=resources(nodes.limits[index]),
            age=None if utilization is None else age_of(utilization.sampled_at, self._now),
            lifetime=float(state.load.freshness.score),
            reserved_by_responses=state.reservations.count(row, without=self._uid),
            reserved_for_replacements=self._targets.count(name),
            further=_further(nodes, index),
            high_priority_load=high_priority,
            total_load=total,
            recent=None if utilization is None else utilization.recent,
            band=band,
            windows=[
                self._window(index, position, window, utilization, reserved[position], why_unknown)
                for position, window in enumerate(state.load.windows)
            ],
        )

    def _band(self, index: int) -> BandExplanation | None:
        demand, bands, name = self._ranking.demand, self._ranking.nodes.bands, self._ranking.names[index]
        if demand.band is None or bands is None:
            return None
        message = self._state.nodes.reclaimed(name, self._now)
        if message is None:
            why = "the reclaimer has published nothing about it, or not recently: is it running (`equipoise status`)?"
            return BandExplanation(band=demand.band, unknown_reason=why)
        _, placement = latest_messages(self._state.nodes.messages, name)
        row = OFFERED_BANDS.index(demand.band)
        band = message.bands.get(demand.band, ReclaimedBand())
        others = [] if placement is None else [pod for pod in placement.pods if pod.uid != self._placed_uid]
        left, capacity = bands.left[index, row], bands.capacity[index]
        by_others = requested(others)[row]
        reserved = np.maximum(np.nan_to_num(amounts(band.reclaimed) - by_others - left), 0.0)
        unknown = [
            resource
            for resource, share_left, request in zip(RESOURCES, left / capacity, demand.band_requests, strict=True)
            if np.isnan(share_left) and not np.isnan(request)
        ]
        why = f"the reclaimer does not know the {' and '.join(unknown)} of the band {demand.band}" if unknown else ""
        if why and message.degraded:
            why += f": {message.degraded}"
        return BandExplanation(
            band=demand.band,
            reclaimed=band.reclaimed,
            requested=resources(by_others),
            reserved=resources(reserved),
            left=resources(left - np.nan_to_num(demand.band_requests)),
            capacity=resources(capacity),
            hours=band.hours,
            age=age_of(message.evaluated_at, self._now),
            unknown_reason=why,
        )

    def _loads(self, index: int, utilization: NodeUtilization | None) -> tuple[Resources, Resources]:
        """Load without and with all usage of batch work; nothing for a node without batch work, or of unknown load."""
        nodes = self._ranking.nodes
        position, load, _ = self._ranking.shortest_window(index)
        window = self._state.load.windows[position]
        value = None if utilization is None else utilization.windows.get(window.name)
        if utilization is None or value is None or np.isnan(load).all():
            return Resources(), Resources()
        used = [part for _, part in self._batch_work(nodes.names[index], utilization, window, value.sampled_at)]
        if not used:
            return Resources(), Resources()
        weight = self._state.load.batch_work_weight
        share = np.sum(used, axis=0) / nodes.base[index]
        counted = share * (weight.cpu, weight.memory)
        return resources(np.maximum(load - counted, 0.0)), resources(load + share - counted)

    def _batch_work(
        self, node: str, utilization: NodeUtilization, window: Window, sampled_at: float
    ) -> list[tuple[str, Array]]:
        """Pods that give way to others, and their usage as far as the window includes it; without the explained pod."""
        _, placement = latest_messages(self._state.nodes.messages, node)
        found = []
        for pod in () if placement is None else weighted_pods(placement):
            if pod.uid != self._placed_uid:
                lifetime = lifetime_on_node(pod, utilization, self._usage_of)
                used = included_usage(lifetime, sampled_at=sampled_at, length=window.length, load=self._state.load)
                found.append((f"{pod.namespace}/{pod.name}", np.nan_to_num(amounts(used))))
        return found

    def _status(
        self, index: int, why_unknown: str, band: BandExplanation | None
    ) -> tuple[Literal["", "unknown", "avoided", "overfull", "preferred"], str]:
        nodes, hint, expected = self._ranking.nodes, self._ranking.hint, self._expected[index]
        if avoided := self._ranking.why_avoided(nodes.names[index]):
            return "avoided", avoided
        if band is not None:
            if band.unknown_reason:
                return "unknown", band.unknown_reason
            if self._ranking.points[index] <= 0.0:
                return "overfull", f"with the pod, nothing would be left of the band {band.band}"
            return ("preferred", PREFERRED) if nodes.names[index] == hint.preferred else ("", "")
        if np.isnan(nodes.load[index]).all():
            return "unknown", why_unknown or "its load is unknown"
        if (expected > 1.0).any():
            window, resource = np.unravel_index(np.nanargmax(expected), expected.shape)
            load = f"{RESOURCES[resource]} {expected[window, resource]:.1%} ({nodes.windows[window]})"
            return "overfull", f"with the pod it would be overfull: {load}"
        return ("preferred", PREFERRED) if nodes.names[index] == hint.preferred else ("", "")

    def _window(
        self,
        index: int,
        position: int,
        window: Window,
        utilization: NodeUtilization | None,
        reserved: Array,
        why_unknown: str,
    ) -> WindowExplanation:
        nodes = self._ranking.nodes
        value = None if utilization is None else utilization.windows.get(window.name)
        lifetime = float(self._state.load.lifetime(window))
        if utilization is None or value is None:
            return WindowExplanation(window=window.name, lifetime=lifetime, unknown_reason="samples do not cover it")
        added, subtracted = self._corrections(nodes.names[index], utilization, window, value)
        uncounted = 1.0 - np.array([self._state.load.batch_work_weight.cpu, self._state.load.batch_work_weight.memory])
        batch_work = [
            (name, used * uncounted)
            for name, used in self._batch_work(nodes.names[index], utilization, window, value.sampled_at)
        ]
        unknown_reason, age = "", age_of(value.sampled_at, self._now)
        if np.isnan(nodes.load[index, position]).all():
            expired = f"its newest sample is {age:.1f} s old" if age > lifetime else ""
            unknown_reason = expired or why_unknown or "it has no value"
        return WindowExplanation(
            window=window.name,
            measured=value,
            added=added,
            subtracted=subtracted,
            batch_work=_correction([each for each in batch_work if each[1].any()]),
            reserved=resources(reserved) if reserved.any() else Resources(),
            load=resources(nodes.load[index, position]),
            load_with_pod=resources(self._expected[index, position]),
            statistics={name: resources(values[index, position]) for name, values in nodes.statistics.items()},
            age=age,
            lifetime=lifetime,
            unknown_reason=unknown_reason,
        )

    def _corrections(
        self, node: str, utilization: NodeUtilization, window: Window, value: WindowUsage
    ) -> tuple[Correction, Correction]:
        """What was added to the window's mean, and what was subtracted from it."""
        sampled_at, own_part = value.sampled_at, np.zeros(len(RESOURCES))
        load, usage_of, changes = self._state.load, self._usage_of, list[tuple[str, Array]]()

        def change(pod: PlacedPod | GonePod, factor: float, usage: Resources) -> None:
            if factor:
                changes.append((f"{pod.namespace}/{pod.name}", factor * np.nan_to_num(amounts(usage))))

        _, placement = latest_messages(self._state.nodes.messages, node)
        explained = self._placed if node == self._current_node else None
        if explained is not None:
            own = lifetime_on_node(explained, utilization, usage_of)
            share = share_measured(own, sampled_at, window.length, pod_start_timeout=load.pod_start_timeout)
            change(explained, -share, own.usage)
            own_part = share * np.nan_to_num(amounts(own.usage))
        lifetimes = () if placement is None else partial_lifetimes(utilization, placement, usage_of, load=load)
        for pod, lifetime in lifetimes:
            if explained is None or pod.uid != explained.uid:
                factor = correction_factor(lifetime, sampled_at=sampled_at, length=window.length, load=load)
                change(pod, factor, lifetime.usage)
        base = base_of(utilization)
        changes.sort(key=lambda each: -float(np.nansum(np.abs(each[1]) / base)))
        added = [(name, amount) for name, amount in changes if (amount > 0.0).any()]
        subtracted = [(name, -amount) for name, amount in changes if (amount < 0.0).any()]
        # All pods except the explained one together subtract at most what leaves `least`, the usage of present pods.
        mean = np.array(amounts(value.mean)) + np.sum([amount for _, amount in added], axis=0)
        least = np.zeros(len(RESOURCES)) if placement is None else amounts(measured_usage(utilization, placement))
        return _correction(added), _correction(subtracted, most=mean - np.minimum(mean, least) + own_part)


def _correction(changes: Sequence[tuple[str, Array]], most: Array | float = np.inf) -> Correction:
    """The correction by these pods. `most`: the limit of what they change together."""
    if not changes:
        return Correction()
    total: Array = np.fmin(np.sum([amount for _, amount in changes], axis=0), most)
    return Correction(amount=resources(total), pods=[name for name, _ in changes[:_MAX_LISTED]], count=len(changes))


def _further(nodes: CandidateNodes, index: int) -> dict[str, float]:
    """The known loads of further resources of a node."""
    if nodes.further is None:
        return {}
    loads = zip(nodes.further.names, nodes.further.load[index].tolist(), strict=True)
    return {name: load for name, load in loads if math.isfinite(load)}
