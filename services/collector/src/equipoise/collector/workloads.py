"""Usage per replica of every workload: pods folded by workload, and the typical day in 24 slots.

Each slot is asked for when it has ended, with a window of exactly its length; over days it is smoothed. Windows too
long to be asked for pod by pod are means over the slots of the past.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

import msgspec

from equipoise.contracts.messages import Resources, WindowUsage, WorkloadUtilization
from equipoise.contracts.settings import Window
from equipoise.contracts.workload import Workload

SLOTS = 24


class MeasuredPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod's usage in one window."""

    workload: Workload
    usage: Resources
    sampled_at: float
    """Newest raw sample of its node."""


class Fold(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of one workload in one window."""

    usage: Resources
    """Per replica."""

    replicas: int
    sampled_at: float
    """The oldest of the pods' newest samples."""


def fold(pods: Iterable[MeasuredPod]) -> dict[Workload, Fold]:
    """Mean usage per measured replica; a resource that no replica was measured in is unknown."""
    groups: dict[Workload, list[MeasuredPod]] = {}
    for pod in pods:
        groups.setdefault(pod.workload, []).append(pod)
    return {
        workload: Fold(
            usage=mean_of([pod.usage for pod in group]),
            replicas=len(group),
            sampled_at=min(pod.sampled_at for pod in group),
        )
        for workload, group in groups.items()
    }


def mean_of(amounts: Sequence[Resources]) -> Resources:
    """Per resource the mean of those that are known."""
    cpu = [amount.cpu for amount in amounts if amount.cpu is not None]
    memory = [amount.memory for amount in amounts if amount.memory is not None]
    return Resources(cpu=fmean(cpu) if cpu else None, memory=fmean(memory) if memory else None)


def slot_of(ended_at: float, length: float) -> int:
    """Which slot of the day (UTC) ended at this moment."""
    return (round(ended_at / length) - 1) % SLOTS


class Profile:
    """A workload's day."""

    def __init__(self) -> None:
        self._slots: list[Resources] = [Resources()] * SLOTS
        self._past: dict[int, Resources] = {}

    def add(self, ended_at: float, length: float, usage: Resources, weight: float) -> None:
        """The mean of the slot that ended then; `weight` is the share of the new day in the smoothed one."""
        slot = slot_of(ended_at, length)
        self._slots[slot] = _smoothed(self._slots[slot], usage, weight)
        number = round(ended_at / length)
        self._past[number] = usage
        newest = max(self._past)
        self._past = {at: value for at, value in self._past.items() if at > newest - SLOTS}

    def has(self, ended_at: float, length: float) -> bool:
        return round(ended_at / length) in self._past

    def window(self, length: float, slot: float, now: float, coverage: float) -> WindowUsage | None:
        """The mean over a window that ends with the newest full slot; None when too few slots of it are known."""
        count = min(SLOTS, round(length / slot))
        last = int(now // slot)
        past = [value for number, value in self._past.items() if last - count < number <= last]
        if count < 1 or len(past) < coverage * count:
            return None
        newest = max(number for number in self._past if number <= last)
        return WindowUsage(sampled_at=newest * slot, mean=mean_of(past))

    def told(self) -> dict[str, list[float | None]]:
        """By resource, as messages tell it; empty when no slot is known."""
        told = {
            "cpu": [slot.cpu for slot in self._slots],
            "memory": [slot.memory for slot in self._slots],
        }
        return {resource: slots for resource, slots in told.items() if any(slot is not None for slot in slots)}


def _smoothed(before: Resources, usage: Resources, weight: float) -> Resources:
    def each(old: float | None, new: float | None) -> float | None:
        return new if old is None else old if new is None else (1 - weight) * old + weight * new

    return Resources(cpu=each(before.cpu, usage.cpu), memory=each(before.memory, usage.memory))


class Workloads:
    """What is known of every workload; one without pods for a day is forgotten."""

    def __init__(self, *, slot: float, weight: float, coverage: float) -> None:
        """`slot` is the length of a slot in seconds."""
        self._slot = slot
        self._weight = weight
        self._coverage = coverage
        self._windows: dict[str, tuple[float, Mapping[Workload, Fold]]] = {}
        self._profiles: dict[Workload, Profile] = {}

    def record(self, window: str, pods: Iterable[MeasuredPod], at: float) -> None:
        """The pods of one window, from a query at `at`."""
        self._windows[window] = (at, fold(pods))

    def record_slot(self, ended_at: float, pods: Iterable[MeasuredPod]) -> None:
        for workload, folded in fold(pods).items():
            profile = self._profiles.setdefault(workload, Profile())
            if not profile.has(ended_at, self._slot):
                profile.add(ended_at, self._slot, folded.usage, self._weight)

    def forget(self, present: Iterable[Workload]) -> None:
        """Keep the profiles of these workloads only."""
        kept = set(present)
        self._profiles = {workload: profile for workload, profile in self._profiles.items() if workload in kept}

    def messages(
        self,
        windows: Sequence[Window],
        lives: Mapping[str, float],
        now: float,
        *,
        epoch: int,
        sequence: int,
        mine: Callable[[Workload], bool] = lambda _: True,
    ) -> list[WorkloadUtilization]:
        """One message per workload that is known now and `mine`; `lives`: for how long each window's value holds."""
        live = {name: found for name, (_, found) in self._windows.items() if name in lives}
        seen = {workload for found in live.values() for workload in found if mine(workload)}
        told = []
        for workload in sorted(seen):
            usages = dict(self._usages(workload, windows, lives, now))
            if usages:
                first = next(found[workload] for found in live.values() if workload in found)
                profile = self._profiles.get(workload)
                told.append(
                    WorkloadUtilization(
                        workload=workload,
                        replicas=first.replicas,
                        sampled_at=max(usage.sampled_at for usage in usages.values()),
                        queried_at=max(at for at, _ in self._windows.values()),
                        windows=usages,
                        profile=profile.told() if profile else {},
                        epoch=epoch,
                        sequence=sequence,
                    )
                )
        return told

    def _usages(
        self, workload: Workload, windows: Sequence[Window], lives: Mapping[str, float], now: float
    ) -> Iterable[tuple[str, WindowUsage]]:
        for window in windows:
            usage: WindowUsage | None = None
            if window.name in self._windows:
                if (folded := self._windows[window.name][1].get(workload)) is not None:
                    usage = WindowUsage(sampled_at=folded.sampled_at, mean=folded.usage)
            elif workload in self._profiles:
                usage = self._profiles[workload].window(window.length, self._slot, now, self._coverage)
            if usage is not None and now - usage.sampled_at <= lives[window.name]:
                yield window.name, usage
