"""The folder `.partial` of an unfinished recording: its plan, and every part that was read.

The inventory is read once, with the plan: all parts refer to workloads by their index in it.
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

from equipoise.lab.record.aggregation import ValueCounts
from equipoise.lab.record.inventory import Inventory
from equipoise.lab.record.options import RecordError, RecordOptions
from equipoise.lab.record.queries import Resource

RecordedCurves = npt.NDArray[np.float32]
"""workloads × steps, in milli cores or MiB of one pod; NaN where nothing was measured."""


class RecordingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters that all parts share."""

    step: int
    days: float
    matchers: Mapping[str, str]
    """As requested."""

    metrics: str
    """The key in METRICS."""

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
        """Oldest first: Prometheus deletes them first."""
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
    """Files are written atomically, so an interruption loses at most one part."""

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
            found = msgspec.json.decode(file.read_bytes(), type=RecordingPlan)
        except msgspec.MsgspecError as error:
            raise RecordError(f"{file} cannot be read ({error}): delete {self.folder} and start again") from None
        if (found.step, found.days, found.matchers) != (options.step, options.days, options.prometheus.matchers):
            matchers = ", ".join(f"{name}={value}" for name, value in found.matchers.items()) or "no matchers"
            raise RecordError(
                f"{self._out} contains another unfinished recording ({found.days:g} days in steps of "
                f"{found.step} s, {matchers}): use the same options, or a new folder"
            )
        return found

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
