"""Usage per replica of every workload: the mean over the pods, and over consecutive windows of the shortest length."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.values.resources import Resources


class MeasuredPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod's usage in one window."""

    workload: Workload
    usage: Resources
    sampled_at: float
    """The time of the newest raw sample of its node."""


class ReplicaMean(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The pods of one workload in one window."""

    usage: Resources
    """The mean usage per replica."""

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
            usage=weighted_mean([(1.0, pod.usage) for pod in group]),
            replicas=len(group),
            sampled_at=min(pod.sampled_at for pod in group),
        )
        for workload, group in groups.items()
    }


def weighted_mean(parts: Sequence[tuple[float, Resources]], min_weight: float = 0.0) -> Resources:
    """The mean of the known values of each resource; unknown when their weights sum to less than `min_weight`."""

    def mean(values: Iterable[tuple[float, float | None]]) -> float | None:
        known = [(weight, value) for weight, value in values if value is not None]
        total = sum(weight for weight, _ in known)
        return sum(weight * value for weight, value in known) / total if known and total >= min_weight else None

    usage = Resources(
        cpu=mean((weight, usage.cpu) for weight, usage in parts),
        memory=mean((weight, usage.memory) for weight, usage in parts),
    )
    further = [(weight, usage.further) for weight, usage in parts if usage.further]
    if not further:
        return usage
    names = sorted({name for _, amounts in further for name in amounts})
    means = {name: mean((weight, amounts.get(name)) for weight, amounts in further) for name in names}
    known = {name: value for name, value in means.items() if value is not None}
    return msgspec.structs.replace(usage, further=known or None)


class ShortestWindow(msgspec.Struct, frozen=True, kw_only=True):
    """The means of the shortest window that ended at `at`."""

    at: float
    means: ReplicaMeans


class RecentMeans(msgspec.Struct, frozen=True, kw_only=True):
    """The newest means of the shortest window, and older ones at least its length apart."""

    length: float
    """The length of the shortest window; seconds."""

    horizon: float
    """The length of the longest window that is computed from these means; seconds."""

    newest: ShortestWindow = ShortestWindow(at=0.0, means={})
    kept: tuple[ShortestWindow, ...] = ()
    """Newest first."""

    def add(self, at: float, means: ReplicaMeans) -> "RecentMeans":
        """Adds the means of the shortest window that ended at `at`. Windows after `at` are dropped: the clock went
        back."""
        newest = ShortestWindow(at=at, means=means)
        kept = tuple(window for window in self.kept if at - self.horizon < window.at <= at)
        apart = not kept or at - kept[0].at >= self.length
        return msgspec.structs.replace(self, newest=newest, kept=(newest, *kept) if apart else kept)

    def means(self, length: float, coverage: float) -> dict[Workload, Resources]:
        """Usage per replica over the `length` seconds before the newest round, of the workloads in that round.

        A resource measured in less than `coverage` (0..1) of that time is unknown. A workload with neither resource
        is left out.
        """
        parts = list(self._parts(length))
        usage_of = {}
        for workload in self.newest.means:
            usages = [(seconds, mean.usage) for seconds, means in parts if (mean := means.get(workload)) is not None]
            usage = weighted_mean(usages, coverage * length)
            if usage != Resources():
                usage_of[workload] = usage
        return usage_of

    def _parts(self, length: float) -> list[tuple[float, ReplicaMeans]]:
        """The parts of a window, newest first: the seconds that only this part covers, and its means."""
        parts = []
        begin, end = self.newest.at - length, self.newest.at
        for window in (self.newest, *self.kept):
            since, end = max(begin, window.at - self.length), min(end, window.at)
            if end > since:
                parts.append((end - since, window.means))
                end = since
        return parts


class WorkloadRound(msgspec.Struct, frozen=True, kw_only=True):
    """The means after a round of the shortest window."""

    recent: RecentMeans
    means: Mapping[str, Mapping[Workload, Resources]]
    """The means by window, up to `podWindowLimit`."""
