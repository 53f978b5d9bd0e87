"""The folder format of the Alibaba Global Scheduling Algorithm Contest 2018.

`nodes` (node_id, cpu_milli, memory_mib), `pods` (pod_id, app_id, node_id; empty: not placed), `app_cpu_milli` and
`app_memory_mib` (app_id, t0, t1, …: every pod of an app has its curve), and optionally `anti_affinity`
(app_a, app_b, max_b). Other columns are ignored.
"""

import math
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path

import msgspec
import numpy as np

from equipoise.lab.formats.draft import DraftPod, DraftRule, TraceDraft, is_known, sampled_nodes, slice_note
from equipoise.lab.formats.tables import CurveTable, path_of, read_curves, read_rows
from equipoise.lab.model.trace import Array, Trace, TraceNode, TraceWorkload

FILES: tuple[str, ...] = ("nodes.csv.gz", "pods.csv.gz", "app_cpu_milli.csv.gz", "app_memory_mib.csv.gz")

SECONDS_PER_STEP = 900.0
DAY = 96
"""Steps per day; the two further steps of the data are not used."""

LIMITS = (4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Cores. A derived limit is the smallest of these that covers the whole curve, a derived request half of it."""

DERIVED = (
    "derived requests: the trace has none; the CPU limit is the smallest of 4, 6, 8, 12, 16, 24, 32, 48, 64 cores that "
    "covers the workload's curve, the CPU request half of it, the memory request the maximum of the memory curve"
)


def read(folder: Path, *, nodes: int | None = None, seed: int = 1) -> Trace:
    """`nodes` nodes with pods, half of them of each size, or all nodes; with their pods.

    Underscores in names become hyphens. Raises TraceError.
    """
    all_nodes = _nodes(folder)
    places: dict[str, str] = {}
    placed = _placed(folder, {node.name for node in all_nodes}, places)

    def curves(wanted: Mapping[str, str]) -> tuple[CurveTable, CurveTable]:
        cpu, memory = (read_curves(folder, table, "app_id", wanted) for table in ("app_cpu_milli", "app_memory_mib"))
        return cpu, memory

    contents = Contents(
        nodes=all_nodes, placed=placed, places=places, curves=curves, rules=lambda apps: _rules(folder, apps)
    )
    return contents.trace(folder.resolve().name, nodes=nodes, seed=seed)


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What a folder contains. Names are as in the data."""

    nodes: Sequence[TraceNode]
    placed: Sequence[DraftPod]
    """Pods with a node."""

    places: Mapping[str, str]
    """The position of the first reference to an app, by app."""

    curves: Callable[[Mapping[str, str]], tuple[CurveTable, CurveTable]]
    """CPU and memory of these apps (by their places). Raises TraceError."""

    rules: Callable[[Set[str]], list[DraftRule]]
    """The rules between these apps."""

    def trace(self, name: str, *, nodes: int | None, seed: int) -> Trace:
        """The trace, as in `read`."""
        return _trace(self, name, nodes=nodes, seed=seed)


def _trace(contents: Contents, name: str, *, nodes: int | None, seed: int) -> Trace:
    all_nodes = contents.nodes
    chosen = sampled_nodes(all_nodes, {pod.node for pod in contents.placed}, count=nodes, seed=seed)
    names = {node.name for node in chosen}
    pods = [pod for pod in contents.placed if pod.node in names]
    wanted = {pod.workload: contents.places[pod.workload] for pod in pods}
    cpu, memory = contents.curves(wanted)
    notes = [DERIVED]
    if cpu.steps > DAY:
        notes.append(f"the first {DAY} of {cpu.steps} steps, which are one day, so that the trace can repeat")
    notes += slice_note(len(chosen), len(all_nodes), seed)
    return TraceDraft(
        name=name,
        nodes=[msgspec.structs.replace(node, name=_plain(node.name)) for node in chosen],
        workloads={app: _workload(app, cpu.rows[app], memory.rows[app]) for app in cpu.rows},
        pods=[DraftPod(name=_plain(pod.name), workload=pod.workload, node=_plain(pod.node)) for pod in pods],
        rules=contents.rules(wanted.keys()),
        seconds_per_step=SECONDS_PER_STEP,
        notes=notes,
    ).trace(_first_day(cpu), _first_day(memory))


def _plain(name: str) -> str:
    return name.replace("_", "-")


def _nodes(folder: Path) -> list[TraceNode]:
    seen: set[str] = set()
    return [
        TraceNode(
            name=row.new_name("node_id", seen),
            cpu_milli=row.integer("cpu_milli", least=1),
            memory_mib=row.integer("memory_mib", least=1),
        )
        for row in read_rows(folder, "nodes", ("node_id", "cpu_milli", "memory_mib"), ignore_others=True)
    ]


def _placed(folder: Path, nodes: Set[str], places: dict[str, str]) -> list[DraftPod]:
    """Pods with a node. `places` receives the position of the first reference to each app."""
    seen: set[str] = set()
    pods = []
    for row in read_rows(folder, "pods", ("pod_id", "app_id", "node_id"), ignore_others=True):
        name, app = row.new_name("pod_id", seen), row.name("app_id")
        if row.cells["node_id"]:
            places.setdefault(app, row.place)
            pods.append(DraftPod(name=name, workload=app, node=row.one_of("node_id", nodes, "nodes")))
    return pods


def _workload(app: str, cpu: Array, memory: Array) -> TraceWorkload:
    if not (is_known(cpu) and is_known(memory)):
        return TraceWorkload(name=_plain(app))
    most = math.ceil(np.nanmax(cpu) / 1_000)
    limit = 1_000 * next((cores for cores in LIMITS if cores >= most), most)
    return TraceWorkload(
        name=_plain(app),
        request_cpu_milli=limit // 2,
        request_memory_mib=math.ceil(np.nanmax(memory)),
        limit_cpu_milli=limit,
    )


def _rules(folder: Path, apps: Set[str]) -> list[DraftRule]:
    """The rules of anti-affinity. For app_a = app_b, the data allow max_b + 1 pods."""
    if not path_of(folder, "anti_affinity").exists():
        return []
    return [
        DraftRule(
            beside=row.cells["app_a"],
            limited=row.cells["app_b"],
            most=row.integer("max_b") + (row.cells["app_a"] == row.cells["app_b"]),
        )
        for row in read_rows(folder, "anti_affinity", ("app_a", "app_b", "max_b"), ignore_others=True)
        if row.cells["app_a"] in apps and row.cells["app_b"] in apps
    ]


def _first_day(whole: CurveTable) -> CurveTable:
    days: Mapping[str, Array] = {app: row[:DAY] for app, row in whole.rows.items()}
    return CurveTable(path=whole.path, steps=min(whole.steps, DAY), rows=days)
