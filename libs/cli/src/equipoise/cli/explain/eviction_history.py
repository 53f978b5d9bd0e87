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
    """One intent, from the first evaluation that counted towards it to the effect of the eviction."""

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
    """The place where the record was found, if not on the bus. Evaluations, amounts and replacement are then unknown.
    """


class NotMoved(msgspec.Struct, frozen=True, kw_only=True):
    """Why a strategy did not propose to move the pod."""

    evaluated_at: float
    strategy: str
    node: str
    why: str


class EvictionHistory(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the bus retains about a pod."""

    namespace: str
    pod: str
    evictions: list[EvictionRecord]
    """The evictions, oldest first. Several pods in turn may have had this name."""

    not_moved: list[NotMoved]
    """The latest decision of each strategy that refused to move the pod."""

    @property
    def empty(self) -> bool:
        return not self.evictions and not self.not_moved


def eviction_history(
    namespace: str, pod: str, outcomes: Sequence[EvictionOutcome], decisions: Sequence[DescheduleDecision]
) -> EvictionHistory:
    """The history of one pod.

    `outcomes` are those of the pod. `decisions` are those of all strategies at about the same time. Both are ordered
    oldest first.
    """
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
    on_bus = {each.intent_id for each in history.evictions}
    added = [each for each in recorded if each.intent_id not in on_bus]
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
    replacements = (placed for each in decisions for placed in each.replacements if placed.intent_id == intent)
    reductions = (effect for each in decisions for effect in each.load_reductions if intent in effect.intents)
    from_decision: dict[str, Any] = {"strategy": ""}
    if decision is not None:
        target = _classification(decision, source.target)
        from_decision = {
            "strategy": decision.strategy,
            "decided_at": decision.evaluated_at,
            "evaluations": _evaluations(decision, source.node, decisions),
            "target_load": Resources() if target is None else target.load,
        }
    return converted(
        source,
        EvictionRecord,
        outcome=outcome,
        without_gap=(outcome or source).without_gap,
        replacement=next(replacements, None),
        load_reduction=next(reductions, None),
        **from_decision,
    )


def _evaluations(
    decision: DescheduleDecision, node: str, decisions: Sequence[DescheduleDecision]
) -> list[NodeEvaluation]:
    """The evaluations of the node that counted towards this decision, oldest first.

    They are found backwards from the decision, as long as the count of abnormal evaluations does not increase.
    """
    evaluations: list[NodeEvaluation] = []
    for earlier in reversed(decisions):
        classified = _classification(earlier, node)
        if earlier.strategy != decision.strategy or earlier.evaluated_at > decision.evaluated_at or classified is None:
            continue
        if evaluations and not 0 < classified.abnormal_evaluations <= evaluations[-1].abnormal_evaluations:
            break
        evaluations.append(NodeEvaluation(evaluated_at=earlier.evaluated_at, **msgspec.structs.asdict(classified)))
    return evaluations[::-1]


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
