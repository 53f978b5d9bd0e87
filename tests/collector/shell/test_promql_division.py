"""PromQL of the user that is limited to the nodes of a shard."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from builders import NOW

from equipoise.collector.decisions.node_names import node_names
from equipoise.collector.decisions.query import NodeMatcher, Origin, Sample, SourceError, Subject
from equipoise.collector.shell.promql_division import PromqlDivision, limited
from equipoise.collector.state.placement import PodName
from equipoise.collector.state.search_times import SearchTimes

CLUSTER = ("a", "b", "c")
OF_NODES = "sum by (instance) (rate(sent[5m]))"
OF_PODS = "sum by (namespace, pod) (rate(sent[5m]))"
BY_LABELS = "count by (node, instance) (sent)"


def series(*texts: str, label: str = "instance") -> list[Sample]:
    return [
        Sample(origin=Origin(node=text, label=label, text=text), series=text, value=float(len(texts))) for text in texts
    ]


@dataclass
class Answers:
    """A PromqlSource that returns these samples for each query, and fails for others."""

    by_query: Mapping[str, list[Sample]]
    node_labels: Sequence[str] = ("node", "instance")
    queries: list[str] = field(default_factory=list)

    async def samples(
        self,
        promql: str,
        subject: Subject,
        *,
        at: float,
        node_labels: Sequence[str] | None = None,
        unnamed: bool = False,
        pods: Container[PodName] | None = None,
    ) -> list[Sample]:
        self.queries.append(promql)
        if promql not in self.by_query:
            raise SourceError(f"there is no {promql}")
        return self.by_query[promql]

    def close(self) -> None: ...


async def divided(
    answers: Answers, promql: str, subject: Subject = "node", raw: Sequence[str] = ()
) -> tuple[NodeMatcher | None, str]:
    """The series of node a, and why there is no limit."""
    times = SearchTimes(length=300.0, period=1_800.0)
    division = PromqlDivision(source=answers, subject=subject, labels=answers.node_labels, times=times)
    names = node_names({name: [] for name in CLUSTER})
    return await division.matcher(promql, raw, NOW, ["a"], names, CLUSTER), division.undivided


async def test_the_label_that_names_each_node_of_the_result_limits_all_its_series() -> None:
    matcher, undivided = await divided(Answers({OF_NODES: series(*CLUSTER)}), OF_NODES)

    assert (NodeMatcher("instance", ("a",)), "") == (matcher, undivided)
    assert 'sum by (instance) (rate(sent{instance=~"a"}[5m]))' == limited(OF_NODES, matcher)
    assert limited(OF_NODES, None) == OF_NODES


async def test_an_expression_that_combines_nodes_is_not_searched_for() -> None:
    answers = Answers({})
    assert (None, "sum combines series of several nodes") == await divided(answers, "sum(sent)")
    assert [] == answers.queries


async def test_raw_samples_that_name_their_node_by_another_label_are_a_reason() -> None:
    """Limited, the age of a value could be that of other series."""
    answers = Answers({OF_NODES: series(*CLUSTER), "newest": series(*CLUSTER, label="node")})
    matcher, undivided = await divided(answers, OF_NODES, raw=["newest"])

    assert matcher is None
    assert "series name their nodes by different labels: instance, node" == undivided


async def test_a_label_that_the_expression_does_not_keep_is_a_reason() -> None:
    """The result has another one of this name."""
    matcher, undivided = await divided(Answers({OF_NODES: series(*CLUSTER, label="node")}), OF_NODES)

    assert matcher is None
    assert "by (instance) may combine series of several nodes" == undivided


async def test_pods_are_limited_by_the_label_of_their_series() -> None:
    several = (
        "count(count by (namespace, pod) (count by (namespace, pod, node) (sent)) > 1) / "
        "count(count by (namespace, pod) (sent))"
    )
    answers = Answers({BY_LABELS: series(*CLUSTER, label="node"), several: []})
    assert (NodeMatcher("node", ("a",)), "") == await divided(answers, OF_PODS, "pod")

    answers = Answers({BY_LABELS: series(*CLUSTER, label="node"), several: series("")})
    matcher, undivided = await divided(answers, OF_PODS, "pod")
    assert matcher is None
    assert "100% of the pods have series with several values of the label node" == undivided


async def test_pods_aggregated_by_another_label_of_the_node_are_not_divided() -> None:
    """Also while they have no series."""
    promql = "sum by (instance, pod) (sent)"
    assert (None, "") == await divided(Answers({BY_LABELS: []}), promql, "pod")
    matcher, undivided = await divided(Answers({BY_LABELS: series(*CLUSTER, label="node")}), promql, "pod")

    assert matcher is None
    assert "by (instance, pod) may combine series of several nodes" == undivided


@pytest.mark.parametrize(
    ("samples", "why"),
    [
        ([*series("a", label="node"), *series("", label="")], "some series have no label that names their node"),
        (
            series("a", *(f"10.0.{number}.1" for number in range(102))),
            "102 values of the label instance name no node of this cluster",
        ),
        (series("a", "x", "y", "z", "v"), "another cluster"),
    ],
)
async def test_series_of_pods_without_a_usable_label_are_a_reason(samples: list[Sample], why: str) -> None:
    matcher, undivided = await divided(Answers({BY_LABELS: samples}), "sent", "pod")

    assert matcher is None
    assert why in undivided


async def test_a_failed_search_leaves_the_expression_undivided() -> None:
    matcher, undivided = await divided(Answers({}), OF_NODES)
    assert (None, f"there is no {OF_NODES}") == (matcher, undivided)
