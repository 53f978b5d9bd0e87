"""For sources that only return current values: poll them, and run queries about windows on what was collected.

Samples keep the times that the source gave them; a repeated sample counts once.
"""

import asyncio
import math
from array import array
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from statistics import fmean, median, pstdev
from typing import NoReturn

from equipoise.collector.decisions.query import MetricQuery, Sample, SourceError, series_name
from equipoise.runtime.process.clock import Clock

SeriesKey = tuple[str, str, str]
"""Node, namespace and pod: only the first for a node; possibly only the last two for a pod."""

LOOKBACK = 300.0
"""Seconds for which a series without a new sample is alive, as in Prometheus."""

_COLUMN = {"cpu": 0, "memory": 1}


class Poller:
    """Polls on standbys too: a replica that acquires a shard has the history at once."""

    def __init__(self, poll: Callable[[], Awaitable[None]], interval: float, clock: Clock) -> None:
        """`poll` requests the current values once and keeps them. It raises SourceError, and nothing else."""
        self._poll = poll
        self._interval = interval
        self._clock = clock
        self._problem = ""
        self._polled = asyncio.Event()

    async def run(self) -> NoReturn:
        while True:
            await self.poll_once()
            await self._clock.sleep(self._interval)

    async def poll_once(self) -> None:
        try:
            await self._poll()
            self._problem = ""
        except SourceError as error:
            self._problem = str(error)
        self._polled.set()

    async def ready(self) -> None:
        """Returns when the last poll succeeded; raises its SourceError when it failed."""
        await self._polled.wait()
        if self._problem:
            raise SourceError(self._problem)


class _Series:
    def __init__(self) -> None:
        self.times = array("d")
        self.columns = (array("d"), array("d"))

    def add(self, at: float, values: tuple[float, float], retention: float) -> None:
        if self.times and at <= self.times[-1]:
            if at > self.times[-1] - LOOKBACK:
                return
            self._clear()  # its clock was ahead and was corrected: samples would be ignored until that time
        self.times.append(at)
        for column, value in zip(self.columns, values, strict=True):
            column.append(value)
        old = bisect_right(self.times, at - retention)
        if old:
            del self.times[:old]
            for column in self.columns:
                del column[:old]

    def _clear(self) -> None:
        for column in (self.times, *self.columns):
            del column[:]


class SampleHistory:
    """Usage by node or pod over the last `retention` seconds."""

    def __init__(self, retention: float) -> None:
        self._retention = retention
        self._series: dict[SeriesKey, _Series] = {}

    def add(self, key: SeriesKey, at: float, cpu: float, memory: float) -> None:
        """A sample; NaN for an unknown value."""
        self._series.setdefault(key, _Series()).add(at, (cpu, memory), self._retention)

    def prune(self, now: float) -> None:
        """Delete series without a sample within the retention."""
        self._series = {key: kept for key, kept in self._series.items() if kept.times[-1] > now - self._retention}

    def query(self, query: MetricQuery) -> list[Sample]:
        """A sample for each series of the query's subject that has a value."""
        samples = []
        for (node, namespace, pod), series in self._series.items():
            if bool(pod) != (query.subject == "pod"):
                continue
            value = _aggregate(query, series.times, series.columns[_COLUMN[query.resource]])
            if value is not None:
                name = series_name({"node": node, "namespace": namespace, "pod": pod} if pod else {"node": node})
                samples.append(Sample(node=node, namespace=namespace, pod=pod, series=name, value=value))
        return samples


def _aggregate(query: MetricQuery, times: Sequence[float], values: Sequence[float]) -> float | None:
    if query.aggregate == "newest":
        # A time in the future is returned as it is: sample validation rejects it.
        return times[-1] if times[-1] > query.at - LOOKBACK else None
    begin, end = bisect_right(times, query.at - query.length), bisect_right(times, query.at)
    if begin == end:
        return None
    inside = values[begin:end]
    match query.aggregate:
        case "mean":
            return fmean(inside) if end - begin >= query.min_samples else None
        case "count":
            return float(end - begin)
        case "last":
            return times[end - 1]
        case "spacing":
            gaps = [later - earlier for earlier, later in pairwise(times[begin:end])]
            return median(gaps) if gaps else None
    if not all(map(math.isfinite, inside)):
        return math.nan
    match query.aggregate:
        case "p95":
            return _quantile(0.95, inside)
        case "max":
            return max(inside)
        case "deviation":
            return pstdev(inside)


def _quantile(quantile: float, values: Sequence[float]) -> float:
    """As PromQL's quantile_over_time: linear interpolation between the two nearest ranks."""
    ordered = sorted(values)
    rank = quantile * (len(ordered) - 1)
    below = math.floor(rank)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (rank - below)
