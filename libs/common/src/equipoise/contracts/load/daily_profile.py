"""A day of a workload's replica, hour by hour, and what a node uses beyond its pods.

A profile holds 24 hourly slots of a day, so the coming 24 hours are all of them, whatever the hour is.
"""

import math

import numpy as np
import numpy.typing as npt

from equipoise.contracts.load.correction import RESOURCES, amounts, known
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization

HourlyUsage = npt.NDArray[np.float64]
"""resources × slots: cores and bytes, in the order of `RESOURCES`."""

SLOTS = 24
"""Hours of a day."""

MIN_SLOTS = 6
"""A workload of which fewer hours are known has no day yet: it is taken to use the same all day."""


def workload_profile(workload: WorkloadUtilization | None) -> HourlyUsage | None:
    """Cores and bytes of one replica in each hour; None when it has no day yet.

    Unknown hours are the mean of the known ones, so that they neither make a peak nor hide one.
    """
    if workload is None:
        return None
    day = np.full((len(RESOURCES), SLOTS), np.nan)
    for row, resource in enumerate(RESOURCES):
        slots = workload.profile.get(resource, [])[:SLOTS]
        day[row, : len(slots)] = slots
    measured = (day >= 0) & np.isfinite(day)
    if measured.all():
        return day
    count = measured.sum(axis=1, keepdims=True)
    if count.min() < MIN_SLOTS:
        return None
    filled: HourlyUsage = np.where(measured, day, np.where(measured, day, 0.0).sum(axis=1, keepdims=True) / count)
    return filled


def system_usage(utilization: NodeUtilization) -> npt.NDArray[np.float64]:
    """Cores and bytes that a node uses beyond its pods: as told, else what its shortest window has more than they."""
    system = amounts(utilization.system)
    if not any(map(math.isnan, system)):
        return np.array(system)
    node = next((amounts(value.mean) for value in utilization.windows.values()), [0.0] * len(RESOURCES))
    # Plain numbers: for two resources of thirty pods they are several times as fast as arrays.
    cpu = memory = 0.0
    for usage in utilization.pods.values():
        cpu += known(usage.cpu) or 0.0
        memory += known(usage.memory) or 0.0
    pods = np.array([cpu, memory])
    told = np.array(system)
    return np.where(np.isnan(told), np.maximum(np.nan_to_num(node) - pods, 0.0), told)
