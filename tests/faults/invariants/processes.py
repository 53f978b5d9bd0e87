"""The processes of the services: resources, convergence after a fault, and secrets in logs."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median

from faults.history import Guarantees, History, ProcessSample

MIB = 2.0**20
HOUR = 3600.0
BINS = 60
"""Parts of a run for its slope: the medians of their samples."""

LATE = 0.01
"""Share of the measurements of an event loop that may be late."""

FEW_LATE = 3
"""In a short run, this many may be: with 1 % of 130, two or three are not rare."""


def resources_are_bounded(history: History, guarantees: Guarantees) -> list[str]:
    """I14: each process has bounded memory, descriptors and tasks; memory does not grow, and the loop is not late."""
    wrong = []
    for (name, _), samples in by_process(history.processes).items():
        wrong += _bounds(name, samples, guarantees)
        ready = next((sample.at for sample in samples if sample.ready), math.inf)
        warm = [sample for sample in samples if sample.at >= ready + guarantees.warm_up]
        wrong += _growth(name, warm, guarantees)
        measured, late = sum(sample.measured for sample in samples), sum(sample.late for sample in samples)
        if late > max(FEW_LATE, LATE * measured):
            worst = max(sample.worst for sample in samples)
            wrong.append(
                f"{name}: the event loop was late in {late} of {measured} measurements, by up to {worst:.2f} s"
            )
    return wrong


def by_process(samples: Iterable[ProcessSample]) -> Mapping[tuple[str, int], list[ProcessSample]]:
    """By name and process id."""
    found: dict[tuple[str, int], list[ProcessSample]] = defaultdict(list)
    for sample in samples:
        found[sample.name, sample.pid].append(sample)
    return found


def _bounds(name: str, samples: list[ProcessSample], guarantees: Guarantees) -> list[str]:
    wrong = []
    connections = guarantees.connections.get(name.rpartition("-")[0], 0)
    for what, found, bound in (
        ("MiB of memory", max(sample.resident for sample in samples) / MIB, guarantees.resident / MIB),
        ("file descriptors", max(sample.descriptors for sample in samples), guarantees.descriptors + connections),
        ("file descriptors at the end", samples[-1].descriptors, guarantees.descriptors),
        ("tasks", max(sample.tasks for sample in samples), guarantees.tasks),
    ):
        if found > bound:
            wrong.append(f"{name}: {found:g} {what}, {bound:g} allowed")
    return wrong


def _growth(name: str, warm: list[ProcessSample], guarantees: Guarantees) -> list[str]:
    """Of a run of at least an hour the slope, otherwise the difference of its ends."""
    if len(warm) < 3:
        return []
    span = warm[-1].at - warm[0].at
    if span >= HOUR:
        slope = slope_per_hour(warm)
        if slope > guarantees.resident_per_hour:
            allowed = guarantees.resident_per_hour / MIB
            return [f"{name}: memory grows by {slope / MIB:.2f} MiB per hour, {allowed:g} allowed"]
        return []
    growth = warm[-1].resident - warm[0].resident
    if growth > guarantees.resident_growth:
        return [f"{name}: memory grew by {growth / MIB:.1f} MiB in {span:.0f} s"]
    return []


def slope_per_hour(samples: list[ProcessSample]) -> float:
    """Bytes per hour: the median of the slopes between all parts of the run (Theil-Sen), so that peaks do not count."""
    begin, end = samples[0].at, samples[-1].at
    parts: dict[int, list[ProcessSample]] = defaultdict(list)
    for sample in samples:
        parts[int((sample.at - begin) / (end - begin) * BINS)].append(sample)
    points = [
        (median(each.at for each in part), median(each.resident for each in part)) for _, part in sorted(parts.items())
    ]
    slopes = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for index, earlier in enumerate(points)
        for later in points[index + 1 :]
    ]
    return median(slopes) * HOUR


def converges(history: History, guarantees: Guarantees) -> list[str]:
    """I15: within a minute of the repair there is one leader, caches equal a LIST, and no intent waits."""
    return [
        f"not after {convergence.seconds:.0f} s: {different}"
        for convergence in history.convergences
        if convergence.seconds > guarantees.convergence or convergence.different
        for different in convergence.different or ("converged too late",)
    ]


def logs_hold_no_secrets(history: History, guarantees: Guarantees) -> list[str]:
    """I19: no log contains a token, a password or the specification of a pod."""
    return [f"{leak.log} contains {leak.what}" for leak in history.leaks]
