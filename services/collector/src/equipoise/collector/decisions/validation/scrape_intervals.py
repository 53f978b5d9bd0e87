"""The seconds between two raw samples of a node, and the size of the machine that its exporter measures."""

import math
from collections.abc import Collection, Mapping
from statistics import median

import msgspec

from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.query import PodSeries, ResourceName, Sample
from equipoise.collector.decisions.scrape_choice import Scrapes, choose_scrapes

SHORTEST_INTERVAL, LONGEST_INTERVAL = 0.1, 7 * 86_400.0
"""Seconds between two scrapes. A series with a shorter or longer interval is not used."""


class ScrapeIntervals(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds between raw samples, per node, of the series that show the usage."""

    by_node: Mapping[str, float] = {}
    default: float | None = None
    """The interval of nodes that are not in `by_node`; None: unknown."""

    pod_series: PodSeries = "pods"
    """The series that show the usage of all pods, for intervals of pods."""

    machines: Mapping[ResourceName, Mapping[str, float]] = {}
    """Cores and bytes of the machine that each node's exporter measures, if that is known."""

    def of(self, node: str) -> float | None:
        return self.by_node.get(node, self.default)

    def or_those_of(self, other: "ScrapeIntervals") -> "ScrapeIntervals":
        """These intervals; if none is known, those of `other`, with the series of these."""
        return self if self.default is not None else msgspec.structs.replace(other, pod_series=self.pod_series)

    @property
    def all(self) -> set[float]:
        """Every known interval."""
        return {*self.by_node.values()} | ({self.default} if self.default is not None else set())


def scrape_intervals(samples: Collection[Sample], names: NodeNames, scrapes: Scrapes) -> ScrapeIntervals:
    """Intervals from measured spacings. The largest one of a node counts, so that coverage is never overestimated.

    `scrapes`: what measures each node; other samples of the node do not count.
    """
    by_node: dict[str, float] = {}
    for sample in samples:
        node = names.of(sample.node)
        if scrapes.get(node, sample.scrape) == sample.scrape and SHORTEST_INTERVAL <= sample.value <= LONGEST_INTERVAL:
            by_node[node] = max(sample.value, by_node.get(node, 0.0))
    return ScrapeIntervals(by_node=by_node, default=median(by_node.values()) if by_node else None)


def machine_sizes(samples: Collection[Sample], names: NodeNames, before: Scrapes) -> dict[str, float]:
    """The size of the machine of each node, by the scrape that measures it. `before`: what measured each node last."""
    scrapes = choose_scrapes(samples, names, before)
    return {
        node: sample.value
        for sample in samples
        if scrapes.get(node := names.of(sample.node)) == sample.scrape and math.isfinite(sample.value)
    }
