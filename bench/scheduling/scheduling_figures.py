"""Figures of one run of kube-scheduler: its own histogram, and the time and CPU of processes between two bindings."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

HISTOGRAM = "scheduler_scheduling_algorithm_duration_seconds"
TICKS = 100
"""Ticks per second, in /proc on Linux."""


class Histogram(msgspec.Struct, frozen=True, kw_only=True):
    """A histogram of Prometheus, in seconds."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    """Cumulative: up to each bound."""

    total: float

    @property
    def count(self) -> int:
        return self.counts[-1]

    def mean(self) -> float:
        return self.total / self.count

    def quantile(self, share: float) -> float:
        """Interpolated in its bucket, as by histogram_quantile of Prometheus. kube-scheduler's buckets double."""
        wanted = share * self.count
        number = next(number for number, count in enumerate(self.counts) if count >= wanted)
        if number == len(self.bounds) - 1:
            return self.bounds[number - 1]
        lower, below = (self.bounds[number - 1], self.counts[number - 1]) if number else (0.0, 0)
        return lower + (self.bounds[number] - lower) * (wanted - below) / (self.counts[number] - below)


class CpuSample(msgspec.Struct, frozen=True, kw_only=True):
    """CPU seconds of processes since their start."""

    at: float
    seconds: Mapping[str, float]


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The time from one binding to another, in Unix seconds."""

    start: float
    end: float
    pods: int
    """Bound after `start`, up to `end`."""

    @property
    def pods_per_second(self) -> float:
        return self.pods / (self.end - self.start)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one run."""

    p50: float
    """The median of kube-scheduler's histogram, in milliseconds, like the next two."""

    p99: float
    mean: float
    pods_per_second: float
    cpu: Mapping[str, float]
    """Milliseconds per pod, by process."""

    @property
    def scheduling_cpu(self) -> float:
        """Milliseconds per pod of kube-scheduler and the API server, which other programs affect less than the rate."""
        return self.cpu["kube-scheduler"] + self.cpu["kube-apiserver"]


Round = Mapping[str, Mapping[str, Run]]
"""The runs of a round, by participant and load."""


def read_histogram(metrics: str) -> Histogram:
    """Reads it from a page of /metrics."""
    buckets = re.findall(rf'^{HISTOGRAM}_bucket{{le="([^"]+)"}} (\S+)$', metrics, re.MULTILINE)
    total = re.search(rf"^{HISTOGRAM}_sum (\S+)$", metrics, re.MULTILINE)
    if not buckets or total is None:
        raise ValueError(f"kube-scheduler has no {HISTOGRAM}: it scheduled no pod")
    return Histogram(
        bounds=tuple(float(bound) for bound, _ in buckets),
        counts=tuple(int(float(count)) for _, count in buckets),
        total=float(total[1]),
    )


def middle(times: Sequence[float]) -> Window:
    """The window without the first and last tenth: caches are filled at the start, and few pods are left at the end."""
    ordered = sorted(times)
    first, last = len(ordered) // 10, len(ordered) - 1 - len(ordered) // 10
    return Window(start=ordered[first], end=ordered[last], pods=last - first)


def cpu_per_pod(samples: Sequence[CpuSample], window: Window) -> dict[str, float]:
    """Milliseconds per pod of each process. Between two samples, CPU time grows evenly."""
    found = {}
    for process in samples[0].seconds:
        at = [sample.at for sample in samples]
        start, end = np.interp((window.start, window.end), at, [sample.seconds[process] for sample in samples])
        found[process] = 1_000 * float(end - start) / window.pods
    return found


def cpu_seconds(pid: int) -> float:
    """The CPU time of a running process, user and system. Raises FileNotFoundError when it has ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def round_ratios(rounds: Sequence[Round], name: str, other: str, load: str, figure: str) -> list[float]:
    """The ratios of two participants in the same round: what slows down a round slows down both."""
    return [getattr(each[name][load], figure) / getattr(each[other][load], figure) for each in rounds]
