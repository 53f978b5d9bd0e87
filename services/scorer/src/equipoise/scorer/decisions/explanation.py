"""Why a pod would go where: all that an answer stands on, and what would have changed the order."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
import numpy as np

from equipoise.contracts.bus.subjects import token
from equipoise.contracts.configuration.settings import LoadSettings, Window
from equipoise.contracts.load.correction import (
    RESOURCES,
    PodLifetime,
    UsageOf,
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
    RankChange,
    WindowExplanation,
)
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.scorer.decisions.placement_advice import as_asked
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.ranking import AVOIDED, PREFERRED, Ranked, points_of
from equipoise.scorer.state.arrays import (
    Array,
    Demand,
    FleetLoads,
    NodeLoads,
    Rows,
    Statistic,
    expected_load,
    resources,
)
from equipoise.scorer.state.load_correction import base_of
from equipoise.scorer.state.node_table import Fleet
from equipoise.scorer.state.replacement_hints import Hint

_TOLD = 10
"""Nodes told of, and pods named per correction: the answer must fit into one message."""

_CPU = RESOURCES.index("cpu")
_STEPS = (1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0, 55.0, 89.0)
"""Points of CPU load that are tried first: near ones matter most."""

_FINE = 1e-4
"""Points up to which a change of order is searched for."""

_UNMOVED: tuple[Statistic, ...] = ("deviation", "system")
"""What more load of a node's pods does not move, or nobody knows how."""


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a node beside its loads; the pod in question is not in the placement."""

    utilization: NodeUtilization | None
    placement: NodePlacement | None
    booked: Array | None
    """windows × resources, cores and bytes; None: nothing."""

    answers_booked: int
    replacements_booked: int
    why_unknown: str


NOBODY = PodDemand(namespace="", name="", uid="")
"""A pod that asks for nothing."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a question is about."""

    pod: PodDemand | None
    placed: PlacedPod | None = None
    """The pod as it runs on `runs_on`."""

    runs_on: str = ""
    node: str = ""
    all_nodes: bool = True
    """The candidates are the scorer's choice."""


def asked_about(question: ExplainRequest, fleet: Fleet) -> Asked | str:
    """What a question is about; as text why nothing can be said of it, and what to do."""
    node, all_nodes = question.node, not question.nodes
    if node and fleet.last_words(node) == (None, None):
        return f"the scorer has heard nothing of node {node}: see `equipoise tap '*.node.{token(node)}'`"
    if question.pod is not None:
        return Asked(pod=question.pod, node=node, all_nodes=all_nodes)
    if question.name:
        found = fleet.find(question.namespace, question.name)
        if found is None:
            return (
                f"the scorer has not heard that pod {question.namespace}/{question.name} has a node, and explains a "
                f"pod from then on: see `kubectl -n {question.namespace} get pod {question.name} -o wide`"
            )
        runs_on, placed = found
        return Asked(pod=as_asked(placed), placed=placed, runs_on=runs_on, node=node, all_nodes=all_nodes)
    if node:
        return Asked(pod=None, node=node, all_nodes=all_nodes)
    return "name a pod (namespace and name, or all of it) or a node"


def candidates(question: ExplainRequest, asked: Asked, fleet: Fleet) -> list[str]:
    """The nodes to score, each once."""
    chosen = question.nodes
    if not chosen:
        chosen, _ = fleet.candidates(np.nan_to_num(amounts((asked.pod or NOBODY).requests)), asked.runs_on)
    return list(dict.fromkeys([*chosen, *(node for node in (asked.runs_on, asked.node) if node)]))


class _View(msgspec.Struct, frozen=True, kw_only=True):
    """What the explanation of every node needs."""

    ranked: Ranked
    expected: Array
    """nodes × windows × resources: their loads with the pod."""

    hint: Hint
    usage_of: UsageOf
    load: LoadSettings
    now: float


def explanation(
    ranked: Ranked,
    asked: Asked,
    heard: Callable[[str], Heard],
    *,
    rows: Rows,
    policy: ScoringPolicy,
    policy_name: str,
    hint: Hint,
    usage_of: UsageOf,
    load: LoadSettings,
    doubt: str,
    now: float,
) -> Explanation:
    """The answer, told in full. `rows` are those of the nodes in `ranked.nodes.fleet`."""
    order = np.lexsort((-ranked.points, -ranked.answer.scores))
    told = [
        int(index)
        for place, index in enumerate(order)
        if place < _TOLD or ranked.names[index] in (asked.runs_on, asked.node)
    ]
    view = _View(
        ranked=ranked,
        expected=expected_load(ranked.nodes, ranked.demand),
        hint=hint,
        usage_of=usage_of,
        load=load,
        now=now,
    )
    apart = policy.scores_apart(ranked.nodes, ranked.demand)
    places = {int(index): place for place, index in enumerate(order, 1)}
    return Explanation(
        pod=asked.pod,
        current_node=asked.runs_on,
        policy=policy_name,
        demand=resources(ranked.demand.usage[0]),
        demand_sources={resource: str(link) for resource, link in ranked.demand.sources.items()},
        chain=[str(link) for link in policy.demand_chain],
        windows_used=list(policy.windows),
        level=policy.level(ranked.nodes),
        compensation=load.compensation,
        considered=len(ranked.names),
        neutral=ranked.answer.neutral,
        why=ranked.answer.why,
        data_problem=doubt,
        nodes=[
            _node(
                view,
                index,
                heard(ranked.names[index]),
                rank=places[index],
                parts={name: round(float(scores[index]), 2) for name, scores in apart.items()},
                itself=asked.placed if ranked.names[index] == asked.runs_on else None,
            )
            for index in told
        ],
        rank_change=_overtaking(policy, ranked, rows, order, hint) if len(order) > 1 else None,
        notes=_notes(policy, asked, load),
        explained_at=now,
    )


def _notes(policy: ScoringPolicy, asked: Asked, load: LoadSettings) -> list[str]:
    notes = []
    if asked.all_nodes:
        notes.append(
            "these are the nodes that are ready, neither cordoned nor tainted, and have room by requests: "
            "kube-scheduler may have asked about others, as it knows tolerations and affinities"
        )
    if missing := [name for name in policy.windows if load.window(name) is None]:
        notes.append(f"the policy looks at {', '.join(missing)}, which load.windows does not have: unknown everywhere")
    if policy.looks_at_days:
        notes.append("the policy looks at the coming day of every node, its windows are only shown beside")
    if load.compensation != "proportional":
        notes.append(f"load.compensation is {load.compensation}: what lately came and left is not fully corrected")
    if "deviation" in policy.statistics:
        notes.append("standard deviations are as measured: what a pod adds to one cannot be known")
    if asked.runs_on and {"p95", "max"} & set(policy.statistics):
        notes.append(f"what the pod itself has in p95 and max of {asked.runs_on} is an estimate")
    return notes


def _node(
    view: _View, index: int, heard: Heard, *, rank: int, parts: dict[str, float], itself: PlacedPod | None
) -> NodeExplanation:
    ranked, nodes, utilization = view.ranked, view.ranked.nodes, heard.utilization
    standing, why = _standing(view, index, heard)
    return NodeExplanation(
        node=ranked.names[index],
        rank=rank,
        extender_score=int(ranked.answer.scores[index]),
        score=round(float(ranked.points[index]), 2),
        parts=parts,
        status=standing,
        why=why,
        base=resources(nodes.base[index]),
        requests=resources(nodes.requested[index]),
        limits=resources(nodes.limited[index]),
        age=None if utilization is None else age_of(utilization.sampled_at, view.now),
        lifetime=float(view.load.freshness.score),
        reserved_by_responses=heard.answers_booked,
        reserved_for_replacements=heard.replacements_booked,
        windows=[
            _window(view, index, position, window, heard, itself) for position, window in enumerate(view.load.windows)
        ],
    )


def _standing(
    view: _View, index: int, heard: Heard
) -> tuple[Literal["", "unknown", "avoided", "overfull", "preferred"], str]:
    nodes, name, expected = view.ranked.nodes, view.ranked.names[index], view.expected[index]
    if name in view.hint.avoided:
        return "avoided", AVOIDED
    if np.isnan(nodes.load[index]).all():
        return "unknown", heard.why_unknown or "its load is not known"
    if (expected > 1.0).any():
        window, resource = np.unravel_index(np.nanargmax(expected), expected.shape)
        over = f"{RESOURCES[resource]} {expected[window, resource]:.1%} ({nodes.windows[window]})"
        return "overfull", f"with the pod it would be overfull: {over}"
    return ("preferred", PREFERRED) if name == view.hint.preferred else ("", "")


def _window(
    view: _View, index: int, position: int, window: Window, heard: Heard, itself: PlacedPod | None
) -> WindowExplanation:
    nodes, utilization = view.ranked.nodes, heard.utilization
    value = None if utilization is None else utilization.windows.get(window.name)
    life = float(view.load.lifetime(window))
    if utilization is None or value is None:
        return WindowExplanation(window=window.name, lifetime=life, unknown_reason="samples do not cover it")
    added, taken_off = _corrections(view, heard, window, value.sampled_at, itself)
    why_unknown, age = "", age_of(value.sampled_at, view.now)
    if np.isnan(nodes.load[index, position]).all():
        why_unknown = f"its newest sample is {age:.1f} s old" if age > life else heard.why_unknown or "it has no value"
    return WindowExplanation(
        window=window.name,
        measured=value,
        added=added,
        subtracted=taken_off,
        reserved=resources(heard.booked[position]) if heard.booked is not None and heard.booked.any() else Resources(),
        load=resources(nodes.load[index, position]),
        load_with_pod=resources(view.expected[index, position]),
        statistics={name: resources(values[index, position]) for name, values in nodes.statistics.items()},
        age=age,
        lifetime=life,
        unknown_reason=why_unknown,
    )


def _corrections(
    view: _View, heard: Heard, window: Window, sampled_at: float, itself: PlacedPod | None
) -> tuple[Correction, Correction]:
    """What was added to the window's mean, and what was taken off it."""
    assert heard.utilization is not None
    load, usage_of = view.load, view.usage_of
    base = base_of(heard.utilization)
    changes: list[tuple[str, Array]] = []

    def change(pod: str, factor: float, usage: Resources) -> None:
        if factor:
            used = Resources(cpu=known(usage.cpu), memory=known(usage.memory))
            changes.append((pod, factor * np.nan_to_num(amounts(used))))

    if itself is not None:
        usage = usage_of(itself, heard.utilization.pods.get(itself.uid, Resources()))
        stay = PodLifetime(placed_at=itself.placed_at, running_since=itself.running_since, usage=usage)
        share = share_measured(stay, sampled_at, window.length, pod_start_timeout=load.pod_start_timeout)
        change(f"{itself.namespace}/{itself.name}", -share, usage)
    if heard.placement is not None:
        for pod, stay in partial_lifetimes(heard.utilization, heard.placement, usage_of, load=load):
            factor = correction_factor(stay, sampled_at=sampled_at, length=window.length, load=load)
            change(f"{pod.namespace}/{pod.name}", factor, stay.usage)
    changes.sort(key=lambda each: -float(np.nansum(np.abs(each[1]) / base)))
    came = [(pod, amount) for pod, amount in changes if (amount > 0.0).any()]
    left = [(pod, -amount) for pod, amount in changes if (amount < 0.0).any()]
    return _correction(came), _correction(left)


def _correction(changes: Sequence[tuple[str, Array]]) -> Correction:
    if not changes:
        return Correction()
    total: Array = np.sum([amount for _, amount in changes], axis=0)
    return Correction(amount=resources(total), pods=[pod for pod, _ in changes[:_TOLD]], count=len(changes))


def _overtaking(policy: ScoringPolicy, ranked: Ranked, rows: Rows, order: Rows, hint: Hint) -> RankChange:
    """What would have put the second node first."""
    best, second = int(order[0]), int(order[1])
    first, runner_up = ranked.names[best], ranked.names[second]

    def told(why: str, change: float | None = None) -> RankChange:
        return RankChange(best=first, runner_up=runner_up, cpu_change=change, why=why)

    if ranked.answer.neutral:
        return told(f"every node is told the same: {ranked.answer.why}")
    if first == hint.preferred:
        return told(f"{first} is preferred whatever its load: {PREFERRED}")
    if runner_up in hint.avoided:
        return told(f"{runner_up} is avoided whatever the loads are: {AVOIDED}")
    pair = np.array([best, second])
    change = smallest_change(policy, ranked.nodes, ranked.demand, pair, int(rows[best]))
    if change is None:
        return told(f"no CPU load of {first} alone would put {runner_up} first")
    alike = ranked.answer.scores[best] == ranked.answer.scores[second]
    end = (
        f"; both are told {int(ranked.answer.scores[best])}, between them kube-scheduler's other scores decide"
        if alike
        else ""
    )
    if change == 0.0:
        return told(f"{first} and {runner_up} have the same score{end}", 0.0)
    more = "more" if change > 0 else "less"
    return told(
        f"{runner_up} would be first if {first} had {abs(change):.1f} points {more} CPU load in every window{end}",
        change,
    )


def smallest_change(policy: ScoringPolicy, nodes: NodeLoads, demand: Demand, pair: Rows, row: int) -> float | None:
    """Points of CPU load by which the first of two nodes must change so that the second is better.

    In every window, up (positive) or down, the full tenths with which it is; 0 when their scores are equal, None when
    no such change between empty and 100 points more is found. `row` is the first one's in `nodes.fleet`: the level
    moves too.
    """

    def lead(points: float) -> float:
        scores, _ = points_of(policy, _changed(nodes, pair, row, points / 100.0), demand)
        return float(scores[0] - scores[1])

    now = lead(0.0)
    if now <= 0.0:
        return 0.0 if now == 0.0 else None
    highest = 100.0 * np.nan_to_num(nodes.load[pair[0], :, _CPU]).max()
    up = _crossing(lead, 1.0, 100.0)
    down = _crossing(lead, -1.0, min(highest, math.inf if up is None else up))
    found = [change for change in (up, None if down is None else -down) if change is not None]
    return min(found, key=abs, default=None)


def _crossing(lead: Callable[[float], float], sign: float, limit: float) -> float | None:
    """The smallest change (> 0) up to the limit at which the lead is lost; None: it never is.

    Coarse steps find where it changes hands, bisection finds the place: a lead that is lost and won again within one
    step is not seen.
    """
    steps = [step for step in _STEPS if step < limit]
    tried = ((low, high) for low, high in itertools.pairwise([0.0, *steps, limit]) if lead(sign * high) < 0.0)
    low, high = next(tried, (0.0, math.inf))
    if high == math.inf:
        return None
    while high - low > _FINE:
        middle = (low + high) / 2.0
        low, high = (low, middle) if lead(sign * middle) < 0.0 else (middle, high)
    return math.ceil(10.0 * (high - _FINE)) / 10.0


def _changed(nodes: NodeLoads, pair: Rows, row: int, share: float) -> NodeLoads:
    """Two of the nodes, the first with so much more CPU load (negative: less)."""

    def shifted(values: Array, index: int) -> Array:
        values = values.copy()
        values[index, ..., _CPU] = np.maximum(values[index, ..., _CPU] + share, 0.0)
        return values

    days = nodes.days
    if days is not None:
        booked = days.booked.copy()
        if row >= 0:
            booked[_CPU, row] += share  # in every hour
        days = msgspec.structs.replace(days, booked=booked, rows=days.rows[pair])
    return msgspec.structs.replace(
        nodes,
        names=[nodes.names[index] for index in pair],
        load=shifted(nodes.load[pair], 0),
        base=nodes.base[pair],
        fleet=nodes.fleet if row < 0 else FleetLoads(shifted(nodes.fleet.load, row)),
        statistics={
            name: values[pair] if name in _UNMOVED else shifted(values[pair], 0)
            for name, values in nodes.statistics.items()
        },
        requested=nodes.requested[pair],
        limited=nodes.limited[pair],
        placed=nodes.placed[pair],
        days=days,
    )
