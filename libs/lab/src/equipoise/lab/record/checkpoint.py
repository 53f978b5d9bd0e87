"""The folder `.partial` of an unfinished recording.

It has the plan and the parts that were read, which become a trace.
"""

import os
import shutil
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from equipoise.lab.formats import TraceError, load_trace
from equipoise.lab.formats.folder import write
from equipoise.lab.model.trace import Trace
from equipoise.lab.record.aggregation import ValueCounts
from equipoise.lab.record.inventory import Inventory
from equipoise.lab.record.options import RecordError, RecordOptions, Summary, utc
from equipoise.lab.record.queries import METRICS, Resource
from equipoise.runtime.process.bounded_files import read_bounded

PLAN_LIMIT = 2**29
"""The largest number of bytes of a stored plan, which names every pod of the recorded days."""

RecordedCurves = npt.NDArray[np.float32]
"""workloads × steps, in milli cores or MiB of one pod; NaN where nothing was measured."""


class RecordingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters that all parts share."""

    step: int
    days: float
    matchers: Mapping[str, str]
    """The matchers that the user requested."""

    metrics: str
    """The key of the metrics in METRICS."""

    starts_at: float
    steps: int
    steps_per_part: int
    min_samples: int
    """Minimum number of samples of a pod in a step."""

    inventory: Inventory
    owners: Mapping[str, int]
    """Known workload indexes by `namespace/pod`."""

    notes: tuple[str, ...]

    def parts(self) -> list["RecordingPart"]:
        """The parts, oldest first, because Prometheus deletes the oldest samples first."""
        firsts = range(0, self.steps, self.steps_per_part)
        return [
            RecordingPart(resource=resource, first=first, count=min(self.steps_per_part, self.steps - first))
            for first in firsts
            for resource in RESOURCES
        ]


RESOURCES: tuple[Resource, ...] = ("cpu", "memory")


class RecordingPart(msgspec.Struct, frozen=True, kw_only=True):
    """Some steps of all workloads."""

    resource: Resource
    first: int
    count: int


class Checkpoint:
    """The files of a checkpoint. They are written atomically, so that an interruption loses at most one part."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self.folder = out / ".partial"

    def plan(self, options: RecordOptions) -> RecordingPlan | None:
        """The plan of an interrupted run, or None. Raises RecordError for a folder with other contents."""
        file = self.folder / "plan.json"
        if not file.exists():
            if self._out.exists() and any(path != self.folder for path in self._out.iterdir()):
                raise RecordError(f"{self._out} is not empty: use a new folder")
            return None
        try:
            stored = msgspec.json.decode(read_bounded(file, PLAN_LIMIT), type=RecordingPlan)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise RecordError(f"{file} cannot be read ({error}): delete {self.folder} and start again") from None
        if (stored.step, stored.days, stored.matchers) != (options.step, options.days, options.prometheus.matchers):
            matchers = ", ".join(f"{name}={value}" for name, value in stored.matchers.items()) or "no matchers"
            raise RecordError(
                f"{self._out} contains another unfinished recording ({stored.days:g} days in steps of "
                f"{stored.step} s, {matchers}): use the same options, or a new folder"
            )
        return stored

    def start(self, plan: RecordingPlan) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write("plan.json", msgspec.json.encode(plan))

    def has(self, part: RecordingPart) -> bool:
        return (self.folder / _file(part)).exists()

    def store(self, part: RecordingPart, curves: RecordedCurves, counts: ValueCounts) -> None:
        packed = BytesIO()
        np.savez_compressed(packed, curves=curves, counts=np.frombuffer(msgspec.json.encode(counts), dtype=np.uint8))
        self._write(_file(part), packed.getvalue())

    def read(self, part: RecordingPart) -> tuple[RecordedCurves, ValueCounts]:
        """The contents of a stored part. Raises RecordError for a corrupt file."""
        file = self.folder / _file(part)
        try:
            with np.load(file) as packed:
                return packed["curves"], msgspec.json.decode(packed["counts"].tobytes(), type=ValueCounts)
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise RecordError(f"{file} is corrupt ({error}): delete it and run the same command again") from None

    def remove(self) -> None:
        shutil.rmtree(self.folder)

    def _write(self, name: str, content: bytes) -> None:
        new = self.folder / f"{name}.new"
        new.write_bytes(content)
        os.replace(new, self.folder / name)


def _file(part: RecordingPart) -> str:
    return f"{part.resource}-{part.first:06d}.npz"


def write_trace(options: RecordOptions, plan: RecordingPlan, checkpoint: Checkpoint, queries: int) -> Summary:
    """Write the trace and remove the parts. Raises RecordError when nothing was measured."""
    cpu, cpu_counts = _joined("cpu", plan, checkpoint)
    memory, memory_counts = _joined("memory", plan, checkpoint)
    counts = cpu_counts + memory_counts
    if np.isnan(cpu).all() or np.isnan(memory).all():
        raise RecordError(
            f"no pod of any workload has a value ({counts.values} values, {counts.duplicates} with two series, "
            f"{counts.unlabeled} series without labels namespace and pod). Does this Prometheus scrape this cluster? "
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
        budgets=inventory.budgets,
        # Values are rounded to a tenth of a milli core or MiB to save space.
        cpu_milli=cpu.astype(np.float64).round(1),
        memory_mib=memory.astype(np.float64).round(1),
        seconds_per_step=plan.step,
        starts_at=plan.starts_at,
        notes=(*plan.notes, *_notes(plan, unowned, counts)),
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
