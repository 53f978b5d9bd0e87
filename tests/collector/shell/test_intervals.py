"""How often nodes and pods are scraped, from sources that support only some queries."""

from collections.abc import Mapping, Sequence

import msgspec
import pytest
from builders import NOW
from collector.sources_in_memory import INTERVAL, FakeSource, Usage, a_sample

from equipoise.collector.decisions.node_names import NodeNames, node_names
from equipoise.collector.decisions.query import MetricQuery, Origin, Sample, Scrape, SourceError
from equipoise.collector.decisions.validation.scrape_intervals import ScrapeIntervals
from equipoise.collector.shell.intervals import find_intervals, find_pod_intervals
from equipoise.collector.state.placement import PodName
from equipoise.testbed.memory.clock import ManualClock

NODES = ["a", "b", "c"]
NAMES = node_names({node: [] for node in NODES})
FIRST = {node: [("shop", f"web-{node}")] for node in NODES}


def a_source(**intervals: float) -> FakeSource:
    """A pod on each node, scraped at these intervals."""
    pods = {("shop", f"web-{node}", node): Usage(interval=intervals.get(node, INTERVAL)) for node in NODES}
    return FakeSource(ManualClock(NOW), nodes={node: Usage() for node in NODES}, pods=pods)


async def of_pods(source: FakeSource, pods: Mapping[str, Sequence[PodName]]) -> ScrapeIntervals:
    return await find_pod_intervals(source, 300.0, NOW, NAMES, pods)


def spacings(source: FakeSource) -> list[MetricQuery]:
    return [query for query in source.queries if query.aggregate == "spacing"]


async def test_spacing_is_measured_on_memory_when_cpu_is_unsupported() -> None:
    """On nothing when neither is supported."""
    source = a_source()
    source.rejects = lambda query: "no" if query.resource == "cpu" else ""

    assert INTERVAL == (await of_pods(source, FIRST)).of("a")
    assert INTERVAL == (await find_intervals(source, 300.0, NOW, NodeNames())).of("a")
    assert {("pod", "memory"), ("node", "memory")} == {
        (query.subject, query.resource) for query in source.queries if query.aggregate != "size"
    }
    source.rejects = lambda query: "no"
    source.queries.clear()
    assert (await find_intervals(source, 300.0, NOW, NodeNames())).default is None
    assert (await of_pods(source, FIRST)).default is None
    assert [] == source.queries


async def test_raw_samples_of_one_pod_of_each_node_are_read() -> None:
    """However many pods and namespaces there are."""
    source = a_source(b=30.0)
    source.pods |= {(f"team-{number}", "db-0", "a"): Usage(interval=1.0) for number in range(500)}
    found = await of_pods(source, {node: [*FIRST[node], ("team-0", "db-0")] for node in NODES})

    assert {"a": INTERVAL, "b": 30.0, "c": INTERVAL} == found.by_node
    [query] = spacings(source)
    assert {("shop", "web-a"), ("shop", "web-b"), ("shop", "web-c")} == set(query.pods)


async def test_the_next_pod_of_a_node_is_tried_when_the_first_has_no_samples() -> None:
    """The metrics of its namespace may be excluded; nodes that are known are not queried again."""
    source = a_source(b=30.0)
    pods = {"a": FIRST["a"], "b": [("hidden", "proxy-1"), ("hidden", "proxy-2"), *FIRST["b"]], "c": []}
    found = await of_pods(source, pods)

    assert {"a": INTERVAL, "b": 30.0} == found.by_node
    assert [{("hidden", "proxy-1"), ("shop", "web-a")}, {("hidden", "proxy-2")}, {("shop", "web-b")}] == [
        set(query.pods) for query in spacings(source)
    ]


class RareSource(FakeSource):
    """Has a sample of each pod every 400 s."""

    async def query(self, query: MetricQuery) -> list[Sample]:
        found = await super().query(query)
        return [] if query.aggregate == "spacing" and query.length < 800.0 else found


async def test_samples_of_pods_that_are_rare_are_searched_for_longer() -> None:
    """Two of them are needed."""
    usual = a_source(a=400.0, b=400.0, c=400.0)
    source = RareSource(usual.clock, nodes=usual.nodes, pods=usual.pods)

    assert 400.0 == (await of_pods(source, FIRST)).default
    assert [300.0, 1_200.0] == sorted({query.length for query in spacings(source)})


async def test_pods_without_any_series_are_not_searched_for() -> None:
    """Nothing has their samples."""
    source = a_source()
    source.pods.clear()

    assert ScrapeIntervals() == await of_pods(source, FIRST)
    assert [] == spacings(source)


async def test_only_the_series_of_pods_are_found_without_pods() -> None:
    """With a configured interval there is nothing else to find."""
    source = a_source()

    assert ScrapeIntervals() == await of_pods(source, {})
    assert {("pods", "containers")} == {(query.aggregate, query.pod_series) for query in source.queries}


class UnnamedContainers(FakeSource):
    """A series of containers names no node."""

    async def query(self, query: MetricQuery) -> list[Sample]:
        samples = await super().query(query)
        if query.aggregate == "pods" and query.pod_series == "containers":
            return [a_sample(query, next(iter(self.pods.values())), "")]
        return samples


async def test_series_that_name_no_node_do_not_decide_which_series_of_pods_are_queried() -> None:
    usual = a_source()
    source = UnnamedContainers(usual.clock, nodes=usual.nodes, pods=usual.pods)

    assert "pods" == (await of_pods(source, {})).pod_series


async def test_intervals_are_unknown_when_a_query_fails() -> None:
    source = a_source()
    source.fails = lambda query: query.aggregate == "spacing"

    with pytest.raises(SourceError):
        await of_pods(source, FIRST)


class ForgedSource(FakeSource):
    """The kubelets have no series of one namespace. A target of a tenant has them, of all nodes."""

    async def query(self, query: MetricQuery) -> list[Sample]:
        found = [
            msgspec.structs.replace(
                each, origin=Origin(node=each.node, scrape=Scrape(job="kubelet"), target=f"{each.node}:10250")
            )
            for each in await super().query(query)
        ]
        value = 200.0 if query.aggregate == "spacing" else 1.0
        forged = [
            Sample(
                origin=Origin(node=node, scrape=Scrape(job="tenant"), target="10.244.1.7:80"), series=node, value=value
            )
            for node in NODES
            if not query.pods or ("tenant", f"proxy-{node}") in query.pods
        ]
        return [*found, *forged]


async def test_a_tenant_does_not_choose_whose_interval_counts() -> None:
    """Not with pods of which nobody else has samples, either: the next pod is tried."""
    usual = a_source()
    source = ForgedSource(usual.clock, nodes=usual.nodes, pods=usual.pods)
    found = await of_pods(source, {node: [("tenant", f"proxy-{node}"), *FIRST[node]] for node in NODES})

    assert dict.fromkeys(NODES, INTERVAL) == found.by_node
