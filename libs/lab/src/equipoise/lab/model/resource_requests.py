"""Other requests for the workloads of a trace."""

from typing import Literal

import msgspec

from equipoise.lab.model.trace import Trace, TraceWorkload


class ResourceRequests(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of each pod of a workload. 0: no request."""

    cpu_milli: int
    memory_mib: int


def requests_of_workload(workload: TraceWorkload) -> ResourceRequests:
    """The requests that a workload has in its trace."""
    return ResourceRequests(cpu_milli=workload.request_cpu_milli, memory_mib=workload.request_memory_mib)


VariantName = Literal["present", "proposed", "recommended"]
"""The requests of the trace, those that Equipoise proposes, or those that the VerticalPodAutoscaler recommends."""


class RequestsVariant(msgspec.Struct, frozen=True, kw_only=True):
    """Requests to replay a trace with."""

    name: VariantName = "present"

    requests: tuple[ResourceRequests, ...] = ()
    """One for each workload, in the order of the trace; empty: those of the trace."""


def with_requests(trace: Trace, variant: RequestsVariant) -> Trace:
    """The trace with these requests."""
    if not variant.requests:
        return trace
    return msgspec.structs.replace(
        trace,
        workloads=tuple(
            msgspec.structs.replace(
                workload, request_cpu_milli=requested.cpu_milli, request_memory_mib=requested.memory_mib
            )
            for workload, requested in zip(trace.workloads, variant.requests, strict=True)
        ),
    )
