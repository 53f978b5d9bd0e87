"""Computes the figures of a run from the hourly usage of the nodes."""

from typing import Any

import numpy as np

from equipoise.lab.model.cluster_usage import ClusterUsage, UsageCurves
from equipoise.lab.model.trace import Array, Trace
from equipoise.lab.results import HourlyLoads

_HOUR = 3_600.0


def hourly_load(used: Array, base: Array) -> Array:
    """nodes × hours × (cpu, memory), in percent of the base.

    `used`: (hours + 1) × nodes × (core seconds, byte seconds), counted up to each full hour.
    """
    load: Array = np.diff(used, axis=0).transpose(1, 0, 2) / (_HOUR * base[:, np.newaxis]) * 100.0
    return load


def spread(load: Array) -> Array:
    """The highest minus the lowest load of a node, for each hour. `load`: nodes × hours."""
    difference: Array = load.max(axis=0) - load.min(axis=0)
    return difference


def load_figures(load: Array, base: Array) -> dict[str, Any]:
    """The fields of `RunFigures` that are computed from loads: nodes × hours × (cpu, memory)."""
    cpu, memory = load[:, :, 0], load[:, :, 1]
    peak = int((cpu * base[:, :1]).sum(axis=0).argmax())
    spreads, memory_spreads = spread(cpu), spread(memory)
    low, high = np.percentile(cpu[:, peak], [5, 95])
    figures = {
        "peak_spread": spreads[peak],
        "median_spread": np.median(spreads),
        "p90_spread": np.percentile(spreads, 90),
        "worst_spread": spreads.max(),
        "peak_std": cpu[:, peak].std(),
        "median_std": np.median(cpu.std(axis=0)),
        "peak_p5": low,
        "peak_p95": high,
        "memory_peak_spread": memory_spreads[peak],
        "memory_median_spread": np.median(memory_spreads),
        "memory_peak_std": memory[:, peak].std(),
        "hours_above_80": (cpu > 80.0).sum(),
        "hours_above_90": (cpu > 90.0).sum(),
    }
    return {name: round(float(value), 2) for name, value in figures.items()}


def cpu_loads(load: Array) -> HourlyLoads:
    """The loads of CPU, nodes × hours, in single precision. `load`: nodes × hours × resources."""
    return load[:, :, 0].astype(np.float32)


def placement_figures(trace: Trace) -> dict[str, Any] | None:
    """`load_figures` of the placement of the trace over its first day, and `memory_share`: percent requested.

    None for a trace without placements.
    """
    nodes = {node.name: number for number, node in enumerate(trace.nodes)}
    placed = [(nodes[pod.node], pod.workload) for pod in trace.pods if pod.node]
    if not placed:
        return None
    curves = UsageCurves(trace)
    cluster = ClusterUsage(trace, curves)
    for node, workload in placed:
        cluster.start(cluster.add_pod(workload), node, now=0.0)
    hours = np.array([cluster.mean_usage(hour * _HOUR, (hour + 1) * _HOUR) for hour in range(24)])
    load = hours.transpose(1, 0, 2) / cluster.base[:, np.newaxis] * 100.0
    requested = sum(trace.workloads[workload].request_memory_mib for _, workload in placed)
    share = 100.0 * requested / sum(node.memory_mib for node in trace.nodes)
    return load_figures(load, cluster.base) | {"memory_share": round(share, 1)}
