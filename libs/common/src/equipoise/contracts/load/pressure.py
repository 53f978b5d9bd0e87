"""Contention: whether pressure shows that pods of a node wait for others.

The kernel counts a process that its own CPU limit has stopped as one that waits for CPU, also in the pressure of the
node. So the CPU pressure of a node with throttled pods counts only if pods that are not throttled wait, too.
"""

from collections.abc import Collection, Mapping
from typing import Literal, get_args

from equipoise.contracts.configuration.settings import Freshness, PressureThresholds
from equipoise.contracts.load.correction import is_fresh
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.contracts.messages.values.pressure import MeasuredPodPressure, NodePressure

ContendedResource = Literal["cpu", "memory", "io"]
CONTENDED_RESOURCES: tuple[ContendedResource, ...] = get_args(ContendedResource)

RELIEVED: tuple[ContendedResource, ...] = ("cpu", "io")
"""The resources for which waiting alone makes a node hot. Memory is none of them: a pod that reaches its own memory
limit waits for memory as well, and no metric distinguishes this from contention."""

THROTTLED = 0.05
"""The share of periods in which a limit stops a pod, above which the pod's waiting for CPU shows nothing about its
node."""

RESOURCE_NAMES: Mapping[ContendedResource, str] = {"cpu": "CPU", "memory": "memory", "io": "disks"}

PressureState = Literal["unknown", "low", "throttled", "high"]
"""The pressure of a node in one resource. `throttled`: above the threshold, but only because of pods that their own CPU
limit stops. `unknown`: not measured, or without a threshold, or above it, and not measured whether limits are why."""


def pressure_state(
    pressure: NodePressure | None, resource: ContendedResource, thresholds: PressureThresholds
) -> PressureState:
    """The pressure of a node in this resource, compared with its threshold."""
    threshold, waiting = threshold_of(thresholds, resource), waiting_of(pressure, resource)
    if pressure is None or threshold is None or waiting is None:
        return "unknown"
    if waiting <= threshold:
        return "low"
    if resource != "cpu":
        return "high"
    return _among_throttled(pressure.pods, threshold) if pressure.pods_known else "unknown"


def _among_throttled(pods: Mapping[str, MeasuredPodPressure], threshold: float) -> PressureState:
    """The pressure of a node whose CPU pressure is above the threshold."""
    if not any(is_throttled(pod) for pod in pods.values()):
        return "high"
    if all(pod.cpu is None for pod in pods.values()):
        return "unknown"  # whether other pods wait is not measured
    others = [pod.cpu or 0.0 for pod in pods.values() if not is_throttled(pod)]
    return "high" if max(others, default=0.0) > threshold else "throttled"


def is_throttled(pod: MeasuredPodPressure) -> bool:
    """Whether the pod's own CPU limit makes it wait."""
    return (pod.throttled or 0.0) > THROTTLED


def contention(pressure: NodePressure | None, thresholds: PressureThresholds) -> dict[ContendedResource, float]:
    """The resources for which pods wait for others, and the share of time (0..1); empty if nothing shows it."""
    return {
        resource: waiting
        for resource in CONTENDED_RESOURCES
        if (waiting := waiting_of(pressure, resource)) is not None
        and pressure_state(pressure, resource, thresholds) == "high"
    }


def uncontended(pressure: NodePressure | None, thresholds: PressureThresholds) -> frozenset[ContendedResource]:
    """The resources with a threshold for which it is known that no pod waits for others."""
    return frozenset(
        resource
        for resource in CONTENDED_RESOURCES
        if pressure_state(pressure, resource, thresholds) in ("low", "throttled")
    )


def is_hot(
    over: Collection[str], pressure: NodePressure | None, thresholds: PressureThresholds, *, required: bool
) -> bool:
    """Whether pods are moved away from a node that is above its load thresholds in these resources.

    `required`: whether it must be known for one of them that pods may wait for others
    (`descheduler.requirePressure`). With pressure, a node is hot also below its load thresholds.
    """
    busy_only = uncontended(pressure, thresholds) if required and over else frozenset()
    return bool(set(over) - busy_only) or not contention(pressure, thresholds).keys().isdisjoint(RELIEVED)


def fresh_pressure(
    utilization: NodeUtilization, freshness: Freshness, now: float, *, skew: float = 0.0
) -> NodePressure | None:
    """The pressure of a node if it is fresh enough to decide about moves; else None."""
    pressure = utilization.pressure
    if pressure is None:
        return None
    fresh = is_fresh(pressure.sampled_at, now, freshness.eviction, skew=skew, skew_limit=freshness.skew_unknown)
    return pressure if fresh else None


def waiting_of(pressure: NodePressure | None, resource: ContendedResource) -> float | None:
    """The share of time (0..1) in which processes of the node wait; None if it is unknown."""
    share: float | None = None if pressure is None else getattr(pressure.waiting, resource)
    return share


def waiting_for_others(pressure: NodePressure | None) -> float | None:
    """The share of time (0..1) in which pods of a node wait for CPU or disks because of others; None if it is unknown.

    Beside throttled pods, what other pods wait for CPU counts, as in `pressure_state`.
    """
    if pressure is None:
        return None
    cpu, pods = pressure.waiting.cpu if pressure.pods_known else None, pressure.pods.values()
    if cpu is not None and any(is_throttled(pod) for pod in pods):
        others = [pod.cpu or 0.0 for pod in pods if not is_throttled(pod)]
        cpu = None if all(pod.cpu is None for pod in pods) else min(cpu, max(others, default=0.0))
    known = [share for share in (cpu, pressure.waiting.io) if share is not None]
    return max(known, default=None)


def threshold_of(thresholds: PressureThresholds, resource: ContendedResource) -> float | None:
    """The threshold of a resource as a share (0..1); None without one."""
    percent: float | None = getattr(thresholds, resource)
    return None if percent is None else percent / 100


def contention_text(waiting: Mapping[ContendedResource, float], thresholds: PressureThresholds) -> str:
    """`pods wait for CPU 34% of the time (above 20%)`; empty without contention."""
    parts = [
        f"for {RESOURCE_NAMES[resource]} {share:.0%} of the time (above {threshold:.0%})"
        for resource, share in waiting.items()
        if (threshold := threshold_of(thresholds, resource)) is not None
    ]
    return f"pods wait {' and '.join(parts)}" if parts else ""


def target_problem(pressure: NodePressure | None, thresholds: PressureThresholds) -> str:
    """Why no pod should be moved to a node of this pressure; empty if nothing is known against it.

    Half of the threshold is the limit: otherwise the moved pod might bring the pressure with it.
    """
    halved = PressureThresholds(
        **{name: None if (value := getattr(thresholds, name)) is None else value / 2 for name in CONTENDED_RESOURCES}
    )
    text = contention_text(contention(pressure, halved), halved)
    return text and f"node has pressure: {text}, half of the threshold"
