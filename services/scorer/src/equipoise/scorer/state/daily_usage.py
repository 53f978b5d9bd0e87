"""The day that lies before each node: the daily profiles of its pods' workloads, added up."""

import copy

import msgspec
import numpy as np

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import RESOURCES, UsageOf, amounts
from equipoise.contracts.load.daily_profile import SLOTS, system_usage, workload_profile
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization
from equipoise.scorer.state.arrays import Array, Days, Rows

_MEAN_LIFE = 1.0
"""Seconds for which the fleet's mean day is used again: it moves slowly, and questions come by the hundred."""


class _PodDays(msgspec.Struct, frozen=True, gc=False):
    """What the days of a node's pods add up to: a new measurement of the node changes nothing of it."""

    placement: NodePlacement
    changes: int
    """How many days of workloads had changed by then."""

    day: Array
    """resources × slots."""

    without: list[PlacedPod]
    """Pods that have no day."""


class FleetDays:
    """Every node's day, one row each as in the fleet."""

    def __init__(self) -> None:
        self._workloads: dict[Workload, Array] = {}
        self._changes = 0
        self._pods: dict[int, _PodDays] = {}
        self._share: Array = np.full((len(RESOURCES), 0, SLOTS), np.nan)
        self._peak: Array = np.full((len(RESOURCES), 0), np.nan)
        self._base: Array = np.full((len(RESOURCES), 0), np.nan)
        self._mean: tuple[Array, Array] | None = None
        self._mean_until = -np.inf

    def learn(self, workload: WorkloadUtilization) -> None:
        """A workload's day; nodes use it from their next message on."""
        day = workload_profile(workload)
        if day is None:
            self.forget(workload.workload)
            return
        known = self._workloads.get(workload.workload)
        if known is None or not np.array_equal(known, day):  # a slot is added once an hour
            self._workloads[workload.workload] = day
            self._changes += 1

    def forget(self, workload: Workload) -> None:
        if self._workloads.pop(workload, None) is not None:
            self._changes += 1

    def take(
        self, row: int, utilization: NodeUtilization, placement: NodePlacement, usage_of: UsageOf, base: Array
    ) -> None:
        """Add up the days of a node's pods; those without a day use what they use now, all day. Who leaves has none.

        What the node uses beyond its pods it uses all day. What pods use now beside their days does not count: on a
        trace of 20 days (Bitbrains) to carry a part of it over to the other hours made every figure worse.
        """
        pods = self._pods.get(row)
        if pods is None or pods.placement is not placement or pods.changes != self._changes:
            pods = self._pods[row] = self._add_up(placement)
        flat = system_usage(utilization)
        for pod in pods.without:
            flat += np.nan_to_num(amounts(usage_of(pod, utilization.pods.get(pod.uid, Resources()))))
        day = pods.day
        self._share[:, row] = (day + flat[:, np.newaxis]) / base[:, np.newaxis]
        self._peak[:, row] = self._share[:, row].max(axis=1)
        self._base[:, row] = base

    def _add_up(self, placement: NodePlacement) -> _PodDays:
        day = np.zeros((len(RESOURCES), SLOTS))
        without = []
        for pod in placement.pods:
            if pod.terminating:
                continue
            known = self._workloads.get(pod.workload) if pod.workload is not None else None
            if known is None:
                without.append(pod)
            else:
                day += known
        return _PodDays(placement, self._changes, day, without)

    def drop(self, row: int) -> None:
        self._pods.pop(row, None)
        self._share[:, row], self._peak[:, row], self._base[:, row] = np.nan, np.nan, np.nan

    def grow(self, rows: int) -> None:
        more = rows - self._share.shape[1]
        self._share = np.concatenate([self._share, np.full((len(RESOURCES), more, SLOTS), np.nan)], axis=1)
        self._peak = np.concatenate([self._peak, np.full((len(RESOURCES), more), np.nan)], axis=1)
        self._base = np.concatenate([self._base, np.full((len(RESOURCES), more), np.nan)], axis=1)

    def own_copy(self) -> "FleetDays":
        """The same days, to be changed for one question."""
        other = copy.copy(self)
        other._pods = {}
        other._share, other._peak, other._base = self._share.copy(), self._peak.copy(), self._base.copy()
        other._mean = None
        return other

    def of_workload(self, workload: Workload | None) -> Array | None:
        """resources × slots of one replica; None when it has no day."""
        return None if workload is None else self._workloads.get(workload)

    def of(self, rows: Rows, booked: Array | None, now: float) -> Days:
        """The days of these nodes, with what is booked on them (rows × windows × resources)."""
        mean, base = self._means(now)
        booked_now = np.zeros_like(self._peak) if booked is None else np.maximum(booked[:, 0].T / self._base, 0.0)
        return Days(share=self._share, peak=self._peak, booked=booked_now, rows=rows, mean=mean, base=base)

    def _means(self, now: float) -> tuple[Array, Array]:
        if self._mean is None or now > self._mean_until:
            known = ~np.isnan(self._peak).any(axis=0)
            count = max(1, int(known.sum()))
            mean = self._share[:, known].sum(axis=1) / count
            self._mean, self._mean_until = (mean, self._base[:, known].sum(axis=1) / count), now + _MEAN_LIFE
        return self._mean
