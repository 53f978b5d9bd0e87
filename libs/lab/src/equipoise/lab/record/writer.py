"""Writes the trace from the parts of a recording, and reads it back to validate it."""

import numpy as np

from equipoise.lab.formats import TraceError, load_trace
from equipoise.lab.formats.folder import write
from equipoise.lab.model.trace import Trace
from equipoise.lab.record.aggregation import ValueCounts
from equipoise.lab.record.checkpoint import Checkpoint, RecordedCurves, RecordingPlan
from equipoise.lab.record.options import RecordError, RecordOptions, Summary, utc
from equipoise.lab.record.queries import METRICS, Resource


def write_trace(options: RecordOptions, plan: RecordingPlan, checkpoint: Checkpoint, queries: int) -> Summary:
    """Write the trace and remove the parts. Raises RecordError when nothing was measured."""
    cpu, cpu_counts = _joined("cpu", plan, checkpoint)
    memory, memory_counts = _joined("memory", plan, checkpoint)
    both = cpu_counts + memory_counts
    if np.isnan(cpu).all() or np.isnan(memory).all():
        raise RecordError(
            f"no pod of any workload has a value ({both.values} values, {both.duplicates} with two series, "
            f"{both.unlabeled} series without labels namespace and pod). Does this Prometheus scrape this cluster? "
            f"Delete {checkpoint.folder} before the next attempt"
        )
    missing = float(np.isnan(cpu).mean() + np.isnan(memory).mean()) / 2
    used = cpu_counts.unowned + cpu_counts.usage
    unowned = cpu_counts.unowned / used if used else 0.0
    inventory, out = plan.inventory, options.out
    written = Trace(
        name=options.name or out.resolve().name or "cluster",
        nodes=inventory.nodes,
        workloads=inventory.workloads,
        pods=inventory.pods,
        rules=inventory.rules,
        # A tenth of a milli core or MiB, to save space.
        cpu_milli=cpu.astype(np.float64).round(1),
        memory_mib=memory.astype(np.float64).round(1),
        seconds_per_step=plan.step,
        starts_at=plan.starts_at,
        notes=(*plan.notes, *_notes(plan, unowned, both)),
    )
    try:
        write(written, out)
        trace = load_trace(out)
    except TraceError as error:
        raise RecordError(f"the written trace is invalid, which is a bug of this program: {error}") from error
    checkpoint.remove()
    return Summary(
        folder=out,
        nodes=len(trace.nodes),
        workloads=len(trace.workloads),
        pods=len(trace.pods),
        hours=trace.steps * trace.seconds_per_step / 3_600,
        missing=missing,
        unowned_cpu=unowned,
        bytes=sum(path.stat().st_size for path in out.iterdir()),
        queries=queries,
        notes=trace.notes,
    )


def _joined(resource: Resource, plan: RecordingPlan, checkpoint: Checkpoint) -> tuple[RecordedCurves, ValueCounts]:
    whole = np.full((len(plan.inventory.workloads), plan.steps), np.nan, dtype=np.float32)
    counts = ValueCounts()
    for part in plan.parts():
        if part.resource == resource:
            whole[:, part.first : part.first + part.count], part_counts = checkpoint.read(part)
            counts += part_counts
    return whole, counts


def _notes(plan: RecordingPlan, unowned: float, counts: ValueCounts) -> list[str]:
    metrics = METRICS[plan.metrics]
    notes = [
        f"recorded until {utc(plan.starts_at + plan.steps * plan.step)} from {metrics.names['cpu']} "
        f"and {metrics.names['memory']}; nodes, pods and requests are those at the end"
    ]
    if unowned > 0:
        notes.append(f"{unowned:.1%} of the CPU usage was by pods whose workload no longer exists: not in the trace")
    if counts.duplicates:
        share = counts.duplicates / (counts.duplicates + counts.values)
        notes.append(f"{share:.1%} of the values have two series, and are unknown")
    return notes
