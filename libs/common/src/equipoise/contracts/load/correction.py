"""Load: usage as a share of a node's base, its age, and the correction of a window's mean for pods that come and go."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from equipoise.contracts.bounds import MAX_CORES
from equipoise.contracts.configuration.settings import BatchWorkWeight, LoadSettings, Window
from equipoise.contracts.messages.placement import GonePod, NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WindowUsage, WorkloadUtilization
from equipoise.contracts.messages.values.resources import Resources, further_sum

RESOURCES: tuple[Literal["cpu", "memory"], ...] = ("cpu", "memory")

POD_START_TIMEOUT = 600.0
"""Default of `load.podStartTimeout`: a pod counts as started this many seconds after its placement at the latest."""

FUTURE_TOLERANCE = 5.0
"""Seconds by which a sample may be in the future before it is unknown: clocks of one cluster differ by as much.

It is not compressed for demos.
"""


def known(value: float | None) -> float | None:
    """The amount, or None if it is NaN, infinite or negative."""
    return value if value is not None and 0.0 <= value < math.inf else None


def amounts(resources: Resources) -> list[float]:
    """One value per resource, NaN if it is unknown."""
    cpu, memory = resources.cpu, resources.memory
    # As in `known`, without calls: every message of a node has dozens of amounts.
    return [
        math.nan if cpu is None or not 0.0 <= cpu < math.inf else cpu,
        math.nan if memory is None or not 0.0 <= memory < math.inf else memory,
    ]


def base_problem(base: Resources) -> str:
    """Why usage is no share of it; empty: it has both resources."""
    missing = [resource for resource in RESOURCES if not known(getattr(base, resource))]
    return f"the node offers no {' and no '.join(missing)}, or it is not known how much" if missing else ""


def load_of(usage: Resources, base: Resources) -> Resources:
    """Usage as a share (0..1, above 1 when overcommitted) of the base; unknown if either is."""
    cpu, memory = _share(usage.cpu, base.cpu), _share(usage.memory, base.memory)
    if usage.further is None or base.further is None:
        return Resources(cpu=cpu, memory=memory)
    return Resources(cpu=cpu, memory=memory, further=_further_shares(usage.further, base.further))


def _further_shares(usage: Mapping[str, float], base: Mapping[str, float]) -> dict[str, float]:
    """The known loads of further resources."""
    loads = ((name, _share(amount, base.get(name))) for name, amount in usage.items())
    return {name: load for name, load in loads if load is not None}


def _share(usage: float | None, base: float | None) -> float | None:
    used, whole = known(usage), known(base)
    return min(used / whole, MAX_CORES) if used is not None and whole else None  # a base may be a millicore


def plus(left: Resources, right: Resources, sign: float = 1.0) -> Resources:
    """Sum per resource, never below 0. Unknown if the left amount is; an unknown right amount adds nothing."""
    cpu, memory = _sum(left.cpu, right.cpu, sign), _sum(left.memory, right.memory, sign)
    if left.further is None:
        return Resources(cpu=cpu, memory=memory)
    return Resources(cpu=cpu, memory=memory, further=further_sum(left.further, right.further, sign))


def _sum(left: float | None, right: float | None, sign: float) -> float | None:
    amount = known(left)
    if amount is None or right is None or not math.isfinite(right):
        return amount
    return max(0.0, amount + sign * right)


def age_of(sampled_at: float, now: float) -> float:
    """Seconds since the newest raw sample."""
    return now - sampled_at


def is_fresh(sampled_at: float, now: float, max_age: float, *, skew: float = 0.0, skew_limit: float = math.inf) -> bool:
    """Whether a sample may be used: it is not too old, not in the future, and Prometheus' clock is right."""
    age = age_of(sampled_at, now)
    return -FUTURE_TOLERANCE <= age <= max_age and abs(skew) <= skew_limit


def skew_of(cycles: Iterable[UtilizationCycle]) -> float:
    """Prometheus' clock minus the collectors', in seconds: the largest of all shards, 0 without any."""
    return max((cycle.skew for cycle in cycles), key=abs, default=0.0)


class PodLifetime(msgspec.Struct, frozen=True, kw_only=True):
    """The time that a pod ran on a node, and its usage there."""

    placed_at: float
    running_since: float | None = None
    gone_at: float | None = None
    """The time at which a pod left: its part of the mean is subtracted."""

    usage: Resources

    def start(self, timeout: float = POD_START_TIMEOUT) -> float:
        """The time at which its usage began: since it runs, at most `timeout` seconds after its placement."""
        latest = self.placed_at + timeout
        return latest if self.running_since is None else min(self.running_since, latest)


def share_measured(
    pod: PodLifetime, sampled_at: float, length: float, *, pod_start_timeout: float = POD_START_TIMEOUT
) -> float:
    """Share (0..1) of the window [sampled_at − length, sampled_at] in which the pod ran."""
    begin = max(pod.start(pod_start_timeout), sampled_at - length)
    end = sampled_at if pod.gone_at is None else min(pod.gone_at, sampled_at)
    return min(1.0, max(0.0, end - begin) / length)


def correction_factor(pod: PodLifetime, *, sampled_at: float, length: float, load: LoadSettings) -> float:
    """The part of a pod's usage that `corrected` adds to a window's mean (0..1), or subtracts from it (−1..0)."""
    if load.compensation == "off":
        return 0.0
    if load.compensation == "cliff":
        return 1.0 if pod.gone_at is None and pod.placed_at >= sampled_at else 0.0
    share = share_measured(pod, sampled_at, length, pod_start_timeout=load.pod_start_timeout)
    return 1.0 - share if pod.gone_at is None else -share


NOTHING = Resources(cpu=0.0, memory=0.0)


def corrected(
    usage: Resources,
    pods: Iterable[PodLifetime],
    *,
    sampled_at: float,
    length: float,
    load: LoadSettings,
    least: Resources = NOTHING,
) -> Resources:
    """A window's mean as it would be if exactly the pods that are present now had run during the whole window.

    It depends on `load.compensation`; u is the usage of a pod, and s the share of the window in which it ran.
    proportional: a present pod adds u·(1 − s), a gone pod subtracts u·s. cliff: a pod placed at or after the sample's
    time adds u, and nothing is subtracted (the ScheduledPodsCache of the water-level scheduler). off: the mean as
    measured. A pod of unknown usage changes nothing. Subtractions leave at least `least` (`measured_usage`), or the
    mean itself if it is lower.
    """
    if load.compensation == "off":
        return usage
    further = usage.further
    if further is not None:
        pods = list(pods)
        further = _further_corrected(further, pods, sampled_at, length, load, least.further or {})
    cpu = memory = cpu_of_gone = memory_of_gone = 0.0
    begin, timeout, proportional = sampled_at - length, load.pod_start_timeout, load.compensation == "proportional"
    for pod in pods:
        if pod.gone_at is None and proportional:
            # Most pods ran during the whole of a shorter window, or started after it.
            start = pod.start(timeout)
            if start <= begin:
                continue
            factor = 1.0 if start >= sampled_at else 1.0 - min(1.0, (sampled_at - start) / length)
        else:
            factor = correction_factor(pod, sampled_at=sampled_at, length=length, load=load)
        if factor > 0.0:
            cpu += factor * (known(pod.usage.cpu) or 0.0)
            memory += factor * (known(pod.usage.memory) or 0.0)
        elif factor:
            cpu_of_gone -= factor * (known(pod.usage.cpu) or 0.0)
            memory_of_gone -= factor * (known(pod.usage.memory) or 0.0)
    return Resources(
        cpu=_without(_sum(usage.cpu, cpu, 1.0), cpu_of_gone, least.cpu),
        memory=_without(_sum(usage.memory, memory, 1.0), memory_of_gone, least.memory),
        further=further,
    )


def _further_corrected(
    usage: Mapping[str, float],
    pods: Sequence[PodLifetime],
    sampled_at: float,
    length: float,
    load: LoadSettings,
    least: Mapping[str, float],
) -> dict[str, float]:
    """The same correction for further resources, of the pods whose usage of them is known."""
    added, gone = dict.fromkeys(usage, 0.0), dict.fromkeys(usage, 0.0)
    for pod in pods:
        if not pod.usage.further:
            continue
        factor = correction_factor(pod, sampled_at=sampled_at, length=length, load=load)
        for name in usage.keys() & pod.usage.further.keys():
            (added if factor > 0.0 else gone)[name] += abs(factor) * (known(pod.usage.further[name]) or 0.0)
    return {
        name: max(amount + added[name] - gone[name], min(amount + added[name], least.get(name, 0.0)))
        for name, amount in usage.items()
    }


def _without(usage: float | None, gone: float, least: float | None) -> float | None:
    if usage is None or not gone:
        return usage
    return max(usage - gone, min(usage, least or 0.0))


def add_known(total: dict[str, float], amounts: Mapping[str, float]) -> None:
    """Adds the known amounts of further resources to a sum."""
    for name, amount in amounts.items():
        total[name] = total.get(name, 0.0) + (known(amount) or 0.0)


def measured_usage(utilization: NodeUtilization, placement: NodePlacement) -> Resources:
    """The measured usage of the node's present pods, in cores and bytes: the least load of the node, whichever pods
    have left.

    Usage outside of pods is not included: it contains the usage of pods that have left since.
    """
    if not placement.gone:  # nothing is subtracted
        return NOTHING
    cpu = memory = 0.0
    further: dict[str, float] = {}
    measured = utilization.pods
    for pod in placement.pods:
        if (usage := measured.get(pod.uid)) is not None:
            cpu += known(usage.cpu) or 0.0
            memory += known(usage.memory) or 0.0
            if usage.further is not None:
                add_known(further, usage.further)
    return Resources(cpu=cpu, memory=memory, further=further or None)


def uncounted_batch_work(usages: Iterable[Resources], weight: BatchWorkWeight) -> Resources:
    """Cores and bytes of the usage of batch work that do not count for other pods (`load.batchWorkWeight`).

    Unknown usage is no usage: what it is part of counts as a whole.
    """
    cpu = memory = 0.0
    for usage in usages:
        cpu += known(usage.cpu) or 0.0
        memory += known(usage.memory) or 0.0
    return Resources(cpu=cpu * (1.0 - weight.cpu), memory=memory * (1.0 - weight.memory))


UsageOf = Callable[[PlacedPod, Resources], Resources]
"""The usage of a pod: as measured (the second argument), else as expected."""


def usage_on_node(pod: PlacedPod, utilization: NodeUtilization, usage_of: UsageOf) -> Resources:
    """The usage of a pod that is on the node. A terminating pod counts as long as it is measured, and only as measured.

    A terminating pod may run for hours, or its containers may have ended while a finalizer keeps the object.
    """
    measured = utilization.pods.get(pod.uid, Resources())
    if pod.terminating:
        return measured
    usage = usage_of(pod, measured)
    return usage if usage is measured else _at_most(usage, utilization.base)


def _at_most(usage: Resources, base: Resources) -> Resources:
    """A pod without a measurement may have a limit far beyond its node, which bounds what it can use."""
    beyond_cpu = usage.cpu is not None and base.cpu is not None and usage.cpu > base.cpu
    beyond_memory = usage.memory is not None and base.memory is not None and usage.memory > base.memory
    if not beyond_cpu and not beyond_memory:
        return usage
    return msgspec.structs.replace(
        usage, cpu=base.cpu if beyond_cpu else usage.cpu, memory=base.memory if beyond_memory else usage.memory
    )


def total_of(usages: Iterable[Resources]) -> Resources:
    """Cores and bytes of pods together. What is not known adds nothing."""
    total, further = NOTHING, dict[str, float]()
    for usage in usages:
        total = plus(total, Resources(cpu=known(usage.cpu), memory=known(usage.memory)))
        if usage.further is not None:
            add_known(further, usage.further)
    return msgspec.structs.replace(total, further=further) if further else total


def lifetime_on_node(pod: PlacedPod, utilization: NodeUtilization, usage_of: UsageOf) -> PodLifetime:
    """The time since which a pod is on the node, and its usage there."""
    return PodLifetime(
        placed_at=pod.placed_at,
        running_since=pod.running_since,
        usage=usage_on_node(pod, utilization, usage_of),
    )


def partial_lifetimes(
    utilization: NodeUtilization, placement: NodePlacement, usage_of: UsageOf, *, load: LoadSettings
) -> Iterator[tuple[PlacedPod | GonePod, PodLifetime]]:
    """The pods that ran in a part of some window only: the others need no correction.

    A pod that left has the usage that was measured. What it used without that is unknown, and not what it requested:
    to subtract that would hide the usage of others.
    """
    begins = [
        value.sampled_at - window.length
        for window in load.windows
        if (value := utilization.windows.get(window.name)) is not None
    ]
    if load.compensation == "off" or not begins:
        return
    horizon = min(begins)
    for pod in placement.pods:
        start = pod.placed_at + load.pod_start_timeout if pod.running_since is None else pod.running_since
        if start > horizon:
            yield pod, lifetime_on_node(pod, utilization, usage_of)
    for gone in placement.gone:
        if gone.gone_at > horizon:
            lifetime = PodLifetime(
                placed_at=gone.running_since,
                running_since=gone.running_since,
                gone_at=gone.gone_at,
                usage=gone.usage,
            )
            yield gone, lifetime


def usable_window(
    utilization: NodeUtilization | WorkloadUtilization,
    window: Window,
    settings: LoadSettings,
    now: float,
    *,
    skew: float = 0.0,
) -> WindowUsage | None:
    """The value of a window, unless it is missing or too old."""
    value = utilization.windows.get(window.name)
    if value is None:
        return None
    max_age, skew_limit = settings.lifetime(window), settings.freshness.skew_unknown
    return value if is_fresh(value.sampled_at, now, max_age, skew=skew, skew_limit=skew_limit) else None
