"""Queries to a metric source, and the samples that it returns."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from equipoise.collector.state.placement import PodName

ResourceName = Literal["cpu", "memory"]
Statistic = Literal["p95", "max", "deviation"]
Subject = Literal["node", "pod"]
Aggregate = Literal["mean", "count", "newest", "last", "spacing", "pods", "size"] | Statistic

PodSeries = Literal["pods", "containers", "any"]
"""The series that show the usage of a pod: one of the whole pod; those of its containers, for pods that have no other;
or either."""


class SourceError(Exception):
    """A query has no usable result. The text gives the reason for people and holds no secret."""


class NodeMatcher(NamedTuple):
    """The series to which a query is limited: those in which this label has one of these values."""

    label: str
    values: tuple[str, ...]


class MetricQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One query about all nodes or all pods: one resource, one window, one point in time.

    aggregate: `mean`, `p95`, `max`, `deviation` of the usage over the window (cores, bytes); `count` of its raw
    samples; `newest`: time of the newest raw sample of series that are alive; `last`: the same of series that ended
    within the window; `spacing`: median seconds between raw samples; `pods`: number of pods by node and scrape;
    `size`: cores or bytes of the machine that is measured.
    """

    subject: Subject
    resource: ResourceName = "cpu"
    aggregate: Aggregate = "mean"
    length: float
    """Seconds: the window is (at − length, at]."""

    at: float
    """Unix seconds on the source's clock."""

    step: float = 0.0
    """Seconds between inner evaluations, for `last` and for statistics of cpu."""

    min_samples: float = 0.0
    """The minimum for a `mean`: series with fewer raw samples in the window are left out. The source checks it, because
    the counts of many pods would double the size of the response and nearly all are complete."""

    pod_series: PodSeries = "pods"
    pods: tuple[PodName, ...] = ()
    """The pods to which a `spacing` of pods is limited."""

    jobs: tuple[str, ...] = ()
    """The scrape jobs whose series are queried; empty: those of all jobs."""

    nodes: NodeMatcher | None = None
    """The nodes whose series are queried; None: all."""

    rare: bool = False
    """Whether no other query is about these series for a long time, so that their labels need not be kept."""


class Scrape(NamedTuple):
    """What scraped a series, by labels that Prometheus adds to it. Empty: the series has none of this name."""

    job: str = ""
    service: str = ""
    endpoint: str = ""
    path: str = ""
    namespace: str = ""
    """The namespace of the target; empty for series of pods, whose label it is."""


class Origin(msgspec.Struct, frozen=True, kw_only=True, gc=False, cache_hash=True):
    """What a series is about, and what scraped it. Most series of a node share one object: they compare fast."""

    node: str
    """What names the node: a name or an address, without a port; empty when no label does."""

    scrape: Scrape = Scrape()
    target: str = ""
    """The label `instance`."""

    label: str = ""
    """The label that names the node; empty when none does."""

    text: str = ""
    """The value of this label as the source has it, for example with a port."""


class Sample(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The value of one series as the source returned it: it may be NaN, infinite or negative. `validation` checks
    it."""

    origin: Origin
    namespace: str = ""
    pod: str = ""
    series: str
    """All labels, as `series_name` writes them: identifies the series across queries."""

    value: float

    share_of_capacity: bool = False
    """True: the value is a share (0..1) of the machine's capacity. False: it is cores or bytes."""

    @property
    def node(self) -> str:
        return self.origin.node

    @property
    def scrape(self) -> Scrape:
        return self.origin.scrape


def series_name(labels: Mapping[str, str]) -> str:
    """A readable name of a series: `node="a", pod="web-1"`."""
    return ", ".join(f"{name}={msgspec.json.encode(text).decode()}" for name, text in sorted(labels.items()))
