"""What is measured in a window, and how many samples cover it."""

import math
from collections.abc import Mapping

import msgspec

from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.query import Aggregate, NodeMatcher, ResourceName, Sample
from equipoise.collector.decisions.scrape_choice import Scrapes
from equipoise.collector.decisions.validation.scrape_intervals import ScrapeIntervals
from equipoise.contracts.messages.values.resources import Resources

Samples = Mapping[Aggregate, list[Sample]]
"""The samples of one resource and window, by the aggregate that was queried."""

_ROUNDING = 1e-9


class MeasurementTarget(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A node or pod to be measured, as the API server has it."""

    since: float
    """The time at which it was created or began to run: earlier samples under its name belong to another object."""

    capacity: Resources
    """The capacity of its machine."""

    node: str = ""
    """The node on which a pod runs; "" for a node."""

    has_pods: bool = False
    """Whether pods ran on a node throughout the window; False for a pod."""


class WindowCriteria(msgspec.Struct, frozen=True, kw_only=True):
    """What the samples of a window must meet. Seconds, except for `coverage`."""

    at: float
    responded_at: float = 0.0
    """The source's time after its responses, which may be slow: samples that were scraped until then are not of the
    future. 0: `at`."""

    length: float
    """The window is (at − length, at]."""

    coverage: float
    """0..1: a window with fewer samples is unknown."""

    max_age: float
    """The maximum age of the newest sample."""

    lookback: float
    """How far back the last sample of an ended series is searched for."""

    intervals: ScrapeIntervals
    names: NodeNames = NodeNames()
    """The names of all nodes of the cluster."""

    scrapes: Mapping[ResourceName, Scrapes] = {}
    """What measured each node last."""

    jobs: tuple[str, ...] = ()
    """The scrape jobs whose series are queried; empty: those of all jobs."""

    nodes: NodeMatcher | None = None
    """The nodes whose series are queried; None: all."""


def coverage(count: float, length: float, interval: float) -> float:
    """Share (0..1) of a window that `count` samples cover.

    A window holds length ÷ interval samples, or one fewer when its ends fall between two samples. A single sample
    covers nothing, as no rate can be computed from it.
    """
    return min(1.0, count / _full_count(length, interval))


def min_samples(criteria: WindowCriteria, interval: float) -> int:
    """How many samples at this interval cover enough of the window."""
    return max(2, math.ceil(criteria.coverage * _full_count(criteria.length, interval) - _ROUNDING))


def is_short(length: float, interval: float) -> bool:
    """Whether a window of this length may hold fewer than two samples, however complete they are."""
    return length < 2 * interval


def _full_count(length: float, interval: float) -> float:
    return max(2.0, math.floor(length / interval - 0.5))
