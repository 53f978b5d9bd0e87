"""How much batch work fits, and how much of it is suppressed: the forecast of the reclaimer, what is idle now
(Koordinator's rule), and the worst of the last 24 h. CPU alone; `equipoise lab compare --batch` includes memory.

    python -m bench.reclaimer.reclaim alibaba2018b bitbrains      # folders with traces in the formats of docs/traces.md

A trace of fewer than six days is repeated (in sample), and every workload deviates from its day by 10 %, correlated
over one hour. Otherwise the days after the first eight are measured (out of sample).
"""

import sys
from pathlib import Path

from bench.output import progress, report
from equipoise.lab.formats import load_trace
from equipoise.lab.model.batch_demand import (
    BatchFigures,
    Forecast,
    LastingOffer,
    lowest_of_last_day,
    offered_now,
    run_batch,
)
from equipoise.lab.model.node_days import cluster_days
from equipoise.reclaimer.decisions.forecast import SUPPRESSED

HOURS = 6
_POD_CORES = {"bitbrains": 0.1}
"""Its nodes are small."""

_TARGETS = {"alibaba2018b": (6.0, 1.0), "bitbrains": (22.0, 2.5)}
"""Targets of 6-hour pods at 65 %: percent of the cores that run at least, percent of core-hours suppressed at most."""


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
        trace = load_trace(folder, nodes=0, seed=1)
        days = cluster_days(trace, pod_cores=_POD_CORES.get(folder.name, 1.0), pod_memory=1.0).cpu
        forecast = Forecast(days, hours=HOURS)
        for threshold in (0.65, 0.75, 0.85):
            for rule, offer in (("now", offered_now), ("worst of 24 h", lowest_of_last_day)):
                _print(run_batch(days, offer, hours=HOURS, threshold=threshold), folder.name, rule, threshold)
            for share in (0.01, 0.02, SUPPRESSED, 0.04, 0.06) if threshold == 0.65 else (SUPPRESSED,):
                lasting = LastingOffer(forecast, suppressed=share)
                figures = run_batch(days, lasting, hours=HOURS, threshold=threshold)
                targeted = share == SUPPRESSED and threshold == 0.65
                _print(figures, folder.name, f"lasting, {share:.0%}", threshold, targeted=targeted)


if __name__ == "__main__":
    main()
