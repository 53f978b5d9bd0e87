"""The figures of batch work, from the usage of pods in each step of the trace."""

from collections.abc import Iterable

import msgspec
import numpy as np

from equipoise.cli.demo.manifests import DAEMON_SET, DAEMON_SET_CPU_MILLI
from equipoise.cli.terminal import count
from equipoise.lab.model.trace import Array, Trace

ENOUGH_MEASURED = 0.95
"""Share above which figures are not qualified."""


class UsageByNode(msgspec.Struct, frozen=True, kw_only=True):
    """nodes × times, in cores. NaN: not measured."""

    high_priority: Array
    """Usage of all pods that are not batch pods."""

    batch: Array


class ColocationResult(msgspec.Struct, frozen=True, kw_only=True):
    """Hours are those of the trace."""

    hours: float
    """Hours since all services were ready."""

    measured_share: float
    """Share of the node-hours that were measured, on which the figures are based: a busy machine does not measure
    all."""

    core_hours: float
    """What batch pods used, without what would have been suppressed."""

    share_of_cores: float
    """The same as a share of all cores."""

    suppressed_share: float | None
    """Share of batch usage beyond what high-priority pods left of the limit. None: no batch pod ran."""

    limit: float
    """Percent of a node's cores that high-priority and batch pods together should stay below."""

    node_hours_above_before: float
    """Node-hours above the limit, as the stock scheduler placed the pods and without batch pods; computed."""

    node_hours_above_after: float
    """Node-hours above the limit with Equipoise and all batch pods, of which nothing was suppressed; measured."""

    node_hours_above_without_batch: float
    """The same without the usage of batch pods: at most these remain where agents suppress batch pods."""

    pods_finished: int
    evictions: int
    """Evictions of batch pods."""


def colocation_result(
    usage: UsageByNode,
    before: Array,
    *,
    cores: Array,
    limit: float,
    step_hours: float,
    pods_finished: int,
    evictions: int,
) -> ColocationResult:
    """`before`: nodes × times, cores without Equipoise. `cores` (nodes). `step_hours`: between two times.

    A node counts at the times at which it was measured.
    """
    measured = np.isfinite(usage.high_priority) & np.isfinite(usage.batch)
    most = limit / 100 * cores[:, np.newaxis]
    batch = np.where(measured, usage.batch, 0.0)
    left = np.maximum(most - np.where(measured, usage.high_priority, 0.0), 0.0)
    suppressed = np.maximum(batch - left, 0.0).sum()
    used, all_cores = batch.sum(), (measured * cores[:, np.newaxis]).sum()
    # Comparisons with NaN are False.
    above_after = usage.high_priority + usage.batch > most
    above_without_batch = usage.high_priority > most
    above_before = (before > most) & measured
    return ColocationResult(
        hours=round(measured.shape[1] * step_hours, 2),
        measured_share=round(float(measured.mean()), 4),
        core_hours=round(float(used - suppressed) * step_hours, 1),
        share_of_cores=round(float((used - suppressed) / all_cores), 4) if all_cores else 0.0,
        suppressed_share=round(float(suppressed / used), 4) if used else None,
        limit=limit,
        node_hours_above_before=round(float(above_before.sum()) * step_hours, 2),
        node_hours_above_after=round(float(above_after.sum()) * step_hours, 2),
        node_hours_above_without_batch=round(float(above_without_batch.sum()) * step_hours, 2),
        pods_finished=pods_finished,
        evictions=evictions,
    )


def usage_as_placed(trace: Trace, pods: Iterable[tuple[str, str]]) -> Array:
    """nodes × steps of the trace, in cores: with these pods (workload and node), and no other."""
    rows = {node.name: row for row, node in enumerate(trace.nodes)}
    workloads = {workload.name: index for index, workload in enumerate(trace.workloads)}
    replicas = np.zeros((len(trace.nodes), len(trace.workloads)))
    constant = np.zeros((len(trace.nodes), 1))
    for workload, node in pods:
        if node in rows and workload == DAEMON_SET:
            constant[rows[node]] += DAEMON_SET_CPU_MILLI
        elif node in rows and workload in workloads:
            replicas[rows[node], workloads[workload]] += 1
    usage: Array = (replicas @ trace.cpu_milli + constant) / 1_000
    return usage


def sentences(result: ColocationResult) -> list[str]:
    """What the demo prints at its end."""
    limit = f"{result.limit:g} %"
    suppressed = (
        "suppressed: unknown, no batch pod ran"
        if result.suppressed_share is None
        else f"suppressed: {result.suppressed_share:.1%} of the CPU that batch pods used exceeded what the other pods "
        f"left of {limit} of their node; computed from measured usage, as fake nodes have no agent that prevents it"
    )
    found = [
        f"batch work: {result.core_hours:,.0f} core-hours in {result.hours:.0f} hours of the trace, "
        f"{result.share_of_cores:.1%} of all cores; {count(result.pods_finished, 'batch pod')} finished, and "
        f"{result.evictions} were evicted, by the audit log of the API server",
        suppressed,
        f"node-hours above {limit}: {result.node_hours_above_before:.0f} before, computed for the placement by the "
        f"stock scheduler without batch pods; after, measured with the burst: {result.node_hours_above_after:.0f} with "
        f"all batch work, {result.node_hours_above_without_batch:.0f} without it, as where agents suppress it",
    ]
    if result.measured_share < ENOUGH_MEASURED:
        found.append(
            f"note: {result.measured_share:.0%} of the time of all nodes was measured, and these figures are of that: "
            "this machine was too busy for Prometheus"
        )
    return found
