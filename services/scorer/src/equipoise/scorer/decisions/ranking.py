"""Scores the candidate nodes for one pod, and describes the result."""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from equipoise.contracts.messages.score import NodeScore
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.score_integers import MAX_SCORE, ExtenderScores, to_integers
from equipoise.scorer.decisions.scoring_settings import ScoringSettings
from equipoise.scorer.state.arrays import Array, CandidateNodes, Demand, Flags, Rows, expected_load, resources
from equipoise.scorer.state.replacement_hints import ReplacementHint

_PUBLISHED = 10
"""Nodes in a published decision."""

AVOIDED = "a pod of this workload was evicted from it, or is about to be"
PREFERRED = "it is the intended target of the evicted pod"


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of the candidates, and the inputs of these scores."""

    points: Array
    """Per node 0..100, the policy's; 0 where a node is overfull or avoided."""

    scores: ExtenderScores
    nodes: CandidateNodes
    demand: Demand
    hint: ReplacementHint

    @property
    def names(self) -> Sequence[str]:
        return self.nodes.names

    @property
    def order(self) -> Rows:
        """Indexes of the nodes, best first: by extender score, then by points."""
        order: Rows = np.lexsort((-self.points, -self.scores.scores))
        return order


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
    preferred: int | None = None
    if hint.avoided or hint.preferred:
        avoided = np.array([name in hint.avoided for name in names], np.bool_)
        preferred = names.index(hint.preferred) if hint.preferred in names else None
    scores = to_integers(
        points,
        overfull=overfull,
        avoided=avoided,
        preferred=preferred,
        min_spread=settings.min_spread,
        max_score=max_score,
    )
    return Ranking(points=np.where(avoided, 0.0, points), scores=scores, nodes=nodes, demand=demand, hint=hint)


def points_of(policy: ScoringPolicy, nodes: CandidateNodes, demand: Demand) -> tuple[Array, Flags]:
    """Per node 0..100, the policy's points or 0 if overfull; and which nodes are overfull."""
    overfull = np.any(expected_load(nodes, demand) > 1.0, axis=(1, 2))
    return np.where(overfull, 0.0, policy.score(nodes, demand)), overfull


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
    """One node's load without and with the pod, in the shortest window that is known."""
    name = ranking.names[index]
    if name in ranking.hint.avoided:
        return AVOIDED
    load, with_pod = ranking.nodes.load[index], expected_load(ranking.nodes, ranking.demand)[index]
    row = next((row for row in range(len(load)) if not np.isnan(load[row]).all()), None)
    if row is None:
        return why_unknown(name) or "its load is unknown"
    before, after = resources(load[row]), resources(with_pod[row])
    parts = [
        f"{resource} {getattr(before, resource):.1%} → {getattr(after, resource):.1%}"
        for resource in ("cpu", "memory")
        if getattr(before, resource) is not None
    ]
    text = f"{ranking.nodes.windows[row]}: {', '.join(parts)}"
    return f"{text}; {PREFERRED}" if name == ranking.hint.preferred else text
