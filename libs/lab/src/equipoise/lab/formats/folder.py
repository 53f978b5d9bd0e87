"""The format of Equipoise, which the example and `equipoise lab record` use. docs/traces.md describes it.

`trace.json` contains the metadata; `nodes`, `workloads`, `pods`, `cpu_milli`, `memory_mib` and optionally
`anti_affinity` and `budgets` are gzip-compressed CSV files.
"""

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec
import numpy as np

from equipoise.contracts.bounds import MAX_BYTES
from equipoise.contracts.kubernetes.labels import is_label_value, selects
from equipoise.contracts.kubernetes.objects.pod import Toleration
from equipoise.lab.formats.draft import DraftBudget, DraftPod, DraftRule, TraceDraft, sampled_nodes, slice_note
from equipoise.lab.formats.tables import (
    SUFFIX,
    Row,
    TraceError,
    is_valid_name,
    path_of,
    read_curves,
    read_rows,
    write_table,
)
from equipoise.lab.model.cluster_objects import REVISION, pod_labels
from equipoise.lab.model.trace import (
    Amount,
    TopologyKey,
    Trace,
    TraceBudget,
    TraceNode,
    TraceSpreadConstraint,
    TraceTaint,
    TraceWorkload,
)
from equipoise.runtime.process.bounded_files import read_bounded

TABLES = ("nodes", "workloads", "pods", "cpu_milli", "memory_mib")
FILES: tuple[str, ...] = ("trace.json", *(f"{table}{SUFFIX}" for table in TABLES))

# The columns of each table. Optional columns come last; their defaults are those of the model.
NODES = ("name", "cpu_milli", "memory_mib", "pods", "taints", "zone", "region", "extended_resources")
WORKLOADS = (
    "name",
    "request_cpu_milli",
    "request_memory_mib",
    "namespace",
    "kind",
    "limit_cpu_milli",
    "limit_memory_mib",
    "tolerations",
    "topology_spread",
    "priority",
    "preemption_policy",
    "extended_resources",
    "gang",
    "start_cpu_milli",
    "start_memory_mib",
    "containers",
)
AMOUNTS = ("limit_cpu_milli", "limit_memory_mib", "start_cpu_milli", "start_memory_mib")
PODS = ("name", "workload", "node")
POLICIES = frozenset({"PreemptLowerPriority", "Never"})
LOWEST_PRIORITY = -(2**31)
RULES = ("beside", "limited", "most")
BUDGETS = ("name", "workload", "min_available", "max_unavailable")
_SPREAD = f"a JSON list like topologySpreadConstraints of a pod, with topologyKey {' or '.join(get_args(TopologyKey))}"

_RESOURCE = re.compile("([a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9][-A-Za-z0-9_.]*")
_INTEGER = re.compile("[0-9]{1,9}")
_PERCENTAGE = re.compile("(100|[0-9]{1,2})%")

T = TypeVar("T")


class About(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contents of `trace.json`."""

    format: Literal["equipoise.dev/trace/v1"] = "equipoise.dev/trace/v1"
    name: str
    seconds_per_step: Annotated[float, msgspec.Meta(gt=0)]
    starts_at: float = 0.0
    """Unix time of step 0."""

    notes: tuple[str, ...] = ()


def read(folder: Path, *, nodes: int | None = None, seed: int = 1) -> Trace:
    """The whole trace, or a slice of `nodes` occupied nodes with their pods and workloads.

    Only the required curves are kept in memory. Raises TraceError.
    """
    about = _about(folder)
    all_nodes = _nodes(folder)
    workloads, places = _workloads(folder)
    pods = _pods(folder, workloads, {node.name for node in all_nodes})
    chosen = sampled_nodes(all_nodes, {pod.node for pod in pods} - {""}, count=nodes, seed=seed)
    required: Set[str] = workloads.keys()
    if len(chosen) < len(all_nodes):
        names = {node.name for node in chosen}
        pods = [pod for pod in pods if pod.node in names]
        required = {pod.workload for pod in pods}
    references = {key: place for key, place in places.items() if key in required}
    cpu = read_curves(folder, "cpu_milli", "workload", references, known=workloads.keys())
    memory = read_curves(folder, "memory_mib", "workload", references, known=workloads.keys())
    return TraceDraft(
        name=about.name,
        nodes=chosen,
        workloads={key: workload for key, workload in workloads.items() if key in required},
        pods=pods,
        rules=_rules(folder, workloads.keys()),
        budgets=_budgets(folder, workloads),
        seconds_per_step=about.seconds_per_step,
        starts_at=about.starts_at,
        notes=(*about.notes, *slice_note(len(chosen), len(all_nodes), seed)),
    ).trace(cpu, memory)


def write(trace: Trace, folder: Path) -> None:
    """Write a folder from which `read` returns the same trace. NaN in a curve of a recording, and gaps, become empty
    cells.

    trace.json is written last, so that a folder without it is incomplete. Raises TraceError for invalid values and
    duplicate names.
    """
    folder.mkdir(parents=True, exist_ok=True)
    keys = keys_of(trace.workloads)
    seen: set[str] = set()
    for node in trace.nodes:
        _new_name(node.name, seen)
    for pod in trace.pods:
        _new_name(pod.name, seen, within=f"{trace.workloads[pod.workload].namespace}/pod")
    for budget in trace.budgets:
        if len(namespaces := {trace.workloads[workload].namespace for workload in budget.workloads}) != 1:
            raise TraceError(
                f"budget {budget.name!r} must have workloads of one namespace; they are of {len(namespaces)}"
            )
        _new_name(budget.name, seen, within=f"{namespaces.pop()}/budget")
    rules = ((keys[rule.beside], keys[rule.limited], str(rule.most)) for rule in trace.rules)
    write_table(path_of(folder, "nodes"), NODES, (_cells(node, NODES) for node in trace.nodes))
    write_table(path_of(folder, "workloads"), WORKLOADS, (_cells(workload, WORKLOADS) for workload in trace.workloads))
    write_table(path_of(folder, "pods"), PODS, ((pod.name, keys[pod.workload], pod.node) for pod in trace.pods))
    write_table(path_of(folder, "anti_affinity"), RULES, rules)
    write_table(
        path_of(folder, "budgets"),
        BUDGETS,
        (
            (budget.name, keys[workload], *_cells(budget, BUDGETS[2:]))
            for budget in trace.budgets
            for workload in budget.workloads
        ),
    )
    header = ("workload", *(f"t{step}" for step in range(trace.steps)))
    for resource, (table, curves) in enumerate((("cpu_milli", trace.cpu_milli), ("memory_mib", trace.memory_mib))):
        measured = curves if trace.gaps is None else np.where(trace.gaps[resource], np.nan, curves)
        rows = ((key, *map(_usage, curve.tolist())) for key, curve in zip(keys, measured, strict=True))
        write_table(path_of(folder, table), header, rows)
    about = About(
        name=trace.name, seconds_per_step=trace.seconds_per_step, starts_at=trace.starts_at, notes=trace.notes
    )
    unfinished = folder / "trace.json.part"
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(about), indent=2) + b"\n")
    os.replace(unfinished, folder / "trace.json")


def keys_of(workloads: Sequence[TraceWorkload]) -> list[str]:
    """The key of each workload in pods, curves and rules: its name, or namespace/kind/name if several share the name.

    Raises TraceError for invalid names, and for two workloads with the same namespace, kind and name.
    """
    names = Counter(workload.name for workload in workloads)
    seen: set[str] = set()
    for workload in workloads:
        _new_name(workload.name, seen, within=f"{_checked(workload.namespace)}/{_checked(workload.kind)}")
    return [
        workload.name if names[workload.name] == 1 else f"{workload.namespace}/{workload.kind}/{workload.name}"
        for workload in workloads
    ]


def _about(folder: Path) -> About:
    path = folder / "trace.json"
    try:
        return msgspec.json.decode(read_bounded(path), type=About)
    except OSError as error:
        raise TraceError(f"{path} cannot be read ({error}); write the folder again") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"{path}: {error}; docs/traces.md describes its contents") from error


def _nodes(folder: Path) -> list[TraceNode]:
    seen: set[str] = set()
    return [
        TraceNode(
            name=row.new_name("name", seen),
            cpu_milli=row.integer("cpu_milli", least=1),
            memory_mib=row.integer("memory_mib", least=1),
            **_optional(row, ("pods",), row.integer),
            taints=_from_json(row, "taints", tuple[TraceTaint, ...]),
            **_optional(row, ("zone", "region"), partial(_label_value, row)),
            extended_resources=_extended_resources(row),
        )
        for row in read_rows(folder, "nodes", NODES[:3], optional=NODES[3:])
    ]


def _workloads(folder: Path) -> tuple[dict[str, TraceWorkload], dict[str, str]]:
    """The workloads by key, and the position of each by key for error messages."""
    seen: set[str] = set()
    workloads, places = [], []
    for row in read_rows(folder, "workloads", WORKLOADS[:3], optional=WORKLOADS[3:]):
        workload = TraceWorkload(
            name=row.name("name"),
            request_cpu_milli=row.integer("request_cpu_milli"),
            request_memory_mib=row.integer("request_memory_mib"),
            **_optional(row, ("namespace", "kind", "gang"), row.name),
            **_optional(row, AMOUNTS, row.integer),
            tolerations=_from_json(row, "tolerations", tuple[Toleration, ...]),
            topology_spread=_from_json(row, "topology_spread", tuple[TraceSpreadConstraint, ...], _SPREAD),
            **_optional(row, ("priority",), partial(row.integer, least=LOWEST_PRIORITY)),
            **_optional(row, ("preemption_policy",), partial(_policy, row)),
            extended_resources=_extended_resources(row),
            containers=_from_json(row, "containers", tuple[str, ...], 'a JSON list of names, such as ["main"]'),
        )
        row.new_name("name", seen, within=f"{workload.namespace}/{workload.kind}")
        _check_selectors(row, workload)
        places.append(row.place)
        workloads.append(workload)
    keys = keys_of(workloads)
    return dict(zip(keys, workloads, strict=True)), dict(zip(keys, places, strict=True))


def _pods(folder: Path, workloads: Mapping[str, TraceWorkload], nodes: Set[str]) -> list[DraftPod]:
    seen: set[str] = set()
    pods = []
    for row in read_rows(folder, "pods", PODS):
        workload = row.one_of("workload", workloads.keys(), "workloads")
        node = row.one_of("node", nodes, "nodes") if row.cells["node"] else ""
        pods.append(DraftPod(row.new_name("name", seen, within=workloads[workload].namespace), workload, node))
    return pods


def _rules(folder: Path, workloads: Set[str]) -> list[DraftRule]:
    if not path_of(folder, "anti_affinity").exists():
        return []
    return [
        DraftRule(
            beside=row.one_of("beside", workloads, "workloads"),
            limited=row.one_of("limited", workloads, "workloads"),
            most=row.integer("most"),
        )
        for row in read_rows(folder, "anti_affinity", RULES)
    ]


def _budgets(folder: Path, workloads: Mapping[str, TraceWorkload]) -> list[DraftBudget]:
    """The budgets. Each row is one workload of a budget; rows with the same name and namespace form one budget."""
    if not path_of(folder, "budgets").exists():
        return []
    budgets: dict[tuple[str, str], DraftBudget] = {}
    for row in read_rows(folder, "budgets", BUDGETS[:2], optional=BUDGETS[2:]):
        workload = row.one_of("workload", workloads.keys(), "workloads")
        amounts = [_budget_amount(row, column) for column in BUDGETS[2:]]
        if amounts.count(None) != 1:
            raise row.error("write either min_available or max_unavailable, and leave the other cell empty")
        name, namespace = row.name("name"), workloads[workload].namespace
        earlier = budgets.get((namespace, name), DraftBudget(name, (), *amounts))
        if [earlier.min_available, earlier.max_unavailable] != amounts:
            raise row.error(f"other amounts than in an earlier row of the budget {name!r}; write the same ones")
        if workload in earlier.workloads:
            raise row.error(f"a second row of workload {workload!r} for the budget {name!r}; keep one")
        budgets[namespace, name] = earlier._replace(workloads=(*earlier.workloads, workload))
    return list(budgets.values())


def _budget_amount(row: Row, column: str) -> int | str | None:
    text = row.cells[column]
    if _INTEGER.fullmatch(text):
        return int(text)
    if text and not _PERCENTAGE.fullmatch(text):
        raise row.error(
            f"{column} is {text!r}; write an integer of 0 or more (at most 9 digits), or a percentage from 0% to 100%"
        )
    return text or None


def _optional(row: Row, columns: Sequence[str], read: Callable[[str], Any]) -> dict[str, Any]:
    """The values of the columns whose cells are not empty."""
    return {column: read(column) for column in columns if row.cells[column]}


def _policy(row: Row, column: str) -> str:
    if (text := row.cells[column]) not in POLICIES:
        raise row.error(f"{column} is {text!r}; write {' or '.join(sorted(POLICIES))}, or leave the cell empty")
    return text


def _label_value(row: Row, column: str) -> str:
    if not is_label_value(text := row.cells[column]):
        raise row.error(
            f"{column} is {text!r}; write the value of a label (at most 63 letters, digits, -, _ and .), or leave the "
            "cell empty"
        )
    return text


def _extended_resources(row: Row) -> dict[str, int]:
    expected = 'a JSON object of integers, such as {"nvidia.com/gpu": 1}'
    resources = _from_json(row, "extended_resources", dict[str, Amount], expected, empty="{}")
    if named := sorted(resources.keys() & {"cpu", "memory", "pods"}):
        raise row.error(f"extended_resources: {named[0]} has its own column; write only other resources")
    if invalid := [name for name in resources if not _RESOURCE.fullmatch(name)]:
        raise row.error(f"extended_resources: {invalid[0]!r} is not the name of a resource; write {expected}")
    return resources


def _check_selectors(row: Row, workload: TraceWorkload) -> None:
    labels = pod_labels(workload)
    shown = ", ".join(f"{key}={value}" for key, value in labels.items())
    for constraint in workload.topology_spread:
        if constraint.label_selector is not None and not selects(constraint.label_selector, labels):
            raise row.error(
                f"topology_spread: a labelSelector does not select the pods of the workload, whose labels are {shown}; "
                "leave it out to select these pods"
            )
        if unknown := sorted({*constraint.match_label_keys} - {*labels, REVISION}):
            raise row.error(
                f"topology_spread: pods of a trace have no label {unknown[0]!r}; matchLabelKeys may contain {REVISION}"
            )


def _from_json(row: Row, column: str, kind: type[T], expected: str = "a JSON list", *, empty: str = "[]") -> T:
    try:
        return msgspec.json.decode(row.cells[column] or empty, type=kind)
    except msgspec.MsgspecError as error:
        raise row.error(f"{column}: {error}; write {expected}, or leave the cell empty") from error


def _cells(value: TraceNode | TraceWorkload | TraceBudget, columns: Sequence[str]) -> list[str]:
    """The cells of the columns; empty for None, empty lists and empty objects."""
    return [
        ""
        if field in (None, (), {})
        else msgspec.json.encode(field).decode()
        if isinstance(field, (tuple, dict))
        else str(field)
        for field in (getattr(value, column) for column in columns)
    ]


def _usage(value: float) -> str:
    """The shortest text that `read` decodes to the same number."""
    if math.isnan(value):
        return ""
    if not 0.0 <= value <= MAX_BYTES:
        raise TraceError(f"{value} is not a usage value; it must be a number from 0 to {MAX_BYTES:.0e}")
    return str(int(value)) if value == int(value) else repr(float(value))


def _checked(text: str) -> str:
    if not is_valid_name(text):
        raise TraceError(f"{text!r} is not a valid name: names must be printable, not empty, and without slashes")
    return text


def _new_name(name: str, seen: set[str], *, within: str = "") -> str:
    if (full_name := f"{within}/{_checked(name)}") in seen:
        raise TraceError(f"duplicate name {name!r}: names of the same kind must be unique")
    seen.add(full_name)
    return name
