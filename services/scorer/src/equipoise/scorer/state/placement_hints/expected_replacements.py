"""Keeps the replacement of an evicted pod from returning to the evicted node.

An eviction frees the node's requests and lowers its load, and no filter keeps the replacement away: to any scorer the
node is more attractive than before. Therefore, for a limited time, the evicted node scores 0 for pods of the workload,
the descheduler's intended target is preferred for the first replacement, and the moved load counts on that target until
the replacement is placed.

A replacement may be scored before the outcome of the eviction arrives. So hints begin with the intent, and end with an
outcome other than `evicted`. Intents, outcomes and placements may arrive in any order.
"""

from collections.abc import Container, Iterable

import msgspec

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.recent import is_recent

_CLOCK_STEP = 1.0
"""Kubernetes rounds times to seconds: a pod placed just after an eviction may carry an earlier time."""


_LONGEST = 3_600.0
"""Maximum number of seconds for which an intent without an outcome counts, should a wrong clock set a later expiry."""


class ReplacementHint(msgspec.Struct, frozen=True, kw_only=True):
    """What the recent evictions of a workload mean for one of its pods."""

    avoided: frozenset[str] = frozenset()
    """Nodes that score 0."""

    preferred: str = ""
    """The preferred node; empty if there is none."""


class _RecentEviction(msgspec.Struct, kw_only=True):
    """An intended eviction, or one that was carried out a short time ago."""

    message: EvictionIntent | EvictionOutcome
    intent_id: str
    ends_at: float
    evicted: bool = False
    """Whether an outcome has confirmed the eviction."""

    replacement: str = ""
    """UID of the pod that was taken for the replacement when it was scored."""

    replaced: bool = False
    """Whether the replacement is placed."""

    def is_replaced_by(self, pod: PlacedPod) -> bool:
        message = self.message
        is_other_pod = pod.workload == message.workload and pod.uid != message.pod_uid
        return is_other_pod and pod.placed_at + _CLOCK_STEP > message.decided_at


class ExpectedReplacements:
    """The replacements of pods that were evicted in the last minutes, or are about to be. Times are arguments."""

    def __init__(self, duration: float) -> None:
        """`duration` of the hints in seconds."""
        self._duration = duration
        self._evictions: dict[str, _RecentEviction] = {}
        self._unmatched: dict[str, PlacedPod] = {}
        """Placed pods that may be the replacement of an eviction whose messages have not arrived yet."""

    def on_intent(self, intent: EvictionIntent, now: float) -> None:
        """Expect the replacement of a pod that may be evicted at any time. A pod without a workload has none.

        A second intent for the same pod is ignored, because the work queue has refused it.
        """
        first = self._evictions.get(intent.pod_uid)
        if intent.workload is not None and intent.expires_at > now and (first is None or first.ends_at <= now):
            self._add(
                _RecentEviction(message=intent, intent_id=intent.id, ends_at=min(intent.expires_at, now + _LONGEST))
            )

    def on_outcome(self, outcome: EvictionOutcome, now: float) -> None:
        """Extend the hint of a pod that was evicted; end it for every other outcome of the same intent."""
        eviction = self._evictions.get(outcome.pod_uid)
        ends_at = min(outcome.settled_at, now) + self._duration
        if outcome.outcome is not Outcome.EVICTED:
            if eviction is not None and eviction.intent_id == outcome.intent_id:
                del self._evictions[outcome.pod_uid]
        elif eviction is not None:
            if not eviction.evicted:
                eviction.evicted, eviction.ends_at = True, ends_at
        elif outcome.workload is not None and ends_at > now:
            self._add(_RecentEviction(message=outcome, intent_id=outcome.intent_id, ends_at=ends_at, evicted=True))

    def _add(self, eviction: _RecentEviction) -> None:
        self._evictions[eviction.message.pod_uid] = eviction
        for pod in self._unmatched.values():
            if eviction.is_replaced_by(pod):
                eviction.replaced = True
                del self._unmatched[pod.uid]
                break

    def on_placed(self, pods: Iterable[PlacedPod], now: float) -> None:
        """Pods that were newly placed: each may be the replacement of one eviction."""
        for pod in pods:
            if pod.workload is None or pod.placed_at + self._duration + _CLOCK_STEP <= now:
                continue
            waiting = [
                eviction
                for eviction in self._evictions.values()
                if not eviction.replaced and eviction.is_replaced_by(pod)
            ]
            if (eviction := _first_for(pod.uid, waiting)) is not None:
                eviction.replaced = True
            else:
                self._unmatched[pod.uid] = pod

    def prune(self, now: float) -> None:
        """Remove evictions and pods that are out of date, or that a wrong clock has dated too far in the future."""
        latest, period = now + max(self._duration, _LONGEST), self._duration + _CLOCK_STEP
        evictions = self._evictions.items()
        self._evictions = {uid: eviction for uid, eviction in evictions if now < eviction.ends_at <= latest}
        self._unmatched = {uid: pod for uid, pod in self._unmatched.items() if is_recent(pod.placed_at, now, period)}

    def reserved(
        self, now: float, *, without: str = "", reservations: Container[str] = ()
    ) -> list[tuple[str, Resources]]:
        """Node and usage of every replacement that is not placed yet.

        The pod with UID `without` does not count, and neither do pods with a reservation (their UIDs are in
        `reservations`). Before the outcome is known, a replacement counts only if it was already scored.
        """

        def counts(eviction: _RecentEviction) -> bool:
            if eviction.replacement:
                return eviction.replacement != without and eviction.replacement not in reservations
            return eviction.evicted

        return [
            (eviction.message.target, eviction.message.expected_reduction)
            for eviction in self._evictions.values()
            if eviction.message.target and eviction.ends_at > now and not eviction.replaced and counts(eviction)
        ]

    def expected(self, now: float) -> dict[Workload, tuple[list[str], list[str]]]:
        """Two lists of nodes for each workload with recent evictions, oldest eviction first.

        The first has the targets of the replacements that are not placed yet, the second the nodes that the evicted
        pods have left or are about to leave.
        """
        nodes: dict[Workload, tuple[list[str], list[str]]] = {}
        for eviction in sorted(self._evictions.values(), key=lambda eviction: eviction.message.decided_at):
            message = eviction.message
            if message.workload is not None and eviction.ends_at > now:
                targets, vacated_nodes = nodes.setdefault(message.workload, ([], []))
                vacated_nodes.append(message.node)
                if message.target and not eviction.replaced:
                    targets.append(message.target)
        return nodes

    def assign(self, uid: str, workload: Workload | None, nodes: Iterable[str], now: float) -> ReplacementHint:
        """The hint for a pod with these candidate nodes. A pod whose hint prefers a node is taken for a replacement."""
        hint, eviction = self._match(uid, workload, nodes, now)
        if eviction is not None:
            eviction.replacement = uid
        return hint

    def hint(self, uid: str, workload: Workload | None, nodes: Iterable[str], now: float) -> ReplacementHint:
        """The hint that `assign` would return; changes nothing."""
        return self._match(uid, workload, nodes, now)[0]

    def _match(
        self, uid: str, workload: Workload | None, nodes: Iterable[str], now: float
    ) -> tuple[ReplacementHint, _RecentEviction | None]:
        """The hint, and the eviction whose target it prefers, if any."""
        if workload is None or not self._evictions:
            return ReplacementHint(), None
        candidates = frozenset(nodes)
        current = [
            eviction
            for eviction in self._evictions.values()
            if eviction.message.workload == workload and eviction.ends_at > now
        ]
        avoided = frozenset(eviction.message.node for eviction in current)
        waiting = [
            eviction
            for eviction in current
            if not eviction.replaced
            and eviction.replacement in ("", uid)
            and eviction.message.pod_uid != uid
            and eviction.message.target in candidates
            and eviction.message.target not in avoided
        ]
        eviction = _first_for(uid, waiting) if uid else None
        preferred = "" if eviction is None else eviction.message.target
        return ReplacementHint(avoided=avoided, preferred=preferred), eviction


def _first_for(uid: str, evictions: Iterable[_RecentEviction]) -> _RecentEviction | None:
    """The eviction whose replacement was scored with this UID, else the oldest one; None if there are no evictions."""
    return min(evictions, key=lambda eviction: (eviction.replacement != uid, eviction.message.decided_at), default=None)
