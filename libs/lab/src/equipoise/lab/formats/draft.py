"""Builds a trace from the contents of a folder: samples nodes, omits workloads without usage, fills gaps."""

import random
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

import msgspec
import numpy as np

from equipoise.lab.formats.tables import CurveTable, TraceError
from equipoise.lab.model.trace import AntiAffinity, Array, Trace, TraceBudget, TraceNode, TracePod, TraceWorkload


class DraftPod(NamedTuple):
    name: str
    workload: str
    """The key of the workload in the draft."""

    node: str = ""


class DraftRule(NamedTuple):
    """A rule between two workloads, given by their keys in the draft. It is dropped if a workload is omitted."""

    beside: str
    limited: str
    most: int


class DraftBudget(NamedTuple):
    """A budget of workloads, which are given by their keys in the draft. It is dropped if all of them are omitted."""

    name: str
    workloads: Sequence[str]
    min_available: int | str | None
    max_unavailable: int | str | None


class TraceDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A trace with names instead of indexes."""

    name: str
    nodes: Sequence[TraceNode]
    workloads: Mapping[str, TraceWorkload]
    pods: Sequence[DraftPod]
    rules: Iterable[DraftRule] = ()
    budgets: Iterable[DraftBudget] = ()
    seconds_per_step: float
    starts_at: float = 0.0
    notes: Sequence[str] = ()

    def trace(self, cpu: CurveTable, memory: CurveTable) -> Trace:
        """The trace with this usage of its workloads. Raises TraceError if `cpu` and `memory` differ in their steps.

        The usage of a workload without any value is unknown: the workload is omitted, and a note mentions it.
        """
        if cpu.steps != memory.steps:
            raise TraceError(
                f"{memory.path}, line 1: {memory.steps} steps, but {cpu.path.name} has {cpu.steps}; make them equal"
            )
        kept = [key for key in self.workloads if is_known(cpu.rows[key]) and is_known(memory.rows[key])]
        index = {key: position for position, key in enumerate(kept)}
        gaps = np.array([[np.isnan(curves.rows[key]) for key in kept] for curves in (cpu, memory)], dtype=np.bool_)
        return Trace(
            name=self.name,
            nodes=tuple(self.nodes),
            workloads=tuple(self.workloads[key] for key in kept),
            pods=tuple(
                TracePod(name=pod.name, workload=index[pod.workload], node=pod.node)
                for pod in self.pods
                if pod.workload in index
            ),
            rules=tuple(
                AntiAffinity(beside=index[rule.beside], limited=index[rule.limited], most=rule.most)
                for rule in self.rules
                if rule.beside in index and rule.limited in index
            ),
            budgets=tuple(
                TraceBudget(
                    name=budget.name,
                    workloads=indices,
                    min_available=budget.min_available,
                    max_unavailable=budget.max_unavailable,
                )
                for budget in self.budgets
                if (indices := tuple(index[key] for key in budget.workloads if key in index))
            ),
            cpu_milli=filled(cpu, kept),
            memory_mib=filled(memory, kept),
            gaps=gaps if gaps.any() else None,
            seconds_per_step=self.seconds_per_step,
            starts_at=self.starts_at,
            notes=(*self.notes, *self._omitted(index)),
        )

    def _omitted(self, kept: Mapping[str, int]) -> list[str]:
        omitted = [key for key in self.workloads if key not in kept]
        if not omitted:
            return []
        pods = sum(pod.workload not in kept for pod in self.pods)
        first = ", ".join(omitted[:3]) + (", …" if len(omitted) > 3 else "")
        return [f"omitted because CPU or memory was not measured: workloads {len(omitted)} ({first}), pods {pods}"]


def is_known(row: Array) -> bool:
    """Whether the row has a value."""
    return not bool(np.isnan(row).all())


def filled(curves: CurveTable, keys: Sequence[str]) -> Array:
    """The rows of these keys, keys × steps. A missing value becomes the mean of its row, which adds no peak."""
    rows = np.array([curves.rows[key] for key in keys], dtype=np.float64).reshape(len(keys), curves.steps)
    known = ~np.isnan(rows)
    mean = np.where(known, rows, 0.0).sum(axis=1, keepdims=True) / known.sum(axis=1, keepdims=True)
    result: Array = np.where(known, rows, mean)
    return result


def sampled_nodes(
    nodes: Sequence[TraceNode], occupied: Set[str], *, count: int | None, seed: int
) -> tuple[TraceNode, ...]:
    """A sample of `count` occupied nodes in their order, equally many of each size.

    If `count` is None, 0 or at least the number of nodes, the sample is all nodes.

    For each size, the smallest first, `random.Random(seed)` samples from its nodes in the natural order of their names
    (node-9 before node-10). If a size has too few nodes, the others provide more. Raises TraceError.
    """
    if not count or count >= len(nodes):
        return tuple(nodes)
    sizes: dict[tuple[int, int], list[str]] = {}
    for node in nodes:
        if node.name in occupied:
            sizes.setdefault((node.cpu_milli, node.memory_mib), []).append(node.name)
    available = sum(map(len, sizes.values()))
    if not 0 < count <= available:
        raise TraceError(
            f"{count} nodes were requested, but only {available} of the {len(nodes)} have pods; "
            f"request at most {available}, or 0 for all"
        )
    # Sizes with few nodes come first, so that the others share what these lack.
    quotas: dict[tuple[int, int], int] = {}
    for index, size in enumerate(sorted(sizes, key=lambda size: (len(sizes[size]), size))):
        quotas[size] = min(len(sizes[size]), (count - sum(quotas.values())) // (len(sizes) - index))
    generator = random.Random(seed)
    sampled: set[str] = set()
    for size in sorted(sizes):
        sampled.update(generator.sample(sorted(sizes[size], key=natural_order), quotas[size]))
    return tuple(node for node in nodes if node.name in sampled)


def slice_note(count: int, total: int, seed: int) -> list[str]:
    """A note about the size of a slice; no note if it has all nodes."""
    if count >= total:
        return []
    return [f"a slice: {count} of {total} nodes, sampled from the occupied ones with seed {seed}"]


def natural_order(name: str) -> tuple[tuple[str | int, ...], str]:
    """Sort key that compares digits as numbers: machine_9 comes before machine_10."""
    parts = re.split(r"(\d+)", name)
    return tuple(int(part) if index % 2 else part for index, part in enumerate(parts)), name
