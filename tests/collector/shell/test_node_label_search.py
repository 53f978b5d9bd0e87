"""The queries of one exporter, limited to some nodes."""

from collections.abc import Iterable

import pytest
from builders import NOW

from equipoise.collector.decisions.node_names import node_names
from equipoise.collector.decisions.query import NodeMatcher, Origin, Sample, SourceError
from equipoise.collector.shell.node_label_search import NodeLabelSearch
from equipoise.collector.state.search_times import SearchTimes

CLUSTER = ("a", "b", "c")


class Exporter:
    """The series of an exporter; counts the searches."""

    def __init__(self, *texts: str, label: str = "node") -> None:
        self.texts: Iterable[str] = texts
        self.label = label
        self.fails = ""
        self.searches = 0

    async def search(self) -> list[Sample]:
        self.searches += 1
        if self.fails:
            raise SourceError(self.fails)
        return [
            Sample(origin=Origin(node=text, label=self.label, text=text), series=text, value=1.0) for text in self.texts
        ]


@pytest.fixture
def search() -> NodeLabelSearch:
    return NodeLabelSearch(times=SearchTimes(length=300.0, period=1_800.0))


async def matcher(search: NodeLabelSearch, exporter: Exporter, *nodes: str, after: float = 0.0) -> NodeMatcher | None:
    names = node_names({name: [] for name in CLUSTER})
    return await search.matcher(exporter.search, NOW + after, nodes, names, CLUSTER)


async def test_queries_name_the_nodes_of_this_replica(search: NodeLabelSearch) -> None:
    assert NodeMatcher("node", ("a", "b")) == await matcher(search, Exporter("a", "b", "c"), "a", "b")
    assert search.undivided == ""


async def test_series_without_a_label_of_their_node_are_a_stated_reason_to_query_all(search: NodeLabelSearch) -> None:
    assert await matcher(search, Exporter("a", "b", label=""), "a") is None
    assert "no label" in search.undivided


async def test_series_of_another_cluster_are_a_stated_reason_to_query_all(search: NodeLabelSearch) -> None:
    assert await matcher(search, Exporter("a", *(f"other-{number}" for number in range(9))), "a") is None
    assert "another cluster" in search.undivided


async def test_an_exporter_without_series_needs_no_reason(search: NodeLabelSearch) -> None:
    assert await matcher(search, Exporter(), "a") is None
    assert search.undivided == ""


async def test_a_failed_search_is_a_stated_reason_and_later_keeps_what_is_known(search: NodeLabelSearch) -> None:
    exporter = Exporter("a", "b", "c")
    exporter.fails = "connection refused"
    assert await matcher(search, exporter, "a") is None
    assert search.undivided == "connection refused"

    exporter.fails = ""
    assert NodeMatcher("node", ("a",)) == await matcher(search, exporter, "a", after=60.0)
    exporter.fails = "connection refused"
    assert NodeMatcher("node", ("a",)) == await matcher(search, exporter, "a", after=2_000.0)
    assert search.undivided == ""


async def test_nodes_without_series_are_not_queried_and_are_searched_for_once_a_minute(search: NodeLabelSearch) -> None:
    exporter = Exporter("a", "b")
    assert NodeMatcher("node", ()) == await matcher(search, exporter, "c")
    assert NodeMatcher("node", ()) == await matcher(search, exporter, "c", after=59.0)
    assert exporter.searches == 1
    exporter.texts = ("a", "b", "c")
    assert NodeMatcher("node", ("c",)) == await matcher(search, exporter, "c", after=60.0)
    assert NodeMatcher("node", ("c",)) == await matcher(search, exporter, "c", after=1_800.0)
    assert exporter.searches == 2
