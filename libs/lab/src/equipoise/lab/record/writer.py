"""From the parts of a recording to the trace's folder, read back to be sure that it is good."""

from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np

from equipoise.lab.formats import TraceError, load_trace
from equipoise.lab.formats.folder import About, write_about, write_curves, write_inventory
from equipoise.lab.record.aggregation import Tally
from equipoise.lab.record.checkpoint import Checkpoint, Curves, RecordingPlan
from equipoise.lab.record.options import RecordError, RecordOptions, Summary
from equipoise.lab.record.queries import METRICS, Resource


def write_trace(options: RecordOptions, beginning: RecordingPlan, unfinished: Checkpoint, queries: int) -> Summary:
    """Writes the folder and removes the parts. Raises RecordError when nothing in it was measured."""
    cpu, cpu_tally = _joined("cpu", beginning, unfinished)
    memory, memory_tally = _joined("memory", beginning, unfinished)
    if np.isnan(cpu).all() or np.isnan(memory).all():
        raise RecordError(
            f"of no pod of any workload was there a value ({_told(cpu_tally, memory_tally)}). Does this Prometheus "
            f"scrape this cluster? Delete {unfinished.folder} before the next attempt"
        )
    missing = float(np.isnan(cpu).mean() + np.isnan(memory).mean()) / 2
    used = cpu_tally.stray + cpu_tally.given
    stray = cpu_tally.stray / used if used else 0.0
    notes = (*beginning.notes, *_notes(beginning, stray, cpu_tally + memory_tally))
    inventory, out = beginning.inventory, options.out
    write_inventory(
        out, nodes=inventory.nodes, workloads=inventory.workloads, pods=inventory.pods, rules=inventory.rules
    )
    workloads, steps = inventory.workloads, beginning.steps
    write_curves(out, "cpu_milli", workloads=workloads, steps=steps, curves=_rounded(cpu))
    write_curves(out, "memory_mib", workloads=workloads, steps=steps, curves=_rounded(memory))
    write_about(
        out,
        About(
            name=options.name or out.resolve().name or "cluster",
            seconds_per_step=beginning.step,
            starts_at=beginning.starts_at,
            notes=notes,
        ),
    )
    try:
        trace = load_trace(out)
    except TraceError as error:
        raise RecordError(f"what was written is no trace, which is a fault of this program: {error}") from error
    unfinished.remove()
    return Summary(
        folder=out,
        nodes=len(trace.nodes),
        workloads=len(trace.workloads),
        pods=len(trace.pods),
        hours=trace.steps * trace.seconds_per_step / 3_600,
        missing=missing,
        stray_cpu=stray,
        bytes=sum(path.stat().st_size for path in out.iterdir()),
        queries=queries,
        notes=trace.notes,
    )


def moment(at: float) -> str:
    """As people write it."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def _joined(resource: Resource, beginning: RecordingPlan, unfinished: Checkpoint) -> tuple[Curves, Tally]:
    whole = np.full((len(beginning.inventory.workloads), beginning.steps), np.nan, dtype=np.float32)
    tally = Tally()
    for part in beginning.parts():
        if part.resource == resource:
            whole[:, part.first : part.first + part.count], told = unfinished.read(part)
            tally += told
    return whole, tally


def _rounded(curves: Curves) -> Iterator[list[float]]:
    """To a tenth of a milli core or MiB: what is beyond costs space and tells nothing."""
    for row in curves:
        yield np.round(row.astype(np.float64), 1).tolist()


def _told(cpu: Tally, memory: Tally) -> str:
    both = cpu + memory
    return (
        f"{both.readings} readings, {both.doubled} that two series claimed, {both.nameless} series without "
        "labels namespace and pod"
    )


def _notes(beginning: RecordingPlan, stray: float, tally: Tally) -> list[str]:
    metrics = METRICS[beginning.metrics]
    notes = [
        f"recorded until {moment(beginning.starts_at + beginning.steps * beginning.step)} from {metrics.names['cpu']} "
        f"and {metrics.names['memory']}; nodes, pods and requests are those of the end"
    ]
    if stray > 0:
        notes.append(
            f"{stray:.1%} of the CPU that pods used was used by pods of no workload that runs now: not in the trace"
        )
    if tally.doubled:
        notes.append(
            f"{tally.doubled / (tally.doubled + tally.readings):.1%} of the readings were claimed by two series each, "
            "and are unknown"
        )
    return notes
