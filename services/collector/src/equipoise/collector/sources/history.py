"""What a source without a memory has said: enough of it to answer questions about windows.

Samples keep the times that the source gave them; the same one told twice counts once.
"""

import math
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median, pstdev

from equipoise.collector.decisions.query import Ask, Sample, series_of

Names = tuple[str, str, str]
"""Node, namespace and pod: of a node the first one only, of a pod possibly the last two."""

LIVING = 300.0
"""Seconds for which a series without a new sample is looked at as alive; Prometheus does the same."""

_COLUMN = {"cpu": 0, "memory": 1}


class _Series:
    def __init__(self) -> None:
        self.times = array("d")
        self.columns = (array("d"), array("d"))

    def add(self, at: float, values: tuple[float, float], limit: float) -> None:
        if self.times and at <= self.times[-1]:
            if at > self.times[-1] - LIVING:
                return
            self._clear()  # a clock that ran ahead was put right: until its time had come we would hear nothing
        self.times.append(at)
        for column, value in zip(self.columns, values, strict=True):
            column.append(value)
        old = bisect_right(self.times, at - limit)
        if old:
            del self.times[:old]
            for column in self.columns:
                del column[:old]

    def _clear(self) -> None:
        for column in (self.times, *self.columns):
            del column[:]


class History:
    """Usage by node or pod over the last `limit` seconds."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._series: dict[Names, _Series] = {}

    def add(self, names: Names, at: float, cpu: float, memory: float) -> None:
        """A sample; NaN is a value that was none."""
        self._series.setdefault(names, _Series()).add(at, (cpu, memory), self._limit)

    def forget(self, now: float) -> None:
        """Series without a sample in the last `limit` seconds."""
        self._series = {names: kept for names, kept in self._series.items() if kept.times[-1] > now - self._limit}

    def answer(self, question: Ask) -> list[Sample]:
        """A sample for each series of the question's subject that has an answer."""
        samples = []
        for names, series in self._series.items():
            node, namespace, pod = names
            if bool(pod) != (question.subject == "pod"):
                continue
            value = _answer(question, series.times, series.columns[_COLUMN[question.resource]])
            if value is not None:
                told = series_of({"node": node, "namespace": namespace, "pod": pod} if pod else {"node": node})
                samples.append(Sample(node=node, namespace=namespace, pod=pod, series=told, value=value))
        return samples


def _answer(question: Ask, times: Sequence[float], values: Sequence[float]) -> float | None:
    if question.what == "newest":
        # One from the future is told as it is: it is judged by who asks.
        return times[-1] if times[-1] > question.at - LIVING else None
    begin, end = bisect_right(times, question.at - question.length), bisect_right(times, question.at)
    if begin == end:
        return None
    inside = values[begin:end]
    match question.what:
        case "mean":
            return fmean(inside) if end - begin >= question.least else None
        case "count":
            return float(end - begin)
        case "last":
            return times[end - 1]
        case "spacing":
            gaps = [later - earlier for earlier, later in pairwise(times[begin:end])]
            return median(gaps) if gaps else None
    if not all(map(math.isfinite, inside)):
        return math.nan
    match question.what:
        case "p95":
            return _quantile(0.95, inside)
        case "max":
            return max(inside)
        case "deviation":
            return pstdev(inside)


def _quantile(share: float, values: Sequence[float]) -> float:
    """As PromQL's quantile_over_time: between the two nearest in rank, in proportion."""
    ordered = sorted(values)
    rank = share * (len(ordered) - 1)
    below = math.floor(rank)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (rank - below)
