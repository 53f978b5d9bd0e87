"""Many settings on one trace; a row of a CSV file for each, written as it is known, so that a cut loses nothing."""

import csv
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import msgspec

from equipoise.contracts.configuration.settings import Section
from equipoise.lab.model.trace import Trace
from equipoise.lab.results import Figures, Run
from equipoise.lab.runners import Job, Runner


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One replay of a sweep."""

    parameters: dict[str, str]
    """By path in the configuration: the value as it was written."""

    job: Job
    inputs: str = ""
    """Of trace and configuration, a digest: the same parameters on another trace are another replay."""

    @property
    def key(self) -> tuple[str, ...]:
        """Tells the replays of a sweep apart: parameters, scenario, policy, descheduler, order of arrivals, weight."""
        plan = self.job.plan
        words = (plan.scenario, plan.policy, str(plan.descheduler), str(plan.seed), str(plan.weight))
        return (*self.parameters.values(), *words, self.inputs)


def digest(trace: Trace, settings: Section) -> str:
    """Twelve letters that change with the trace or with any setting."""
    found = hashlib.sha256(msgspec.json.encode([trace.nodes, trace.workloads, trace.pods, trace.rules]))
    found.update(trace.cpu_milli.tobytes() + trace.memory_mib.tobytes())
    found.update(repr(settings).encode())
    return found.hexdigest()[:12]


class SweepError(ValueError):
    """What keeps a sweep from going on, and what to do."""


def combinations(values: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Every combination of the values of each parameter; one empty combination without any."""
    return [dict(zip(values, combination, strict=True)) for combination in product(*values.values())]


_OWN = ("scenario", "policy", "descheduler", "arrival_seed", "weight", "inputs")
_FIGURES = tuple(name for name in Figures.__struct_fields__ if name not in (*_OWN, "refused"))


def sweep(trace: Trace, points: Sequence[Point], file: Path, runner: Runner) -> Iterator[tuple[Point, Run]]:
    """Make the replays that `file` does not hold yet, and add a row for each as it ends.

    Raises SweepError when the file holds another sweep.
    """
    header = [*points[0].parameters, *_OWN, *_FIGURES]
    done = _done(file, header)
    waiting = [point for point in points if point.key not in done]
    with file.open("a", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        for number, run in runner(trace, [point.job for point in waiting]):
            point = waiting[number]
            writer.writerow([*point.key, *(getattr(run.figures, name) for name in _FIGURES)])
            opened.flush()
            yield point, run


def _done(file: Path, header: Sequence[str]) -> set[tuple[str, ...]]:
    """What the file holds; it is left with whole rows only, so that one that was cut off is made again."""
    rows: list[list[str]] = []
    if file.exists():
        with file.open(newline="", encoding="utf-8") as opened:
            rows = list(csv.reader(opened))
        if not rows or rows[0] != list(header):
            raise SweepError(f"{file} holds other parameters than this sweep: name another file, or delete it")
    whole = [row for row in rows[1:] if len(row) == len(header)]
    anew = file.with_name(f".{file.name}.anew")
    with anew.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows([header, *whole])
    anew.replace(file)
    return {tuple(row[: len(header) - len(_FIGURES)]) for row in whole}
