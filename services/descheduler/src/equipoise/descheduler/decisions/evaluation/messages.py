"""What is said of a plan: an intent per move, and the decision as a whole."""

from collections.abc import Sequence

import msgspec

from equipoise.contracts.messages.descheduling import (
    DescheduleDecision,
    DryRunMove,
    LoadReduction,
    NodeClassification,
    NodeCooldown,
    ProposedMove,
    ReplacementPlaced,
)
from equipoise.contracts.messages.eviction import EvictionIntent
from equipoise.contracts.messages.lease import LeaseEpoch
from equipoise.descheduler.state.abnormal_counts import Counts
from equipoise.descheduler.state.cluster import Move, Plan

REPORTED_NODES = 500
"""Nodes that a decision tells of, the most loaded first: a message of the bus holds 1 MiB."""

REPORTED_ASSUMPTIONS = 50
"""Assumed moves that a decision tells of, the newest first."""


class Followed(msgspec.Struct, frozen=True, kw_only=True):
    """What has become of earlier moves."""

    landings: Sequence[ReplacementPlaced] = ()
    reliefs: Sequence[LoadReduction] = ()
    resting: Sequence[NodeCooldown] = ()
    assumed: Sequence[DryRunMove] = ()


NOTHING_FOLLOWED = Followed()


def intent_of(move: Move, *, strategy: str, now: float, life: float, epoch: LeaseEpoch) -> EvictionIntent:
    """The intent of a move. Its id is made from the pod and the moment: no pod is proposed twice at one."""
    return EvictionIntent(
        id=f"{move.pod.uid}.{round(now * 1000)}",
        pod_uid=move.pod.uid,
        namespace=move.pod.namespace,
        pod=move.pod.name,
        node=move.pod.node,
        workload=move.pod.workload,
        strategy=strategy,
        reason=move.reason,
        sampled_at=move.sampled_at,
        decided_at=now,
        expires_at=now + life,
        expected_reduction=move.pod.usage,
        target=move.target,
        epoch=epoch,
    )


def decision_of(
    strategy: str,
    *,
    verdicts: Sequence[NodeClassification],
    counts: Counts,
    plan: Plan,
    published: Sequence[EvictionIntent],
    followed: Followed = NOTHING_FOLLOWED,
    now: float,
) -> DescheduleDecision:
    """What one evaluation saw, proposed and left alone. `published`: the intents that the bus took."""
    reported = sorted(verdicts, key=lambda entry: (-max(entry.load.cpu or 0.0, entry.load.memory or 0.0), entry.node))
    return DescheduleDecision(
        strategy=strategy,
        evaluated_at=now,
        nodes=[
            msgspec.structs.replace(entry, abnormal_evaluations=counts[entry.node].abnormal)
            if entry.node in counts
            else entry
            for entry in reported[:REPORTED_NODES]
        ],
        intents=[intent.id for intent in published],
        refused=list(plan.refused),
        why="" if published else plan.why or "the bus did not take the intents",
        moves=[_kept(intent) for intent in published],
        dry_run_moves=list(followed.assumed[:REPORTED_ASSUMPTIONS]),
        replacements=list(followed.landings),
        load_reductions=list(followed.reliefs),
        cooldowns=list(followed.resting[:REPORTED_NODES]),
    )


def _kept(intent: EvictionIntent) -> ProposedMove:
    return ProposedMove(
        intent_id=intent.id,
        namespace=intent.namespace,
        pod=intent.pod,
        pod_uid=intent.pod_uid,
        workload=intent.workload,
        node=intent.node,
        target=intent.target,
        reason=intent.reason,
        expected_reduction=intent.expected_reduction,
        sampled_at=intent.sampled_at,
        expires_at=intent.expires_at,
    )
