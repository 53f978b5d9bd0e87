"""How many cores all best-effort pods of the node may use together.

They may use all that is left, because the kubelet gives them the lowest weight. They are limited only while
latency-sensitive pods wait for CPU time in spite of it, or while the node is above a threshold.
"""

import math
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from equipoise.agent.decisions.pod_values import PERIOD
from equipoise.contracts.configuration.settings import Percent, Section

STEP = 10.0
"""Percent of the node by which a limit grows per round; it shrinks at once."""

LEAST_CHANGE = 1.0
"""Percent of the node: smaller changes are not written."""

MIN_QUOTA = 2_000
"""Microseconds of a period: the least for all best-effort pods."""

MIN_CPUS = 2

BUSY = 80.0
"""CPU load in percent of the node. Below it, less CPU time for batch pods would not help the pods that wait."""

LIFT_ROUNDS = 10
"""A limit is removed when it was not needed for this many rounds."""

NEEDED_SHARE = 0.8
"""A limit is needed while at least this share of it is used."""


Policy = Literal["quota", "cpuset", "off"]


class CpuSuppression(Section, frozen=True, kw_only=True):
    """The conditions under which the best-effort pods of a node are limited together, and the kind of limit."""

    policy: Policy = "quota"
    """quota: of CPU time. cpuset: fewer CPUs, which also keeps caches and sibling threads free; not with the static CPU
    manager of the kubelet on cgroup v1, where it writes the same files."""

    pressure_threshold: Annotated[float, Meta(gt=0, le=100)] | None = 10.0
    """Percent of the time in which a latency-sensitive pod waits for CPU time (PSI), above which best-effort pods are
    halved. Below half of this value, they get more CPU time again. Measured: 1 % with the weights of the kubelet, 10 %
    where batch pods harm. null: never."""

    cpu_threshold: Annotated[float, Meta(gt=0, le=100)] | None = None
    """CPU load of the node in percent above which best-effort pods get only what is left below it, as Koordinator does
    at 65. null: never. The weights of cgroups already protect the other pods, and this threshold costs nearly half of
    the batch work."""

    min_cpu: Percent = 5.0
    """Percent of the node that best-effort pods always keep, or they would hold memory and never end."""

    reserved_cpu: Annotated[float, Meta(ge=0)] = 0.0
    """Cores that are reserved for programs outside of pods (`systemReserved` and `kubeReserved` of the kubelet): below
    cpuThreshold they count as used."""


class CpuUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The CPU usage in the last round, in cores."""

    capacity: float
    node: float
    pods: float
    """The usage of all pods."""

    best_effort: float
    """The usage of the pods in the kubelet's group for best effort."""

    pressure: float | None
    """Percent of the time in which a latency-sensitive pod waits for CPU, of the pod that waits most. None: the kernel
    reports no pressure."""


class CpuLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The CPU limit of all best-effort pods together."""

    cores: float | None = None
    """None: no limit."""

    reason: Literal["", "pressure", "threshold", "restart"] = ""
    """Why there is a limit. restart: it was set before this process started."""

    unneeded: int = 0
    """Rounds in a row in which the limit was not needed."""


def cpu_allowance(
    *,
    capacity: float,
    threshold: float,
    minimum: float,
    node: float,
    high_priority: float,
    best_effort: float,
    reserved: float = 0.0,
) -> float:
    """Cores that are left for best-effort pods below the threshold. `threshold` and `minimum` are percent.

    The system counts with the usage outside of pods, or with `reserved` if that is more. Source: Koordinator.
    """
    system = max(node - high_priority - best_effort, reserved)
    return max(capacity * threshold / 100 - high_priority - system, capacity * minimum / 100)


def next_limit(rules: CpuSuppression, usage: CpuUsage, before: CpuLimit) -> CpuLimit:
    """The limit for the next round. `next_quota` and `next_cpu_count` bound its growth per round."""
    wanted = _wanted(rules, usage, before)
    if before.cores is None or wanted.reason:
        return wanted
    # No rule requires a limit. It grows in steps, until it reaches the whole node or best-effort pods do not need more.
    unneeded = before.unneeded + 1 if usage.best_effort < NEEDED_SHARE * before.cores else 0
    cores = before.cores + usage.capacity * STEP / 100
    if cores >= usage.capacity or unneeded >= LIFT_ROUNDS:
        return CpuLimit()
    return CpuLimit(cores=cores, reason=before.reason, unneeded=unneeded)


def _wanted(rules: CpuSuppression, usage: CpuUsage, before: CpuLimit) -> CpuLimit:
    """The limit that the rules require; without a reason if no rule requires one."""
    limits = []
    if rules.cpu_threshold is not None:
        above = usage.node > usage.capacity * rules.cpu_threshold / 100
        allowance = cpu_allowance(
            capacity=usage.capacity,
            threshold=rules.cpu_threshold,
            minimum=rules.min_cpu,
            node=usage.node,
            high_priority=usage.pods - usage.best_effort,
            best_effort=usage.best_effort,
            reserved=rules.reserved_cpu,
        )
        needed = before.cores is not None and usage.best_effort >= NEEDED_SHARE * min(before.cores, allowance)
        if above or needed:
            limits.append(CpuLimit(cores=allowance, reason="threshold"))
    if rules.pressure_threshold is not None and usage.pressure is not None:
        if _harmed(rules.pressure_threshold, usage):
            least = usage.capacity * rules.min_cpu / 100
            limits.append(CpuLimit(cores=max(usage.best_effort / 2, least), reason="pressure"))
        elif before.cores is not None and usage.pressure > rules.pressure_threshold / 2:
            limits.append(CpuLimit(cores=before.cores, reason="pressure"))
    return min(limits, key=lambda limit: limit.cores or 0.0, default=CpuLimit())


def _harmed(threshold: float, usage: CpuUsage) -> bool:
    """Whether pods wait too long for CPU time on a busy node where best-effort pods use some of it."""
    return (
        usage.pressure is not None
        and usage.pressure > threshold
        and usage.node >= usage.capacity * BUSY / 100
        and usage.best_effort >= usage.capacity * LEAST_CHANGE / 100
    )


def next_quota(cores: float, before: int | None, capacity: float, *, period: int = PERIOD) -> int | None:
    """Microseconds per period for this limit. None if the present quota `before` stays. `before` is None if there is no
    quota."""
    node = capacity * period
    wanted = max(round(cores * period), MIN_QUOTA)
    if before is None:
        return wanted
    # The least quota is written even if it is a small change.
    small = abs(wanted - before) < node * LEAST_CHANGE / 100 and wanted != MIN_QUOTA
    if small or wanted == before:
        return None
    return min(wanted, before + round(node * STEP / 100))


def next_cpu_count(cores: float, before: int, available: int) -> int:
    """The number of CPUs for this limit. `before`: the number now. `available`: the number that all pods of the node
    may use."""
    step = max(1, int(available * STEP / 100))
    wanted = max(math.ceil(cores), MIN_CPUS)
    return min(wanted, before + step, available)
