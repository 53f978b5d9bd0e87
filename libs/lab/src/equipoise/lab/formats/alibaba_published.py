"""The data of the contest as published (preliminary round, sets A and B): tables without a header, compressed or not.

`scheduling_preliminary_b_machine_resources_20180726` (machine, cores, GiB, …), `…_instance_deploy_…` (instance, app,
machine or empty), `…_app_resources_…` (app, cores and GiB as curves `1.0|1.5|…`, …), and optionally
`…_app_interference_…` (app, app, number).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from equipoise.lab.formats.alibaba import Contents, placed_pods, rules_between
from equipoise.lab.formats.tables import (
    SUFFIX,
    CurveTable,
    Row,
    TraceError,
    path_of,
    read_lines,
    table_of,
    usage_values,
)
from equipoise.lab.model.trace import Array, Trace, TraceNode

_NAME = "scheduling_preliminary_b_{}_20180726"

FILES: tuple[str, ...] = tuple(
    f"{_NAME.format(kind)}{SUFFIX}" for kind in ("machine_resources", "instance_deploy", "app_resources")
)

_INSTANCES, _RULES = ("instance", "app", "machine"), ("app", "other", "number")

_TABLE = re.compile(r"scheduling_preliminary(?:_[ab])?_(\w+)_\d{8}")


def read(folder: Path, *, nodes: int | None = None, seed: int = 1) -> Trace:
    """The same as `alibaba.read`. Raises TraceError."""
    all_nodes = _nodes(folder)
    rows = _rows(_table(folder, "instance_deploy"), _INSTANCES)
    placed, places = placed_pods(rows, _INSTANCES, {node.name for node in all_nodes}, "machine_resources")
    contents = Contents(
        nodes=all_nodes,
        placed=placed,
        places=places,
        curves=lambda wanted: _curves(folder, wanted),
        rules=lambda apps: rules_between(apps, _rows(_table(folder, "app_interference"), _RULES), _RULES),
    )
    return contents.trace(folder.resolve().name, nodes=nodes, seed=seed)


def required(file: str) -> str:
    """The name in `FILES` of the table that a file of any set contains; the name itself for other files."""
    found = _TABLE.fullmatch(table_of(file))
    canonical = "" if found is None else f"{_NAME.format(found[1])}{SUFFIX}"
    return canonical if canonical in FILES else file


def _table(folder: Path, kind: str) -> Path | None:
    """The only file of a kind; None: there is none. Raises TraceError for several."""
    tables = {table_of(path.name) for path in folder.iterdir()}
    found = sorted(each for each in tables if (match := _TABLE.fullmatch(each)) is not None and match[1] == kind)
    if len(found) > 1:
        raise TraceError(f"{folder} has {', '.join(found)}; keep the files of one set")
    return path_of(folder, found[0]) if found else None


def _rows(path: Path | None, columns: Sequence[str]) -> Iterator[Row]:
    """The first cells of each line by these names."""
    if path is None:
        return
    for place, cells in read_lines(path):
        if len(cells) < len(columns):
            raise TraceError(f"{place}: {len(cells)} cells; expected {', '.join(columns)}")
        yield Row(place=place, cells=dict(zip(columns, cells, strict=False)))


def _whole(row: Row, column: str, unit: float) -> int:
    """The number in the cell times `unit`, rounded. Raises TraceError if that is below 1."""
    amount = float(usage_values(row.place, [column], [row.cells[column]])[0])
    if not amount * unit >= 1:
        raise row.error(f"{column} is {row.cells[column]!r}; write a number above 0")
    return round(amount * unit)


def _nodes(folder: Path) -> list[TraceNode]:
    seen: set[str] = set()
    return [
        TraceNode(
            name=row.new_name("machine", seen),
            cpu_milli=_whole(row, "cores", 1_000.0),
            memory_mib=_whole(row, "GiB", 1_024.0),
        )
        for row in _rows(_table(folder, "machine_resources"), ("machine", "cores", "GiB"))
    ]


def _curves(folder: Path, wanted: Mapping[str, str]) -> tuple[CurveTable, CurveTable]:
    path = _table(folder, "app_resources") or folder
    cpu: dict[str, Array] = {}
    memory: dict[str, Array] = {}
    steps = 0
    for row in _rows(path, ("app", "cores", "GiB")):
        app = row.cells["app"]
        if app not in wanted:
            continue
        if app in cpu:
            raise row.error(f"a second app {app!r}; keep one row")
        cpu[app], memory[app] = _curve(row, "cores", 1_000.0), _curve(row, "GiB", 1_024.0)
        steps = steps or len(cpu[app])
        if not steps == len(cpu[app]) == len(memory[app]):
            raise row.error(f"curves of {len(cpu[app])} and {len(memory[app])} steps; the first one has {steps}")
    for app, reference in wanted.items():
        if app not in cpu:
            raise TraceError(f"{reference}: {app!r} has no row in {path}; add one, or remove this one")
    return CurveTable(path=path, steps=steps, rows=cpu), CurveTable(path=path, steps=steps, rows=memory)


def _curve(row: Row, column: str, unit: float) -> Array:
    cells = row.cells[column].split("|")
    values: Array = unit * usage_values(row.place, [f"{column}[{step}]" for step in range(len(cells))], cells)
    return np.round(values, 6)
