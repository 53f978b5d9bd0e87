"""A metric source with values that a test sets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from builders import GIB

from equipoise.collector.decisions.pressure.pressure_query import NODE_EXPORTER, PressureQuery
from equipoise.collector.decisions.query import MetricQuery, Origin, Sample, SourceError, series_name
from equipoise.runtime.process.clock import Clock

INTERVAL = 15.0


@dataclass
class Usage:
    """The usage of a node or a pod, and how it is sampled."""

    cpu: float = 2.0
    memory: float = 8 * GIB
    age: float = 5.0
    coverage: float = 1.0
    interval: float = INTERVAL


@dataclass
class FakeSource:
    """Runs every query on `nodes` and `pods` (by namespace, name, node)."""

    clock: Clock
    nodes: dict[str, Usage] = field(default_factory=dict)
    pods: dict[tuple[str, str, str], Usage] = field(default_factory=dict)
    skew: float = 0.0
    down: str = ""
    fails: Callable[[MetricQuery], bool] = lambda query: False
    rejects: Callable[[MetricQuery], str] = lambda query: ""
    queries: list[MetricQuery] = field(default_factory=list)
    takes: float = 0.0
    """Seconds until each response."""

    takes_for_pods: float = 0.0
    """Further seconds, for queries about pods only."""

    closed: bool = False
    runs: bool = False
    pressures: dict[str, float] = field(default_factory=dict)
    """The values of every node and pod, by what is measured; empty: the source has no pressure."""

    node_pressures: dict[str, dict[str, float]] = field(default_factory=dict)
    """Values that replace those of all nodes, by node."""

    pressure_fails: str = ""
    pressure_queries: list[PressureQuery] = field(default_factory=list)

    async def run(self) -> None:
        self.runs = True

    async def time(self) -> float:
        await self._respond()
        return self.clock.now() + self.skew

    def unsupported(self, query: MetricQuery) -> str:
        return self.rejects(query)

    async def query(self, query: MetricQuery) -> list[Sample]:
        self.queries.append(query)
        if query.aggregate == "size" or (query.aggregate == "pods" and query.pod_series == "containers"):
            return []  # each pod has a series
        await self._respond()
        if query.subject == "pod" and self.takes_for_pods:
            await self.clock.sleep(self.takes_for_pods)
        if self.fails(query):
            raise SourceError("too many samples")
        if query.subject == "node":
            return [
                a_sample(query, usage, node)
                for node, usage in self.nodes.items()
                if has_value(query, usage) and is_queried(query, node)
            ]
        return [
            a_sample(query, usage, node, namespace, pod)
            for (namespace, pod, node), usage in self.pods.items()
            if has_value(query, usage)
            and is_queried(query, node)
            and (not query.pods or (namespace, pod) in query.pods)
        ]

    async def pressure(self, query: PressureQuery) -> list[Sample]:
        self.pressure_queries.append(query)
        await self._respond()
        if self.pressure_fails:
            raise SourceError(self.pressure_fails)
        if query.subject == "node":
            exported = self.nodes if self.pressures and query.exporter == NODE_EXPORTER else ()
            return [
                a_pressure(query, self.pressures | self.node_pressures.get(node, {}), node)
                for node in exported
                if is_queried(query, node)
            ]
        if query.measure == "series":
            return [a_pressure(query, {}, node) for _, _, node in self.pods]
        return [
            a_pressure(query, self.pressures, node, namespace, pod)
            for namespace, pod, node in self.pods
            if query.measure in self.pressures and is_queried(query, node)
        ]

    async def _respond(self) -> None:
        if self.takes:
            await self.clock.sleep(self.takes)
        if self.down:
            raise SourceError(self.down)

    def close(self) -> None:
        self.closed = True


def has_value(query: MetricQuery, usage: Usage) -> bool:
    """Prometheus looks back five minutes for a live series."""
    return (query.aggregate != "newest" or usage.age < 300) and sample_count(query, usage) >= query.min_samples


def is_queried(query: MetricQuery | PressureQuery, node: str) -> bool:
    return query.nodes is None or (query.nodes.label == "node" and node in query.nodes.values)


def sample_count(query: MetricQuery, usage: Usage) -> float:
    """Raw samples in the window."""
    return usage.coverage * query.length / usage.interval


def a_sample(query: MetricQuery, usage: Usage, node: str, namespace: str = "", pod: str = "") -> Sample:
    values = {
        "mean": usage.cpu if query.resource == "cpu" else usage.memory,
        "count": sample_count(query, usage),
        "newest": query.at - usage.age,
        "last": query.at - usage.age,
        "spacing": usage.interval,
        "pods": 1.0,
    }
    labels = {"node": node, "namespace": namespace, "pod": pod}
    return Sample(
        origin=Origin(node=node, label="node", text=node),
        namespace=namespace,
        pod=pod,
        series=series_name(labels),
        value=values[query.aggregate],
    )


def a_pressure(
    query: PressureQuery, values: Mapping[str, float], node: str, namespace: str = "", pod: str = ""
) -> Sample:
    value = query.at - 5.0 if query.measure == "newest" else values.get(query.measure, 1_000.0)
    labels = {"node": node, "namespace": namespace, "pod": pod}
    return Sample(
        origin=Origin(node=node, label="node", text=node),
        namespace=namespace,
        pod=pod,
        series=series_name(labels),
        value=value,
    )
