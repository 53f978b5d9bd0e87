"""Measures the further resources of nodes and pods (`load.resources`)."""

import asyncio
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from equipoise.collector.decisions.further.promql import newest_promql, oldest_promql, usage_promql
from equipoise.collector.decisions.further.readings import (
    WindowSamples,
    capacities,
    pod_amounts,
    readings,
)
from equipoise.collector.decisions.pod_times import unix_seconds
from equipoise.collector.decisions.query import NodeMatcher, Sample, SourceError, Subject
from equipoise.collector.shell.promql_division import PromqlDivision, limited
from equipoise.collector.sources import PromqlSource
from equipoise.collector.state.further_usage import FurtherUsage
from equipoise.collector.state.placement import ClusterPlacement, PodName
from equipoise.collector.state.search_times import SEARCHES_WHILE_MISSING, SearchTimes
from equipoise.contracts.bounds import MAX_AHEAD
from equipoise.contracts.configuration.further_resources import range_selectors
from equipoise.contracts.configuration.settings import FurtherResource, LoadSettings, Window
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.runtime.async_tools.batching import NODES_PER_BATCH, in_batches, in_thread_if_many

CAPACITY = "capacity"
"""The key of queries about capacities, beside the subjects."""


class _Nodes(NamedTuple):
    """The nodes that have one resource."""

    created: Mapping[str, float]
    """The creation times of those of this replica, by name."""

    uids: Mapping[str, str]
    """Their UIDs, by name."""

    everywhere: int
    """The number of such nodes in the whole cluster."""


@dataclass(kw_only=True)
class FurtherMeasurement:
    """Queries each resource on its own: one that fails has no effect on the others."""

    load: LoadSettings
    source: PromqlSource | None
    placement: ClusterPlacement
    usage: FurtherUsage
    now: Callable[[], float]
    """Now on the source's clock."""

    owns: Callable[[str], bool] | None = None
    """Whether a node is in a shard of this replica, so that it is measured; None: all are."""

    cluster_nodes: Callable[[], Collection[str]] = tuple
    """The names of all nodes of the cluster."""

    _problems: dict[tuple[str, str], str] = field(default_factory=dict)
    """What went wrong in the last round, by window and resource."""

    _divisions: dict[tuple[str, str], PromqlDivision] = field(default_factory=dict)
    """The divisions by resource, and by subject or CAPACITY; empty if this replica measures all nodes."""

    def __post_init__(self) -> None:
        self._about_pods = asyncio.Lock()
        """Held while a result about pods is read: such results are large, so there is one at a time."""

    @property
    def problem(self) -> str:
        """What went wrong in the last round of each window and resource; empty when nothing did."""
        return "; ".join(dict.fromkeys(self._problems.values()))

    @property
    def undivided(self) -> str:
        """Why PromQL is about the nodes of all shards; empty if none is, or if there is one shard."""
        return "; ".join(
            f"the query about {name} of {what if what == CAPACITY else what + 's'} is not divided among the shards: "
            f"{division.undivided}"
            for (name, what), division in sorted(self._divisions.items())
            if division.undivided
        )

    async def round(self, window: Window) -> None:
        """Measures every further resource in one window."""
        owns = self.owns
        nodes = dict(self.placement.nodes)
        own = nodes if owns is None else {name: node for name, node in nodes.items() if owns(name)}
        self.usage.retain(node.metadata.uid for node in own.values())
        async with asyncio.TaskGroup() as tasks:
            for name, resource in self.load.resources.items():
                tasks.create_task(self._measure(name, resource, window, own, nodes))

    async def _measure(
        self,
        name: str,
        resource: FurtherResource,
        window: Window,
        own: Mapping[str, Node],
        nodes: Mapping[str, Node],
    ) -> None:
        key, at = (window.name, name), self.now()
        having = {node: item for node, item in own.items() if resource.is_on(item.metadata.labels)}
        measured = _Nodes(
            created={node: _created_at(item, at) for node, item in having.items()},
            uids={node: item.metadata.uid for node, item in having.items()},
            everywhere=sum(resource.is_on(item.metadata.labels) for item in nodes.values()),
        )
        try:
            strangers = await self._measure_nodes(name, resource, window, measured, at)
            if window == self.load.shortest and resource.pod is not None:
                await self._measure_pods(name, resource.pod, window, own)
        except SourceError as error:
            self._problems[key] = f"{name}: {error}"
            self.usage.record_failure(window, name, str(error))
            return
        self._problems.pop(key, None)
        if strangers:
            series = f"{len(strangers)} series" if len(strangers) > 1 else "a series"
            self._problems[key] = f"{name}: {series} without a node of this cluster, which are ignored: {strangers[0]}"

    async def _measure_nodes(
        self, name: str, resource: FurtherResource, window: Window, nodes: _Nodes, at: float
    ) -> Sequence[str]:
        """Measures one resource, and returns the series of no node of this cluster."""
        length = window.length
        labels = self._labels(resource)
        selectors = range_selectors(resource.node)
        if window == self.load.shortest:
            self.usage.record_capacities(name, await self._capacities(name, resource, nodes, at))
        newest = [newest_promql(selector, labels) for selector in selectors]
        oldest = [oldest_promql(selector, labels, length) for selector in selectors]
        usage = usage_promql(resource.node, length)
        matcher = await self._matcher((name, "node"), usage, newest, labels, at, nodes.created)

        async def samples(promql: str) -> list[Sample]:
            return await self._limited(promql, "node", matcher, at, labels)

        results = WindowSamples(
            mean=await samples(usage),
            newest=[await samples(promql) for promql in newest],
            oldest=[await samples(promql) for promql in oldest],
        )
        measured, strangers = await in_thread_if_many(
            len(nodes.created),
            lambda: readings(
                results,
                nodes.created,
                self.placement.addresses.names,
                expected=nodes.everywhere,
                at=at,
                length=length,
                coverage=self.load.coverage.window,
                max_age=self.load.lifetime(window),
            ),
        )
        self.usage.record(window, name, {nodes.uids[node]: reading for node, reading in measured.items()})
        return strangers

    async def _capacities(
        self, name: str, resource: FurtherResource, nodes: _Nodes, at: float
    ) -> dict[str, tuple[float | None, str]]:
        """The capacities by node UID."""
        if not isinstance(resource.capacity, str):
            return dict.fromkeys(nodes.uids.values(), (resource.capacity, ""))
        labels = self._labels(resource)
        matcher = await self._matcher((name, CAPACITY), resource.capacity, (), labels, at, nodes.created)
        samples = await self._limited(resource.capacity, "node", matcher, at, labels)
        known = capacities(samples, nodes.created, self.placement.addresses.names, expected=nodes.everywhere)
        return {nodes.uids[node]: capacity for node, capacity in known.items()}

    async def _measure_pods(self, name: str, promql: str, window: Window, nodes: Collection[str]) -> None:
        """Measures the pods that ran throughout the window: a mean over it contains only a part of the others."""
        at, pods = self.now(), dict[PodName, str]()
        begin = at - self.load.coverage.window * window.length
        with_pods: set[str] = set()
        async for batch in in_batches(nodes, NODES_PER_BATCH):
            for node in batch:
                for tracked in self.placement.tracked(node):
                    placed = tracked.placed
                    if placed.running_since is not None and placed.running_since <= begin:
                        pods[(placed.namespace, placed.name)] = placed.uid
                        with_pods.add(node)
        usage = usage_promql(promql, window.length)
        async with self._about_pods:
            matcher = await self._matcher((name, "pod"), usage, (), self._source.node_labels, at, with_pods)
            samples = await self._limited(usage, "pod", matcher, at, pods=pods)
            amounts = await in_thread_if_many(len(pods), pod_amounts, samples, pods)
        self.usage.record_pods(name, amounts, at)

    @property
    def _source(self) -> PromqlSource:
        assert self.source is not None
        return self.source

    def _labels(self, resource: FurtherResource) -> Sequence[str]:
        """The labels that may name the node of a series."""
        return self._source.node_labels if resource.node_label is None else (resource.node_label,)

    async def _matcher(
        self,
        key: tuple[str, str],
        promql: str,
        raw: Sequence[str],
        labels: Sequence[str],
        at: float,
        nodes: Collection[str],
    ) -> NodeMatcher | None:
        """The series of these nodes; None: the query is about all nodes."""
        if self.owns is None:
            return None
        shortest = self.load.shortest.length
        # Many nodes may have no pod with the resource, so they are searched for less often than nodes without series.
        length = SEARCHES_WHILE_MISSING * shortest if key[1] == "pod" else shortest
        division = self._divisions.setdefault(
            key,
            PromqlDivision(
                source=self._source, subject="pod" if key[1] == "pod" else "node", labels=labels,
                times=SearchTimes(length=length, period=self.load.longest.refresh_period), nodes_of=self._nodes_of,
            ),
        )  # fmt: skip
        names, cluster = self.placement.addresses.names, self.cluster_nodes()
        return await division.matcher(promql, raw, at, nodes, names, cluster)

    async def _nodes_of(self, pods: Collection[PodName]) -> dict[PodName, set[str]]:
        """The node of each of these pods, and the one that a pod of this name has left."""
        nodes = {name: {self.placement.departed[name][2]} for name in pods if name in self.placement.departed}
        async for batch in in_batches(list(self.placement.nodes), NODES_PER_BATCH):
            for node in batch:
                for tracked in self.placement.tracked(node):
                    if (name := (tracked.placed.namespace, tracked.placed.name)) in pods:
                        nodes.setdefault(name, set()).add(node)
        return nodes

    async def _limited(
        self,
        promql: str,
        subject: Subject,
        matcher: NodeMatcher | None,
        at: float,
        node_labels: Sequence[str] | None = None,
        pods: Container[PodName] | None = None,
    ) -> list[Sample]:
        if matcher is not None and not matcher.values:
            return []  # none of these nodes has series
        promql = limited(promql, matcher)
        return await self._source.samples(promql, subject, at=at, node_labels=node_labels, pods=pods)


def _created_at(node: Node, at: float) -> float:
    """The creation time of a node; 0 for one in the future, set by a clock that was ahead."""
    created_at = unix_seconds(node.metadata.creation_timestamp) or 0.0
    return created_at if created_at <= at + MAX_AHEAD else 0.0
