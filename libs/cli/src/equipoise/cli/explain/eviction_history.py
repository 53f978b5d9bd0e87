"""The history of a pod's evictions, from the messages that the bus retains. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

from equipoise.contracts.messages.descheduling import (
    DescheduleDecision,
    LoadReduction,
    NodeClassification,
    ProposedMove,
    ReplacementPlaced,
)
from equipoise.contracts.messages.eviction import EvictionOutcome
from equipoise.contracts.messages.message import converted
from equipoise.contracts.messages.values.move import EvictionMove
from equipoise.contracts.messages.values.resources import Resources


class NodeEvaluation(NodeClassification, frozen=True, kw_only=True):
    """One evaluation of the pod's node."""

    evaluated_at: float


class EvictionRecord(EvictionMove, frozen=True, kw_only=True, omit_defaults=False):
    """One intent, from the first evaluation that counted to the effect of the eviction."""

    intent_id: str
    strategy: str
    """Empty if the decision is no longer retained."""

    decided_at: float
    sampled_at: float | None = None
    """Oldest sample of the decision; None if the decision is no longer retained."""

    expires_at: float | None = None
    evaluations: Sequence[NodeEvaluation] = ()
    """Consecutive evaluations of the node up to the decision, oldest first."""

    target_load: Resources = Resources()
    """Load (0..1) of the target at the decision."""

    outcome: EvictionOutcome | None
    """None: there is no outcome yet."""

    replacement: ReplacementPlaced | None = None
    load_reduction: LoadReduction | None = None
    source: str = ""
    """The origin, if it is not the bus; then evaluations, amounts and the replacement are not known."""


class NotMoved(msgspec.Struct, frozen=True, kw_only=True):
    """Why a strategy did not propose to move the pod."""

    evaluated_at: float
    strategy: str
    node: str
    why: str


class EvictionHistory(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is retained of a pod."""

    namespace: str
    pod: str
    evictions: list[EvictionRecord]
    """Oldest first. A name that is reused may have several."""

    not_moved: list[NotMoved]
    """The latest decision of each strategy that refused to move the pod."""

    @property
    def empty(self) -> bool:
        return not self.evictions and not self.not_moved


def eviction_history(
    namespace: str, pod: str, outcomes: Sequence[EvictionOutcome], decisions: Sequence[DescheduleDecision]
) -> EvictionHistory:
    """The history of one pod. `outcomes`: those of the pod; `decisions`: those of all strategies around these outcomes.
    Both oldest first."""
    by_intent = {outcome.intent_id: outcome for outcome in outcomes}
    proposed = {
        move.intent_id: (decision, move)
        for decision in decisions
        for move in decision.moves
        if (move.namespace, move.pod) == (namespace, pod)
    }
    evictions = [
        _record(by_intent.get(id), proposed.get(id), decisions) for id in dict.fromkeys([*by_intent, *proposed])
    ]
    return EvictionHistory(
        namespace=namespace,
        pod=pod,
        evictions=sorted(evictions, key=lambda each: each.decided_at),
        not_moved=_not_moved(f"{namespace}/{pod}", decisions),
    )


def with_recorded(history: EvictionHistory, recorded: Sequence[EvictionRecord]) -> EvictionHistory:
    """The history with the evictions that the API server has and the bus does not have."""
    known = {each.intent_id for each in history.evictions}
    added = [each for each in recorded if each.intent_id not in known]
    evictions = sorted([*history.evictions, *added], key=lambda each: each.decided_at)
    return msgspec.structs.replace(history, evictions=evictions)


def _record(
    outcome: EvictionOutcome | None,
    proposed: tuple[DescheduleDecision, ProposedMove] | None,
    decisions: Sequence[DescheduleDecision],
) -> EvictionRecord:
    decision, move = proposed if proposed is not None else (None, None)
    source = move or outcome
    assert source is not None
    intent = source.intent_id
    replacements = (each for other in decisions for each in other.replacements if each.intent_id == intent)
    reductions = (each for other in decisions for each in other.load_reductions if intent in each.intents)
    found: dict[str, Any] = {"strategy": ""}
    if decision is not None:
        target = _classification(decision, source.target)
        found = {
            "strategy": decision.strategy,
            "decided_at": decision.evaluated_at,
            "evaluations": _evaluations(decision, source.node, decisions),
            "target_load": Resources() if target is None else target.load,
        }
    return converted(
        source,
        EvictionRecord,
        outcome=outcome,
        replacement=next(replacements, None),
        load_reduction=next(reductions, None),
        **found,
    )


def _evaluations(
    decision: DescheduleDecision, node: str, decisions: Sequence[DescheduleDecision]
) -> list[NodeEvaluation]:
    """Back to the first that counted: each count is one below the next one, or equal to it."""
    found: list[NodeEvaluation] = []
    for each in reversed(decisions):
        classified = _classification(each, node)
        if each.strategy != decision.strategy or each.evaluated_at > decision.evaluated_at or classified is None:
            continue
        if found and not 0 < classified.abnormal_evaluations <= found[-1].abnormal_evaluations:
            break
        found.append(NodeEvaluation(evaluated_at=each.evaluated_at, **msgspec.structs.asdict(classified)))
    return found[::-1]


def _classification(decision: DescheduleDecision, node: str) -> NodeClassification | None:
    return next((each for each in decision.nodes if each.node == node), None)


def _not_moved(pod: str, decisions: Sequence[DescheduleDecision]) -> list[NotMoved]:
    latest: dict[str, NotMoved] = {}
    for decision in decisions:
        refused = next((each for each in decision.refused if each.pod == pod), None)
        if refused is not None:
            latest[decision.strategy] = NotMoved(
                evaluated_at=decision.evaluated_at, strategy=decision.strategy, node=refused.node, why=refused.why
            )
    return list(latest.values())
