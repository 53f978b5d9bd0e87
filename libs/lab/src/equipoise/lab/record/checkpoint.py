"""The sub-folder `.partial` of a recording that goes on: how it began, and every part that was read.

What runs where is read once, at the beginning: parts count workloads by their place in it, whichever run read them.
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

from equipoise.lab.record.aggregation import Tally
from equipoise.lab.record.inventory import Inventory
from equipoise.lab.record.options import RecordError, RecordOptions
from equipoise.lab.record.queries import Resource

Curves = npt.NDArray[np.float32]
"""Workloads × steps, in milli cores or MiB of one pod; NaN where nothing was measured."""


class RecordingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What all parts have in common."""

    step: int
    days: float
    matchers: Mapping[str, str]
    """As they were asked for."""

    metrics: str
    """Which of METRICS there are."""

    starts_at: float
    steps: int
    steps_per_part: int
    least_samples: int
    """That a step needs of a pod."""

    inventory: Inventory
    owners: Mapping[str, int]
    """The place of a pod's workload by `namespace/pod`, as far as anybody told."""

    notes: tuple[str, ...]

    def parts(self) -> list["Part"]:
        """The oldest first: they are the first that Prometheus will drop."""
        firsts = range(0, self.steps, self.steps_per_part)
        return [
            Part(resource=resource, first=first, count=min(self.steps_per_part, self.steps - first))
            for first in firsts
            for resource in RESOURCES
        ]


RESOURCES: tuple[Resource, ...] = ("cpu", "memory")


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Some steps of all workloads."""

    resource: Resource
    first: int
    count: int


class Checkpoint:
    """Files are there once they are whole, so that a cut at any moment loses one part at most."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self.folder = out / ".partial"

    def beginning(self, options: RecordOptions) -> RecordingPlan | None:
        """What an earlier run began; None: nothing yet. Raises RecordError for a folder that holds anything else."""
        file = self.folder / "beginning.json"
        if not file.exists():
            if self._out.exists() and any(path != self.folder for path in self._out.iterdir()):
                raise RecordError(f"{self._out} is not empty: name a new folder")
            return None
        try:
            found = msgspec.json.decode(file.read_bytes(), type=RecordingPlan)
        except msgspec.MsgspecError as error:
            raise RecordError(f"{file} cannot be read ({error}): delete {self.folder} and begin anew") from None
        if (found.step, found.days, found.matchers) != (options.step, options.days, options.prometheus.matchers):
            matchers = ", ".join(f"{name}={value}" for name, value in found.matchers.items()) or "no matchers"
            raise RecordError(
                f"{self._out} holds the beginning of another recording ({found.days:g} days in steps of "
                f"{found.step} s, {matchers}): ask for the same, or name a new folder"
            )
        return found

    def begin(self, beginning: RecordingPlan) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write("beginning.json", msgspec.json.encode(beginning))

    def has(self, part: Part) -> bool:
        return (self.folder / _file(part)).exists()

    def keep(self, part: Part, curves: Curves, tally: Tally) -> None:
        packed = BytesIO()
        np.savez_compressed(packed, curves=curves, tally=np.frombuffer(msgspec.json.encode(tally), dtype=np.uint8))
        self._write(_file(part), packed.getvalue())

    def read(self, part: Part) -> tuple[Curves, Tally]:
        """What `keep` kept. Raises RecordError for a file that is damaged."""
        file = self.folder / _file(part)
        try:
            with np.load(file) as packed:
                return packed["curves"], msgspec.json.decode(packed["tally"].tobytes(), type=Tally)
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise RecordError(f"{file} is damaged ({error}): delete it, and the same command reads it again") from None

    def remove(self) -> None:
        shutil.rmtree(self.folder)

    def _write(self, name: str, content: bytes) -> None:
        new = self.folder / f"{name}.new"
        new.write_bytes(content)
        os.replace(new, self.folder / name)


def _file(part: Part) -> str:
    return f"{part.resource}-{part.first:06d}.npz"
