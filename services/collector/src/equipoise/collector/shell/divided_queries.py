"""Limits queries to the nodes that this replica measures, as far as a label of their series names the node.

Small queries about all nodes find the label that names the node of each series. They are repeated from time to time,
because a new scrape job may have other labels, and while a node has no series. If they fail, or find no such label,
the queries are about all nodes, and samples of others are ignored.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from equipoise.collector.decisions.divided_queries import NodeLabel, find_node_label
from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.other_cluster import nodes_of_another_cluster
from equipoise.collector.decisions.query import MetricQuery, NodeMatcher, ResourceName, Sample, SourceError, Subject
from equipoise.collector.decisions.scrape_choice import Scrapes, choose_scrapes, jobs_of
from equipoise.collector.sources import MetricSource
from equipoise.collector.state.search_times import SearchTimes
from equipoise.contracts.load.correction import RESOURCES
from equipoise.runtime.async_tools.batching import in_thread_if_many

SERIES_OF_PODS = ("pods", "containers")

ScrapesBySubject = Mapping[Subject, dict[ResourceName, Scrapes]]


@dataclass(kw_only=True)
class DividedQueries:
    """The label that names the node of each series, and which nodes have none."""

    source: MetricSource
    length: float
    """Seconds: the shortest window."""

    period: float
    """Seconds between two searches."""

    undivided: dict[Subject, str] = field(default_factory=dict)
    """Why queries about nodes, or about pods, are about all of them; absent while they are divided."""

    def __post_init__(self) -> None:
        self._labels: dict[Subject, NodeLabel] = {}
        self._times = SearchTimes(length=self.length, period=self.period)
        self._searching = asyncio.Lock()

    @property
    def problem(self) -> str:
        """Why queries are about all nodes; empty if none is."""
        return "; ".join(
            f"queries about {subject}s are not divided among the shards: {why}"
            for subject, why in self.undivided.items()
        )

    async def refresh(
        self, at: float, nodes: Collection[str], names: NodeNames, cluster: Collection[str], scrapes: ScrapesBySubject
    ) -> None:
        """Searches for the labels if that is due.

        `nodes`: those of this replica; `cluster`: those of the whole cluster; `scrapes`: what measured each node last,
        which is updated.
        """
        # At a start, all windows are measured at the same time.
        async with self._searching:
            label = self._labels.get("node")
            if self._times.is_due(at, nodes, label.values if label else ()):
                await self._search(at, names, cluster, scrapes)
                self._times.on_search(at, nodes)

    async def _search(self, at: float, names: NodeNames, cluster: Collection[str], scrapes: ScrapesBySubject) -> None:
        for subject, of_subject in scrapes.items():
            try:
                label = await self._find(subject, at, names, cluster, of_subject)
            except SourceError as error:
                if subject not in self._labels:
                    self.undivided[subject] = str(error)
                continue  # the previous label stays valid
            if isinstance(label, NodeLabel):
                self._labels[subject] = label
                self.undivided.pop(subject, None)
            else:
                self._labels.pop(subject, None)
                self.undivided[subject] = label

    async def _find(
        self,
        subject: Subject,
        at: float,
        names: NodeNames,
        cluster: Collection[str],
        scrapes: dict[ResourceName, Scrapes],
    ) -> NodeLabel | str:
        limited = MetricQuery(subject=subject, length=self.length, at=at, nodes=NodeMatcher("node", ("",)))
        if why := self.source.unsupported(limited):
            return why
        found = {resource: await self._samples(subject, resource, at) for resource in RESOURCES}
        samples = [sample for of_resource in found.values() for sample in of_resource]
        chosen: dict[ResourceName, Scrapes] = {}
        for resource, of_resource in found.items():
            chosen[resource] = await in_thread_if_many(
                len(of_resource), choose_scrapes, of_resource, names, scrapes.get(resource, {})
            )
        jobs = jobs_of(chosen)
        own = {names.of(sample.origin.node) for sample in samples if sample.origin.scrape.job in jobs}
        if subject == "node" and (why := nodes_of_another_cluster(own, cluster)):
            return why
        label = await in_thread_if_many(
            len(samples), find_node_label, samples, names, jobs, self._labels.get(subject), cluster
        )
        if isinstance(label, NodeLabel):
            scrapes |= chosen
        return label

    async def _samples(self, subject: Subject, resource: ResourceName, at: float) -> list[Sample]:
        """One sample of each node and scrape."""
        query = MetricQuery(subject=subject, resource=resource, aggregate="newest", length=self.length, at=at)
        queries = [query]
        if subject == "pod":
            queries = [msgspec.structs.replace(query, aggregate="pods", pod_series=series) for series in SERIES_OF_PODS]
        supported = [query for query in queries if not self.source.unsupported(query)]
        return [sample for query in supported for sample in await self.source.query(query)]

    def matcher(self, subject: Subject, nodes: Iterable[str]) -> tuple[NodeMatcher | None, tuple[str, ...]]:
        """The series of these nodes, and their scrape jobs. None, and no jobs: the query is about all nodes."""
        label = self._labels.get(subject)
        matcher = None if label is None else label.matcher(nodes)
        return matcher, () if label is None or matcher is None else label.jobs

    def label(self, subject: Subject) -> NodeLabel | None:
        """The label of the nodes; None: queries are about all nodes."""
        return self._labels.get(subject)

    def on_missing(self, nodes: Iterable[str]) -> None:
        """Records nodes of which a round found no series, or none of pods: their labels may have changed."""
        self._times.on_missing(nodes)
