"""Options and summary of a recording."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from equipoise.collector.settings import PrometheusSettings
from equipoise.runtime.configuration import Kubernetes

DAY = 86_400.0
MOST_DAYS = 36_500
"""A century. The start of a recording must be representable as a date."""


class RecordError(Exception):
    """The recording cannot continue. The message states why and what to do; parts that were read are kept."""


class RecordOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The source, the extent and the destination of a recording."""

    prometheus: PrometheusSettings
    """The settings of the collector for Prometheus. `profile` and `node_labels` are ignored, because only pods are
    read.
    """

    kubernetes: Kubernetes = Kubernetes()
    out: Path
    """A folder that does not exist, is empty, or contains an interrupted recording."""

    name: str = ""
    """Name of the trace; empty: that of the folder."""

    days: float = 7.0
    """The number of days before now. If Prometheus has less data, all of it is recorded."""

    step: int = 900
    """Seconds over which each value is averaged."""

    samples_per_query: int = 250_000
    """Planned size of one response: about 10 MB on the network, and 50 MB in memory while it is parsed."""

    def __post_init__(self) -> None:
        if self.step < 1 or not self.step <= self.days * DAY <= MOST_DAYS * DAY or self.samples_per_query < 1:
            raise ValueError(
                "the step must be at least one second, days at least one step and at most "
                f"{MOST_DAYS}, and samples per query at least one"
            )


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the recorded folder."""

    folder: Path
    nodes: int
    workloads: int
    """Workloads with at least one value of CPU and memory. The folder contains the others too; replays omit them."""

    pods: int
    """Pods of these workloads."""

    hours: float
    missing: float
    """Share (0..1) of missing values in the curves."""

    unowned_cpu: float
    """Share (0..1) of the CPU usage by pods whose workload no longer exists; it is not in the trace."""

    bytes: int
    """Size of the folder."""

    queries: int
    """Number of Prometheus queries of this run."""

    notes: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.folder}: {self.nodes} nodes, {self.workloads} workloads, {self.pods} pods, {self.hours:.1f} hours; "
            f"{self.missing:.1%} of the cells are empty; {self.bytes / 1e6:.1f} MB"
        )


def utc(at: float) -> str:
    """Date and time in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
