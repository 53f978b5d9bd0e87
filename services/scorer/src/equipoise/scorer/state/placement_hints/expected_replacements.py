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
"""Seconds for which an intent without an outcome counts at most: clocks may be wrong for a while."""


class ReplacementHint(msgspec.Struct, frozen=True, kw_only=True):
    """What the recent evictions of a workload mean for one of its pods."""

    avoided: frozenset[str] = frozenset()
    """Nodes that score 0."""

    preferred: str = ""
    """The preferred node; empty: none."""


class _RecentEviction(msgspec.Struct, kw_only=True):
    """An intended eviction, or one that was carried out a short time ago."""

    message: EvictionIntent | EvictionOutcome
    intent_id: str
    ends_at: float
    evicted: bool = False
    """An outcome has confirmed it."""

    replacement: str = ""
    """UID of the pod that was taken for the replacement when it was scored."""

    replaced: bool = False
    """The replacement is placed."""

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
        """A pod may be evicted at any time; pods without a workload have no replacement.

        A second intent for the same pod was refused by the work queue: the first one still counts.
        """
        known = self._evictions.get(intent.pod_uid)
        if intent.workload is not None and intent.expires_at > now and (known is None or known.ends_at <= now):
            self._add(
                _RecentEviction(message=intent, intent_id=intent.id, ends_at=min(intent.expires_at, now + _LONGEST))
            )

    def on_outcome(self, outcome: EvictionOutcome, now: float) -> None:
        """Extend the hint of a pod that was evicted; end it for every other outcome of the same intent."""
        known = self._evictions.get(outcome.pod_uid)
        ends_at = min(outcome.settled_at, now) + self._duration
        if outcome.outcome is not Outcome.EVICTED:
            if known is not None and known.intent_id == outcome.intent_id:
                del self._evictions[outcome.pod_uid]
        elif known is not None:
            if not known.evicted:
                known.evicted, known.ends_at = True, ends_at
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
            waiting = [each for each in self._evictions.values() if not each.replaced and each.is_replaced_by(pod)]
            if waiting:
                # The eviction whose replacement was scored with this UID, else the oldest one.
                min(waiting, key=lambda each: (each.replacement != pod.uid, each.message.decided_at)).replaced = True
            else:
                self._unmatched[pod.uid] = pod

    def prune(self, now: float) -> None:
        """Remove what has ended, and what is of the time of a clock that was ahead."""
        latest, period = now + max(self._duration, _LONGEST), self._duration + _CLOCK_STEP
        self._evictions = {uid: each for uid, each in self._evictions.items() if now < each.ends_at <= latest}
        self._unmatched = {uid: pod for uid, pod in self._unmatched.items() if is_recent(pod.placed_at, now, period)}

    def reserved(
        self, now: float, *, without: str = "", reservations: Container[str] = ()
    ) -> list[tuple[str, Resources]]:
        """Node and usage of every replacement that is not placed yet.

        Neither the pod with UID `without` counts, nor pods that have a reservation of their own (`reservations`: UIDs).
        Before the outcome is known, only replacements that were already scored count.
        """

        def counts(each: _RecentEviction) -> bool:
            if each.replacement:
                return each.replacement != without and each.replacement not in reservations
            return each.evicted

        return [
            (each.message.target, each.message.expected_reduction)
            for each in self._evictions.values()
            if each.message.target and each.ends_at > now and not each.replaced and counts(each)
        ]

    def expected(self, now: float) -> dict[Workload, tuple[list[str], list[str]]]:
        """The targets of the replacements that are not placed yet, and the nodes that the evicted pods have left or are
        about to leave, by workload with recent evictions. The oldest eviction first."""
        found: dict[Workload, tuple[list[str], list[str]]] = {}
        for each in sorted(self._evictions.values(), key=lambda each: each.message.decided_at):
            message = each.message
            if message.workload is not None and each.ends_at > now:
                targets, vacated_nodes = found.setdefault(message.workload, ([], []))
                vacated_nodes.append(message.node)
                if message.target and not each.replaced:
                    targets.append(message.target)
        return found

    def assign(self, uid: str, workload: Workload | None, nodes: Iterable[str], now: float) -> ReplacementHint:
        """The hint for a pod with these candidates. The first pod with a target becomes the replacement."""
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
        """The hint, and the eviction whose replacement the pod would be."""
        if workload is None or not self._evictions:
            return ReplacementHint(), None
        candidates = frozenset(nodes)
        current = [
            each for each in self._evictions.values() if each.message.workload == workload and each.ends_at > now
        ]
        avoided = frozenset(each.message.node for each in current)
        waiting = [
            each
            for each in current
            if not each.replaced
            and each.replacement in ("", uid)
            and each.message.pod_uid != uid
            and each.message.target in candidates
            and each.message.target not in avoided
        ]
        if not uid or not waiting:
            return ReplacementHint(avoided=avoided), None
        eviction = min(waiting, key=lambda each: (each.replacement != uid, each.message.decided_at))
        return ReplacementHint(avoided=avoided, preferred=eviction.message.target), eviction
