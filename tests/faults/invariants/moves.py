"""Moves without a gap: endpoints, left-overs, outcomes, approvals, limits and rollouts."""

import math
from collections.abc import Iterator

from equipoise.contracts.messages.eviction import Outcome
from faults.history import Guarantees, History, PublishedIntent
from faults.history_of_moves import Relabeling, below


def endpoints_remain(history: History, guarantees: Guarantees) -> list[str]:
    """I24: no workload whose pods are moved ever has fewer ready endpoints than it requires."""
    moves = history.moves
    return [
        f"{workload}: {ready} of {needed} ready endpoints for {seconds:.2f} s"
        for workload in sorted({each.workload for each in moves.required})
        for begin, seconds, ready, needed in below(
            [each for each in moves.endpoints if each.workload == workload],
            [each for each in moves.required if each.workload == workload],
        )
        if begin >= history.since
    ]


def nothing_is_left(history: History, guarantees: Guarantees) -> list[str]:
    """I25: after the recovery, every pod has a controller, or a move in the ledger that states what it waits for."""
    return [
        f"{pod}: no controller, {found.seconds:.0f} s after the recovery"
        for found in history.moves.left_overs
        if found.at >= history.since
        for pod in found.pods
    ]


def one_true_outcome(history: History, guarantees: Guarantees) -> list[str]:
    """I26: each move has exactly one outcome, and it is what happened to the pod."""
    wrong = []
    for detached, until in _moves(history):
        published = _intent(history, detached)
        if published is None or not published.outcome_expected:
            continue
        intent = published.intent
        outcomes = {each.outcome for each in history.outcomes if each.intent_id == intent.id}
        if len(outcomes) != 1 or history.kept.get(intent.id, 1) > 1:
            wrong.append(f"{intent.id} ({intent.pod}): {' and '.join(sorted(outcomes)) or 'no'} outcome")
            continue
        executed = any(post.uid == detached.uid and detached.at <= post.at < until for post in history.evictions)
        deleted = any(change.what == "deleted" and change.pod == detached.pod for change in history.pods)
        if executed is not (Outcome.EVICTED in outcomes) and not deleted:
            what = "was evicted" if executed else "was not evicted"
            wrong.append(f"{intent.id}: outcome {' '.join(outcomes)}, and the pod {intent.pod} {what}")
    return wrong


def _moves(history: History) -> list[tuple[Relabeling, float]]:
    """The requests of this run that detached a pod, each with the time of the next one for the same pod."""
    return [(detached, until) for detached, until in _all_moves(history) if detached.at >= history.since]


def _all_moves(history: History) -> Iterator[tuple[Relabeling, float]]:
    found = history.moves.detached
    for index, detached in enumerate(found):
        yield detached, next((each.at for each in found[index + 1 :] if each.uid == detached.uid), math.inf)


def _intent(history: History, detached: Relabeling) -> PublishedIntent | None:
    """The latest intent for the pod that was published before it was detached."""
    found = [
        published
        for published in history.intents
        if published.intent.pod_uid == detached.uid and published.at <= detached.at
    ]
    return max(found, key=lambda published: published.at, default=None)


def only_approved_pods(history: History, guarantees: Guarantees) -> list[str]:
    """I27: a pod is detached only for an intent, and only while its eviction is approved."""
    wrong = []
    for detached, _ in _moves(history):
        if _intent(history, detached) is None:
            wrong.append(f"{detached.pod}: detached without an intent")
        if not _is_approved(history, detached, guarantees):
            wrong.append(f"{detached.pod}: detached without an approval")
    return wrong


def _is_approved(history: History, detached: Relabeling, guarantees: Guarantees) -> bool:
    """Whether the pod was approved then, or until shortly before: API servers apply a change of a Role later."""
    approvals = sorted(history.moves.approvals, key=lambda each: each.at)
    for index, each in enumerate(approvals):
        end = approvals[index + 1].at if index + 1 < len(approvals) else math.inf
        if detached.uid in each.uids and each.at <= detached.at <= end + guarantees.approval_lag:
            return True
    return False


def few_at_a_time(history: History, guarantees: Guarantees) -> list[str]:
    """I28: at most `surge.maxMoves` pods are detached at the same time, and one of each workload."""
    wrong = []
    ends = [(detached, _end(history, detached, until)) for detached, until in _all_moves(history)]
    for detached, _ in ends:
        if detached.at < history.since:
            continue
        others = [other for other, end in ends if other.at < detached.at < end and other.uid != detached.uid]
        if len(others) >= guarantees.max_moves:
            wrong.append(
                f"{detached.pod}: detached while {len(others)} others were, {guarantees.max_moves} are allowed"
            )
        wrong += [
            f"{detached.pod}: detached while {other.pod} of the same workload was"
            for other in others
            if other.workload == detached.workload
        ]
    return wrong


def _end(history: History, detached: Relabeling, until: float) -> float:
    """When a pod was evicted, deleted, or got its label back."""
    ends = [until, *(write.at for write in history.moves.restored(detached, until))]
    ends += [post.at for post in history.evictions if post.uid == detached.uid and post.at >= detached.at]
    ends += [
        change.at
        for change in history.pods
        if change.what == "deleted" and change.pod == detached.pod and change.at >= detached.at
    ]
    return min(ends)


def rollouts_continue(history: History, guarantees: Guarantees) -> list[str]:
    """I29: no pod gets its label back after a rollout of its workload has begun, which replaces the pod."""
    since = guarantees.read_age + guarantees.transit
    return [
        f"{write.pod}: restored {write.at - rollout.at:.1f} s after a rollout of {rollout.workload} began"
        for detached, until in _moves(history)
        for rollout in history.moves.rollouts
        if rollout.workload == detached.workload and rollout.at >= detached.at
        for write in history.moves.restored(detached, until)
        if write.by_service and write.at > rollout.at + since
    ]
