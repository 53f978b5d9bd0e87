"""The expected usage of every node in the next 24 hours: the sum of the daily profiles of its pods' workloads."""

from collections.abc import Iterable, Sequence
from operator import add

import msgspec

from equipoise.contracts.configuration.settings import BatchWorkWeight
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import RESOURCES, UsageOf, known, usage_on_node
from equipoise.contracts.load.daily_profile import SLOTS, system_amounts, workload_profile
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization
from equipoise.contracts.numeric import Array, Rows, np
from equipoise.scorer.decisions.arrays import DailyLoads
from equipoise.scorer.decisions.load_correction import NOTHING_UNEXPECTED, is_weighted
from equipoise.scorer.state.reservations import NegativeReservation

_ENDS_SOON = 60.0
"""A pod that terminates within this number of seconds ends before a new pod is busy: twice the usual grace period."""

_WHOLE = BatchWorkWeight(cpu=1.0, memory=1.0)

_MEAN_LIFETIME = 1.0
"""Seconds for which the cluster's mean is cached: it changes slowly, and requests arrive by the hundred."""


class _PodSum(msgspec.Struct, frozen=True, gc=False):
    """The sum of the profiles of a node's pods. It is kept, since a new measurement of the node does not change it."""

    placement: NodePlacement
    version: int
    """The version of all profiles from which the sum was computed."""

    usage: Array
    """resources × slots."""

    without_profile: list[PlacedPod]


class DailyUsage:
    """The daily loads of all nodes, one row per node as in the node table."""

    def __init__(self, batch_work_weight: BatchWorkWeight) -> None:
        self._weight = batch_work_weight
        self._weights = np.array([[batch_work_weight.cpu], [batch_work_weight.memory]])
        self._profiles: dict[Workload, Array] = {}
        self._version = 0
        """Number of changes of profiles."""

        self._pod_sums: dict[int, _PodSum] = {}
        self._share: Array = np.full((1, len(RESOURCES), SLOTS), np.nan)
        """rows × resources × slots. The last row of each array is always empty: row −1 is an unknown node."""

        self._peak: Array = np.full((len(RESOURCES), 1), np.nan)
        self._base: Array = np.full((len(RESOURCES), 1), np.nan)
        self._mean: tuple[Array, Array, int] | None = None
        self._mean_expires_at = -np.inf

    def on_workload(self, workload: WorkloadUtilization) -> None:
        """A node uses the new profile from its next message on."""
        profile = workload_profile(workload)
        if profile is None:
            self.remove_workload(workload.workload)
            return
        before = self._profiles.get(workload.workload)
        if before is None or not np.array_equal(before, profile):  # a slot is added once an hour
            self._profiles[workload.workload] = profile
            self._version += 1

    def remove_workload(self, workload: Workload) -> None:
        if self._profiles.pop(workload, None) is not None:
            self._version += 1

    def profile_of(self, workload: Workload | None) -> Array | None:
        """resources × slots of one replica; None without a profile."""
        return None if workload is None else self._profiles.get(workload)

    def update(self, rows: Rows, constants: Sequence[float], base: Array) -> None:
        """Store the daily loads of these rows.

        `constants`: the results of `constant_usage`, one after the other. `base`: rows × resources.
        """
        constant = np.array(constants).reshape(len(rows), len(RESOURCES), 1)
        usage = np.concatenate([self._pod_sums[row].usage for row in rows.tolist()])
        share = (usage.reshape(len(rows), len(RESOURCES), SLOTS) + constant) / base[:, :, np.newaxis]
        self._share[rows] = share
        self._peak[:, rows], self._base[:, rows] = share.max(axis=2).T, base.T

    def constant_usage(
        self,
        row: int,
        utilization: NodeUtilization,
        placement: NodePlacement,
        usage_of: UsageOf,
        now: float,
        unexpected: Iterable[float] = NOTHING_UNEXPECTED,
    ) -> list[float]:
        """Cores and bytes that a node uses all day, from its latest messages. `unexpected`: see `unexpected_usage`."""
        pods = self._pod_sums.get(row)
        if pods is None or pods.placement is not placement or pods.version != self._version:
            pods = self._pod_sums[row] = self._sum_profiles(placement)
        return self._constant(pods, utilization, usage_of, now, unexpected)

    def change_without(
        self,
        row: int,
        utilization: NodeUtilization,
        remaining: NodePlacement,
        usage_of: UsageOf,
        base: Array,
        now: float,
        unexpected: Iterable[float] = NOTHING_UNEXPECTED,
    ) -> Array:
        """resources × slots: what changes in a node's share if it has only the pods of `remaining`."""
        pods = self._sum_profiles(remaining)
        constant = np.array(self._constant(pods, utilization, usage_of, now, unexpected))
        change: Array = (pods.usage + constant[:, np.newaxis]) / base[:, np.newaxis] - self._share[row]
        return change

    def _constant(
        self,
        pods: _PodSum,
        utilization: NodeUtilization,
        usage_of: UsageOf,
        now: float,
        unexpected: Iterable[float],
    ) -> list[float]:
        """Pods without a profile, and the node outside its pods, use all day what they use now.

        The difference between a pod's current usage and its profile does not count. On a trace of 20 days (Bitbrains),
        every figure became worse when a part of it was added to the other hours. A terminating pod counts as measured,
        unless it ends before a new pod is busy. Otherwise it would make its node unattractive during a rollout.
        """
        # Plain numbers: for two resources of few pods, they are several times as fast as arrays.
        cpu, memory = map(add, system_amounts(utilization), unexpected)
        for pod in pods.without_profile:
            if pod.terminates_at is not None and 0.0 <= pod.terminates_at - now <= _ENDS_SOON:
                continue
            usage = usage_on_node(pod, utilization, usage_of)
            cores, size = known(usage.cpu) or 0.0, known(usage.memory) or 0.0
            weight = self._weight if is_weighted(pod) else _WHOLE
            cpu += cores * weight.cpu
            memory += size * weight.memory
        return [cpu, memory]

    def _sum_profiles(self, placement: NodePlacement) -> _PodSum:
        usage = np.zeros((len(RESOURCES), SLOTS))
        without_profile = []
        for pod in placement.pods:
            profile = None if pod.terminating else self.profile_of(pod.workload)
            if profile is None:
                without_profile.append(pod)
            else:
                usage += profile * self._weights if is_weighted(pod) else profile
        return _PodSum(placement, self._version, usage, without_profile)

    def clear(self, row: int) -> None:
        self._pod_sums.pop(row, None)
        self._share[row], self._peak[:, row], self._base[:, row] = np.nan, np.nan, np.nan

    def grow(self, rows: int) -> None:
        more = rows + 1 - len(self._share)
        self._share = np.concatenate([self._share, np.full((more, len(RESOURCES), SLOTS), np.nan)])
        empty = np.full((len(RESOURCES), more), np.nan)
        self._peak, self._base = np.hstack([self._peak, empty]), np.hstack([self._base, empty])

    def loads(self, rows: Rows, reserved: Array, now: float, without: NegativeReservation | None = None) -> DailyLoads:
        """The daily loads of these rows. `reserved` is nodes × resources, as a share of the base."""
        share, peak = self._share.take(rows, axis=0), self._peak.take(rows, axis=1).T
        if without is None or without.daily_load is None:
            mean, base, _ = self._cached_mean(now)
        else:
            mean, base, count = self._compute_mean()
            mean = mean + without.daily_load / count
            own = rows == without.row
            share[own] += without.daily_load
            peak[own] = share[own].max(axis=2)
        return DailyLoads(share=share, peak=peak, reserved=reserved, mean=mean, base=base)

    def _cached_mean(self, now: float) -> tuple[Array, Array, int]:
        # An expiry in the far future is that of a clock that was ahead.
        if self._mean is None or not now <= self._mean_expires_at <= now + _MEAN_LIFETIME:
            self._mean, self._mean_expires_at = self._compute_mean(), now + _MEAN_LIFETIME
        return self._mean

    def _compute_mean(self) -> tuple[Array, Array, int]:
        """Mean share (resources × slots), mean base (resources), and the number of known nodes, at least 1."""
        known = ~np.isnan(self._peak).any(axis=0)
        count = max(1, int(known.sum()))
        return self._share[known].sum(axis=0) / count, self._base[:, known].sum(axis=1) / count, count
