"""Measures the further resources of nodes and pods (`load.resources`)."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from equipoise.collector.decisions.further.promql import newest_promql, oldest_promql, usage_promql
from equipoise.collector.decisions.further.readings import (
    WindowSamples,
    capacities,
    pod_amounts,
    readings,
)
from equipoise.collector.decisions.pod_times import unix_seconds
from equipoise.collector.decisions.query import Sample, SourceError, Subject
from equipoise.collector.sources import PromqlSource
from equipoise.collector.state.further_usage import FurtherUsage
from equipoise.collector.state.placement import ClusterPlacement, PodName
from equipoise.contracts.bounds import MAX_AHEAD
from equipoise.contracts.configuration.further_resources import range_selectors
from equipoise.contracts.configuration.settings import FurtherResource, LoadSettings, Window
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.runtime.async_tools.batching import in_thread_if_many


@dataclass(kw_only=True)
class FurtherMeasurement:
    """Queries each resource on its own: one that fails has no effect on the others."""

    load: LoadSettings
    source: PromqlSource | None
    placement: ClusterPlacement
    usage: FurtherUsage
    now: Callable[[], float]
    """Now on the source's clock."""

    _problems: dict[tuple[str, str], str] = field(default_factory=dict)
    """What went wrong in the last round, by window and resource."""

    @property
    def problem(self) -> str:
        """What went wrong in the last round of each window and resource; empty when nothing did."""
        return "; ".join(dict.fromkeys(self._problems.values()))

    async def round(self, window: Window) -> None:
        """Measures every further resource in one window."""
        nodes = dict(self.placement.nodes)
        self.usage.retain(node.metadata.uid for node in nodes.values())
        async with asyncio.TaskGroup() as tasks:
            for name, resource in self.load.resources.items():
                tasks.create_task(self._measure(name, resource, window, nodes))

    async def _measure(self, name: str, resource: FurtherResource, window: Window, nodes: Mapping[str, Node]) -> None:
        key = (window.name, name)
        try:
            strangers = await self._measure_nodes(name, resource, window, nodes)
            if window == self.load.shortest and resource.pod is not None:
                await self._measure_pods(name, resource.pod, window)
        except SourceError as error:
            self._problems[key] = f"{name}: {error}"
            self.usage.record_failure(window, name, str(error))
            return
        self._problems.pop(key, None)
        if strangers:
            series = f"{len(strangers)} series" if len(strangers) > 1 else "a series"
            self._problems[key] = f"{name}: {series} without a node of this cluster, which are ignored: {strangers[0]}"

    async def _measure_nodes(
        self, name: str, resource: FurtherResource, window: Window, nodes: Mapping[str, Node]
    ) -> Sequence[str]:
        """Measures one resource, and returns the series of no node of this cluster."""
        at, length = self.now(), window.length
        created = {node: _created_at(item, at) for node, item in nodes.items() if resource.is_on(item.metadata.labels)}
        uids = {node: nodes[node].metadata.uid for node in created}
        labels = None if resource.node_label is None else (resource.node_label,)
        selectors = range_selectors(resource.node)
        if window == self.load.shortest:
            self.usage.record_capacities(name, await self._capacities(resource, created, uids, at))
        mean = await self._samples(usage_promql(resource.node, length), "node", at, labels)
        by = labels or self._source.node_labels
        newest = [await self._samples(newest_promql(selector, by), "node", at, labels) for selector in selectors]
        oldest = [
            await self._samples(oldest_promql(selector, by, length), "node", at, labels) for selector in selectors
        ]
        measured, strangers = await in_thread_if_many(
            len(created),
            lambda: readings(
                WindowSamples(mean=mean, newest=newest, oldest=oldest),
                created,
                self.placement.addresses.names,
                at=at,
                length=length,
                coverage=self.load.coverage.window,
                max_age=self.load.lifetime(window),
            ),
        )
        self.usage.record(window, name, {uids[node]: reading for node, reading in measured.items()})
        return strangers

    async def _capacities(
        self, resource: FurtherResource, created: Mapping[str, float], uids: Mapping[str, str], at: float
    ) -> dict[str, tuple[float | None, str]]:
        """The capacities by node UID."""
        if not isinstance(resource.capacity, str):
            return dict.fromkeys(uids.values(), (resource.capacity, ""))
        labels = None if resource.node_label is None else (resource.node_label,)
        samples = await self._samples(resource.capacity, "node", at, labels)
        known = capacities(samples, created, self.placement.addresses.names)
        return {uids[node]: capacity for node, capacity in known.items()}

    async def _measure_pods(self, name: str, promql: str, window: Window) -> None:
        """Measures the pods that ran throughout the window: a mean over it contains only a part of the others."""
        at, pods = self.now(), dict[PodName, str]()
        begin = at - self.load.coverage.window * window.length
        for node in self.placement.nodes:
            for tracked in self.placement.tracked(node):
                placed = tracked.placed
                if placed.running_since is not None and placed.running_since <= begin:
                    pods[(placed.namespace, placed.name)] = placed.uid
        samples = await self._samples(usage_promql(promql, window.length), "pod", at)
        amounts = await in_thread_if_many(len(pods), pod_amounts, samples, pods)
        self.usage.record_pods(name, amounts, at)

    @property
    def _source(self) -> PromqlSource:
        assert self.source is not None
        return self.source

    async def _samples(
        self, promql: str, subject: Subject, at: float, node_labels: Sequence[str] | None = None
    ) -> list[Sample]:
        return await self._source.samples(promql, subject, at=at, node_labels=node_labels)


def _created_at(node: Node, at: float) -> float:
    """The creation time of a node; 0 for one in the future, set by a clock that was ahead."""
    created_at = unix_seconds(node.metadata.creation_timestamp) or 0.0
    return created_at if created_at <= at + MAX_AHEAD else 0.0
