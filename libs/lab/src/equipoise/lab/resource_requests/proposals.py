"""Proposes requests for each workload from its measured usage. Equipoise never writes requests.

CPU: the second highest of the 24 hours of a day (the 95th percentile, rounded up to an hour), the highest of all days.
CPU is compressible: a pod above its request slows down only while its node is full, so one hour a day may be above it.
Memory: the highest measured step, because a pod above what its node has is killed. Both with a margin of 15 %.
The highest day counts, so that a holiday or a quiet week-end lowers nothing.
Source: the moving window recommender of Autopilot (Rzadca et al., EuroSys 2020, 3.2.2) takes the 95th percentile of CPU
and the highest usage of memory for jobs that serve; the margin is that of the recommender of the VerticalPodAutoscaler.
"""

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from equipoise.lab.model.resource_requests import ResourceRequests, requests_of_workload
from equipoise.lab.model.trace import Array, Trace, TraceWorkload
from equipoise.lab.resource_requests.measured_days import HOURS, measured_hours, measured_steps

PERCENTILE = 95.0
"""The percentile of the hours of a day for CPU."""

MARGIN = 0.15
"""Added to the usage. Source: `recommendation-margin-fraction` of the VerticalPodAutoscaler."""

FLOOR = ResourceRequests(cpu_milli=25, memory_mib=250)
"""No request is lowered below this. Source: `pod-recommendation-min-cpu-millicores` and `-min-memory-mb` of the
VerticalPodAutoscaler."""

_MEASURED_DAYS = 0.5
"""The share of days on which each hour of the day must be measured, so that a request may be lowered."""

_WITHOUT_CONTROLLER = {"Pod": "a pod without controller: its requests are in its own manifest", "Node": "a static pod"}


class RequestsProposal(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of each pod of a workload, present and proposed. 0: no request."""

    namespace: str
    kind: str
    name: str
    pods: int
    containers: tuple[str, ...]
    present: ResourceRequests
    proposed: ResourceRequests
    kept: str = ""
    """Why a request stays as it is although the usage is lower or not known; empty: no such reason."""

    @property
    def changed(self) -> bool:
        return self.present != self.proposed


def proposals(trace: Trace) -> tuple[RequestsProposal, ...]:
    """A proposal for each workload of the trace, in their order, from all of its days."""
    replicas = trace.replicas().tolist()
    hours = [measured_hours(trace, resource) for resource in range(2)]
    usage, measured = measured_steps(trace, 1)
    highest = np.where(measured, usage, -np.inf).max(axis=1, initial=-np.inf).tolist()
    largest = _largest(trace)
    return tuple(
        _proposal(
            workload,
            replicas[number],
            needed=(_second_highest_hour(hours[0][number]), highest[number]),
            unmeasured=_unmeasured([resource[number] for resource in hours]),
            largest=largest,
        )
        for number, workload in enumerate(trace.workloads)
    )


def _largest(trace: Trace) -> ResourceRequests:
    return ResourceRequests(
        cpu_milli=max((node.cpu_milli for node in trace.nodes), default=0),
        memory_mib=max((node.memory_mib for node in trace.nodes), default=0),
    )


def _second_highest_hour(days: Array) -> float:
    """The PERCENTILE of the measured hours of each day, rounded up to an hour; the highest of all days.

    `days`: days × 24, NaN where an hour is not measured. −∞ if none is.
    """
    measured = [day[~np.isnan(day)] for day in days]
    return max(
        (float(np.percentile(day, PERCENTILE, method="higher")) for day in measured if len(day)), default=-math.inf
    )


def _unmeasured(resources: Sequence[Array]) -> list[int]:
    """The hours from the start of a day that are measured on too few days, of CPU or memory. Each: days × 24."""
    too_few = [np.mean(~np.isnan(days), axis=0) < _MEASURED_DAYS for days in resources]
    return np.flatnonzero(np.logical_or(*too_few)).tolist()


def _proposal(
    workload: TraceWorkload, pods: int, *, needed: tuple[float, float], unmeasured: list[int], largest: ResourceRequests
) -> RequestsProposal:
    present = requests_of_workload(workload)
    proposed, kept = present, _fixed(workload)
    if not (kept or all(map(math.isfinite, needed))):
        kept = "not measured"
    if not kept:
        proposed = ResourceRequests(
            cpu_milli=_with_margin(needed[0], present.cpu_milli, FLOOR.cpu_milli, workload.start_cpu_milli),
            memory_mib=_with_margin(needed[1], present.memory_mib, FLOOR.memory_mib, workload.start_memory_mib),
        )
        proposed = _within_limits(workload, proposed)
        if unmeasured and lowered(present, proposed):
            proposed, kept = _highest(present, proposed), _gap(unmeasured)
        if lowered(proposed, largest):
            proposed, kept = present, "no node has as much as its usage and the margin"
    return RequestsProposal(
        namespace=workload.namespace,
        kind=workload.kind,
        name=workload.name,
        pods=pods,
        containers=workload.containers,
        present=present,
        proposed=proposed,
        kept=kept,
    )


def _fixed(workload: TraceWorkload) -> str:
    """Why the requests of a workload cannot be changed; empty if they can."""
    if workload.kind in _WITHOUT_CONTROLLER:
        return _WITHOUT_CONTROLLER[workload.kind]
    limits = workload.limit_cpu_milli, workload.limit_memory_mib
    if limits == (workload.request_cpu_milli, workload.request_memory_mib) and all(limits):
        return "Guaranteed: other requests than limits would change its QoS class, so that it is evicted earlier"
    return ""


def _with_margin(needed: float, present: int, floor: int, start: int) -> int:
    """The proposed request. A present one between the usage and the usage with its margin is right, and stays."""
    # Rounding errors must not add a unit.
    most = math.ceil(round(needed * (1.0 + MARGIN), 6))
    proposed = present if needed <= present <= most else most
    return max(proposed, start, min(floor, present))


def _within_limits(workload: TraceWorkload, proposed: ResourceRequests) -> ResourceRequests:
    """The API server refuses requests above the limits."""
    cpu, memory = workload.limit_cpu_milli, workload.limit_memory_mib
    return ResourceRequests(
        cpu_milli=proposed.cpu_milli if cpu is None else min(proposed.cpu_milli, cpu),
        memory_mib=proposed.memory_mib if memory is None else min(proposed.memory_mib, memory),
    )


def lowered(present: ResourceRequests, proposed: ResourceRequests) -> bool:
    """Whether one of the requests becomes lower."""
    return proposed.cpu_milli < present.cpu_milli or proposed.memory_mib < present.memory_mib


def _highest(one: ResourceRequests, other: ResourceRequests) -> ResourceRequests:
    return ResourceRequests(
        cpu_milli=max(one.cpu_milli, other.cpu_milli), memory_mib=max(one.memory_mib, other.memory_mib)
    )


def _gap(hours: list[int]) -> str:
    return f"{len(hours)} of {HOURS} hours of the day are not measured on most days: nothing is lowered"
