"""When queries are limited to some nodes, and to which series."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import msgspec
import pytest
from builders import NOW
from collector.sources_in_memory import FakeSource, Usage

from equipoise.collector.decisions.divided_queries import NodeLabel, find_node_label, in_parts, of_no_part
from equipoise.collector.decisions.node_names import NodeNames, host_of, node_names
from equipoise.collector.decisions.query import NodeMatcher, Origin, ResourceName, Sample, Scrape, Subject
from equipoise.collector.decisions.scrape_choice import Scrapes
from equipoise.collector.shell.divided_queries import DividedQueries
from equipoise.testbed.memory.clock import ManualClock

NAMES = node_names({"a": ["10.0.0.1"], "b": ["10.0.0.2"]})
KUBELET = Scrape(job="kubelet")


def a_sample(text: str, label: str = "instance", job: str = "kubelet") -> Sample:
    origin = Origin(node=host_of(text), scrape=Scrape(job=job), label=label, text=text)
    return Sample(origin=origin, series=text, value=1.0)


def label_of(*samples: Sample, before: NodeLabel | None = None) -> NodeLabel | str:
    return find_node_label(samples, NAMES, ["kubelet"], before)


def test_a_query_about_a_node_has_the_values_of_its_series() -> None:
    """With ports, which the names of nodes lack."""
    found = label_of(a_sample("10.0.0.1:9100"), a_sample("10.0.0.1:10250"), a_sample("10.0.0.2:9100"))

    assert isinstance(found, NodeLabel)
    assert NodeMatcher("instance", ("10.0.0.1:10250", "10.0.0.1:9100")) == found.matcher(["a"])
    assert ("kubelet",) == found.jobs


def test_no_query_leaves_out_series_whose_node_is_not_known() -> None:
    """The address of a proxy stands for any node."""
    found = label_of(a_sample("10.0.0.1:9100"), a_sample("proxy:9100"))

    assert isinstance(found, NodeLabel)
    assert NodeMatcher("instance", ("10.0.0.1:9100", "proxy:9100")) == found.matcher(["a"])
    assert found.matcher(["b"]) is None


@pytest.mark.parametrize(
    ("samples", "why"),
    [
        ([], "no series names a node of this cluster"),
        ([a_sample("a", "node"), a_sample("", "")], "some series have no label that names their node"),
        (
            [a_sample("a"), *(a_sample(f"pod-{number}:80") for number in range(102))],
            "102 values of the label instance name no node of this cluster",
        ),
        ([a_sample("a", "node"), a_sample("b")], "series name their nodes by different labels: instance, node"),
    ],
)
def test_queries_are_limited_only_by_a_label_that_all_series_have(samples: list[Sample], why: str) -> None:
    assert why == label_of(*samples)


def test_parts_are_about_every_series_once() -> None:
    """Nodes by their shard. The last part has the series of nodes that were removed, and of those without values."""
    nodes = {name: (f"{name}:1", f"{name}:2") for name in "abcdef"}
    label = NodeLabel(
        label="instance", jobs=("kubelet",), values=nodes | {"gone": ("gone:1", "a:1")}, unnamed=("proxy",)
    )
    parts = in_parts(label, [*nodes, "new"], 2)

    assert [{"b", "c", "e", "f"}, {"a", "d"}] == [names for names, _ in parts]
    assert ("a:1", "a:2", "d:1", "d:2") == parts[1][1].values
    every = sorted(value for values in nodes.values() for value in values)
    assert every == sorted(value for _, matcher in parts for value in matcher.values)
    assert NodeMatcher("instance", ("", "gone:1", "new", "proxy")) == of_no_part(label, parts, ["a", "gone", "new"])
    assert NodeMatcher("instance", ("", "proxy")) == of_no_part(label, parts, ["a"])


def test_series_of_jobs_that_measure_no_node_need_no_label() -> None:
    """Any exporter may have series of the same name."""
    found = label_of(a_sample("a", "node"), a_sample("b", "instance", job="other"))

    assert isinstance(found, NodeLabel)
    assert ("node", {"a": ("a",)}) == (found.label, found.values)


def test_a_node_without_series_keeps_its_values() -> None:
    """Its exporter failed, and returns with them. A deleted node and another label do not."""
    before = NodeLabel(label="node", jobs=("kubelet",), values={"b": ("b",), "deleted": ("deleted",)})
    same, other = label_of(a_sample("a", "node"), before=before), label_of(a_sample("10.0.0.1:1"), before=before)

    assert isinstance(same, NodeLabel)
    assert isinstance(other, NodeLabel)
    assert ({"a", "b"}, {"a"}) == (same.values.keys(), other.values.keys())
    removed = find_node_label([a_sample("a", "node")], NAMES, ["kubelet"], before, kept=["deleted"])
    assert isinstance(removed, NodeLabel)
    assert {"a", "b", "deleted"} == removed.values.keys()


@dataclass
class Search:
    """A source with the nodes a, b and c, and the queries of a replica that measures a and b."""

    source: FakeSource = field(default_factory=lambda: FakeSource(ManualClock(NOW)))
    nodes: set[str] = field(default_factory=lambda: {"a", "b"})
    scrapes: Mapping[Subject, dict[ResourceName, Scrapes]] = field(default_factory=lambda: {"node": {}, "pod": {}})

    def __post_init__(self) -> None:
        for node in ("a", "b", "c"):
            self.add(node)
        self.divided = DividedQueries(source=self.source, length=300.0, period=1_800.0)

    def add(self, node: str) -> None:
        self.source.nodes[node] = Usage()
        self.source.pods["shop", f"web-{node}", node] = Usage()

    async def at(self, seconds: float, cluster: Collection[str] = ("a", "b", "c", "d")) -> int:
        """Refreshes after these seconds. Returns the number of queries."""
        before = len(self.source.queries)
        names = node_names({name: [] for name in cluster})
        await self.divided.refresh(NOW + seconds, self.nodes, names, cluster, self.scrapes)
        return len(self.source.queries) - before

    def label_of_pods(self) -> NodeLabel:
        label = self.divided.label("pod")
        assert label is not None
        return label

    def of(self, subject: Subject) -> NodeMatcher | None:
        return self.divided.matcher(subject, sorted(self.nodes))[0]


async def test_queries_about_nodes_and_pods_are_limited() -> None:
    """The small queries that find out how are about all, and show what measures each node of the cluster."""
    search = Search()
    assert await search.at(0) > 0
    assert NodeMatcher("node", ("a", "b")) == search.of("node") == search.of("pod")
    assert {None} == {query.nodes for query in search.source.queries}
    assert {"newest", "pods"} == {query.aggregate for query in search.source.queries}
    assert {"a", "b", "c"} == search.scrapes["pod"]["memory"].keys()
    assert ("", {}) == (search.divided.problem, search.divided.undivided)


async def test_labels_are_searched_for_again_after_a_period_and_for_a_new_node() -> None:
    """A new scrape job may have other labels. A clock that went back must not delay this."""
    search = Search()
    await search.at(0)
    assert 0 == await search.at(1_799)
    assert 0 < await search.at(1_800)
    search.nodes.add("d")
    assert 0 < await search.at(1_801)
    assert 0 < await search.at(0)


async def test_a_shard_of_another_replica_needs_no_search() -> None:
    """Its nodes are known already."""
    search = Search()
    await search.at(0)
    search.nodes.add("c")
    assert 0 == await search.at(1)
    assert NodeMatcher("node", ("a", "b", "c")) == search.of("node")


async def test_a_node_without_series_is_searched_for_once_a_minute() -> None:
    """It may never have any. It is measured as soon as it has some."""
    search = Search(nodes={"a", "d"})
    await search.at(0)
    assert 0 == await search.at(59)
    assert 0 < await search.at(60)
    search.add("d")
    await search.at(120)
    assert NodeMatcher("node", ("a", "d")) == search.of("node")
    assert 0 == await search.at(200)
    search.divided.on_missing(["a"])
    assert 0 < await search.at(201)
    assert 0 == await search.at(300)


async def test_while_no_label_is_found_queries_are_about_all_nodes() -> None:
    """With the reason."""
    search = Search()
    search.source.fails = lambda query: query.subject == "pod"
    await search.at(0)
    assert (True, None) == (search.of("node") is not None, search.of("pod"))
    assert "queries about pods are not divided among the shards: too many samples" == search.divided.problem
    search.source.fails = lambda query: True
    await search.at(1_800)
    assert search.of("node") is not None
    search.source.fails = lambda query: False
    await search.at(3_600)
    assert search.of("pod") is not None
    assert "" == search.divided.problem


async def test_a_source_that_cannot_limit_queries_gets_none() -> None:
    search = Search()
    search.source.rejects = lambda query: "written by the user" if query.nodes is not None else ""
    assert 0 == await search.at(0)
    assert {"node": "written by the user", "pod": "written by the user"} == search.divided.undivided


async def test_the_nodes_of_another_cluster_are_found_in_queries_about_all() -> None:
    """A query that names nodes would find only those of this cluster."""
    search = Search()
    for number in range(20):
        search.add(f"other-{number}")
    await search.at(0)
    assert search.of("node") is None
    assert "another cluster" in search.divided.problem


async def test_a_label_that_is_lost_limits_no_query() -> None:
    """For example after a change of the scrape configuration."""
    search = Search()
    await search.at(0)
    labeled = search.source.query

    async def unlabeled(query: object) -> list[Sample]:
        samples = await labeled(query)  # type: ignore[arg-type]
        return [
            msgspec.structs.replace(sample, origin=msgspec.structs.replace(sample.origin, label="", text=""))
            for sample in samples
        ]

    search.source.query = unlabeled  # type: ignore[method-assign]
    await search.at(1_800)
    assert (None, None) == (search.of("node"), search.of("pod"))
    assert "no label" in search.divided.problem


async def test_the_values_of_a_node_that_was_removed_are_kept_while_its_removal_is_known() -> None:
    """An hour of the past has its series."""
    search = Search()
    labeled = search.source.query

    async def with_ports(query: object) -> list[Sample]:
        samples = await labeled(query)  # type: ignore[arg-type]
        return [
            msgspec.structs.replace(sample, origin=msgspec.structs.replace(sample.origin, text=f"{sample.node}:1"))
            for sample in samples
        ]

    search.source.query = with_ports  # type: ignore[method-assign]
    await search.at(0)
    del search.source.nodes["c"], search.source.pods["shop", "web-c", "c"]
    names = node_names({"a": [], "b": []})
    await search.divided.refresh(NOW + 1_800, search.nodes, names, ["a", "b", "c"], search.scrapes)
    assert NodeMatcher("node", ("", "c:1")) == of_no_part(search.label_of_pods(), [], ["c"])
    await search.divided.refresh(NOW + 3_600, search.nodes, names, ["a", "b"], search.scrapes)
    assert NodeMatcher("node", ("", "c")) == of_no_part(search.label_of_pods(), [], ["c"])


def test_no_names_are_known_without_nodes() -> None:
    """A cluster without nodes has no series to limit."""
    assert "no series names a node of this cluster" == find_node_label([], NodeNames(), [])
