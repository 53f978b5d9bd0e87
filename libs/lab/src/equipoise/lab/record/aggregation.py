"""Sums the usage of pods by workload and step. A missing value never becomes 0."""

from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from equipoise.collector.sources.prometheus.samples import number
from equipoise.contracts.bounds import MAX_BYTES
from equipoise.lab.model.trace import Array
from equipoise.lab.record.owners import NO_WORKLOAD
from equipoise.lab.record.queries import Series

_OFF_GRID = 0.01
"""Tolerated rounding of sample times, as a share of a step."""


class ValueCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Sums and counts over all pods and steps. Usage is in the units of the curves."""

    usage: float = 0.0
    unowned: float = 0.0
    """Usage of pods without a workload in the trace."""

    values: int = 0
    """Number of values, each of one pod in one step."""

    duplicates: int = 0
    """Number of values that several series give. They count as unknown."""

    unlabeled: int = 0
    """Number of series without pod labels."""

    def __add__(self, other: "ValueCounts") -> "ValueCounts":
        return ValueCounts(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})


class Aggregation:
    """Sums of usage by workload and step. `ends` are the ends of the steps (Unix seconds, `step` seconds apart)."""

    def __init__(self, *, workloads: int, ends: Sequence[float], step: float) -> None:
        self._first = ends[0]
        self._step = step
        self._sums = np.zeros((workloads, len(ends)))
        self._counts = np.zeros((workloads, len(ends)), dtype=np.int32)
        self.counts = ValueCounts()

    def add(self, response: Iterable[Series], owner_of: Callable[[str, str], int], scale: float) -> None:
        """Add the response of a range query.

        Two responses may not contain the same pod and step. `scale` converts values to the units of the curves.
        """
        series = list(response)
        named = [item for item in series if item.labels.get("namespace") and item.labels.get("pod")]
        self.counts += ValueCounts(unlabeled=len(series) - len(named))
        pods: dict[tuple[str, str], int] = {}
        rows = [pods.setdefault((item.labels["namespace"], item.labels["pod"]), len(pods)) for item in named]
        usage, number_of_series = self._by_pod(named, rows, len(pods))
        owners = np.array([owner_of(namespace, pod) for namespace, pod in pods], dtype=np.intp)
        self._add_up(usage * scale, number_of_series, owners)

    def means(self) -> npt.NDArray[np.float32]:
        """workloads × steps: mean usage of one pod; NaN where no pod was measured."""
        known = self._counts > 0
        means = np.full(self._sums.shape, np.nan, dtype=np.float32)
        means[known] = self._sums[known] / self._counts[known]
        return means

    def _by_pod(self, series: Sequence[Series], rows: Sequence[int], pods: int) -> tuple[Array, npt.NDArray[np.intp]]:
        """pods × steps: the usage of each pod in each step, and the number of series that give it."""
        steps = self._sums.shape[1]
        row = np.repeat(np.array(rows, dtype=np.intp), [len(item.values) for item in series])
        times = np.array([at for item in series for at, _ in item.values], dtype=np.float64)
        values = np.array([number(value) for item in series for _, value in item.values], dtype=np.float64)
        exact = (times - self._first) / self._step
        step = np.rint(exact)
        on_grid = (step >= 0) & (step < steps) & (np.abs(exact - step) < _OFF_GRID)
        cells = row[on_grid] * steps + step[on_grid].astype(np.intp)
        usage = np.zeros(pods * steps)
        usage[cells] = values[on_grid]
        number_of_series = np.bincount(cells, minlength=pods * steps)
        return usage.reshape(pods, steps), number_of_series.reshape(pods, steps)

    def _add_up(self, usage: Array, number_of_series: npt.NDArray[np.intp], owners: npt.NDArray[np.intp]) -> None:
        known = (number_of_series == 1) & (usage >= 0.0) & (usage <= MAX_BYTES)
        amounts = np.where(known, usage, 0.0)
        owned = owners != NO_WORKLOAD
        np.add.at(self._sums, owners[owned], amounts[owned])
        np.add.at(self._counts, owners[owned], known[owned])
        self.counts += ValueCounts(
            usage=float(amounts[owned].sum()),
            unowned=float(amounts[~owned].sum()),
            values=int(known.sum()),
            duplicates=int((number_of_series > 1).sum()),
        )
