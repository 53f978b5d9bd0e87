"""Polls sources that only return current values, and runs queries about windows on the collected values.

Samples keep the times that the source gave them; a repeated sample counts once.
"""

import asyncio
import math
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median, pstdev

import structlog

from equipoise.collector.decisions.query import MetricQuery, Origin, Sample, SourceError, series_name
from equipoise.runtime.process.clock import Clock

log = structlog.get_logger()

SeriesKey = tuple[str, str, str]
"""Node, namespace and pod. The series of a node has only the node; that of a pod may lack the node."""

LOOKBACK = 300.0
"""Seconds for which a series without a new sample is alive, as in Prometheus."""

_COLUMN = {"cpu": 0, "memory": 1}


class PollingSource:
    """A MetricSource that polls on standbys too: a replica that acquires a shard has the history at once."""

    def __init__(self, clock: Clock, *, interval: float, retention: float) -> None:
        """Seconds: values are requested every `interval`, and kept for `retention`."""
        self._clock = clock
        self._interval = interval
        self._history = SampleHistory(retention)
        self._problem = ""
        self._polled = asyncio.Event()

    async def _poll(self) -> None:
        """Request the current values once and add them to the history. Raises SourceError, and nothing else."""
        raise NotImplementedError

    def _now(self) -> float:
        """Unix seconds on the source's clock."""
        return self._clock.now()

    async def run(self) -> None:
        while True:
            await self.poll_once()
            await self._clock.sleep(self._interval)

    async def poll_once(self) -> None:
        try:
            await self._poll()
            self._history.prune(self._now())
            self._problem = ""
        except SourceError as error:
            self._problem = str(error)
        except Exception as error:  # whatever the response contains, the next one may be readable
            log.warning("unexpected error", exc_info=True)
            self._problem = f"the response cannot be read: {type(error).__name__}: {error}"
        self._polled.set()

    async def time(self) -> float:
        """Returns after the first poll; raises the SourceError of the last one if that failed."""
        await self._polled.wait()
        if self._problem:
            raise SourceError(self._problem)
        return self._now()

    async def query(self, query: MetricQuery) -> list[Sample]:
        return self._history.query(query)

    def close(self) -> None:
        """No connection is kept."""


class _Series:
    def __init__(self) -> None:
        self.times = array("d")
        self.columns = (array("d"), array("d"))

    def add(self, at: float, values: tuple[float, float], retention: float) -> None:
        if self.times and at <= self.times[-1]:
            if at > self.times[-1] - LOOKBACK:
                return
            # The source's clock was ahead and was corrected: new samples would be ignored until that time.
            for column in (self.times, *self.columns):
                del column[:]
        self.times.append(at)
        for column, value in zip(self.columns, values, strict=True):
            column.append(value)
        if old := bisect_right(self.times, at - retention):
            for column in (self.times, *self.columns):
                del column[:old]


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
                samples.append(Sample(origin=Origin(node=node), namespace=namespace, pod=pod, series=name, value=value))
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
        case "pods" | "size":
            return None
        case "p95":
            return _quantile(0.95, inside)
        case "max":
            return max(inside)
        case "deviation":
            return pstdev(inside)


def _quantile(quantile: float, values: Sequence[float]) -> float:
    """The quantile as PromQL's quantile_over_time computes it: linear interpolation between the two nearest ranks."""
    ordered = sorted(values)
    rank = quantile * (len(ordered) - 1)
    below, above = math.floor(rank), math.ceil(rank)
    return ordered[below] + (ordered[above] - ordered[below]) * (rank - below)
