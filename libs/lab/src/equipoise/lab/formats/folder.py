"""Our own format: what `equipoise lab record` writes and the example is in. docs/traces.md describes it for people.

`trace.json` says what it is; gzip'd CSV holds `nodes`, `workloads`, `pods`, `cpu_milli`, `memory_mib` and, where there
are any, the rules of `anti_affinity`.
"""

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec

from equipoise.contracts.kubernetes.objects import Toleration
from equipoise.lab.formats.draft import Draft, DraftPod, DraftRule
from equipoise.lab.formats.slices import drawn
from equipoise.lab.formats.tables import Row, TraceError, curves, is_name, path_of, rows, write_table
from equipoise.lab.model.trace import (
    AntiAffinity,
    Trace,
    TraceNode,
    TracePod,
    TraceTaint,
    TraceWorkload,
)

FILES: tuple[str, ...] = (
    "trace.json",
    "nodes.csv.gz",
    "workloads.csv.gz",
    "pods.csv.gz",
    "cpu_milli.csv.gz",
    "memory_mib.csv.gz",
)

# The columns. What may be left out comes last, and then has the default of the trace's model.
NODES = ("name", "cpu_milli", "memory_mib", "pods", "taints")
WORKLOADS = (
    "name",
    "request_cpu_milli",
    "request_memory_mib",
    "namespace",
    "kind",
    "limit_cpu_milli",
    "limit_memory_mib",
    "tolerations",
)
PODS = ("name", "workload", "node")
RULES = ("beside", "limited", "most")

_NODE = TraceNode(name="", cpu_milli=0, memory_mib=0)
_WORKLOAD = TraceWorkload(name="")
"""Their defaults."""

T = TypeVar("T")


class About(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`trace.json`."""

    format: Literal["equipoise.dev/trace/v1"] = "equipoise.dev/trace/v1"
    name: str
    seconds_per_step: Annotated[float, msgspec.Meta(gt=0)]
    starts_at: float = 0.0
    """Unix second of step 0."""

    notes: tuple[str, ...] = ()


def read(folder: Path, *, nodes: int | None = None, seed: int = 1) -> Trace:
    """The whole folder, or a slice of `nodes` occupied nodes with the pods and workloads on them.

    Rows are read one by one, and of the curves only those wanted are kept. Raises TraceError.
    """
    about = _about(folder)
    fleet = _nodes(folder)
    workloads, places = _workloads(folder)
    pods = _pods(folder, workloads, {node.name for node in fleet})
    chosen = drawn(fleet, {pod.node for pod in pods} - {""}, count=nodes, seed=seed)
    notes = about.notes
    wanted: Set[str] = workloads.keys()
    if len(chosen) < len(fleet):
        notes += (f"a slice: {len(chosen)} of {len(fleet)} nodes, drawn from the occupied ones with seed {seed}",)
        names = {node.name for node in chosen}
        pods = [pod for pod in pods if pod.node in names]
        wanted = {pod.workload for pod in pods}
    asked = {key: place for key, place in places.items() if key in wanted}
    cpu = curves(folder, "cpu_milli", "workload", asked, known=workloads.keys())
    memory = curves(folder, "memory_mib", "workload", asked, known=workloads.keys())
    return Draft(
        name=about.name,
        nodes=chosen,
        workloads={key: workload for key, workload in workloads.items() if key in wanted},
        pods=pods,
        rules=_rules(folder, workloads.keys()),
        seconds_per_step=about.seconds_per_step,
        starts_at=about.starts_at,
        notes=notes,
    ).trace(cpu, memory)


def write(trace: Trace, folder: Path) -> None:
    """So that `read` gives the same trace. Raises TraceError for names that no folder can hold."""
    folder.mkdir(parents=True, exist_ok=True)
    write_inventory(folder, nodes=trace.nodes, workloads=trace.workloads, pods=trace.pods, rules=trace.rules)
    write_curves(folder, "cpu_milli", workloads=trace.workloads, steps=trace.steps, curves=trace.cpu_milli)
    write_curves(folder, "memory_mib", workloads=trace.workloads, steps=trace.steps, curves=trace.memory_mib)
    about = About(
        name=trace.name, seconds_per_step=trace.seconds_per_step, starts_at=trace.starts_at, notes=trace.notes
    )
    write_about(folder, about)


def write_inventory(
    folder: Path,
    *,
    nodes: Iterable[TraceNode],
    workloads: Sequence[TraceWorkload],
    pods: Iterable[TracePod],
    rules: Iterable[AntiAffinity] = (),
) -> None:
    """Everything but the curves. Raises TraceError for two things of one name, and for a name that is none."""
    keys = keys_of(workloads)
    node_names: set[str] = set()
    pod_names: set[str] = set()
    write_table(
        path_of(folder, "nodes"),
        NODES,
        (
            (_new(node.name, node_names), str(node.cpu_milli), str(node.memory_mib), str(node.pods), _json(node.taints))
            for node in nodes
        ),
    )
    write_table(path_of(folder, "workloads"), WORKLOADS, map(_cells, workloads))
    write_table(
        path_of(folder, "pods"),
        PODS,
        (
            (_new(pod.name, pod_names, within=workloads[pod.workload].namespace), keys[pod.workload], pod.node)
            for pod in pods
        ),
    )
    write_table(
        path_of(folder, "anti_affinity"),
        RULES,
        ((keys[rule.beside], keys[rule.limited], str(rule.most)) for rule in rules),
    )


def write_curves(
    folder: Path,
    table: Literal["cpu_milli", "memory_mib"],
    *,
    workloads: Sequence[TraceWorkload],
    steps: int,
    curves: Iterable[Iterable[float]],
) -> None:
    """The curve of each workload, `steps` values long, one in memory at a time; NaN is written as no reading.

    Raises TraceError for a curve of another length, and for what is no amount of usage.
    """
    header = ("workload", *(f"t{step}" for step in range(steps)))

    def body() -> Iterator[tuple[str, ...]]:
        for key, curve in zip(keys_of(workloads), curves, strict=True):
            cells = tuple(map(_usage, curve))
            if len(cells) != steps:
                raise TraceError(f"{table} of {key!r}: {len(cells)} values for {steps} steps")
            yield key, *cells

    write_table(path_of(folder, table), header, body())


def write_about(folder: Path, about: About) -> None:
    """To be written last: a folder without it is unfinished."""
    unfinished = folder / "trace.json.part"
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(about), indent=2) + b"\n")
    os.replace(unfinished, folder / "trace.json")


def keys_of(workloads: Sequence[TraceWorkload]) -> list[str]:
    """What pods, curves and rules call each workload: its name, or namespace/kind/name where others share the name.

    Raises TraceError for two of the same namespace, kind and name, and for a name that is none.
    """
    shared = Counter(workload.name for workload in workloads)
    seen: set[str] = set()
    for workload in workloads:
        _new(workload.name, seen, within=f"{_named(workload.namespace)}/{_named(workload.kind)}")
    return [
        workload.name if shared[workload.name] == 1 else f"{workload.namespace}/{workload.kind}/{workload.name}"
        for workload in workloads
    ]


def _about(folder: Path) -> About:
    path = folder / "trace.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=About)
    except OSError as error:
        raise TraceError(f"{path} cannot be read ({error}); write the folder again") from error
    except msgspec.MsgspecError as error:
        raise TraceError(f"{path}: {error}; docs/traces.md shows what it holds") from error


def _nodes(folder: Path) -> list[TraceNode]:
    seen: set[str] = set()
    return [
        TraceNode(
            name=row.new_name("name", seen),
            cpu_milli=row.whole("cpu_milli", least=1),
            memory_mib=row.whole("memory_mib", least=1),
            pods=row.whole("pods") if row.cells["pods"] else _NODE.pods,
            taints=_from_json(row, "taints", tuple[TraceTaint, ...]),
        )
        for row in rows(folder, "nodes", NODES[:3], optional=NODES[3:])
    ]


def _workloads(folder: Path) -> tuple[dict[str, TraceWorkload], dict[str, str]]:
    """Workloads, and their places in the folder, by key."""
    seen: set[str] = set()
    found, places = [], []
    for row in rows(folder, "workloads", WORKLOADS[:3], optional=WORKLOADS[3:]):
        namespace = row.name("namespace") if row.cells["namespace"] else _WORKLOAD.namespace
        kind = row.name("kind") if row.cells["kind"] else _WORKLOAD.kind
        places.append(row.place)
        found.append(
            TraceWorkload(
                name=row.new_name("name", seen, within=f"{namespace}/{kind}"),
                namespace=namespace,
                kind=kind,
                request_cpu_milli=row.whole("request_cpu_milli"),
                request_memory_mib=row.whole("request_memory_mib"),
                limit_cpu_milli=row.whole("limit_cpu_milli") if row.cells["limit_cpu_milli"] else None,
                limit_memory_mib=row.whole("limit_memory_mib") if row.cells["limit_memory_mib"] else None,
                tolerations=_from_json(row, "tolerations", tuple[Toleration, ...]),
            )
        )
    keys = keys_of(found)
    return dict(zip(keys, found, strict=True)), dict(zip(keys, places, strict=True))


def _pods(folder: Path, workloads: Mapping[str, TraceWorkload], nodes: Set[str]) -> list[DraftPod]:
    seen: set[str] = set()
    pods = []
    for row in rows(folder, "pods", PODS):
        workload = row.one_of("workload", workloads.keys(), "workloads")
        pods.append(
            DraftPod(
                name=row.new_name("name", seen, within=workloads[workload].namespace),
                workload=workload,
                node=row.one_of("node", nodes, "nodes") if row.cells["node"] else "",
            )
        )
    return pods


def _rules(folder: Path, workloads: Set[str]) -> list[DraftRule]:
    if not path_of(folder, "anti_affinity").exists():
        return []
    return [
        DraftRule(
            beside=row.one_of("beside", workloads, "workloads"),
            limited=row.one_of("limited", workloads, "workloads"),
            most=row.whole("most"),
        )
        for row in rows(folder, "anti_affinity", RULES)
    ]


def _from_json(row: Row, column: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(row.cells[column] or "[]", type=kind)
    except msgspec.MsgspecError as error:
        raise row.fault(f"{column}: {error}; write a JSON list, or leave the cell empty") from error


def _cells(workload: TraceWorkload) -> tuple[str, ...]:
    return (
        workload.name,
        str(workload.request_cpu_milli),
        str(workload.request_memory_mib),
        workload.namespace,
        workload.kind,
        "" if workload.limit_cpu_milli is None else str(workload.limit_cpu_milli),
        "" if workload.limit_memory_mib is None else str(workload.limit_memory_mib),
        _json(workload.tolerations),
    )


def _json(values: Sequence[TraceTaint] | Sequence[Toleration]) -> str:
    return msgspec.json.encode(values).decode() if values else ""


def _usage(value: float) -> str:
    """As short as reads back to the same number."""
    if math.isnan(value):
        return ""
    if not 0.0 <= value < math.inf:
        raise TraceError(f"{value} is no amount of usage; it must be a number, 0 or more")
    return str(int(value)) if value == int(value) else repr(float(value))


def _named(text: str) -> str:
    if not is_name(text):
        raise TraceError(f"{text!r} is no name that a trace can hold: printable, not empty, without a slash")
    return text


def _new(name: str, seen: set[str], *, within: str = "") -> str:
    if (whole := f"{within}/{_named(name)}") in seen:
        raise TraceError(f"two things of one kind are called {name!r}, and a trace tells them apart by their names")
    seen.add(whole)
    return name
