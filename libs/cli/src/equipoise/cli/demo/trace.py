"""A trace: nodes, workloads with their usage over a day, and how many pods each has.

The folder format is that of the Alibaba Global Scheduling Algorithm Contest 2018 (gzip'd CSV): `nodes` (node_id,
cpu_milli, memory_mib, …), `pods` (pod_id, app_id, node_id), `app_cpu_milli` and `app_memory_mib` (app_id, t0, t1, …).
"""

import csv
import gzip
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

LIMIT_STEPS = (4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Cores: a derived limit is the smallest of these that covers the curve's maximum; a derived request is half of it."""


class TraceNode(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    cpu_milli: int
    memory_mib: int


class TraceWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """Every pod of a workload has the workload's curve."""

    name: str
    replicas: int
    request_cpu_milli: int
    request_memory_mib: int
    limit_cpu_milli: int | None = None
    cpu_milli: tuple[float, ...]
    """Usage per pod and step of the day."""

    memory_mib: tuple[float, ...]
    protected_by_budget: bool = False
    excluded: bool = False
    """It lives in the namespace whose pods must not move."""


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    nodes: tuple[TraceNode, ...]
    workloads: tuple[TraceWorkload, ...]
    seconds_per_step: float
    """Of the trace's own time."""

    derived_requests: bool = False
    """The trace told no requests; they follow from the curves."""

    @property
    def steps(self) -> int:
        return len(self.workloads[0].cpu_milli)

    @property
    def pods(self) -> int:
        return sum(workload.replicas for workload in self.workloads)


def _rows(folder: Path, name: str) -> Iterator[list[str]]:
    path = folder / f"{name}.csv.gz"
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is missing: a trace folder holds nodes, pods, app_cpu_milli and app_memory_mib"
        )
    with gzip.open(path, "rt", newline="") as file:
        reader = csv.reader(file)
        next(reader)
        yield from reader


def _curves(folder: Path, name: str, wanted: set[str]) -> dict[str, tuple[float, ...]]:
    curves = {}
    for workload, *cells in _rows(folder, name):
        if workload in wanted:
            known = [float(cell) for cell in cells if cell]
            mean = sum(known) / len(known) if known else 0.0
            # An empty cell means "no reading"; a replay has to use something, and the mean invents no peak.
            curves[workload] = tuple(float(cell) if cell else mean for cell in cells)
    return curves


def load_slice(folder: Path, *, nodes: int, seed: int) -> Trace:
    """`nodes` occupied nodes drawn at random, half of them small where there are two sizes, with all their pods."""
    on_node: dict[str, Counter[str]] = {}
    for _pod, workload, node in _rows(folder, "pods"):
        if node:
            on_node.setdefault(node, Counter())[workload] += 1
    sizes: dict[tuple[int, int], list[str]] = {}
    for node, cpu, memory, *_rest in _rows(folder, "nodes"):
        if node in on_node:
            sizes.setdefault((int(cpu), int(memory)), []).append(node)
    chooser = random.Random(seed)
    chosen: list[TraceNode] = []
    ordered = sorted(sizes.items())
    for index, ((cpu_milli, memory_mib), names) in enumerate(ordered):
        share = (nodes - len(chosen)) // (len(ordered) - index)
        picked = chooser.sample(sorted(names), min(share, len(names)))
        chosen += [
            TraceNode(name=name.replace("_", "-"), cpu_milli=cpu_milli, memory_mib=memory_mib) for name in picked
        ]
    replicas: Counter[str] = Counter()
    for taken in chosen:
        replicas += on_node[taken.name.replace("-", "_")]
    cpu_curves = _curves(folder, "app_cpu_milli", set(replicas))
    memory_curves = _curves(folder, "app_memory_mib", set(replicas))
    workloads = tuple(
        _with_derived_requests(workload.replace("_", "-"), count, cpu_curves[workload], memory_curves[workload])
        for workload, count in sorted(replicas.items())
    )
    return Trace(
        name=folder.name,
        nodes=tuple(chosen),
        workloads=workloads,
        seconds_per_step=900,
        derived_requests=True,
    )


def _with_derived_requests(
    name: str, replicas: int, cpu: tuple[float, ...], memory: tuple[float, ...]
) -> TraceWorkload:
    limit = next((step for step in LIMIT_STEPS if step * 1000 >= max(cpu)), LIMIT_STEPS[-1]) * 1000
    return TraceWorkload(
        name=name,
        replicas=replicas,
        request_cpu_milli=limit // 2,
        request_memory_mib=round(max(memory)),
        limit_cpu_milli=limit,
        cpu_milli=cpu,
        memory_mib=memory,
    )
