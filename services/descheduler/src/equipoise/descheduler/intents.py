"""What is said of a plan: an intent per move, and the decision as a whole."""

from collections.abc import Collection, Sequence

import msgspec

from equipoise.contracts.messages import DescheduleDecision, EvictionIntent, LeaseEpoch, NodeVerdict
from equipoise.descheduler.evaluations import Counts
from equipoise.descheduler.fleet import Move, Plan

REPORTED_NODES = 500
"""Nodes that a decision tells of, the most loaded first: a message of the bus holds 1 MiB."""


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
        relief=move.pod.usage,
        target=move.target,
        epoch=epoch,
    )


def decision_of(
    strategy: str,
    *,
    verdicts: Sequence[NodeVerdict],
    counts: Counts,
    plan: Plan,
    published: Collection[str],
    now: float,
) -> DescheduleDecision:
    """What one evaluation saw, proposed and left alone."""
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
        intents=list(published),
        refused=list(plan.refused),
        why="" if published else plan.why or "the bus did not take the intents",
    )
