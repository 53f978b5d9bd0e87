"""How much batch work fits, and how much of it is suppressed: the forecast of the reclaimer, what is idle now
(Koordinator's rule), and the worst of the last 24 h.

    python -m bench.reclaim alibaba2018b bitbrains      # folders with traces in the formats of docs/traces.md

A trace of fewer than nine days is repeated (in sample), and every workload deviates from its day by 10 %, correlated
over one hour. Otherwise the days after the first eight are measured (out of sample).
"""

import sys
from pathlib import Path

import numpy as np

from bench.output import progress, report
from equipoise.lab.formats import load_trace
from equipoise.lab.model.batch_demand import (
    STEPS_PER_DAY,
    BatchFigures,
    LastingOffer,
    NodeDays,
    lowest_of_last_day,
    offered_now,
    run_batch,
)
from equipoise.lab.model.trace import Array, Trace

HOURS, SUPPRESSED = 6, 0.03
_NOISE = 0.1
_QUARTER = 900.0
_LEARNED_DAYS = 8
_TARGETS = {"alibaba2018b": (6.0, 1.0), "bitbrains": (22.0, 2.5)}
"""Of 6-hour pods at 65 %: percent of the cores that run at least, percent of core-hours suppressed at most."""


def node_days(trace: Trace) -> NodeDays:
    """Its pods without a node are placed by requested CPU, the largest first, on the node with the least."""
    steps = round(_QUARTER / trace.seconds_per_step)
    whole = trace.steps // steps * steps
    curves = trace.cpu_milli[:, :whole].reshape(len(trace.workloads), -1, steps).mean(axis=2) / 1_000.0
    curves = curves[:, : curves.shape[1] // STEPS_PER_DAY * STEPS_PER_DAY]
    days, counts = curves.shape[1] // STEPS_PER_DAY, _counts(trace)
    used = np.flatnonzero(counts.sum(axis=1))
    capacity = np.array([node.cpu_milli / 1_000.0 for node in trace.nodes])[used]
    counts = counts[used]
    if days > _LEARNED_DAYS:
        first, last = _LEARNED_DAYS * STEPS_PER_DAY, (days - 1) * STEPS_PER_DAY
        return NodeDays(
            usage=counts @ curves, capacity=capacity, measured_from=first, measured_until=last, pod_cores=0.1
        )
    day = curves[:, :STEPS_PER_DAY]
    usage = counts @ (np.tile(day, (1, _LEARNED_DAYS + 2)) * _noise(len(day), (_LEARNED_DAYS + 2) * STEPS_PER_DAY))
    typical = (counts @ day).reshape(len(counts), 24, -1).mean(axis=2)
    measured = (_LEARNED_DAYS + 1) * STEPS_PER_DAY
    return NodeDays(
        usage=usage, capacity=capacity, typical=typical, measured_from=measured, measured_until=usage.shape[1]
    )


def _counts(trace: Trace) -> Array:
    """nodes × workloads: pods."""
    counts = np.zeros((len(trace.nodes), len(trace.workloads)))
    rows = {node.name: row for row, node in enumerate(trace.nodes)}
    placed = any(pod.node for pod in trace.pods)
    requested = np.zeros(len(trace.nodes))
    for pod in sorted(trace.pods, key=lambda pod: -trace.workloads[pod.workload].request_cpu_milli):
        if pod.node or not placed:
            row = rows[pod.node] if pod.node else int(requested.argmin())
            requested[row] += trace.workloads[pod.workload].request_cpu_milli
            counts[row, pod.workload] += 1.0
    return counts


def _noise(workloads: int, steps: int) -> Array:
    generator = np.random.default_rng(1)
    stays = np.exp(-_QUARTER / 3_600.0)
    state = generator.normal(0.0, _NOISE, workloads)
    factors = np.empty((workloads, steps))
    for step in range(steps):
        factors[:, step] = np.exp(state - _NOISE**2 / 2)
        state = stays * state + np.sqrt(1.0 - stays**2) * generator.normal(0.0, _NOISE, workloads)
    return factors


def _print(figures: BatchFigures, trace: str, rule: str, threshold: float, *, targeted: bool = False) -> None:
    least, most = _TARGETS.get(trace, (0.0, 0.0))
    known = targeted and trace in _TARGETS
    details: dict[str, float | str] = {"trace": trace, "rule": rule, "threshold": threshold}
    for name, value, target in (
        ("running", figures.running, (">=", least)),
        ("suppressed", figures.suppressed, ("<=", most)),
    ):
        report(f"reclaim_{name}", 100 * value, "%", target=target if known else None, baseline=None, **details)


def main() -> None:
    for folder in map(Path, sys.argv[1:]):
        progress(f"reading {folder}")
        days = node_days(load_trace(folder, nodes=0, seed=1))
        for threshold in (0.65, 0.75, 0.85):
            for rule, offer in (("now", offered_now), ("worst of 24 h", lowest_of_last_day)):
                _print(run_batch(days, offer, hours=HOURS, threshold=threshold), folder.name, rule, threshold)
            for share in (0.01, 0.02, SUPPRESSED, 0.04, 0.06) if threshold == 0.65 else (SUPPRESSED,):
                lasting = LastingOffer(days, hours=HOURS, suppressed=share)
                figures = run_batch(days, lasting, hours=HOURS, threshold=threshold)
                targeted = share == SUPPRESSED and threshold == 0.65
                _print(figures, folder.name, f"lasting, {share:.0%}", threshold, targeted=targeted)


if __name__ == "__main__":
    main()
