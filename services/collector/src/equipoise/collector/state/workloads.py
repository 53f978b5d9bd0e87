"""Usage per replica of every workload: windows, and the 24-hour profile.

Most series of a source belong to pods, so pods are queried in the shortest window only. The mean of a longer
window, up to `podWindowLimit`, is computed from consecutive means of the shortest one, weighted by the time that each
covers. The mean of a still longer window is computed from the slots of the profile. Each slot is queried when it has
ended, with a window of exactly its length, and smoothed over days.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from equipoise.collector.decisions.replica_means import (
    RecentMeans,
    ReplicaMean,
    ReplicaMeans,
    WorkloadRound,
    weighted_mean,
)
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.daily_profile import MIN_SLOTS, SLOTS
from equipoise.contracts.messages.utilization import WindowUsage, WorkloadUtilization
from equipoise.contracts.messages.values.resources import Resources


def slot_of(ended_at: float, length: float) -> int:
    """The slot (UTC) that ended at this time."""
    return (round(ended_at / length) - 1) % SLOTS


class LearnedProfile:
    """A workload's 24-hour profile, and the measured slots of the past day that it was learned from."""

    def __init__(self) -> None:
        self._slots: list[Resources] = [Resources()] * SLOTS
        self._measured: dict[int, Resources] = {}
        self._replicas: list[float | None] = [None] * SLOTS
        self.replicas_by_hour: list[float | None] = []
        """The smoothed number of pods in each slot. Empty while it is the same in all known slots."""

        self._squared_errors: list[Resources] = [Resources()] * SLOTS
        self.forecast_error = Resources()
        """See `WorkloadUtilization`. Unknown with fewer than `MIN_SLOTS` slots that were compared with the profile.

        A profile that was restored after a start may contain the day with which it is compared: the error is then too
        low by the weight of that day.
        """

    def add(self, ended_at: float, length: float, usage: Resources, weight: float, replicas: int | None = None) -> None:
        """Adds the mean of the slot that ended at `ended_at`, once. `weight`: the share of the new day in the smoothed
        slot."""
        slot, number = slot_of(ended_at, length), round(ended_at / length)
        if number in self._measured:
            return
        error = _squared_difference(usage, self._slots[slot])
        self._squared_errors[slot] = _smoothed(self._squared_errors[slot], error, weight)
        self.forecast_error = Resources(
            cpu=_root_mean([square.cpu for square in self._squared_errors]),
            memory=_root_mean([square.memory for square in self._squared_errors]),
        )
        self._slots[slot] = _smoothed(self._slots[slot], usage, weight)
        self._replicas[slot] = _smoothed_number(self._replicas[slot], replicas, weight)
        known = {round(value, 2) for value in self._replicas if value is not None}
        self.replicas_by_hour = list(self._replicas) if len(known) > 1 else []
        self._measured[number] = usage
        newest = max(self._measured)
        self._measured = {at: value for at, value in self._measured.items() if at > newest - SLOTS}

    def restore(self, profile: Sequence[Resources]) -> None:
        """Fill the slots that were not measured. A restored slot is no measurement: no window is computed from it.

        With weight 0, a slot that is known does not change.
        """
        self._slots = [_smoothed(slot, old, 0.0) for slot, old in zip(self._slots, profile, strict=True)]

    def window(self, length: float, slot: float, now: float, coverage: float) -> WindowUsage | None:
        """The mean over a window that ends with the newest full slot.

        A resource that is known in too few of its slots is unknown. None if both are unknown, or if the window has more
        slots than are kept.
        """
        count, last = round(length / slot), int(now // slot)
        slots = {number: value for number, value in self._measured.items() if last - count < number <= last}
        if not 1 <= count <= SLOTS or not slots:
            return None
        mean = weighted_mean([(1.0, usage) for usage in slots.values()], coverage * count)
        return None if mean == Resources() else WindowUsage(sampled_at=max(slots) * slot, mean=mean)

    def by_resource(self) -> dict[str, list[float | None]]:
        """The profile as messages carry it: a resource without any known slot is left out."""
        slots = {"cpu": [slot.cpu for slot in self._slots], "memory": [slot.memory for slot in self._slots]}
        return {resource: values for resource, values in slots.items() if any(value is not None for value in values)}


def _smoothed(before: Resources, usage: Resources, weight: float) -> Resources:
    return Resources(
        cpu=_smoothed_number(before.cpu, usage.cpu, weight),
        memory=_smoothed_number(before.memory, usage.memory, weight),
    )


def _smoothed_number(old: float | None, new: float | None, weight: float) -> float | None:
    if old is None or new is None:
        return new if old is None else old
    return (1 - weight) * old + weight * new


def _squared_difference(usage: Resources, before: Resources) -> Resources:
    return Resources(
        cpu=None if usage.cpu is None or before.cpu is None else (usage.cpu - before.cpu) ** 2,
        memory=None if usage.memory is None or before.memory is None else (usage.memory - before.memory) ** 2,
    )


def _root_mean(squares: Sequence[float | None]) -> float | None:
    known = [square for square in squares if square is not None]
    return math.sqrt(sum(known) / len(known)) if len(known) >= MIN_SLOTS else None


class WorkloadStore:
    """The usage of every workload. A workload without pods for a day is deleted."""

    def __init__(self, *, load: LoadSettings, slot: float, weight: float, recent_limit: float) -> None:
        """`slot` is the length of a slot; windows longer than `recent_limit` are made of slots. Seconds."""
        self._load = load
        self._slot = slot
        self._weight = weight
        self._recent_limit = recent_limit
        self._round = WorkloadRound(recent=RecentMeans(length=load.shortest.length, horizon=recent_limit), means={})
        self._profiles: dict[Workload, LearnedProfile] = {}

    def with_means(self, means: ReplicaMeans, at: float) -> WorkloadRound:
        """The round with these means of the shortest window at `at`. Changes nothing: see `record`."""
        recent, coverage = self._round.recent.add(at, means), self._load.coverage.window
        shortest = {workload: mean.usage for workload, mean in means.items()}
        longer = {
            window.name: recent.means(window.length, coverage)
            for window in self._load.windows[1:]
            if window.length <= self._recent_limit
        }
        return WorkloadRound(recent=recent, means={self._load.shortest.name: shortest} | longer)

    def record(self, finished: WorkloadRound) -> None:
        self._round = finished

    def record_slot(self, ended_at: float, means: ReplicaMeans) -> None:
        """Usage per replica, and the number of replicas, over the slot that ended at `ended_at`."""
        for workload, mean in means.items():
            profile = self._profiles.setdefault(workload, LearnedProfile())
            profile.add(ended_at, self._slot, mean.usage, self._weight, mean.replicas)

    def restore(self, workload: Workload, profile: Sequence[Resources]) -> None:
        """Fill the slots of a workload that were not measured."""
        self._profiles.setdefault(workload, LearnedProfile()).restore(profile)

    def retain(self, present: Iterable[Workload]) -> None:
        """Delete the profiles of all other workloads."""
        kept = set(present)
        self._profiles = {workload: profile for workload, profile in self._profiles.items() if workload in kept}

    @property
    def measured(self) -> Collection[Workload]:
        """The workloads of the last round."""
        return self._round.recent.newest.means.keys()

    def messages(
        self, workloads: Iterable[Workload], now: float, *, epoch: int, sequence: int
    ) -> list[WorkloadUtilization]:
        """A message for each of these with a known window."""
        newest = self._round.recent.newest
        max_ages = {window.name: self._load.lifetime(window) for window in self._load.windows}
        messages = []
        for workload in workloads:
            mean = newest.means.get(workload)
            windows = {} if mean is None else dict(self._windows(workload, mean, max_ages, now))
            if mean is not None and windows:
                profile = self._profiles.get(workload)
                messages.append(
                    WorkloadUtilization(
                        workload=workload,
                        replicas=mean.replicas,
                        sampled_at=max(usage.sampled_at for usage in windows.values()),
                        queried_at=newest.at,
                        windows=windows,
                        profile=profile.by_resource() if profile else {},
                        replicas_by_hour=profile.replicas_by_hour if profile else [],
                        forecast_error=profile.forecast_error if profile else Resources(),
                        epoch=epoch,
                        sequence=sequence,
                    )
                )
        return messages

    def _windows(
        self, workload: Workload, newest: ReplicaMean, max_ages: Mapping[str, float], now: float
    ) -> Iterable[tuple[str, WindowUsage]]:
        for window in self._load.windows:
            usage: WindowUsage | None = None
            if window.name in self._round.means:
                if (mean := self._round.means[window.name].get(workload)) is not None:
                    usage = WindowUsage(sampled_at=newest.sampled_at, mean=mean)
            elif workload in self._profiles:
                usage = self._profiles[workload].window(window.length, self._slot, now, self._load.coverage.window)
            if usage is not None and now - usage.sampled_at <= max_ages[window.name]:
                yield window.name, usage
