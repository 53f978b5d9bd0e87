"""Keeps a replacement from going home: three forces pull it there, and these hints answer them.

An eviction frees the node's requests and takes load off it, and nothing filters it: to any scorer it looks better than
before. So for a while the source scores 0 for pods of that workload, the target the descheduler had in mind is
preferred for the first replacement, and the moved load counts there until the replacement is placed.

A replacement asks before the outcome of the eviction is told, so all this begins with the intent and ends with it,
unless the pod is really evicted. Intents, outcomes and placements are heard in any order.
"""

from collections.abc import Container, Iterable

import msgspec

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.resources import Resources

_CLOCK_STEP = 1.0
"""Kubernetes writes times in whole seconds: what was placed right after an eviction may bear an earlier time."""


class Eviction(msgspec.Struct, kw_only=True):
    """One eviction that is intended, or whose after-effects last."""

    intent_id: str
    pod_uid: str
    workload: Workload
    source: str
    target: str
    relief: Resources
    decided_at: float
    ends_at: float
    evicted: bool = False
    """The outcome has said so."""

    asked_by: str = ""
    """UID of the pod that was taken for its replacement when it asked."""

    replaced: bool = False


class Hint(msgspec.Struct, frozen=True, kw_only=True):
    """What the evictions of a workload mean for a pod of it that asks now."""

    avoided: frozenset[str] = frozenset()
    """Nodes that score 0."""

    preferred: str = ""
    """The node to prefer; empty: none."""


class AfterEviction:
    """The evictions of the last minutes. Times are handed in."""

    def __init__(self, life: float) -> None:
        self._life = life
        self._evictions: dict[str, Eviction] = {}
        self._arrivals: dict[str, PlacedPod] = {}

    def on_intent(self, intent: EvictionIntent, now: float) -> None:
        """Take in that a pod may be evicted at any moment; only pods that have a workload matter.

        A second intent for the same pod is one that the work queue refused: the first one is still there.
        """
        held = self._evictions.get(intent.pod_uid)
        if intent.workload is not None and intent.expires_at > now and (held is None or held.ends_at <= now):
            self._open(intent, intent.id, intent.workload, intent.expires_at, evicted=False)

    def on_outcome(self, outcome: EvictionOutcome, now: float) -> None:
        """Take in what became of an intent: it lasts when the pod was really evicted, and ends otherwise."""
        held = self._evictions.get(outcome.pod_uid)
        ends_at = outcome.settled_at + self._life
        if outcome.outcome is not Outcome.EVICTED:
            if held is not None and held.intent_id == outcome.intent_id:
                del self._evictions[outcome.pod_uid]
        elif held is not None:
            if not held.evicted:
                held.evicted, held.ends_at = True, ends_at
        elif outcome.workload is not None and ends_at > now:
            self._open(outcome, outcome.intent_id, outcome.workload, ends_at, evicted=True)

    def _open(
        self,
        told: EvictionIntent | EvictionOutcome,
        intent_id: str,
        workload: Workload,
        ends_at: float,
        *,
        evicted: bool,
    ) -> None:
        eviction = Eviction(
            intent_id=intent_id,
            pod_uid=told.pod_uid,
            workload=workload,
            source=told.node,
            target=told.target,
            relief=told.expected_reduction,
            decided_at=told.decided_at,
            ends_at=ends_at,
            evicted=evicted,
        )
        self._evictions[told.pod_uid] = eviction
        for pod in self._arrivals.values():
            if _replaces(pod, eviction):
                eviction.replaced = True
                del self._arrivals[pod.uid]
                break

    def on_placed(self, pods: Iterable[PlacedPod], now: float) -> None:
        """Take in pods that were newly seen on a node: each may be the replacement of one eviction."""
        for pod in pods:
            if pod.workload is None or pod.placed_at + self._life + _CLOCK_STEP <= now:
                continue
            open_ones = [each for each in self._evictions.values() if not each.replaced and _replaces(pod, each)]
            if open_ones:
                # Who asked is the replacement; else the eldest eviction has it.
                min(open_ones, key=lambda each: (each.asked_by != pod.uid, each.decided_at)).replaced = True
            else:
                self._arrivals[pod.uid] = pod

    def forget(self, now: float) -> None:
        """Drop what has ended."""
        self._evictions = {uid: each for uid, each in self._evictions.items() if each.ends_at > now}
        oldest = now - self._life - _CLOCK_STEP
        self._arrivals = {uid: pod for uid, pod in self._arrivals.items() if pod.placed_at > oldest}

    def booked(self, now: float, *, asking: str = "", answered: Container[str] = ()) -> list[tuple[str, Resources]]:
        """Node and usage of every replacement on its way, but for the one that asks now and those with an answer.

        `asking` is a UID, `answered` are the UIDs of pods whose answers count as load by themselves. Until the outcome
        is known nothing is on its way, unless a replacement has asked.
        """

        def on_its_way(each: Eviction) -> bool:
            if each.asked_by:
                return each.asked_by != asking and each.asked_by not in answered
            return each.evicted

        return [
            (each.target, each.relief)
            for each in self._evictions.values()
            if each.target and each.ends_at > now and not each.replaced and on_its_way(each)
        ]

    def ask(self, uid: str, workload: Workload | None, nodes: Iterable[str], now: float) -> Hint:
        """What a pod that may go to `nodes` should know. The first to ask is taken for the replacement."""
        hint, mine = self._look(uid, workload, nodes, now)
        if mine is not None:
            mine.asked_by = uid
        return hint

    def hint(self, uid: str, workload: Workload | None, nodes: Iterable[str], now: float) -> Hint:
        """What `ask` would say; who only wants to know is not taken for a replacement."""
        return self._look(uid, workload, nodes, now)[0]

    def _look(
        self, uid: str, workload: Workload | None, nodes: Iterable[str], now: float
    ) -> tuple[Hint, Eviction | None]:
        """The hint, and the eviction whose replacement the pod would be."""
        if workload is None or not self._evictions:
            return Hint(), None
        candidates = frozenset(nodes)
        lasting = [each for each in self._evictions.values() if each.workload == workload and each.ends_at > now]
        avoided = frozenset(each.source for each in lasting)
        waiting = [
            each
            for each in lasting
            if not each.replaced
            and each.asked_by in ("", uid)
            and each.pod_uid != uid
            and each.target in candidates
            and each.target not in avoided
        ]
        if not uid or not waiting:
            return Hint(avoided=avoided), None
        mine = min(waiting, key=lambda each: (each.asked_by != uid, each.decided_at))
        return Hint(avoided=avoided, preferred=mine.target), mine


def _replaces(pod: PlacedPod, eviction: Eviction) -> bool:
    return (
        pod.workload == eviction.workload
        and pod.uid != eviction.pod_uid
        and pod.placed_at + _CLOCK_STEP > eviction.decided_at
    )
