"""Nodes from our own recording rules, so that a day's mean of many nodes costs nothing when it is queried.

node-exporter has a series for every core and mode: a day of 5,000 nodes with 32 cores has billions of samples. The
rules record one counter per node and every window's mean. In the same evaluation they record the count of its raw
samples and the time of the newest one: the age of a mean is that of the raw sample it was made from, never that of the
rule, so that a dead source is detected. Windows without rules are computed from the recorded counter. Pods have one
series each already and are queried as they were scraped.

`python -m equipoise.collector.decisions.profiles` prints the rules for Prometheus, with `--object` as a PrometheusRule
for its operator.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from equipoise.collector.decisions.profiles.kube_prometheus import (
    NODE_CPU,
    NODE_WORKING_SET,
    POD_CPU,
    POD_WORKING_SET,
)
from equipoise.collector.decisions.profiles.query_profile import (
    Matchers,
    QueryProfile,
    UsageQueries,
    milliseconds,
    selector,
)
from equipoise.collector.decisions.profiles.raw import statistic_query
from equipoise.collector.decisions.query import Aggregate, MetricQuery
from equipoise.contracts.configuration.duration import Duration

RULE_INTERVAL = Duration(30)
"""Evaluation interval of the recorded counter and of the short windows. A scrape and two evaluations fit into the 120 s
for which a node is fresh."""


MIN_RECORDED = 4 * RULE_INTERVAL
"""Seconds. A mean over a shorter time would have too few recorded samples, so it is computed from the scraped ones."""


class RecordedWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A window that has rules."""

    name: str
    interval: str
    """The interval of evaluation. It is below five minutes, because Prometheus shows no older sample."""

    from_recorded: bool
    """True: its mean is computed from the recorded series. False: from the scraped series."""

    @property
    def length(self) -> float:
        """Seconds."""
        return float(Duration.parse(self.name))


WINDOWS: Sequence[RecordedWindow] = (
    RecordedWindow(name="5m", interval=str(RULE_INTERVAL), from_recorded=False),
    RecordedWindow(name="15m", interval=str(RULE_INTERVAL), from_recorded=False),
    RecordedWindow(name="1h", interval="1m", from_recorded=True),
    RecordedWindow(name="1d", interval="4m", from_recorded=True),
)


class RecordedUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of one resource by nodes, and the rules that record it."""

    name: str
    """The first part of the names of its rules."""

    recorded: str
    """The rule that records this usage as one series per node."""

    expression: str
    is_counter: bool
    """False: it is a gauge."""

    raw: UsageQueries

    @property
    def metric(self) -> str:
        return self.recorded

    @property
    def newest(self) -> str:
        """The rule that records the time of the raw sample behind the recorded one."""
        return f"{self.name}:newest"

    def promql(self, query: MetricQuery, matchers: Matchers) -> str | None:
        window = next((window for window in WINDOWS if window.length == query.length), None)
        if window is not None and query.aggregate in ("mean", "count", "newest"):
            return selector(f"{self.name}:{query.aggregate}{window.name}", matchers)
        if query.length < MIN_RECORDED and query.aggregate in ("mean", "count"):
            return self.raw.promql(query, matchers)
        length, step = milliseconds(query.length), milliseconds(query.step)
        recorded = selector(self.recorded, matchers)
        match query.aggregate:
            case "mean":
                return self.mean(recorded, length)
            case "newest":
                return selector(self.newest, matchers)
            case "last":
                return f"max_over_time({selector(self.newest, matchers)}[{length}])"
            case "count":
                return self.count(self.raw.promql(query, matchers) or "", recorded, length, query.length)
            case "spacing" | "size":
                return self.raw.promql(query, matchers)
        return statistic_query(
            query, f"rate({recorded}[{step}])[{length}:{step}]" if self.is_counter else f"{recorded}[{length}]"
        )

    def mean(self, series: str, length: str) -> str:
        """The mean of the recorded series over this time."""
        return f"rate({series}[{length}])" if self.is_counter else f"avg_over_time({series}[{length}])"

    def count(self, count: str, recorded: str, window: str, length: float) -> str:
        """How many raw samples are behind a mean of the recorded series: the rules may be younger than the samples."""
        return f"{count} * clamp_max(count_over_time({recorded}[{window}]) * {float(RULE_INTERVAL):g} / {length:g}, 1)"

    def rules(self, window: RecordedWindow) -> list[dict[str, str]]:
        mean, count, newest = (self._raw(aggregate, window) for aggregate in ("mean", "count", "newest"))
        if window.from_recorded:
            mean = self.mean(self.recorded, window.name)
            count = self.count(count, self.recorded, window.name, window.length)
            # A mean of recorded samples is as old as they are.
            newest = self.newest
        expressions = {"mean": mean, "count": count, "newest": newest}
        return [{"record": f"{self.name}:{name}{window.name}", "expr": text} for name, text in expressions.items()]

    def series_rules(self) -> list[dict[str, str]]:
        return [
            {"record": self.recorded, "expr": self.expression},
            {"record": self.newest, "expr": self._raw("newest", WINDOWS[0])},
        ]

    def _raw(self, aggregate: Aggregate, window: RecordedWindow) -> str:
        query = MetricQuery(subject="node", resource="cpu", aggregate=aggregate, length=window.length, at=0.0)
        # The rules show the length as `5m`, not in milliseconds.
        return (self.raw.promql(query, {}) or "").replace(milliseconds(window.length), window.name)


CPU = RecordedUsage(
    name="equipoise:node_cpu",
    recorded="equipoise:node_cpu_seconds:sum",
    # All parts of a node's counter are reset together, at a reboot, so rate() of their sum is correct.
    expression=f"sum without ({', '.join(NODE_CPU.parts)}) ({selector(NODE_CPU.metric, {}, *NODE_CPU.conditions)})",
    is_counter=True,
    raw=NODE_CPU,
)
MEMORY = RecordedUsage(
    name="equipoise:node_memory",
    recorded="equipoise:node_memory_working_set_bytes",
    expression=NODE_WORKING_SET.newest({}),
    is_counter=False,
    raw=NODE_WORKING_SET,
)

RECORDING_RULES = QueryProfile(
    cpu={"node": CPU, "pod": POD_CPU},
    memory={"workingSet": {"node": MEMORY, "pod": POD_WORKING_SET}},
)


def rule_file() -> dict[str, Any]:
    """The rules as a rule file of Prometheus."""
    series = {
        "name": "equipoise-series",
        "interval": str(RULE_INTERVAL),
        "rules": [*CPU.series_rules(), *MEMORY.series_rules()],
    }
    windows = [
        {
            "name": f"equipoise-{window.name}",
            "interval": window.interval,
            "rules": [*CPU.rules(window), *MEMORY.rules(window)],
        }
        for window in WINDOWS
    ]
    return {"groups": [series, *windows]}


def rule_object() -> dict[str, Any]:
    """The rules as an object of the Prometheus operator, with the label that kube-prometheus-stack selects."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "equipoise", "labels": {"release": "kube-prometheus-stack"}},
        "spec": rule_file(),
    }
