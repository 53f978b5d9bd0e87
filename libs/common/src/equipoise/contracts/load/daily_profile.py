"""The usage of one replica of a workload in each hour of a day, and a node's usage outside its pods.

A profile has 24 hourly slots, so a 24-hour forecast consists of all of them, whatever the hour is.
"""

import math
from functools import cache

import msgspec

from equipoise.contracts.load.correction import RESOURCES, amounts, known
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array, Flags, np

HourlyUsage = Array
"""resources × slots: cores and bytes, in the order of `RESOURCES`."""

SLOTS = 24
"""Hours of a day."""

MIN_SLOTS = 6
"""The minimum number of known hours: a workload with fewer has no profile yet, its usage counts as constant."""

_UNKNOWN_DAY: list[float | None] = [math.nan] * SLOTS


class DailyProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of one replica of a workload, and the hours in which it was measured."""

    usage: HourlyUsage | None
    """Cores and bytes; None with fewer than `MIN_SLOTS` measured hours of a resource.

    Unknown hours get the mean of the known ones, so that they neither add nor hide a peak.
    """

    measured: Flags
    """Whether CPU and memory were measured, by slot. Usage in other hours is an assumption."""

    error: Resources = Resources()
    """Cores and bytes by which an hour differed from the profile before; see `WorkloadUtilization.forecast_error`."""


def daily_profile(workload: WorkloadUtilization) -> DailyProfile:
    """The profile that the collector measured."""
    slots = [workload.profile.get(resource, [])[:SLOTS] for resource in RESOURCES]
    day = np.array([values + _UNKNOWN_DAY[len(values) :] for values in slots], dtype=np.float64)
    if day.min() >= 0 and day.max() < math.inf:  # also False if a value is NaN
        return DailyProfile(usage=day, measured=_all_measured(), error=workload.forecast_error)
    measured = (day >= 0) & np.isfinite(day)
    both: Flags = np.asarray(measured.all(axis=0), dtype=np.bool_)
    count = measured.sum(axis=1, keepdims=True)
    if count.min() < MIN_SLOTS:
        return DailyProfile(usage=None, measured=both, error=workload.forecast_error)
    mean = np.where(measured, day, 0.0).sum(axis=1, keepdims=True) / count
    usage = np.where(measured, day, mean)
    return DailyProfile(usage=usage, measured=both, error=workload.forecast_error)


@cache
def _all_measured() -> Flags:
    """The flags of a workload that was measured in every hour. Most are, so they share this array."""
    flags: Flags = np.ones(SLOTS, dtype=np.bool_)
    flags.flags.writeable = False
    return flags


def workload_profile(workload: WorkloadUtilization | None) -> HourlyUsage | None:
    """Cores and bytes of one replica in each hour; None without a profile."""
    return None if workload is None else daily_profile(workload).usage


def system_usage(utilization: NodeUtilization) -> Array:
    """The result of `system_amounts` as an array."""
    return np.array(system_amounts(utilization))


def system_amounts(utilization: NodeUtilization) -> list[float]:
    """Cores and bytes that a node uses outside its pods: as published, else its mean in the shortest window minus that
    of its pods."""
    system = amounts(utilization.system)
    if not any(map(math.isnan, system)):
        return system
    node = next((value.mean for value in utilization.windows.values()), Resources())
    # For two resources of thirty pods, plain numbers are several times as fast as arrays.
    cpu = memory = 0.0
    for usage in utilization.pods.values():
        cpu += known(usage.cpu) or 0.0
        memory += known(usage.memory) or 0.0
    rest = max((known(node.cpu) or 0.0) - cpu, 0.0), max((known(node.memory) or 0.0) - memory, 0.0)
    return [other if math.isnan(published) else published for published, other in zip(system, rest, strict=True)]
