"""Finds how often nodes and pods are scraped, by queries for raw samples that are repeated from time to time."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

import msgspec

from equipoise.collector.decisions.interval_pods import PODS_OF_NODE, in_queries, interval_pods
from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.query import (
    MetricQuery,
    PodSeries,
    ResourceName,
    Sample,
    SourceError,
    Subject,
)
from equipoise.collector.decisions.scrape_choice import Scrapes, choose_scrapes
from equipoise.collector.decisions.validation.scrape_intervals import ScrapeIntervals, machine_sizes, scrape_intervals
from equipoise.collector.sources import MetricSource
from equipoise.collector.state.placement import ClusterPlacement, PodName
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.load.correction import RESOURCES
from equipoise.runtime.async_tools.batching import NODES_PER_BATCH, in_batches

SPACING_FACTORS = (1.0, 4.0)
"""Multiples of the shortest window over which two raw samples of a series are searched for, one after the other."""

AT_ONCE = 4
"""The number of queries that run at the same time, each about some pods."""


async def find_intervals(
    source: MetricSource, shortest: float, at: float, names: NodeNames, before: Mapping[ResourceName, Scrapes] = {}
) -> ScrapeIntervals:
    """The spacing of raw samples of the nodes. Raises SourceError. `before`: what measured each node last."""
    intervals = ScrapeIntervals()
    for query in _spacings(source, "node", shortest, at):
        samples = await source.query(query)
        intervals = scrape_intervals(samples, names, choose_scrapes(samples, names, before.get(query.resource, {})))
        if intervals.default is not None:
            machines = await _find_machines(source, at, names, before)
            return msgspec.structs.replace(intervals, machines=machines)
    return intervals


def _spacings(source: MetricSource, subject: Subject, shortest: float, at: float) -> list[MetricQuery]:
    """The queries for the spacing of raw samples; none if the source supports none. Later queries search further back,
    for series that are scraped rarely."""
    queries = (
        MetricQuery(subject=subject, resource=resource, aggregate="spacing", length=shortest * factor, at=at)
        for resource in RESOURCES
        for factor in SPACING_FACTORS
    )
    supported = [query for query in queries if not source.unsupported(query)]
    return [query for query in supported if query.resource == supported[0].resource]


async def _find_machines(
    source: MetricSource, at: float, names: NodeNames, before: Mapping[ResourceName, Scrapes]
) -> dict[ResourceName, dict[str, float]]:
    """The size of the machine that each node's exporter measures: for a node in a container, it may be the machine
    around it. Resources that cannot be queried are left out."""
    queries = [MetricQuery(subject="node", resource=name, aggregate="size", length=0.0, at=at) for name in RESOURCES]
    supported = [query for query in queries if not source.unsupported(query)]
    results = await asyncio.gather(*map(source.query, supported), return_exceptions=True)
    machines: dict[ResourceName, dict[str, float]] = {}
    for query, result in zip(supported, results, strict=True):
        if isinstance(result, SourceError):
            continue
        if isinstance(result, BaseException):
            raise result
        machines[query.resource] = machine_sizes(result, names, before.get(query.resource, {}))
    return machines


async def find_pod_intervals(
    source: MetricSource, shortest: float, at: float, names: NodeNames, pods: Mapping[str, Sequence[PodName]]
) -> ScrapeIntervals:
    """The series that show all pods, and the spacing of raw samples of the pods on each node. Raises SourceError.

    `pods`: `interval_pods` of each node; without any, only the series are determined.
    """
    queries = _spacings(source, "pod", shortest, at) if pods else []
    series: list[PodSeries] = ["containers", "pods"] if queries else ["containers"]
    of_containers, *of_pods = await asyncio.gather(*(_pods_by_node(source, name, at) for name in series))
    intervals = ScrapeIntervals(pod_series="any" if of_containers else "pods")
    shown = [*chain.from_iterable(of_pods), *of_containers] if queries else []
    scrapes = choose_scrapes(shown, names, {})
    for query in queries if shown else []:
        samples: list[Sample] = []
        for number in range(PODS_OF_NODE):
            # The next pod of each node whose interval is still unknown.
            missing = [
                of_node[number]
                for node, of_node in pods.items()
                if node not in intervals.by_node and number < len(of_node)
            ]
            async for groups in in_batches(in_queries(missing), AT_ONCE):
                limited = (
                    msgspec.structs.replace(query, pod_series=intervals.pod_series, pods=group) for group in groups
                )
                samples += chain.from_iterable(await asyncio.gather(*map(source.query, limited)))
            intervals = msgspec.structs.replace(
                scrape_intervals(samples, names, scrapes), pod_series=intervals.pod_series
            )
        if intervals.default is not None:
            break
    return intervals


async def _pods_by_node(source: MetricSource, series: PodSeries, at: float) -> list[Sample]:
    """The number of pods that these series show, by resource, node and scrape; empty if the source has no such
    query. Series that name no node are left out."""
    queries = (  # some charts keep the series of one resource only
        MetricQuery(subject="pod", resource=resource, aggregate="pods", pod_series=series, length=0.0, at=at)
        for resource in RESOURCES
    )
    counts = await asyncio.gather(*(source.query(query) for query in queries if not source.unsupported(query)))
    return [sample for of_resource in counts for sample in of_resource if sample.node]


@dataclass(kw_only=True)
class KnownIntervals:
    """The intervals of nodes and pods; `refresh` finds them when it is time."""

    configured: float | None
    """Seconds; None: measured."""

    load: LoadSettings
    source: MetricSource
    placement: ClusterPlacement

    def __post_init__(self) -> None:
        self.of_nodes = self.of_pods = ScrapeIntervals(default=self.configured)
        self._found_at: float | None = None
        self._refreshing = asyncio.Lock()

    async def refresh(self, at: float, scrapes: Mapping[ResourceName, Scrapes]) -> None:
        """Finds the intervals if that is due. Raises SourceError if those of the nodes are still unknown.

        `scrapes`: what measured each node last.
        """
        # At a start, all windows are measured at the same time.
        async with self._refreshing:
            found_at, period = self._found_at, self.load.longest.refresh_period
            due = found_at is None or not 0.0 <= at - found_at < period
            if due or self.of_nodes.default is None:
                await self._find(at, scrapes)

    async def _find(self, at: float, scrapes: Mapping[ResourceName, Scrapes]) -> None:
        shortest, names = self.load.shortest.length, self.placement.addresses.names
        if self.configured is None:
            try:
                intervals = await find_intervals(self.source, shortest, at, names, scrapes)
            except SourceError:
                if self.of_nodes.default is None:
                    raise
                self._found_at = at  # the previous intervals of nodes and pods stay valid
                return
            # Right after a restart of the source there may be too few samples: the previous intervals stay valid.
            if intervals.default is None:
                return
            self.of_nodes = intervals
        self._found_at = at
        with suppress(SourceError):
            pods = await self._pods() if self.configured is None else {}
            self.of_pods = await find_pod_intervals(self.source, shortest, at, names, pods)
        self.of_pods = self.of_pods.or_those_of(self.of_nodes)

    async def _pods(self) -> dict[str, tuple[PodName, ...]]:
        """The pods whose usage is read to find the scrape intervals, by node."""
        chosen: dict[str, tuple[PodName, ...]] = {}
        async for nodes in in_batches(self.placement.nodes, NODES_PER_BATCH):
            for node in nodes:
                pods = (pod.placed for pod in self.placement.tracked(node))
                since = {(pod.namespace, pod.name): pod.running_since for pod in pods if pod.running_since is not None}
                chosen[node] = interval_pods(since)
        return chosen
