"""What a recording is asked for, and what it came to."""

from pathlib import Path

import msgspec

from equipoise.collector.settings import PrometheusSettings
from equipoise.runtime.configuration import Kubernetes

DAY = 86_400.0


class RecordError(Exception):
    """The recording cannot go on. Says why and what to do; what was read by then is kept."""


class RecordOptions(msgspec.Struct, frozen=True, kw_only=True):
    """From where, how much, and where to."""

    prometheus: PrometheusSettings
    """As the collector's: `profile` and `node_labels` are not looked at, pods are known by namespace and name."""

    kubernetes: Kubernetes = Kubernetes()
    out: Path
    """A folder that is new, empty, or holds a recording that was cut off."""

    name: str = ""
    """Of the trace; empty: the folder's."""

    days: float = 7.0
    """How far back from now. A Prometheus that knows less is recorded from where it begins."""

    step: int = 900
    """Seconds that each value is the mean of."""

    samples_per_query: int = 250_000
    """What one answer is planned to hold: about 10 MB on the way and 50 MB here while it is read."""

    def __post_init__(self) -> None:
        if self.step < 1 or self.days * DAY < self.step or self.samples_per_query < 1:
            raise ValueError("give at least one second as the step, one step as the days, one sample per query")


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What the folder holds."""

    folder: Path
    nodes: int
    workloads: int
    """Whose CPU and memory were read at least once. The others are in the folder too; replays leave them out."""

    pods: int
    """Of these workloads."""

    hours: float
    missing: float
    """Share (0..1) of the curves' cells that are empty: nobody measured."""

    stray_cpu: float
    """Share (0..1) of the pods' CPU that was used by pods of no workload that runs now: it is not in the trace."""

    bytes: int
    """Of the folder."""

    queries: int
    """That Prometheus was asked by this run."""

    notes: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.folder}: {self.nodes} nodes, {self.workloads} workloads, {self.pods} pods, {self.hours:.1f} hours; "
            f"{self.missing:.1%} of the cells are empty; {self.bytes / 1e6:.1f} MB"
        )
