"""Replays one trace with many settings.

Each result is appended to a CSV file at once, so an interruption loses nothing.
"""

import csv
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from itertools import product
from pathlib import Path

import msgspec

from equipoise.contracts.configuration.settings import Section
from equipoise.lab.model.trace import Trace
from equipoise.lab.replay_plan import ReplayPlan
from equipoise.lab.results import Run, RunFigures
from equipoise.lab.runners import Runner
from equipoise.runtime.process.bounded_files import read_bounded_text

MAX_BYTES = 2**28
"""The maximum size of the results of a sweep: a million rows."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One replay of a sweep."""

    parameters: dict[str, str]
    """The values as the user wrote them, by path in the configuration."""

    plan: ReplayPlan
    inputs: str = ""
    """Digest of the trace and the configuration."""

    @property
    def key(self) -> tuple[str, ...]:
        """The key of a replay: parameters, scenario, policy, descheduler, arrivals, weight, placement and inputs."""
        plan = self.plan
        words = (plan.scenario, plan.policy, str(plan.descheduler), str(plan.seed), str(plan.weight))
        return (*self.parameters.values(), *words, plan.placement, self.inputs)


def digest(trace: Trace, settings: Section) -> str:
    """A digest of the trace and all settings."""
    sha256 = hashlib.sha256(msgspec.json.encode([trace.nodes, trace.workloads, trace.pods, trace.rules]))
    sha256.update(trace.cpu_milli.tobytes() + trace.memory_mib.tobytes())
    sha256.update(repr(settings).encode())
    return sha256.hexdigest()[:12]


class SweepError(ValueError):
    """Why a sweep cannot continue, and what to do."""


def combinations(values: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Every combination of the values of the parameters; one empty combination if there are no parameters."""
    return [dict(zip(values, combination, strict=True)) for combination in product(*values.values())]


_KEY_COLUMNS = ("scenario", "policy", "descheduler", "arrival_seed", "weight", "placement", "inputs")
_OMITTED = ("refused", "movable")
_FIGURE_COLUMNS = tuple(name for name in RunFigures.__struct_fields__ if name not in (*_KEY_COLUMNS, *_OMITTED))


def sweep(trace: Trace, points: Sequence[Point], file: Path, runner: Runner) -> Iterator[tuple[Point, Run]]:
    """Run the replays that `file` does not contain yet, and append a row for each when it ends.

    Raises SweepError when the file contains another sweep.
    """
    header = [*points[0].parameters, *_KEY_COLUMNS, *_FIGURE_COLUMNS]
    done = _done(file, header)
    pending = [point for point in points if point.key not in done]
    with file.open("a", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        for number, run in runner(trace, [point.plan for point in pending]):
            point = pending[number]
            writer.writerow([*point.key, *(getattr(run.figures, name) for name in _FIGURE_COLUMNS)])
            opened.flush()
            yield point, run


def _done(file: Path, header: Sequence[str]) -> set[tuple[str, ...]]:
    """The keys of the replays in the file. Incomplete rows are removed, so that their replays are run again."""
    rows: list[list[str]] = []
    if file.exists():
        try:
            rows = list(csv.reader(StringIO(read_bounded_text(file, MAX_BYTES), newline="")))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise SweepError(f"{file} cannot be read ({error}): use another file, or delete it") from error
        if not rows or rows[0] != list(header):
            raise SweepError(f"{file} contains a sweep with other parameters: use another file, or delete it")
    complete = [row for row in rows[1:] if len(row) == len(header)]
    replacement = file.with_name(f".{file.name}.new")
    with replacement.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows([header, *complete])
    replacement.replace(file)
    return {tuple(row[: len(header) - len(_FIGURE_COLUMNS)]) for row in complete}
