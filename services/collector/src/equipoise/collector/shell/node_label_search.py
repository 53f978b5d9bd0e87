"""Limits the queries of one exporter to the nodes that this replica measures."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from equipoise.collector.decisions.divided_queries import NodeLabel, find_node_label
from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.other_cluster import nodes_of_another_cluster
from equipoise.collector.decisions.query import NodeMatcher, Sample, SourceError
from equipoise.collector.decisions.scrape_choice import choose_scrapes, jobs_of
from equipoise.collector.state.search_times import SearchTimes
from equipoise.runtime.async_tools.batching import in_thread_if_many


@dataclass(kw_only=True)
class NodeLabelSearch:
    """The label that names the node of every series of one exporter. A small query about all nodes finds it, and is
    repeated as those about usage are (`DividedQueries`)."""

    times: SearchTimes
    undivided: str = ""
    """Why the queries are about all nodes; empty while they are divided, and if there are no series."""

    def __post_init__(self) -> None:
        self._label: NodeLabel | None = None
        self._searching = asyncio.Lock()

    async def matcher(
        self,
        search: Callable[[], Awaitable[list[Sample] | str]],
        at: float,
        nodes: Collection[str],
        names: NodeNames,
        cluster: Collection[str],
    ) -> NodeMatcher | None:
        """The series of these nodes; without values if they have none. None: the query is about all nodes.

        `search`: returns one sample of each node and scrape, or why queries cannot be limited; `cluster`: the names of
        all nodes of the cluster.
        """
        async with self._searching:
            if self.times.is_due(at, nodes, self._label.values if self._label else ()):
                await self._search(search, names, cluster)
                self.times.on_search(at, nodes)
        return (
            None
            if self._label is None
            else self._label.matcher(nodes) or NodeMatcher(self._label.label, self._label.unnamed)
        )

    async def _search(
        self, search: Callable[[], Awaitable[list[Sample] | str]], names: NodeNames, cluster: Collection[str]
    ) -> None:
        try:
            samples = await search()
        except SourceError as error:
            self.undivided = "" if self._label else str(error)
            return  # the previous label stays valid
        found: NodeLabel | str | None = samples if isinstance(samples, str) else None
        if not isinstance(samples, str):
            found = await in_thread_if_many(len(samples), _find, samples, names, cluster, self._label)
        self._label = found if isinstance(found, NodeLabel) else None
        self.undivided = found if isinstance(found, str) else ""


def _find(
    samples: list[Sample], names: NodeNames, cluster: Collection[str], before: NodeLabel | None
) -> NodeLabel | str | None:
    """The label, or why there is none; None without samples."""
    if not samples:
        return None
    jobs = jobs_of({"cpu": choose_scrapes(samples, names, {})})
    own = {names.of(sample.node) for sample in samples if sample.scrape.job in jobs}
    return nodes_of_another_cluster(own, cluster) or find_node_label(samples, names, jobs, before)
