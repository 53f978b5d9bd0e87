"""Finds the change of CPU load on the first node that would have put the second node first."""

import itertools
import math
from collections.abc import Callable

import msgspec

from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.messages.score import RankChange
from equipoise.contracts.numeric import Array, Rows, np
from equipoise.scorer.decisions.arrays import CandidateNodes, ClusterLoad, Demand
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.ranking import PREFERRED, Ranking, points_of
from equipoise.scorer.state.node_table import UNCHANGED_BY_PODS

_STEPS = (1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0, 55.0, 89.0)
"""Changes of CPU load that are tried first, in points. They are denser where they are small."""

_PRECISION = 1e-4
"""Precision of the found change, in points of CPU load."""

_CPU = RESOURCES.index("cpu")


def rank_change(policy: ScoringPolicy, ranking: Ranking, rows: Rows) -> RankChange:
    """The change that would have put the second node first. `rows`: rows of the nodes in `ranking.nodes.cluster`."""
    best, second = map(int, ranking.order[:2])
    first, runner_up, hint = ranking.names[best], ranking.names[second], ranking.hint

    def result(why: str, change: float | None = None) -> RankChange:
        return RankChange(best=first, runner_up=runner_up, cpu_change=change, why=why)

    if ranking.scores.neutral:
        return result(f"every node has the same score: {ranking.scores.why}")
    if first == hint.preferred:
        return result(f"{first} is preferred whatever its load: {PREFERRED}")
    if why := ranking.why_avoided(runner_up):
        return result(f"{runner_up} is avoided whatever the loads are: {why}")
    change = smallest_change(policy, ranking.nodes, ranking.demand, np.array([best, second]), int(rows[best]))
    if change is None:
        return result(f"no CPU load of {first} alone would put {runner_up} first")
    scores = ranking.scores.scores
    equal = scores[best] == scores[second]
    end = f"; both get the score {int(scores[best])}, so kube-scheduler's other scores decide" if equal else ""
    if change == 0.0:
        return result(f"{first} and {runner_up} have the same score{end}", 0.0)
    more = "more" if change > 0 else "less"
    return result(
        f"{runner_up} would be first if {first} had {abs(change):.1f} points {more} CPU load in every window{end}",
        change,
    )


def smallest_change(policy: ScoringPolicy, nodes: CandidateNodes, demand: Demand, pair: Rows, row: int) -> float | None:
    """Points of CPU load in every window by which the first of two nodes must change so that the second is better.

    The change is rounded up to tenths and negative if the load must fall. It is 0 if the scores are equal. None if no
    change is enough, from an empty node to 100 points more. `row` is the first node's row in `nodes.cluster`, because
    the level of the cluster changes too.
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
    changes = [change for change in (up, None if down is None else -down) if change is not None]
    return min(changes, key=abs, default=None)


def _crossing(lead: Callable[[float], float], sign: float, limit: float) -> float | None:
    """The size of the smallest change up to the limit at which the lead is lost; None if it is not lost.

    The first step that loses the lead is bisected. So a lead that is lost and regained within one step is not found.
    """
    steps = [0.0, *(step for step in _STEPS if step < limit), limit]
    crossing = next(((low, high) for low, high in itertools.pairwise(steps) if lead(sign * high) < 0.0), None)
    if crossing is None:
        return None
    low, high = crossing
    while high - low > _PRECISION:
        middle = (low + high) / 2.0
        low, high = (low, middle) if lead(sign * middle) < 0.0 else (middle, high)
    return math.ceil(10.0 * (high - _PRECISION)) / 10.0


def _changed(nodes: CandidateNodes, pair: Rows, row: int, share: float) -> CandidateNodes:
    """The two nodes, where the load of the first is changed by `share` of its CPU."""

    def shifted(values: Array, index: int) -> Array:
        values = values.copy()
        values[index, ..., _CPU] = np.maximum(values[index, ..., _CPU] + share, 0.0)
        return values

    both = nodes.take(pair)
    if both.daily is not None and row >= 0:
        both.daily.reserved[0, _CPU] += share  # in every hour
    return msgspec.structs.replace(
        both,
        load=shifted(both.load, 0),
        cluster=nodes.cluster if row < 0 else ClusterLoad(shifted(nodes.cluster.load, row), nodes.cluster.waiting),
        statistics={
            name: values if name in UNCHANGED_BY_PODS else shifted(values, 0)
            for name, values in both.statistics.items()
        },
    )
