"""The folder format of the Bitbrains trace (GWA-T-12, managed hosting), with invented nodes, because the data contain
none.

`pods` (pod_id, cpu_provisioned_milli, memory_provisioned_mib: the virtual machines), `cpu_milli` and `memory_mib`
(time as Unix second, then a column per machine). Further columns of `pods` are ignored.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from equipoise.lab.formats.draft import DraftPod, TraceDraft, filled, is_known
from equipoise.lab.formats.tables import SUFFIX, CurveTable, TraceError, path_of, read_lines, read_rows, usage_values
from equipoise.lab.model.trace import Trace, TraceNode, TraceWorkload

FILES: tuple[str, ...] = ("pods.csv.gz", "cpu_milli.csv.gz", "memory_mib.csv.gz")

_COLUMNS = ("pod_id", "cpu_provisioned_milli", "memory_provisioned_mib")

NODES = 25
KUBELET_PODS = 110
PEAK_LOAD = 0.55
"""Peak usage as a share of the CPU capacity."""

FULLEST = 0.80
"""The largest share of the capacity that pods request."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    place: str
    cpu_milli: int
    memory_mib: int


class InventedNodes(msgspec.Struct, frozen=True, kw_only=True):
    nodes: tuple[TraceNode, ...]
    requested: float
    """Share (0..1) of the provisioned CPU that a machine requests."""

    notes: tuple[str, ...]


def read(folder: Path, *, nodes: int | None = None, seed: int = 1) -> Trace:
    """The trace of a folder. Every machine is a workload of one pod without a node. There are `nodes` equal nodes, by
    default 25. `seed` is not used.
    Raises TraceError.
    """
    machines = _machines(folder)
    cpu, times = _columns(folder, "cpu_milli", machines)
    memory, memory_times = _columns(folder, "memory_mib", machines)
    if times != memory_times:
        raise TraceError(f"{memory.path}: its times differ from those of {cpu.path.name}; use the same")
    period = Period(starts_at=float(times[0]), seconds_per_step=float(times[1] - times[0]))
    return trace_of(folder.resolve().name, machines, cpu, memory, period, nodes)


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """The time of a trace."""

    starts_at: float
    """Unix seconds."""

    seconds_per_step: float


def trace_of(
    name: str, machines: Mapping[str, Machine], cpu: CurveTable, memory: CurveTable, period: Period, nodes: int | None
) -> Trace:
    """The trace of machines with their usage by name, as in `read`."""
    known = [name for name in machines if is_known(cpu.rows[name]) and is_known(memory.rows[name])]
    peak = float(filled(cpu, known).sum(axis=0).max())
    if not peak:
        raise TraceError(f"{cpu.path}: no machine has CPU usage and memory values; there is nothing to replay")
    hosts = invented([machines[name] for name in known], peak, nodes or NODES)
    return TraceDraft(
        name=name,
        nodes=hosts.nodes,
        workloads={
            name: TraceWorkload(
                name=name,
                request_cpu_milli=math.floor(machine.cpu_milli * hosts.requested),
                request_memory_mib=machine.memory_mib,
                limit_cpu_milli=machine.cpu_milli,
            )
            for name, machine in machines.items()
        },
        pods=[DraftPod(name=name, workload=name) for name in machines],
        seconds_per_step=period.seconds_per_step,
        starts_at=period.starts_at,
        notes=hosts.notes,
    ).trace(cpu, memory)


def invented(machines: Sequence[Machine], peak: float, count: int) -> InventedNodes:
    """`count` equal nodes for machines whose CPU usage peaks at `peak` milli cores.

    The largest machine must always fit on the least filled node, in any order of arrival: the mean of the requests per
    node plus the largest request is at most a node. Memory is sized for that. CPU follows from the peak, and the CPU
    request is the share of the provisioned CPU that satisfies it.
    """
    if count < 1:
        raise TraceError(f"{count} nodes were requested; request 1 or more, or 0 for {NODES}")
    cpu_milli = math.ceil(peak / PEAK_LOAD / count)
    needed_cpu = _needed([machine.cpu_milli for machine in machines], count)
    requested = min(1.0, cpu_milli / needed_cpu)
    memory_mib = math.ceil(_needed([machine.memory_mib for machine in machines], count))
    width = len(str(count))
    return InventedNodes(
        nodes=tuple(
            TraceNode(
                name=f"node-{index:0{width}d}",
                cpu_milli=cpu_milli,
                memory_mib=memory_mib,
                pods=max(KUBELET_PODS, 2 * math.ceil(len(machines) / count)),
            )
            for index in range(1, count + 1)
        ),
        requested=requested,
        notes=(
            f"invented nodes: the trace has none; {count} equal ones of {cpu_milli / 1_000:.1f} cores, so that the "
            f"peak is {PEAK_LOAD:.0%} of the CPU capacity, and {memory_mib / 1_024:.0f} GiB, so that the "
            "largest machine still fits on the least filled node",
            f"requests: all of the provisioned memory, {requested:.1%} of the provisioned CPU (all of it does not fit)"
            if requested < 1.0
            else "requests: what is provisioned",
        ),
    )


def _needed(requests: Sequence[int], count: int) -> float:
    """The smallest size of a node for these requests."""
    mean = sum(requests) / count
    return max(mean / FULLEST, mean + max(requests))


def _machines(folder: Path) -> dict[str, Machine]:
    seen: set[str] = set()
    return {
        row.new_name("pod_id", seen): Machine(
            place=row.place,
            cpu_milli=row.integer("cpu_provisioned_milli", least=1),
            memory_mib=row.integer("memory_provisioned_mib", least=1),
        )
        for row in read_rows(folder, "pods", _COLUMNS, ignore_others=True)
    }


def _columns(folder: Path, table: str, machines: Mapping[str, Machine]) -> tuple[CurveTable, list[int]]:
    """Usage of each machine, and the start time of each step."""
    path = path_of(folder, table)
    body = read_lines(path)
    place, (first, *names) = next(body)
    if first != "time" or len(set(names)) != len(names) or not machines.keys() >= set(names):
        raise TraceError(f"{place}: the columns must be time, then each pod_id of pods{SUFFIX} once")
    for name in machines.keys() - set(names):
        raise TraceError(f"{machines[name].place}: {name!r} has no column in {path}; add one, or remove this row")
    times: list[int] = []
    steps = []
    for place, (time, *cells) in body:
        if not (time.isascii() and time.isdigit()):
            raise TraceError(f"{place}, time: {time!r} is not a Unix time; write an integer")
        times.append(int(time))
        if len(times) > 1 and not times[-1] - times[-2] == times[1] - times[0] > 0:
            raise TraceError(f"{place}, time: uneven steps; write a row for each step, with empty cells if necessary")
        steps.append(usage_values(place, names, cells))
    if len(times) < 2:
        raise TraceError(f"{path}: fewer than two rows: the length of a step is unknown; add more")
    return CurveTable(path=path, steps=len(times), rows=dict(zip(names, np.array(steps).T, strict=True))), times
