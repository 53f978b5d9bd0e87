"""Adds up what pods used, by workload and step. Whatever comes, nothing here turns it into a 0 nobody measured."""

from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from equipoise.collector.sources.samples import number
from equipoise.lab.record.owners import NOBODY
from equipoise.lab.record.questions import Series
from equipoise.lab.trace import Array

_OFF_GRID = 0.01
"""Share of a step that an instant may lie beside it, by rounding."""


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What was read beside the curves. Usage in the units of the curves, summed over pods and steps."""

    given: float = 0.0
    stray: float = 0.0
    """Of pods that belong to no workload of the trace."""

    readings: int = 0
    """Of one pod in one step."""

    doubled: int = 0
    """Readings that two series claim: unknown."""

    nameless: int = 0
    """Series that do not say which pod they are of."""

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})


class Fold:
    """The steps whose ends are `ends` (Unix seconds, evenly spaced by `step`), of so many workloads."""

    def __init__(self, *, workloads: int, ends: Sequence[float], step: float) -> None:
        self._first = ends[0]
        self._step = step
        self._sums = np.zeros((workloads, len(ends)))
        self._counts = np.zeros((workloads, len(ends)), dtype=np.int32)
        self.tally = Tally()

    def add(self, answer: Iterable[Series], owner_of: Callable[[str, str], int], scale: float) -> None:
        """One answer to a range query, or one of several that share no pod and step. `scale`: to the curves' units."""
        pods: dict[tuple[str, str], list[Series]] = {}
        for series in answer:
            pods.setdefault((series.labels.get("namespace", ""), series.labels.get("pod", "")), []).append(series)
        for (namespace, pod), found in pods.items():
            if namespace and pod:
                self._add_pod(owner_of(namespace, pod), found, scale)
            else:
                self.tally += Tally(nameless=len(found))

    def means(self) -> npt.NDArray[np.float32]:
        """Workloads × steps: of one pod of each; NaN where none was measured."""
        known = self._counts > 0
        means = np.full(self._sums.shape, np.nan, dtype=np.float32)
        means[known] = self._sums[known] / self._counts[known]
        return means

    def _add_pod(self, workload: int, found: Sequence[Series], scale: float) -> None:
        usage, claims = np.zeros(self._sums.shape[1]), np.zeros(self._sums.shape[1], dtype=np.int32)
        for series in found:
            steps, amounts = self._on_grid(series)
            np.add.at(claims, steps, 1)
            usage[steps] = amounts * scale
        once = claims == 1
        known = once & np.isfinite(usage) & (usage >= 0.0)
        total = float(usage[known].sum())
        stray = workload == NOBODY
        self.tally += Tally(
            given=0.0 if stray else total,
            stray=total if stray else 0.0,
            readings=int(known.sum()),
            doubled=int((claims > 1).sum()),
        )
        if not stray:
            self._sums[workload, known] += usage[known]
            self._counts[workload, known] += 1

    def _on_grid(self, series: Series) -> tuple[npt.NDArray[np.intp], Array]:
        """Which steps a series speaks of, and what it says."""
        times = np.array([at for at, _ in series.values], dtype=np.float64)
        amounts = np.array([number(said) for _, said in series.values], dtype=np.float64)
        exact = (times - self._first) / self._step
        steps = np.rint(exact)
        here = (steps >= 0) & (steps < self._sums.shape[1]) & (np.abs(exact - steps) < _OFF_GRID)
        return steps[here].astype(np.intp), amounts[here]
