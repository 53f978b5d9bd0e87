"""Usage from metrics as they were scraped: cpu as a counter of seconds, memory as a gauge of bytes.

A mean of cpu is the rate of its counter over the whole window, never a mean of rates. Only queries about raw samples
(`count`, `newest`, `last`, `spacing`) show whether such a mean is valid. rate() divides by the whole window even if
samples cover little of it, and returns values until a whole window after the end of its source.
"""

import msgspec

from equipoise.collector.decisions.profiles.query_profile import Matchers, among, milliseconds, selector
from equipoise.collector.decisions.query import MetricQuery

OF_POD = "namespace, pod, container, id, image, name, cpu, uid"
"""Labels by which the series of pods on one node usually differ."""

AHEAD = "2m"
"""How far into the future the newest sample is searched for. If the clock of a machine is ahead, all its samples have
future times, and without this an old one would appear to be the newest. Less than Prometheus' lookback (5 min), more
than the usual time between two scrapes."""


def sample_query(query: MetricQuery, samples: str) -> str | None:
    """The PromQL for a query about the raw samples that the selector `samples` finds; None for other queries."""
    window, step = milliseconds(query.length), milliseconds(query.step)
    match query.aggregate:
        case "count":
            return f"count_over_time({samples}[{window}])"
        case "newest":
            return f"timestamp({samples} offset -{AHEAD})"
        case "last":
            return f"max_over_time(timestamp({samples})[{window}:{step}])"
        case "spacing":
            return f"{samples}[{window}]"
        case "pods" if query.subject == "pod" and query.pod_series == "pods":  # one series per pod, none of containers
            return f"count without ({OF_POD}) ({samples})"
    return None


def statistic_query(query: MetricQuery, values: str) -> str | None:
    """The PromQL for a statistic of a range of values; None for other queries."""
    functions = {"p95": "quantile_over_time(0.95, ", "max": "max_over_time(", "deviation": "stddev_over_time("}
    return f"{functions[query.aggregate]}{values})" if query.aggregate in functions else None


class CpuCounter(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of cpu, in one series or in several parts that are added up within their target."""

    metric: str
    conditions: tuple[str, ...] = ()

    parts: tuple[str, ...] = ()
    """Labels that differ between the parts of one node. Other labels are kept, so that a node that is scraped twice
    has two series."""

    one_part: tuple[str, ...] | None = None
    """Conditions that select one part. A scrape has all parts or none, so one part shows when there were samples."""

    of_each_core: tuple[str, ...] = ()
    """Conditions that select one series of each core, if cores have series of their own."""

    def promql(self, query: MetricQuery, matchers: Matchers) -> str | None:
        window, step = milliseconds(query.length), milliseconds(query.step)
        if query.aggregate == "mean":
            return self._rate(matchers, window)
        if query.aggregate == "size" and self.of_each_core:
            cores = selector(self.metric, matchers, *self.of_each_core)
            return f"count without ({', '.join(self.parts)}) ({cores})"
        about_samples = sample_query(query, self._samples(query, matchers))
        if query.aggregate == "spacing":
            return about_samples
        if about_samples is not None:
            return f"max without ({', '.join(self.parts)}) ({about_samples})" if self.parts else about_samples
        return statistic_query(query, f"{self._rate(matchers, step)}[{window}:{step}]")

    def _samples(self, query: MetricQuery, matchers: Matchers) -> str:
        conditions = self.conditions if self.one_part is None else self.one_part
        return selector(self.metric, matchers, *conditions, *among(query.pods))

    def _rate(self, matchers: Matchers, window: str) -> str:
        rate = f"rate({selector(self.metric, matchers, *self.conditions)}[{window}])"
        return f"sum without ({', '.join(self.parts)}) ({rate})" if self.parts else rate


RECENT = "5m"
"""How far back the newest value of a gauge is searched for, if the gauge hardly ever changes."""


class HugePages(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of the pool of huge pages of a node, used or not; 0 where the exporter reports none.

    Kernels from 4.16 on report all sizes together, older ones the number of pages of the default size.
    """

    total: str
    count: str
    size: str
    present: str
    """A gauge that every exporter has. Where only this one exists, the node has no huge pages."""

    def mean(self, matchers: Matchers, window: str) -> str:
        """The mean of a window; on an older kernel, the newest value."""
        return self._first(matchers, f"avg_over_time({selector(self.total, matchers)}[{window}])")

    def newest(self, matchers: Matchers) -> str:
        return self._first(matchers, selector(self.total, matchers))

    def _first(self, matchers: Matchers, total: str) -> str:
        count, size, present = (
            f"last_over_time({selector(metric, matchers)}[{RECENT}])"
            for metric in (self.count, self.size, self.present)
        )
        return f"({total} or {count} * {size} or 0 * {present})"


class MemoryGauge(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes: a gauge, or a gauge minus other gauges on the same page."""

    metric: str
    conditions: tuple[str, ...] = ()
    minus: tuple[str, ...] = ()
    minus_huge_pages: HugePages | None = None

    def promql(self, query: MetricQuery, matchers: Matchers) -> str | None:
        window, step = milliseconds(query.length), milliseconds(query.step)
        gauge, pool = selector(self.metric, matchers, *self.conditions, *among(query.pods)), self.minus_huge_pages
        if query.aggregate == "mean":
            # The mean of a difference is the difference of the means.
            means = [f"avg_over_time({metric}[{window}])" for metric in self._gauges(matchers)]
            return " - ".join([*means, *([pool.mean(matchers, window)] if pool else [])])
        if query.aggregate == "size":
            return gauge if self.minus else None
        now = self.newest(matchers)
        values = f"{gauge}[{window}]" if now == gauge else f"({now})[{window}:{step}]"
        return sample_query(query, gauge) or statistic_query(query, values)

    def newest(self, matchers: Matchers) -> str:
        """The newest value of the gauge, or of the difference."""
        pool = self.minus_huge_pages
        return " - ".join([*self._gauges(matchers), *([pool.newest(matchers)] if pool else [])])

    def _gauges(self, matchers: Matchers) -> list[str]:
        return [selector(metric, matchers, *self.conditions) for metric in (self.metric, *self.minus)]
