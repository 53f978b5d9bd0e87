"""Usage from metrics as they were scraped: cpu as a counter of seconds, memory as a gauge of bytes.

A mean of cpu is the rate of its counter over the whole window, never a mean of rates. Only questions about raw
samples (`count`, `newest`, `last`, `spacing`) tell whether such a mean may be trusted: rate() divides by the window
however little of it has samples, and goes on answering for a whole window after its source died.
"""

from collections.abc import Mapping

import msgspec

from equipoise.collector.decisions.query import Ask
from equipoise.collector.sources.queries import milliseconds, selector

AHEAD = "2m"
"""How far into the future samples are looked for; only from there they are seen. A machine whose clock is ahead stamps
every sample so, and without a look at them what it said a while ago would pass for new. Less than Prometheus looks back
(5 min), more than the usual time between two scrapes."""


def about_samples(ask: Ask, samples: str) -> str | None:
    """The query for a question about raw samples that this plain selector finds; None for other questions."""
    window, step = milliseconds(ask.length), milliseconds(ask.step)
    match ask.what:
        case "count":
            return f"count_over_time({samples}[{window}])"
        case "newest":
            return f"timestamp({samples} offset -{AHEAD})"
        case "last":
            return f"max_over_time(timestamp({samples})[{window}:{step}])"
        case "spacing":
            return f"{samples}[{window}]"
    return None


def statistic(ask: Ask, values: str) -> str | None:
    """The query for a statistic of a range of values; None for other questions."""
    match ask.what:
        case "p95":
            return f"quantile_over_time(0.95, {values})"
        case "max":
            return f"max_over_time({values})"
        case "deviation":
            return f"stddev_over_time({values})"
    return None


class Counter(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of cpu, in one series or in several parts that are added up within their target."""

    metric: str
    conditions: tuple[str, ...] = ()

    parts: tuple[str, ...] = ()
    """Labels that tell the parts of one node apart. Other labels stay: a node that is scraped twice is seen twice."""

    witness: tuple[str, ...] | None = None
    """Conditions that pick one part. A scrape brings all parts or none, so one tells when there were samples."""

    spaced: tuple[str, ...] | None = ()
    """Conditions on series whose raw samples are looked at for their spacing; None: the nodes' spacing holds."""

    def query(self, ask: Ask, matchers: Mapping[str, str]) -> str | None:
        """See Usage."""
        window, step = milliseconds(ask.length), milliseconds(ask.step)
        if ask.what == "mean":
            return self._rate(matchers, window)
        if ask.what == "spacing":
            return None if self.spaced is None else f"{self._witness(matchers, *self.spaced)}[{window}]"
        told = about_samples(ask, self._witness(matchers))
        if told is not None:
            return f"max without ({', '.join(self.parts)}) ({told})" if self.parts else told
        return statistic(ask, f"{self._rate(matchers, step)}[{window}:{step}]")

    def _witness(self, matchers: Mapping[str, str], *more: str) -> str:
        one = self.conditions if self.witness is None else self.witness
        return selector(self.metric, matchers, *one, *more)

    def _rate(self, matchers: Mapping[str, str], window: str) -> str:
        rate = f"rate({selector(self.metric, matchers, *self.conditions)}[{window}])"
        return f"sum without ({', '.join(self.parts)}) ({rate})" if self.parts else rate


class Gauge(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes, as they are or less those of other gauges on the same page."""

    metric: str
    conditions: tuple[str, ...] = ()
    less: tuple[str, ...] = ()

    def query(self, ask: Ask, matchers: Mapping[str, str]) -> str | None:
        """See Usage."""
        window, step = milliseconds(ask.length), milliseconds(ask.step)
        gauges = [selector(metric, matchers, *self.conditions) for metric in (self.metric, *self.less)]
        if ask.what == "mean":
            # The mean of a difference is the difference of the means.
            return " - ".join(f"avg_over_time({gauge}[{window}])" for gauge in gauges)
        told = about_samples(ask, gauges[0])
        if told is not None:
            return told
        return statistic(ask, f"({' - '.join(gauges)})[{window}:{step}]" if self.less else f"{gauges[0]}[{window}]")
