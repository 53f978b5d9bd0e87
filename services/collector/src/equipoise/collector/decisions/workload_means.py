"""The mean usage of a workload's replicas, in the shortest window and in longer ones.

Most of what a source is queried for are pods, so they are queried in the shortest window only. The mean of a longer
window is made of means of the shortest one that adjoin each other, weighted by the time that each covers.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import msgspec

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.resources import Resources


class MeasuredPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod's usage in one window."""

    workload: Workload
    usage: Resources
    sampled_at: float
    """Newest raw sample of its node."""


class ReplicaMean(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The pods of one workload in one window."""

    usage: Resources
    """Per replica."""

    replicas: int
    sampled_at: float
    """The oldest of the pods' newest samples."""


ReplicaMeans = Mapping[Workload, ReplicaMean]


def replica_means(pods: Iterable[MeasuredPod]) -> dict[Workload, ReplicaMean]:
    """Mean usage per measured replica; a resource that is known of no replica is unknown."""
    groups: dict[Workload, list[MeasuredPod]] = {}
    for pod in pods:
        groups.setdefault(pod.workload, []).append(pod)
    return {
        workload: ReplicaMean(
            usage=mean_usage([pod.usage for pod in group]),
            replicas=len(group),
            sampled_at=min(pod.sampled_at for pod in group),
        )
        for workload, group in groups.items()
    }


def mean_usage(usages: Sequence[Resources]) -> Resources:
    """Per resource the mean of the known values."""
    cpu = [usage.cpu for usage in usages if usage.cpu is not None]
    memory = [usage.memory for usage in usages if usage.memory is not None]
    return Resources(cpu=fmean(cpu) if cpu else None, memory=fmean(memory) if memory else None)


class ShortestWindow(msgspec.Struct, frozen=True, kw_only=True):
    """The means of the shortest window that ended at `at`."""

    at: float
    means: ReplicaMeans


class RecentMeans(msgspec.Struct, frozen=True, kw_only=True):
    """The newest means of the shortest window, and older ones at least its length apart."""

    length: float
    """Of the shortest window; seconds."""

    horizon: float
    """Length of the longest window that is made of them; seconds."""

    newest: ShortestWindow = ShortestWindow(at=0.0, means={})
    kept: tuple[ShortestWindow, ...] = ()
    """Newest first."""

    def add(self, at: float, means: ReplicaMeans) -> "RecentMeans":
        """With the means of the shortest window that ended at `at`."""
        newest = ShortestWindow(at=at, means=means)
        apart = not self.kept or at - self.kept[0].at >= self.length
        kept = (newest, *self.kept) if apart else self.kept
        return msgspec.structs.replace(
            self, newest=newest, kept=tuple(window for window in kept if window.at > at - self.horizon)
        )

    def means(self, length: float, coverage: float) -> dict[Workload, Resources]:
        """Usage per replica over the `length` seconds before the newest round, of the workloads in that round.

        A resource measured in less than `coverage` (0..1) of that time is unknown. A workload with neither resource
        is left out.
        """
        parts = list(self._parts(length))
        found = {}
        for workload in self.newest.means:
            usages = [(seconds, mean.usage) for seconds, means in parts if (mean := means.get(workload)) is not None]
            cpu = _weighted_mean([(seconds, usage.cpu) for seconds, usage in usages], coverage * length)
            memory = _weighted_mean([(seconds, usage.memory) for seconds, usage in usages], coverage * length)
            if cpu is not None or memory is not None:
                found[workload] = Resources(cpu=cpu, memory=memory)
        return found

    def _parts(self, length: float) -> list[tuple[float, ReplicaMeans]]:
        """Newest first: seconds of the window that only this part covers, and its means."""
        parts = []
        begin, end = self.newest.at - length, self.newest.at
        for window in (self.newest, *self.kept):
            since, end = max(begin, window.at - self.length), min(end, window.at)
            if end > since:
                parts.append((end - since, window.means))
                end = since
        return parts


def _weighted_mean(parts: list[tuple[float, float | None]], min_weight: float) -> float | None:
    known = [(weight, value) for weight, value in parts if value is not None]
    weights = sum(weight for weight, _ in known)
    if not known or weights < min_weight:
        return None
    return sum(weight * value for weight, value in known) / weights
