"""The load of a node including pods that its windows do not show yet, and excluding pods that have left.

The corrected load depends on the times of the samples, not on the time of a request: it is computed once per message.
"""

import math
from collections.abc import Sequence

import msgspec

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.load.correction import (
    NOTHING,
    RESOURCES,
    PodLifetime,
    UsageOf,
    amounts,
    corrected,
    correction_factor,
    known,
    lifetime_on_node,
    measured_usage,
    partial_lifetimes,
    plus,
    share_measured,
    total_of,
    uncounted_batch_work,
    usage_on_node,
)
from equipoise.contracts.load.demand import requests_and_limits
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, WindowUsage
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array, np
from equipoise.scorer.decisions.arrays import Statistic

MEAN_ONLY: tuple[Statistic, ...] = ()

INNER_STEP = 60.0
"""Seconds over which a sample of a window's maximum is averaged: after that time it includes all of a new pod."""


def corrected_load(
    utilization: NodeUtilization,
    placement: NodePlacement,
    usage_of: UsageOf,
    *,
    load: LoadSettings,
    statistics: tuple[Statistic, ...] = MEAN_ONLY,
    batch_work: Sequence[PlacedPod] = (),
) -> Array:
    """(mean, then each statistic) × windows × resources, as a share (0..1) of the node's base.

    NaN for windows that are missing and for what is not measured. A standard deviation is not corrected: the effect of
    a pod on it is not known. If the recent usage of the node is known, no value is lower than it: new pods may use more
    than is expected. `batch_work`: the pods of the placement whose usage counts in part (`weighted_pods`).
    """
    usages = window_usages(utilization, placement, usage_of, load=load, statistics=statistics, batch_work=batch_work)
    return at_least_recent(shares_of(usages, base_amounts(utilization), load, statistics)[0], load, statistics)


def shares_of(
    usages: Sequence[float], bases: Sequence[float], load: LoadSettings, statistics: tuple[Statistic, ...] = MEAN_ONLY
) -> Array:
    """nodes × (mean, then each statistic) × (windows and the recent usage) × resources, as a share of the base.

    `usages` and `bases`: the results of `window_usages` and `base_amounts` of each node, one after the other.
    """
    shape = (-1, 1 + len(statistics), len(load.windows) + 1, len(RESOURCES))
    shares: Array = np.array(usages).reshape(shape) / np.array(bases).reshape(-1, 1, 1, len(RESOURCES))
    return shares


def at_least_recent(loads: Array, load: LoadSettings, statistics: tuple[Statistic, ...] = MEAN_ONLY) -> Array:
    """Removes the recent usage, the last window of `shares_of`, and raises lower means, p95 and maxima to it."""
    windows = len(load.windows)
    recent = np.nan_to_num(loads[..., 0, windows:, :], nan=-np.inf)
    raised = loads[..., :windows, :]
    for position, statistic in enumerate((None, *statistics)):
        if _ramp(statistic, 1.0):  # not 0: a pod changes the statistic in a known way
            raised[..., position, :, :] = np.maximum(raised[..., position, :, :], recent)
    return raised


def window_usages(
    utilization: NodeUtilization,
    placement: NodePlacement,
    usage_of: UsageOf,
    *,
    load: LoadSettings,
    statistics: tuple[Statistic, ...] = MEAN_ONLY,
    batch_work: Sequence[PlacedPod] = (),
    changed_at: float = math.inf,
) -> list[float]:
    """Cores and bytes of (mean, then each statistic) × windows × resources, one after the other.

    The recent usage is the last window. `changed_at`: see `latest_change`. Plain numbers, because a cycle has
    thousands of messages with few numbers each.
    """
    windows = windows_of(utilization, load)
    earliest = min([value.sampled_at - length for length, value in windows[:-1] if value is not None], default=math.inf)
    lifetimes: Sequence[PodLifetime] = ()
    if changed_at > earliest:
        lifetimes = tuple(lifetime for _, lifetime in partial_lifetimes(utilization, placement, usage_of, load=load))
    weighted = [lifetime_on_node(pod, utilization, usage_of) for pod in batch_work]
    least = measured_usage(utilization, placement) if lifetimes else NOTHING

    def adjusted(usage: Resources, pods: Sequence[PodLifetime], length: float, sampled_at: float) -> list[float]:
        if pods:
            usage = corrected(usage, pods, sampled_at=sampled_at, length=length, load=load, least=least)
        if weighted:
            uncounted = uncounted_part(weighted, sampled_at=sampled_at, length=length, load=load)
            usage = plus(usage, uncounted, -1.0)
        return amounts(usage)

    present = [lifetime for lifetime in lifetimes if lifetime.gone_at is None]
    production = _production(utilization, placement, usage_of) if "production" in statistics else Resources()
    usages: list[float] = []
    for length, value in windows:
        if value is None:
            usages += _UNKNOWN
        elif lifetimes or weighted:
            usages += adjusted(value.mean, lifetimes, length, value.sampled_at)
        else:  # nearly all nodes
            usages += amounts(value.mean)
    for statistic in statistics:
        for length, value in windows:
            if value is None:
                usages += _UNKNOWN
                continue
            match statistic:
                case "p95":
                    usages += adjusted(value.p95, present, _ramp("p95", length), value.sampled_at)
                case "max":
                    usages += adjusted(value.max, present, _ramp("max", length), value.sampled_at)
                case "deviation":
                    usages += amounts(value.deviation)
                case "production":
                    usages += amounts(production)
                case "system":
                    usages += amounts(utilization.system)
    return usages


_UNKNOWN = (math.nan,) * len(RESOURCES)


def latest_change(placement: NodePlacement, load: LoadSettings) -> float:
    """The time of the last start or end of a pod on a node: a window that begins later needs no correction."""
    timeout = load.pod_start_timeout
    starts = (pod.placed_at + timeout if pod.running_since is None else pod.running_since for pod in placement.pods)
    return max([*starts, *(gone.gone_at for gone in placement.gone)], default=-math.inf)


def windows_of(utilization: NodeUtilization, load: LoadSettings) -> list[tuple[float, WindowUsage | None]]:
    """Length and value of each window, None where it is missing; the recent usage is the last one."""
    values = utilization.windows
    windows: list[tuple[float, WindowUsage | None]] = [
        (window.length, values.get(window.name)) for window in load.windows
    ]
    recent = utilization.recent
    if recent is None:
        windows.append((0.0, None))
    else:
        windows.append((recent.length, WindowUsage(sampled_at=recent.sampled_at, mean=recent.mean)))
    return windows


NOTHING_UNEXPECTED = (0.0,) * len(RESOURCES)


def unexpected_usage(
    utilization: NodeUtilization, placement: NodePlacement, usage_of: UsageOf, load: LoadSettings
) -> Sequence[float]:
    """Cores and bytes by which the recent usage of the node exceeds the measured, or else expected, usage of its pods
    and of the system.

    0 for most nodes: the recent usage is known only while pods are new.
    """
    recent = utilization.recent
    if recent is None:
        return NOTHING_UNEXPECTED
    lifetimes = [lifetime for _, lifetime in partial_lifetimes(utilization, placement, usage_of, load=load)]
    least = measured_usage(utilization, placement)
    used = corrected(recent.mean, lifetimes, sampled_at=recent.sampled_at, length=recent.length, load=load, least=least)
    known_usage = total_of([utilization.system, *(usage_on_node(pod, utilization, usage_of) for pod in placement.pods)])
    return [max(0.0, total - part) for total, part in zip(amounts(used), amounts(known_usage), strict=True)]


def without_recent_usage(utilization: NodeUtilization, usage: Resources) -> NodeUtilization:
    """The utilization of a node if a pod that uses this much were not there: its recent usage is lower."""
    if (recent := utilization.recent) is None:
        return utilization
    recent = msgspec.structs.replace(recent, mean=plus(recent.mean, usage, -1.0))
    return msgspec.structs.replace(utilization, recent=recent)


def is_weighted(pod: PlacedPod) -> bool:
    """Whether the usage of a pod counts in part, because it gives way to other pods."""
    return pod.priority_class != "prod" and pod.batch_work  # the first decides for nearly all pods


def weighted_pods(placement: NodePlacement) -> tuple[PlacedPod, ...]:
    """The pods of a node whose usage counts in part."""
    return tuple(pod for pod in placement.pods if is_weighted(pod))


def uncounted_part(pods: Sequence[PodLifetime], *, sampled_at: float, length: float, load: LoadSettings) -> Resources:
    """Cores and bytes of a window's corrected value that batch work uses and that do not count."""
    usages = [included_usage(pod, sampled_at=sampled_at, length=length, load=load) for pod in pods]
    return uncounted_batch_work(usages, load.batch_work_weight)


def included_usage(pod: PodLifetime, *, sampled_at: float, length: float, load: LoadSettings) -> Resources:
    """The usage of a pod of the node as far as a window's corrected value includes it."""
    share = share_measured(pod, sampled_at, length, pod_start_timeout=load.pod_start_timeout)
    share += correction_factor(pod, sampled_at=sampled_at, length=length, load=load)
    cpu, memory = known(pod.usage.cpu), known(pod.usage.memory)
    return Resources(cpu=None if cpu is None else share * cpu, memory=None if memory is None else share * memory)


def base_of(utilization: NodeUtilization) -> Array:
    """Cores and bytes that load refers to; NaN where there are none."""
    return np.array(base_amounts(utilization))


def base_amounts(utilization: NodeUtilization) -> list[float]:
    """The result of `base_of` as plain numbers."""
    return [value or math.nan for value in amounts(utilization.base)]


def sums_of_requests_and_limits(placement: NodePlacement) -> Array:
    """The sum of the pods' requests, then of their limits: per resource. A limit is at least its pod's request.

    The amounts that a pod requests of its band are no requests of cpu and memory, but its limits are limits of both.
    """
    # Plain numbers: for two resources of thirty pods they are ten times as fast as arrays.
    cpu = memory = cpu_limit = memory_limit = 0.0
    for pod in placement.pods:
        cores, size = known(pod.requests.cpu) or 0.0, known(pod.requests.memory) or 0.0
        cpu += cores
        memory += size
        limits = pod.limits
        if pod.priority_class != "prod":  # pods of a band are none of production
            requests, limits = requests_and_limits(pod)
            cores, size = known(requests.cpu) or 0.0, known(requests.memory) or 0.0
        cpu_limit += max(cores, known(limits.cpu) or 0.0)
        memory_limit += max(size, known(limits.memory) or 0.0)
    return np.array([[cpu, memory], [cpu_limit, memory_limit]])


def measured_part(
    pod: PlacedPod,
    utilization: NodeUtilization,
    usage_of: UsageOf,
    *,
    load: LoadSettings,
    statistics: tuple[Statistic, ...] = MEAN_ONLY,
) -> Array:
    """The part of the measured values that comes from one present pod, shaped as `shares_of` one node.

    Estimated for p95 and maximum; 0 for statistics that do not measure the node as a whole.
    """
    lifetime = lifetime_on_node(pod, utilization, usage_of)
    amount = np.nan_to_num(amounts(lifetime.usage))
    windows = windows_of(utilization, load)
    rows = np.zeros((1 + len(statistics), len(windows), len(RESOURCES)))
    for index, (length, value) in enumerate(windows):
        if value is None:
            continue
        for position, statistic in enumerate((None, *statistics)):
            if ramp := _ramp(statistic, length):
                share = share_measured(lifetime, value.sampled_at, ramp, pod_start_timeout=load.pod_start_timeout)
                rows[position, index] = share * amount
    shares: Array = rows / base_of(utilization)
    return shares


def _ramp(statistic: Statistic | None, length: float) -> float:
    """Seconds until a statistic (None: the mean) of a window includes a new pod completely; 0: not known."""
    match statistic:
        case None:
            return length
        case "p95":
            return 0.05 * length
        case "max":
            return min(INNER_STEP, length)
        case _:
            return 0.0


def _production(utilization: NodeUtilization, placement: NodePlacement, usage_of: UsageOf) -> Resources:
    """The usage of the node's production pods together."""
    total = Resources(cpu=0.0, memory=0.0)
    for pod in placement.pods:
        if pod.priority_class == "prod":
            total = plus(total, usage_on_node(pod, utilization, usage_of))
    return total
