"""From a question to an answer: everything that is decided about one pod and its candidate nodes."""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.score import NodeScore, ScoreDecision
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.score_integers import HIGHEST, Answer, answer
from equipoise.scorer.state.arrays import Array, Demand, Flags, NodeLoads, expected_load, resources
from equipoise.scorer.state.replacement_hints import Hint

_EXPLAINED = 10
"""Nodes that a published decision tells of."""

AVOIDED = "a pod of this workload was evicted from it, or is about to be"
PREFERRED = "the evicted pod was meant to come here"


class Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """An answer and what it stands on."""

    names: Sequence[str]
    points: Array
    """Per node 0..100, the policy's; 0 where a node is overfull or avoided."""

    answer: Answer
    nodes: NodeLoads
    demand: Demand


def rank(
    policy: ScoringPolicy,
    names: Sequence[str],
    nodes: NodeLoads,
    demand: Demand,
    hint: Hint,
    *,
    least_spread: float,
    highest: int = HIGHEST,
) -> Ranked:
    """Score the nodes (same order as `names`) and turn the scores into integers 0..`highest`."""
    points, overfull = points_of(policy, nodes, demand)
    avoided = np.zeros(len(names), np.bool_)
    preferred: int | None = None
    if hint.avoided or hint.preferred:
        avoided = np.array([name in hint.avoided for name in names], np.bool_)
        preferred = names.index(hint.preferred) if hint.preferred in names else None
    integers = answer(
        points,
        overfull=overfull,
        avoided=avoided,
        preferred=preferred,
        least_spread=least_spread,
        highest=highest,
    )
    return Ranked(names=names, points=np.where(avoided, 0.0, points), answer=integers, nodes=nodes, demand=demand)


def points_of(policy: ScoringPolicy, nodes: NodeLoads, demand: Demand) -> tuple[Array, Flags]:
    """Per node 0..100, the policy's and 0 for overfull ones; and which those are."""
    overfull = np.any(expected_load(nodes, demand) > 1.0, axis=(1, 2))
    return np.where(overfull, 0.0, policy.score(nodes, demand)), overfull


def decision(
    ranked: Ranked,
    pod: PodDemand,
    hint: Hint,
    *,
    policy: ScoringPolicy,
    policy_name: str,
    why_unknown: Callable[[str], str],
    now: float,
) -> ScoreDecision:
    """The answer as it is published: the best nodes and how they came to their scores."""
    order = np.lexsort((-ranked.points, -ranked.answer.scores))[:_EXPLAINED]
    source = "; ".join(f"{resource}: {link}" for resource, link in ranked.demand.sources.items())
    return ScoreDecision(
        pod=pod,
        policy=policy_name,
        demand=resources(ranked.demand.usage[0]),
        demand_source=source,
        level=policy.level(ranked.nodes),
        best=[
            NodeScore(
                node=ranked.names[index],
                score=round(float(ranked.points[index]), 2),
                extender_score=int(ranked.answer.scores[index]),
                why=_why(ranked, int(index), hint, why_unknown),
            )
            for index in order
        ],
        considered=len(ranked.names),
        neutral=ranked.answer.neutral,
        why=ranked.answer.why,
        decided_at=now,
    )


def _why(ranked: Ranked, index: int, hint: Hint, why_unknown: Callable[[str], str]) -> str:
    """One node's load now and with the pod, in the shortest window that it has measured."""
    if ranked.names[index] in hint.avoided:
        return AVOIDED
    now, then = ranked.nodes.load[index], expected_load(ranked.nodes, ranked.demand)[index]
    row = next((row for row in range(len(now)) if not np.isnan(now[row]).all()), None)
    if row is None:
        return why_unknown(ranked.names[index]) or "its load is not known"
    before, after = resources(now[row]), resources(then[row])
    parts = [
        f"{name} {getattr(before, name):.1%} → {getattr(after, name):.1%}"
        for name in ("cpu", "memory")
        if getattr(before, name) is not None
    ]
    text = f"{ranked.nodes.windows[row]}: {', '.join(parts)}"
    return f"{text}; {PREFERRED}" if ranked.names[index] == hint.preferred else text
