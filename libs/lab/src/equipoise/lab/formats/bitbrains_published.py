"""The Bitbrains trace as published (GWA-T-12, a folder such as `rnd/2013-7`): a file per machine, `1.csv`, `2.csv`, …

Each file is a table with semicolons: `Timestamp [ms]` (which is Unix time in seconds in the data), `CPU cores`, `CPU
capacity provisioned [MHZ]`, `CPU usage [MHZ]`, `Memory capacity provisioned [KB]`, `Memory usage [KB]`. Other columns
are ignored.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np

from equipoise.lab.formats.bitbrains import Machine, Period, trace_of
from equipoise.lab.formats.draft import natural_order
from equipoise.lab.formats.tables import SUFFIX, CurveTable, TraceError, path_of, read_lines, table_of, usage_values
from equipoise.lab.model.trace import Array, Trace

FILES: tuple[str, ...] = ("1.csv.gz",)

STEP = 300
"""Seconds: the machines were measured every five minutes, at slightly uneven times."""

MAX_STEPS = 40_000
"""The maximum number of steps: over four months. The data have three."""

MILLISECONDS_FROM = 100_000_000_000
"""The smallest timestamp that is taken as milliseconds. As seconds it would be in the year 5138."""

COLUMNS = (
    "Timestamp [ms]",
    "CPU cores",
    "CPU capacity provisioned [MHZ]",
    "CPU usage [MHZ]",
    "Memory capacity provisioned [KB]",
    "Memory usage [KB]",
)

_MACHINE = re.compile(r"\d{1,9}")


class _Measured(msgspec.Struct, frozen=True, kw_only=True):
    machine: Machine
    slots: Array
    """The Unix time of each reading, as a number of steps."""

    cpu: Array
    """Milli cores; NaN: not measured."""

    memory: Array
    """MiB."""


def read(folder: Path, *, nodes: int | None = None, seed: int = 1) -> Trace:
    """The same as `bitbrains.read`. The last reading in each step of five minutes counts. Raises TraceError."""
    tables = sorted({table_of(path.name) for path in folder.iterdir()}, key=natural_order)
    machines = {f"vm{table}": _machine(path_of(folder, table)) for table in tables if _MACHINE.fullmatch(table)}
    machines = {name: machine for name, machine in machines.items() if len(machine.slots)}
    if not machines:
        raise TraceError(f"{folder}: no machine has a reading; there is nothing to replay")
    first = min(int(measured.slots.min()) for measured in machines.values())
    steps = max(int(measured.slots.max()) for measured in machines.values()) - first + 1
    if steps > MAX_STEPS:
        raise TraceError(f"{folder}: the readings are of {steps} steps of {STEP} s, more than {MAX_STEPS}; keep a part")

    def curves(amounts: Mapping[str, Array]) -> CurveTable:
        rows = {name: _row(measured.slots - first, amounts[name], steps) for name, measured in machines.items()}
        return CurveTable(path=folder, steps=steps, rows=rows)

    cpu = curves({name: measured.cpu for name, measured in machines.items()})
    memory = curves({name: measured.memory for name, measured in machines.items()})
    period = Period(starts_at=float(first * STEP), seconds_per_step=float(STEP))
    inventory = {name: measured.machine for name, measured in machines.items()}
    return trace_of(folder.resolve().name, inventory, cpu, memory, period, nodes)


def required(file: str) -> str:
    """The name of `file` in FILES, where the first entry represents the files of all machines."""
    return FILES[0] if _MACHINE.fullmatch(table_of(file)) and file.endswith(SUFFIX) else file


def _row(slots: Array, values: Array, steps: int) -> Array:
    row = np.full(steps, np.nan)
    row[slots.astype(np.int64)] = values
    return row


def _machine(path: Path) -> _Measured:
    lines = read_lines(path, delimiter=";")
    place, header = next(lines)
    names = [name.strip() for name in header]
    if missing := [column for column in COLUMNS if column not in names]:
        raise TraceError(f"{place}: missing column {', '.join(missing)}; the header is {'; '.join(names)}")
    positions = [names.index(column) for column in COLUMNS]
    rows = []
    for place, cells in lines:
        values = usage_values(place, COLUMNS, [cells[position].strip() for position in positions])
        if math.isnan(values[0]):
            raise TraceError(f"{place}: Timestamp [ms] is empty; write a Unix time")
        rows.append(values)
    table = np.array(rows).reshape(-1, len(COLUMNS))
    times, cores, capacity, used, memory_kb, used_kb = table.T
    seconds = np.where(times >= MILLISECONDS_FROM, times / 1_000.0, times)
    with np.errstate(divide="ignore", invalid="ignore"):
        cpu = np.where(capacity > 0, used / capacity * cores * 1_000.0, np.nan)
    return _Measured(
        machine=Machine(
            place=str(path),
            cpu_milli=max(1, round(1_000 * _highest(cores))),
            memory_mib=max(1, round(_highest(memory_kb) / 1_024)),
        ),
        slots=np.floor(seconds / STEP),
        cpu=cpu,
        memory=used_kb / 1_024.0,
    )


def _highest(values: Array) -> float:
    """The highest known value; 0 without one."""
    return float(np.nanmax(values)) if np.isfinite(values).any() else 0.0
