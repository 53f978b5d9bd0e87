"""The folder format of the Alibaba Global Scheduling Algorithm Contest 2018.

`nodes` (node_id, cpu_milli, memory_mib), `pods` (pod_id, app_id, node_id; empty: not placed), `app_cpu_milli` and
`app_memory_mib` (app_id, t0, t1, …: every pod of an app has its curve), and optionally `anti_affinity`
(app_a, app_b, max_b). Other columns are ignored.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path

import msgspec
import numpy as np

from equipoise.lab.formats.draft import DraftPod, DraftRule, TraceDraft, is_known, sampled_nodes, slice_note
from equipoise.lab.formats.tables import CurveTable, Row, path_of, read_curves, read_rows
from equipoise.lab.model.trace import Array, Trace, TraceNode, TraceWorkload

FILES: tuple[str, ...] = ("nodes.csv.gz", "pods.csv.gz", "app_cpu_milli.csv.gz", "app_memory_mib.csv.gz")

_PODS, _RULES = ("pod_id", "app_id", "node_id"), ("app_a", "app_b", "max_b")

SECONDS_PER_STEP = 900.0
DAY = 96
"""Steps per day; the two further steps of the data are not used."""

LIMITS = (4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of cores.

A derived limit is the smallest one that covers the whole curve; the request is half of the limit.
"""

DERIVED = (
    "derived requests: the trace has none; the CPU limit is the smallest of 4, 6, 8, 12, 16, 24, 32, 48, 64 cores that "
    "covers the workload's curve, the CPU request half of it, the memory request the maximum of the memory curve"
)


def read(folder: Path, *, nodes: int | None = None, seed: int = 1) -> Trace:
    """The trace of a folder: all nodes, or `nodes` of them, equally many of each size; with their pods.

    Underscores in names become hyphens. Raises TraceError.
    """
    all_nodes = _nodes(folder)
    rows = read_rows(folder, "pods", _PODS, ignore_others=True)
    placed, places = placed_pods(rows, _PODS, {node.name for node in all_nodes}, "nodes")

    def curves(wanted: Mapping[str, str]) -> tuple[CurveTable, CurveTable]:
        cpu, memory = (read_curves(folder, table, "app_id", wanted) for table in ("app_cpu_milli", "app_memory_mib"))
        return cpu, memory

    contents = Contents(
        nodes=all_nodes, placed=placed, places=places, curves=curves, rules=lambda apps: _rules(folder, apps)
    )
    return contents.trace(folder.resolve().name, nodes=nodes, seed=seed)


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a folder. Names are as in the data."""

    nodes: Sequence[TraceNode]
    placed: Sequence[DraftPod]
    """Pods with a node."""

    places: Mapping[str, str]
    """The position of the first reference to an app, by app."""

    curves: Callable[[Mapping[str, str]], tuple[CurveTable, CurveTable]]
    """Reads the curves of CPU and memory of the apps in this mapping, which is like `places`. Raises TraceError."""

    rules: Callable[[Set[str]], list[DraftRule]]
    """Reads the rules between these apps."""

    def trace(self, name: str, *, nodes: int | None, seed: int) -> Trace:
        """The trace, as in `read`."""
        chosen = sampled_nodes(self.nodes, {pod.node for pod in self.placed}, count=nodes, seed=seed)
        names = {node.name for node in chosen}
        pods = [pod for pod in self.placed if pod.node in names]
        wanted = {pod.workload: self.places[pod.workload] for pod in pods}
        cpu, memory = self.curves(wanted)
        notes = [DERIVED]
        if cpu.steps > DAY:
            notes.append(f"the first {DAY} of {cpu.steps} steps, which are one day, so that the trace can repeat")
        notes += slice_note(len(chosen), len(self.nodes), seed)
        return TraceDraft(
            name=name,
            nodes=[msgspec.structs.replace(node, name=_plain(node.name)) for node in chosen],
            workloads={app: _workload(app, cpu.rows[app], memory.rows[app]) for app in cpu.rows},
            pods=[DraftPod(name=_plain(pod.name), workload=pod.workload, node=_plain(pod.node)) for pod in pods],
            rules=self.rules(wanted.keys()),
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


def placed_pods(
    rows: Iterable[Row], columns: tuple[str, str, str], nodes: Set[str], table: str
) -> tuple[list[DraftPod], dict[str, str]]:
    """Pods with a node, and the position of the first reference to each app. `table`: the name of the table of nodes.

    `columns`: the columns of the name, the app, and the node, which may be empty.
    """
    seen: set[str] = set()
    pods, places = list[DraftPod](), dict[str, str]()
    pod_column, app_column, node_column = columns
    for row in rows:
        name, app = row.new_name(pod_column, seen), row.name(app_column)
        if row.cells[node_column]:
            places.setdefault(app, row.place)
            pods.append(DraftPod(name=name, workload=app, node=row.one_of(node_column, nodes, table)))
    return pods, places


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
    if not path_of(folder, "anti_affinity").exists():
        return []
    return rules_between(apps, read_rows(folder, "anti_affinity", _RULES, ignore_others=True), _RULES)


def rules_between(apps: Set[str], rows: Iterable[Row], columns: tuple[str, str, str]) -> list[DraftRule]:
    """The anti-affinity rules between these apps. In a rule of an app with itself, the data has the number of
    further pods: one is added.

    `columns`: the columns of the apps, and of the number of pods of the second one.
    """
    rules = []
    beside_column, limited_column, most_column = columns
    for row in rows:
        app, other = row.cells[beside_column], row.cells[limited_column]
        if {app, other} <= apps:
            rules.append(DraftRule(beside=app, limited=other, most=row.integer(most_column) + (app == other)))
    return rules


def _first_day(whole: CurveTable) -> CurveTable:
    days: Mapping[str, Array] = {app: row[:DAY] for app, row in whole.rows.items()}
    return CurveTable(path=whole.path, steps=min(whole.steps, DAY), rows=days)
