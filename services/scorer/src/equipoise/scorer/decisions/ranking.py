"""Scores the candidate nodes for one pod: points of a policy (0..100), then the integers of kube-scheduler."""

import math
from collections.abc import Callable, Sequence

import msgspec

from equipoise.contracts.colocation.bands import OfferedBand
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.messages.score import NodeScore
from equipoise.contracts.numeric import Array, Flags, Rows, np
from equipoise.scorer.decisions.arrays import MAX_SHARE, CandidateNodes, Demand, Demands
from equipoise.scorer.decisions.band_points import band_points, share_left, why_unusable
from equipoise.scorer.decisions.neutral_scores import MAX_SCORE, ExtenderScores, neutral
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.scoring_settings import ScoringSettings
from equipoise.scorer.state.placement_hints.expected_replacements import ReplacementHint

_PUBLISHED = 10
"""Nodes in a published decision."""

WHY_UNUSABLE = "no node is known to have headroom"
AVOIDED = "a pod of this workload was evicted from it, or is about to be"
PREFERRED = "it is the intended target of the evicted pod"


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of the candidates, and the inputs of these scores."""

    points: Array
    """The policy's points of each node, 0..100; 0 where a node is overfull or avoided."""

    scores: ExtenderScores
    nodes: CandidateNodes
    demand: Demand
    hint: ReplacementHint

    @property
    def names(self) -> Sequence[str]:
        return self.nodes.names

    @property
    def scored_band(self) -> OfferedBand | None:
        """The band whose remaining resources are the score; None: the score is the policy's."""
        return None if self.nodes.bands is None else self.demand.band

    @property
    def order(self) -> Rows:
        """Indexes of the nodes, best first: by extender score, then by points."""
        order: Rows = np.lexsort((-self.points, -self.scores.scores))
        return order

    def why_avoided(self, name: str) -> str:
        """Why a node scores 0 whatever its load is; empty if it does not."""
        return AVOIDED if name in self.hint.avoided else self.nodes.emptied.get(name, "")

    def shortest_window(self, index: int) -> tuple[int, Array, Array]:
        """The shortest window that is known for a node, and the node's load in it, without and with the pod."""
        load, base = self.nodes.load[index], self.nodes.base[index]
        window = int((~np.isnan(load).all(axis=1)).argmax())
        return window, load[window], load[window] + np.minimum(self.demand.usage[window] / base, MAX_SHARE)


def rank(
    policy: ScoringPolicy,
    nodes: CandidateNodes,
    demand: Demand,
    hint: ReplacementHint,
    settings: ScoringSettings,
    max_score: int = MAX_SCORE,
) -> Ranking:
    """Score the nodes with `policy` (that of the settings, or the shadow)."""
    names = nodes.names
    points, overfull = points_of(policy, nodes, demand)
    avoided = np.zeros(len(names), np.bool_)
    if hint.avoided or nodes.emptied:
        avoided = np.array([name in hint.avoided or name in nodes.emptied for name in names], np.bool_)
        points = np.where(avoided, 0.0, points)
    preferred = names.index(hint.preferred) if hint.preferred and hint.preferred in names else None
    scores = to_integers(
        points,
        overfull=overfull,
        avoided=avoided,
        preferred=preferred,
        min_spread=settings.min_spread,
        max_score=max_score,
        why_unusable=WHY_UNUSABLE if demand.band is None or nodes.bands is None else why_unusable(demand.band),
    )
    return Ranking(points=points, scores=scores, nodes=nodes, demand=demand, hint=hint)


def points_of(policy: ScoringPolicy, nodes: CandidateNodes, demand: Demand) -> tuple[Array, Flags]:
    """The policy's points of each node, 0..100, or 0 if overfull; and which nodes are overfull.

    For a pod of a band, the points are what is left of the band instead of the policy's. A node is then overfull if too
    little is left, or if that is unknown.
    """
    if demand.band is not None and nodes.bands is not None:
        left = band_points(nodes.bands, demand)
        return left, left <= 0.0
    room = (1.0 - nodes.load.transpose(1, 2, 0)) * nodes.base.T  # nodes last, as they are in memory
    exceeded: Flags = room < demand.usage[:, :, np.newaxis]
    overfull: Flags = np.logical_or.reduce(exceeded.reshape(-1, len(nodes.load)))
    return np.where(overfull, 0.0, policy.score(nodes, demand)), overfull


def points_of_pods(policy: ScoringPolicy, nodes: CandidateNodes, demands: Demands) -> Array:
    """pods × nodes: the points of `points_of` for many pods at once."""
    points = policy.score_pods(nodes, demands)
    room = (1.0 - nodes.load) * nodes.base[:, np.newaxis, :]
    highest = demands.usage.max(axis=0, initial=0.0)
    # Only these can be overfull: others have room for the highest usage of any pod.
    full_for_some = np.flatnonzero((room < highest).any(axis=(1, 2)))
    overfull = np.zeros((len(demands), len(full_for_some)), np.bool_)
    for window in range(len(nodes.windows)):
        for resource in range(len(RESOURCES)):
            overfull |= demands.usage[:, window, resource, np.newaxis] > room[full_for_some, window, resource]
    points[:, full_for_some] = np.where(overfull, 0.0, points[:, full_for_some])
    if nodes.bands is not None:
        for row in demands.of_bands:
            points[row] = band_points(nodes.bands, demands.each[row])
    return points


def to_integers(
    points: Array,
    *,
    overfull: Flags,
    avoided: Flags,
    preferred: int | None = None,
    min_spread: float,
    max_score: int = MAX_SCORE,
    why_unusable: str = WHY_UNUSABLE,
) -> ExtenderScores:
    """Scale points (0..100; 0: unusable) to the integers from a tenth of `max_score` up to `max_score`.

    Overfull and avoided nodes and those with 0 points get 0. If best and worst of the others differ by less than
    `min_spread`, all of those get `max_score`. The preferred node, if usable, alone gets `max_score`; the others then
    share the lower half.
    """
    is_usable = (points > 0.0) > (overfull | avoided)
    usable = np.flatnonzero(is_usable)
    if not len(usable):
        return neutral(len(points), why_unusable)
    chosen = points[usable]
    worst, best = chosen.min(), chosen.max()
    spread = best - worst
    lowest = max_score // 10
    integers = np.zeros(len(points), np.intp)
    why = ""
    if spread >= min_spread and spread > 0.0:
        integers[usable] = lowest + np.rint((max_score - lowest) * (chosen - worst) / spread)
    else:
        integers[usable] = max_score
        why = f"best and worst are {spread:.1f} points apart, less than {min_spread:g}"
    if preferred is not None and is_usable[preferred]:
        # Half of the range: the difference must exceed that of kube-scheduler's own scores (spreading, least
        # allocated), which is more than one step between two nodes.
        integers[usable] = (integers[usable] + 1) // 2
        integers[preferred] = max_score
        why = ""
    highest = np.flatnonzero(integers == integers.max())
    return ExtenderScores(scores=integers, best=highest, neutral=len(highest) == len(integers), why=why)


def best_nodes(ranking: Ranking, why_unknown: Callable[[str], str]) -> list[NodeScore]:
    """The best nodes and the reasons for their scores, to publish. `why_unknown` explains a node of unknown load."""
    return [
        NodeScore(
            node=ranking.names[index],
            score=round(float(ranking.points[index]), 2),
            extender_score=int(ranking.scores.scores[index]),
            why=_why(ranking, int(index), why_unknown),
        )
        for index in ranking.order[:_PUBLISHED]
    ]


def _why(ranking: Ranking, index: int, why_unknown: Callable[[str], str]) -> str:
    """The reason for a node's score; usually its load without and with the pod in the shortest known window."""
    name = ranking.names[index]
    if why := ranking.why_avoided(name):
        return why
    bands, demand = ranking.nodes.bands, ranking.demand
    if bands is not None and demand.band is not None:
        share = share_left(bands.take(np.array([index])), demand)[0].tolist()
        left = [
            f"{resource} {part:.1%}" for resource, part in zip(RESOURCES, share, strict=True) if math.isfinite(part)
        ]
        text = f"left of the band {demand.band} with the pod: {', '.join(left) or 'unknown'}"
        return f"{text}; {PREFERRED}" if name == ranking.hint.preferred else text
    window, load, with_pod = ranking.shortest_window(index)
    if np.isnan(load).all():
        return why_unknown(name) or "its load is unknown"
    changes = zip(RESOURCES, load.tolist(), with_pod.tolist(), strict=True)
    parts = [f"{resource} {before:.1%} → {after:.1%}" for resource, before, after in changes if math.isfinite(before)]
    text = f"{ranking.nodes.windows[window]}: {', '.join(parts)}"
    return f"{text}; {PREFERRED}" if name == ranking.hint.preferred else text
