"""How requests fit the usage of a day."""

from collections.abc import Sequence

import msgspec
import numpy as np

from equipoise.lab.model.period_means import period_means
from equipoise.lab.model.resource_requests import ResourceRequests
from equipoise.lab.model.trace import Array, Trace
from equipoise.lab.resource_requests.measured_days import measured_steps

_HOUR = 3_600.0


class RequestsFit(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of all pods, and the usage of a day beside them. Steps without a measurement do not count."""

    cpu_milli: int
    memory_mib: int
    cpu_slack: float | None
    """(requested − used) / requested, 0..1, negative if more is used; None without requests. Pods without a request do
    not count. Source: the relative slack of Autopilot (Rzadca et al., EuroSys 2020, 4.1)."""

    memory_slack: float | None
    cpu_pod_hours_above: float
    """Pod-hours in which a pod uses more than it requests: it is slower if its node is full."""

    memory_pod_hours_above: float
    """The same for memory: such pods are evicted first if their node has no memory left."""

    memory_pod_hours_above_limit: float
    """Pod-hours in which a pod would be killed, because it uses more than its limit."""


def requests_fit(day: Trace, requests: Sequence[ResourceRequests]) -> RequestsFit:
    """The fit of these requests, one for each workload of the trace."""
    pods = day.replicas().astype(np.float64)
    cpu = np.array([each.cpu_milli for each in requests], dtype=np.float64)
    memory = np.array([each.memory_mib for each in requests], dtype=np.float64)
    limits = [workload.limit_memory_mib for workload in day.workloads]
    limit = np.array([np.inf if each is None else each for each in limits], dtype=np.float64)
    return RequestsFit(
        cpu_milli=int(cpu @ pods),
        memory_mib=int(memory @ pods),
        cpu_slack=_slack(day, 0, cpu, pods),
        memory_slack=_slack(day, 1, memory, pods),
        cpu_pod_hours_above=_pod_hours_above(day, 0, np.where(cpu > 0.0, cpu, np.inf), pods),
        memory_pod_hours_above=_pod_hours_above(day, 1, np.where(memory > 0.0, memory, np.inf), pods),
        memory_pod_hours_above_limit=_pod_hours_above(day, 1, limit, pods),
    )


def _slack(day: Trace, resource: int, requests: Array, pods: Array) -> float | None:
    usage, measured = measured_steps(day, resource)
    weights = measured * np.where(requests > 0.0, pods, 0.0)[:, np.newaxis]
    requested = float((requests[:, np.newaxis] * weights).sum())
    return round(1.0 - float((usage * weights).sum()) / requested, 4) if requested else None


def _pod_hours_above(day: Trace, resource: int, most: Array, pods: Array) -> float:
    """Pod-hours with a step in which a pod uses more than `most` (by workload)."""
    usage, measured = measured_steps(day, resource)
    above = (measured & (usage > most[:, np.newaxis])).astype(np.float64)
    hours = period_means(above, day.seconds_per_step, _HOUR) > 0.0
    return round(float(pods @ hours.sum(axis=1)), 1)
