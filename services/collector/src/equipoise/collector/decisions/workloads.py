"""Usage per replica of every workload: pods folded by workload, and the typical day in 24 slots.

Each slot is asked for when it has ended, with a window of exactly its length; over days it is smoothed. Windows that
are longer than what is remembered of the shortest one are means over the slots of the past.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from equipoise.collector.decisions.recent import Recent
from equipoise.collector.decisions.workload_means import Fold, mean_of
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import WindowUsage, WorkloadUtilization

SLOTS = 24


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

    def restore(self, day: Sequence[Resources]) -> None:
        """A remembered day, for slots that nothing was measured in. It is no measurement: no window is made of it."""
        self._slots = [_smoothed(slot, old, 0.0) for slot, old in zip(self._slots, day, strict=True)]

    def has(self, ended_at: float, length: float) -> bool:
        return round(ended_at / length) in self._past

    def window(self, length: float, slot: float, now: float, coverage: float) -> WindowUsage | None:
        """The mean over a window that ends with the newest full slot.

        A resource that is known in too few of its slots is unknown; None when both are, and for a window that holds
        more slots than are remembered.
        """
        count, last = round(length / slot), int(now // slot)
        past = {number: value for number, value in self._past.items() if last - count < number <= last}
        if not 1 <= count <= SLOTS or not past:
            return None
        mean = mean_of([*past.values()])
        for resource in RESOURCES:
            if sum(getattr(value, resource) is not None for value in past.values()) < coverage * count:
                mean = msgspec.structs.replace(mean, **{resource: None})
        return None if mean == Resources() else WindowUsage(sampled_at=max(past) * slot, mean=mean)

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


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What the rounds of the shortest window have told."""

    recent: Recent
    means: Mapping[str, Mapping[Workload, Resources]]
    """By window, of those that are remembered."""


class Workloads:
    """What is known of every workload; one without pods for a day is forgotten."""

    def __init__(self, *, load: LoadSettings, slot: float, weight: float, remembered: float) -> None:
        """`slot` is the length of a slot; longer windows than `remembered` are made of slots. Seconds."""
        self._load = load
        self._slot = slot
        self._weight = weight
        self._remembered = remembered
        self._heard = Heard(recent=Recent(length=load.shortest.length, horizon=remembered), means={})
        self._profiles: dict[Workload, Profile] = {}

    def heard(self, folds: Mapping[Workload, Fold], at: float) -> "Heard":
        """What is known with the shortest window of a query at `at`. It is told of once it is recorded."""
        recent, coverage = self._heard.recent.after(at, folds), self._load.coverage.window
        shortest = {workload: folded.usage for workload, folded in folds.items()}
        longer = {
            window.name: recent.means(window.length, coverage)
            for window in self._load.windows[1:]
            if window.length <= self._remembered
        }
        return Heard(recent=recent, means={self._load.shortest.name: shortest} | longer)

    def record(self, heard: "Heard") -> None:
        """A round has ended."""
        self._heard = heard

    def record_slot(self, ended_at: float, usage: Mapping[Workload, Resources]) -> None:
        """What a replica used over the slot that ended then."""
        for workload, used in usage.items():
            profile = self._profiles.setdefault(workload, Profile())
            if not profile.has(ended_at, self._slot):
                profile.add(ended_at, self._slot, used, self._weight)

    def restore(self, workload: Workload, day: Sequence[Resources]) -> None:
        """What is remembered of a workload's day, slot by slot."""
        self._profiles.setdefault(workload, Profile()).restore(day)

    def forget(self, present: Iterable[Workload]) -> None:
        """Keep the profiles of these workloads only."""
        kept = set(present)
        self._profiles = {workload: profile for workload, profile in self._profiles.items() if workload in kept}

    @property
    def seen(self) -> Collection[Workload]:
        """Those that were measured in the last round."""
        return self._heard.recent.newest.folds.keys()

    def messages(
        self, workloads: Iterable[Workload], now: float, *, epoch: int, sequence: int
    ) -> list[WorkloadUtilization]:
        """A message for each of these that is known now."""
        newest = self._heard.recent.newest
        lives = {window.name: self._load.lifetime(window) for window in self._load.windows}
        told = []
        for workload in workloads:
            folded = newest.folds.get(workload)
            usages = {} if folded is None else dict(self._usages(workload, folded, lives, now))
            if folded is not None and usages:
                profile = self._profiles.get(workload)
                told.append(
                    WorkloadUtilization(
                        workload=workload,
                        replicas=folded.replicas,
                        sampled_at=max(usage.sampled_at for usage in usages.values()),
                        queried_at=newest.at,
                        windows=usages,
                        profile=profile.told() if profile else {},
                        epoch=epoch,
                        sequence=sequence,
                    )
                )
        return told

    def _usages(
        self, workload: Workload, folded: Fold, lives: Mapping[str, float], now: float
    ) -> Iterable[tuple[str, WindowUsage]]:
        for window in self._load.windows:
            usage: WindowUsage | None = None
            if window.name in self._heard.means:
                if (mean := self._heard.means[window.name].get(workload)) is not None:
                    usage = WindowUsage(sampled_at=folded.sampled_at, mean=mean)
            elif workload in self._profiles:
                usage = self._profiles[workload].window(window.length, self._slot, now, self._load.coverage.window)
            if usage is not None and now - usage.sampled_at <= lives[window.name]:
                yield window.name, usage
