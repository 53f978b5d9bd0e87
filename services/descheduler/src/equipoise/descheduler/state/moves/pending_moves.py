"""Pending moves: proposed without an outcome yet, evicted without a replacement yet, or reported as a dry run.

A move of a dry run is a pending move whose replacement never comes. Its pod counts on the target until the move
expires, so that later plans continue from it (docs/decisions/0007).
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.pod import Pod, PodSpec
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.descheduling import DryRunMove
from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome
from equipoise.contracts.messages.health import HEARTBEAT_LIFETIME
from equipoise.contracts.messages.message import converted
from equipoise.contracts.messages.plan import PendingMove
from equipoise.contracts.messages.values.move import Move, MoveCost, waiting_uid
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster import PodMove

if TYPE_CHECKING:  # it needs numpy (docs/decisions/0021)
    from equipoise.scheduling.model.pod_info import PodInfo

MAX_DRY_RUN_MOVES = 5_000
"""The maximum number of dry-run moves: beyond it the oldest are dropped. By default at most 2,880 are proposed in a
day."""


class TrackedMove(Move, frozen=True, kw_only=True, gc=True):
    """The move of one pod from a node to another, which is pending or was made in a dry run."""

    id: str
    """Id of the intent."""

    pod_uid: str
    expected_reduction: Resources
    """Cores and bytes that the pod used when the move was proposed."""

    expires_at: float = 0.0
    """The time at which the intent expires; 0 when another leader proposed the move."""

    until: float
    """The time at which the move expires if there is no outcome or replacement, or at which the lifetime of a dry run
    ends."""

    decided_at: float = 0.0
    """The time at which the move was proposed."""

    evicted_at: float | None = None
    dry_run_at: float | None = None
    """The time at which the binder reported the move as a dry run; None for a real one."""

    siblings: frozenset[str] = frozenset()
    """UIDs of the workload's pods when the move was proposed: none of them is the replacement."""

    info: "PodInfo | None" = None
    """What the replacement needs at the target; None when another leader proposed the move."""

    before: Resources = Resources()
    """Usage of the node when the move was proposed; unknown when another leader proposed it."""

    over: tuple[str, ...] = ()
    """The resources in which the node was above its threshold."""

    trigger: str = ""
    """See `EvictionMove.trigger`."""

    campaign: str = ""
    """The name of the campaign whose budget the eviction used; empty without one."""

    cost: MoveCost | None = None
    """What the move costs, with the age of its pod; None in messages of earlier versions."""

    @property
    def real(self) -> bool:
        return self.dry_run_at is None


PendingMoves = Mapping[str, TrackedMove]
"""The moves by intent id, in the order in which they were proposed or reported."""


class PodLocation(msgspec.Struct, frozen=True, kw_only=True):
    """The node on which a pod runs, and its workload."""

    node: str
    workload: Workload | None


def planned(move: PodMove) -> TrackedMove:
    """A move that an earlier strategy of the same evaluation wants: the next strategy plans as if it were pending."""
    pod = move.pod
    return converted(
        pod,
        TrackedMove,
        id=f"planned {pod.uid}",
        pod_uid=pod.uid,
        pod=pod.name,
        target=move.target,
        expected_reduction=pod.usage,
        until=math.inf,
    )


def after_outcome(
    moves: PendingMoves, outcome: EvictionOutcome, *, replacement_timeout: float, dry_run_lifetime: float, now: float
) -> dict[str, TrackedMove]:
    """The moves after the outcome of an intent. Receiving the same outcome twice changes nothing.

    An evicted pod's move waits for the replacement, a dry run's move is kept for its lifetime, every other move ends.
    Outcomes of another leader's intents count as well, so that a change of leaders loses nothing.
    """
    moves_after = dict(moves)
    moves_after.pop(outcome.intent_id, None)
    evicted = outcome.outcome is Outcome.EVICTED
    if not evicted and (outcome.outcome is not Outcome.DRY_RUN or not outcome.target):
        return moves_after
    settled_at = min(outcome.settled_at, now)  # the API server's clock may be ahead for a while
    until = settled_at + (replacement_timeout if evicted else dry_run_lifetime)
    if evicted or until > now:
        for id in [move.id for move in moves_after.values() if move.pod_uid == outcome.pod_uid and not move.real]:
            del moves_after[id]
    if until <= now:
        return moves_after
    move = moves.get(outcome.intent_id) or converted(outcome, TrackedMove, id=outcome.intent_id, until=until)
    if evicted:
        decided_at = min(move.decided_at, settled_at)
        moves_after[move.id] = msgspec.structs.replace(
            move, decided_at=decided_at, evicted_at=settled_at, until=until, campaign=outcome.campaign
        )
    else:
        moves_after[move.id] = msgspec.structs.replace(move, dry_run_at=settled_at, until=until)
        if len(moves_after) > MAX_DRY_RUN_MOVES:
            for id in [move.id for move in moves_after.values() if not move.real][:-MAX_DRY_RUN_MOVES]:
                del moves_after[id]
    return moves_after


def earlier(moves: PendingMoves, seconds: float, now: float) -> dict[str, TrackedMove]:
    """The moves after this clock was set back to `now`: they are pending for as long as before."""
    return {
        id: msgspec.structs.replace(
            move,
            expires_at=max(0.0, move.expires_at - seconds),
            until=move.until - seconds,
            decided_at=min(move.decided_at, now),
            evicted_at=None if move.evicted_at is None else min(move.evicted_at, now),
            dry_run_at=None if move.dry_run_at is None else min(move.dry_run_at, now),
        )
        for id, move in moves.items()
    }


def replacements(moves: PendingMoves, pods: Mapping[Workload, Sequence[Pod]]) -> dict[str, Pod]:
    """The replacement of each evicted pod, once it is on a node, by intent id. A pod replaces only one evicted pod.

    A pod that was evicted later may have been the replacement of an earlier one: whoever has only the outcomes of both
    would otherwise take the newest pod for the replacement of the first. `pods`: the pods of the workloads of evicted
    pods.
    """
    waiting: dict[Workload, list[TrackedMove]] = {}
    for move in sorted(moves.values(), key=lambda move: (move.evicted_at or 0.0, move.id)):
        if move.evicted_at is not None and move.workload is not None:
            waiting.setdefault(move.workload, []).append(move)
    by_intent: dict[str, Pod] = {}
    for workload, evicted in waiting.items():
        known = {pod.metadata.uid: pod for pod in (*map(_evicted_pod, evicted), *pods.get(workload, ()))}
        for pod in sorted(known.values(), key=lambda pod: (created_at(pod), pod.metadata.uid)):
            move_of = next((move for move in evicted if pod.spec.node_name and _replaces(pod, move)), None)
            if move_of is not None:
                by_intent[move_of.id] = pod
                evicted.remove(move_of)
    return by_intent


def replaced_before_eviction(
    moves: PendingMoves, detached: Collection[str], pods: Mapping[Workload, Sequence[Pod]]
) -> Collection[str]:
    """The ids of the moves without a gap whose replacement is on a node already, although the pod has not left.

    The replacement counts on its node like any other pod, and is not expected any more. `detached`: the UIDs of the
    detached pods; `pods`: the pods of their workloads.
    """
    begun = {
        id: msgspec.structs.replace(move, evicted_at=move.decided_at)
        for id, move in moves.items()
        if move.real and move.evicted_at is None and move.pod_uid in detached
    }
    return replacements(begun, pods).keys()


def _evicted_pod(move: TrackedMove) -> Pod:
    """The pod of a move as it was on its node. Its time of creation is missing if it is not known."""
    age = None if move.cost is None else move.cost.age
    created = None if age is None else datetime.fromtimestamp(max(0.0, move.decided_at - age), UTC)
    metadata = ObjectMeta(name=move.pod, namespace=move.namespace, uid=move.pod_uid, creation_timestamp=created)
    return Pod(metadata=metadata, spec=PodSpec(node_name=move.node))


def _replaces(pod: Pod, move: TrackedMove) -> bool:
    if pod.metadata.uid == move.pod_uid or pod.metadata.uid in move.siblings:
        return False
    # The siblings are known for our own moves only. For others the times decide: creation times are whole seconds, and
    # a move without a gap creates the replacement before the eviction.
    return bool(move.siblings) or created_at(pod) >= int(move.decided_at) - 1


def created_at(pod: Pod) -> float:
    """Unix seconds; 0 when it is not known."""
    return pod.metadata.creation_timestamp.timestamp() if pod.metadata.creation_timestamp else 0.0


def current(
    moves: PendingMoves,
    locations: Mapping[str, PodLocation],
    nodes: Collection[str],
    now: float,
    surge_pods: Collection[str] = (),
) -> dict[str, TrackedMove]:
    """The moves that are still valid.

    A dry run's move also ends when its pod was moved, deleted or changed its workload, or when its target is gone.
    `locations`: the locations of the pods that run and are not terminating, by UID. `surge_pods`: the UIDs of the pods
    that binders move without a gap. Such a move lasts until its outcome, however long the replacement starts.
    """

    def valid(move: TrackedMove) -> bool:
        if move.real:
            return move.until > now or (move.evicted_at is None and move.pod_uid in surge_pods)
        located = PodLocation(node=move.node, workload=move.workload)
        return move.until > now and move.target in nodes and locations.get(move.pod_uid) == located

    return {id: move for id, move in moves.items() if valid(move)}


def real_moves(moves: PendingMoves) -> dict[str, TrackedMove]:
    return {id: move for id, move in moves.items() if move.real}


def dry_runs(moves: PendingMoves) -> dict[str, TrackedMove]:
    """The moves of dry runs, by UID of their pod."""
    return {move.pod_uid: move for move in moves.values() if not move.real}


def pending_triggers(moves: PendingMoves) -> dict[str, str]:
    """Why nothing more is moved for the pods for which moves are pending, by trigger and by UID."""
    triggers = {move.trigger for move in moves.values() if move.trigger}
    return dict.fromkeys(
        chain.from_iterable((trigger, waiting_uid(trigger)) for trigger in triggers), "pods are being moved for it"
    )


def busy_workloads(moves: PendingMoves) -> dict[Workload, int]:
    """Number of pods with a real pending move, by workload."""
    return dict(Counter(move.workload for move in moves.values() if move.real and move.workload is not None))


def approved_pods(moves: Iterable[TrackedMove], *, now: float) -> list[str]:
    """The UIDs of the pods that may be evicted: their intents have neither expired nor an outcome.

    A move without a gap that began just before its intent expired is not known until a binder has reported it.
    """
    earliest = now - HEARTBEAT_LIFETIME
    waiting = (move for move in moves if move.real and move.evicted_at is None and move.expires_at > earliest)
    return sorted({move.pod_uid for move in waiting})


def without_outcome(moves: PendingMoves) -> int:
    """Number of intents whose outcome is not known."""
    return sum(move.real and move.evicted_at is None for move in moves.values())


def reported_dry_runs(moves: PendingMoves) -> list[DryRunMove]:
    """The moves of dry runs as messages, newest first."""
    dry_run_moves = [converted(move, DryRunMove, since=move.dry_run_at) for move in moves.values() if not move.real]
    return sorted(dry_run_moves, key=lambda move: (-move.since, move.namespace, move.pod))


def reported_pending(moves: PendingMoves) -> list[PendingMove]:
    """The real pending moves as messages, the first to expire first."""
    ordered = sorted(real_moves(moves).values(), key=lambda move: (move.until, move.id))
    return [converted(move, PendingMove) for move in ordered]
