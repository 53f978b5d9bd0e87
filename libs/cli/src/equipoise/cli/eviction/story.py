"""From what the bus keeps to the story of a pod. Pure: messages come in, one story comes out."""

from collections.abc import Iterable, Sequence

import msgspec

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.descheduling import (
    DescheduleDecision,
    LoadReduction,
    NodeClassification,
    NodeState,
    ProposedMove,
    RefusedMove,
    ReplacementPlaced,
)
from equipoise.contracts.messages.eviction import EvictionOutcome
from equipoise.contracts.messages.resources import Resources


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What one evaluation said of the pod's node."""

    evaluated_at: float
    sampled_at: float
    state: NodeState
    load: Resources
    """0..1 of the base."""

    abnormal_evaluations: int
    why: str


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """One intent, from the first evaluation that counted to what came of it."""

    intent_id: str
    namespace: str
    pod: str
    pod_uid: str
    workload: Workload | None
    node: str
    target: str
    strategy: str
    """Empty where the decision is not kept any more."""

    reason: str
    relief: Resources
    """What the node was expected to lose, cores and bytes."""

    decided_at: float
    sampled_at: float | None
    """Oldest sample the decision stands on; None where the decision is not kept any more."""

    expires_at: float | None
    evaluations: list[Evaluation]
    """Of its node in a row up to the decision, oldest first."""

    target_load: Resources
    """Load (0..1) of the target at the decision."""

    outcome: EvictionOutcome | None
    """None: nobody has settled it."""

    landing: ReplacementPlaced | None
    relieved: LoadReduction | None


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A move that was wanted, or a pod that was looked at, and why it stays."""

    evaluated_at: float
    strategy: str
    node: str
    why: str


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is kept of a pod."""

    namespace: str
    pod: str
    evictions: list[Eviction]
    """Oldest first; a name that came back may have several."""

    refusals: list[Refusal]
    """The last word of each strategy on a pod that it did not propose."""

    @property
    def empty(self) -> bool:
        return not self.evictions and not self.refusals


def story(
    namespace: str, pod: str, outcomes: Sequence[EvictionOutcome], decisions: Sequence[DescheduleDecision]
) -> Story:
    """`outcomes`: of this pod; `decisions`: of the time around, of all strategies. Both oldest first."""
    by_intent = {outcome.intent_id: outcome for outcome in outcomes}
    proposed = {
        move.intent_id: (decision, move)
        for decision in decisions
        for move in decision.moves
        if (move.namespace, move.pod) == (namespace, pod)
    }
    evictions = [
        _eviction(by_intent.get(id), proposed.get(id), decisions) for id in dict.fromkeys([*by_intent, *proposed])
    ]
    return Story(
        namespace=namespace,
        pod=pod,
        evictions=sorted(evictions, key=lambda each: each.decided_at),
        refusals=_refusals(f"{namespace}/{pod}", decisions),
    )


def _eviction(
    outcome: EvictionOutcome | None,
    proposed: tuple[DescheduleDecision, ProposedMove] | None,
    decisions: Sequence[DescheduleDecision],
) -> Eviction:
    decision, move = proposed if proposed is not None else (None, None)
    told = move or outcome
    assert told is not None
    return Eviction(
        intent_id=told.intent_id,
        namespace=told.namespace,
        pod=told.pod,
        pod_uid=told.pod_uid,
        workload=told.workload,
        node=told.node,
        target=told.target,
        strategy=decision.strategy if decision is not None else "",
        reason=told.reason,
        relief=told.expected_reduction,
        decided_at=decision.evaluated_at
        if decision is not None
        else outcome.decided_at
        if outcome is not None
        else 0.0,
        sampled_at=move.sampled_at if move is not None else None,
        expires_at=move.expires_at if move is not None else None,
        evaluations=_evaluations(decision, told.node, decisions) if decision is not None else [],
        target_load=_load(decision, told.target),
        outcome=outcome,
        landing=next((each for each in _landings(decisions) if each.intent_id == told.intent_id), None),
        relieved=next((each for each in _reliefs(decisions) if told.intent_id in each.intents), None),
    )


def _evaluations(decision: DescheduleDecision, node: str, decisions: Sequence[DescheduleDecision]) -> list[Evaluation]:
    """Back to the first that counted: the count of each is one less than the next one's, or the same."""
    found: list[Evaluation] = []
    for each in reversed(decisions):
        verdict = _verdict(each, node)
        if each.strategy != decision.strategy or each.evaluated_at > decision.evaluated_at or verdict is None:
            continue
        if found and not 0 < verdict.abnormal_evaluations <= found[-1].abnormal_evaluations:
            break
        found.append(
            Evaluation(
                evaluated_at=each.evaluated_at,
                sampled_at=verdict.sampled_at,
                state=verdict.state,
                load=verdict.load,
                abnormal_evaluations=verdict.abnormal_evaluations,
                why=verdict.why,
            )
        )
    return found[::-1]


def _verdict(decision: DescheduleDecision, node: str) -> NodeClassification | None:
    return next((verdict for verdict in decision.nodes if verdict.node == node), None)


def _load(decision: DescheduleDecision | None, node: str) -> Resources:
    verdict = None if decision is None else _verdict(decision, node)
    return Resources() if verdict is None else verdict.load


def _refusals(pod: str, decisions: Sequence[DescheduleDecision]) -> list[Refusal]:
    last: dict[str, Refusal] = {}
    for decision in decisions:
        refused: RefusedMove | None = next((each for each in decision.refused if each.pod == pod), None)
        if refused is not None:
            last[decision.strategy] = Refusal(
                evaluated_at=decision.evaluated_at, strategy=decision.strategy, node=refused.node, why=refused.why
            )
    return list(last.values())


def _landings(decisions: Sequence[DescheduleDecision]) -> Iterable[ReplacementPlaced]:
    return (landing for decision in decisions for landing in decision.replacements)


def _reliefs(decisions: Sequence[DescheduleDecision]) -> Iterable[LoadReduction]:
    return (relief for decision in decisions for relief in decision.load_reductions)
