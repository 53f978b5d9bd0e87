"""PromQL of the user that is limited to the nodes of a shard."""

from collections.abc import Collection, Container, Mapping, Sequence
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
BY_NODE = "count by (job, node, instance) (count by (namespace, pod, job, node, instance) (%s))"
SEVERAL = (
    'count(count by (namespace, pod) (count by (namespace, pod, node) (%s{pod!=""})) > 1) / '
    'count(count by (namespace, pod) (%s{pod!=""}))'
)
BY_POD = 'count by (namespace, pod, job, node) (%s{node=~"a|b|c"})'
NODES_OF_PODS = {("shop", f"web-{node}"): {node} for node in CLUSTER}


def of_pods(**nodes: str) -> list[Sample]:
    """A series of each of these pods, with the node that its label names."""
    return [
        Sample(
            origin=Origin(node=node, label="node", text=node), namespace="shop", pod=pod.replace("_", "-"), series=pod,
            value=1.0,
        )
        for pod, node in nodes.items()
    ]  # fmt: skip


PLACED = of_pods(web_a="a", web_b="b", web_c="c")


def answers_about(metric: str, placed: list[Sample] = PLACED) -> dict[str, list[Sample]]:
    """The series of a metric whose label of the node is right."""
    return {
        BY_NODE % metric: series(*CLUSTER, label="node"),
        SEVERAL.replace("%s", metric): [],
        BY_POD % metric: placed,
    }


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
    unnamed: list[str] = field(default_factory=list)

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
        if unnamed:
            self.unnamed.append(promql)
        if promql not in self.by_query:
            raise SourceError(f"there is no {promql}")
        return self.by_query[promql]

    def close(self) -> None: ...


async def divided(
    answers: Answers, promql: str, subject: Subject = "node", raw: Sequence[str] = ()
) -> tuple[NodeMatcher | None, str]:
    """The series of node a, and why there is no limit."""
    times = SearchTimes(length=300.0, period=1_800.0)

    async def nodes_of(pods: Collection[PodName]) -> Mapping[PodName, Collection[str]]:
        return {name: nodes for name, nodes in NODES_OF_PODS.items() if name in pods}

    division = PromqlDivision(
        source=answers, subject=subject, labels=answers.node_labels, times=times, nodes_of=nodes_of
    )
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


async def test_raw_samples_without_a_node_are_a_reason() -> None:
    """Those of a selector without any label of a node."""
    nameless = Answers({OF_NODES: series(*CLUSTER), "newest": series("", label="")})
    matcher, undivided = await divided(nameless, OF_NODES, raw=["newest"])

    assert matcher is None
    assert "some series have no label that names their node" == undivided
    assert ["newest"] == nameless.unnamed


async def test_pods_are_limited_by_the_label_of_their_series() -> None:
    about_sent = answers_about("sent")
    assert (NodeMatcher("node", ("a",)), "") == await divided(Answers(about_sent), OF_PODS, "pod")

    matcher, undivided = await divided(
        Answers(about_sent | {SEVERAL.replace("%s", "sent"): series("")}), OF_PODS, "pod"
    )
    assert matcher is None
    assert "sent: 100% of the pods have series with several values of the label node" == undivided


@pytest.mark.parametrize("promql", ["sum by (namespace, pod) (sent)", "sum by (node, namespace, pod) (sent)", "sent"])
async def test_a_label_that_does_not_name_the_node_of_a_pod_limits_nothing(promql: str) -> None:
    """An exporter on node a may have the series of pods on all nodes, with the label of node a."""
    placed = of_pods(web_a="a", web_b="a", web_c="a")
    matcher, undivided = await divided(Answers(answers_about("sent", placed)), promql, "pod")

    assert matcher is None
    assert "sent: 67% of the pods run on other nodes than their series name" == undivided


@pytest.mark.parametrize(
    "promql",
    [
        "sum by (namespace, pod) (sent) unless on (namespace, pod) labels",
        "sent * on (namespace, pod) group_left (model) labels",
    ],
)
async def test_the_label_of_each_selector_names_the_nodes_of_its_pods(promql: str) -> None:
    """kube-state-metrics has series of all pods."""
    right = answers_about("sent") | answers_about("labels")
    assert (NodeMatcher("node", ("a",)), "") == await divided(Answers(right), promql, "pod")

    for labels, why in (
        (answers_about("labels", of_pods(web_b="a")), "100% of the pods run on other nodes than their series name"),
        (answers_about("labels", []), "no series names a pod of this cluster"),
        (answers_about("labels") | {BY_NODE % "labels": []}, "there are no series, so their label is not known"),
    ):
        assert (None, f"labels: {why}") == await divided(Answers(answers_about("sent") | labels), promql, "pod")


async def test_series_of_pods_without_a_node_of_the_cluster_are_in_every_query() -> None:
    """The address of an exporter may stand for any node."""
    samples = {BY_NODE % "sent": series(*CLUSTER, "proxy", label="node")}
    assert (NodeMatcher("node", ("a", "proxy")), "") == await divided(
        Answers(answers_about("sent") | samples), OF_PODS, "pod"
    )


async def test_pods_whose_names_are_written_are_not_divided() -> None:
    """The series are those of another pod, perhaps on another node."""
    answers = Answers({})
    matcher, undivided = await divided(answers, 'label_replace(sent, "pod", "$1", "exported_pod", "(.+)")', "pod")
    assert (None, "label_replace() changes the label pod", []) == (matcher, undivided, answers.queries)


async def test_pods_that_an_exporter_names_are_compared_with_the_label_too() -> None:
    """DCGM's, with `honor_labels: false`. The pod of the exporter itself need not have series."""
    named = "%s"
    for label in ("namespace", "pod"):
        named = f'label_replace({named}, "{label}", "$1", "exported_{label}", "(.+)")'
    promql = named % "sum by (exported_namespace, exported_pod) (sent)"

    def exported(query: str) -> str:
        return query.replace("namespace, pod", "exported_namespace, exported_pod").replace("pod!=", "exported_pod!=")

    def answers(of_exported: list[Sample], of_exporter: list[Sample]) -> Answers:
        several = SEVERAL.replace("%s", "sent")
        return Answers(
            answers_about("sent", of_exporter)
            | {exported(BY_NODE % "sent"): series(*CLUSTER, label="node"), exported(several): []}
            | {named % exported(BY_POD % "sent"): of_exported}
        )

    for of_exporter in (PLACED, []):
        assert (NodeMatcher("node", ("a",)), "") == await divided(answers(PLACED, of_exporter), promql, "pod")
    wrong, why = of_pods(web_a="b"), "sent: 100% of the pods run on other nodes than their series name"
    assert (None, why) == await divided(answers(wrong, PLACED), promql, "pod")
    assert (None, why) == await divided(answers(PLACED, wrong), promql, "pod")
    assert (None, "sent: no series names a pod of this cluster") == await divided(answers([], PLACED), promql, "pod")


async def test_pods_aggregated_by_another_label_of_the_node_are_not_divided() -> None:
    """Also while they have no series."""
    promql = "sum by (instance, pod) (sent)"
    assert (None, "") == await divided(Answers({BY_NODE % "sent": []}), promql, "pod")
    matcher, undivided = await divided(Answers(answers_about("sent")), promql, "pod")

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
    about_a = {
        SEVERAL.replace("%s", "sent").replace("node", "instance"): [],
        'count by (namespace, pod, job, instance) (sent{instance=~"a"})': of_pods(web_a="a"),
    }
    matcher, undivided = await divided(Answers(about_a | {BY_NODE % "sent": samples}), "sent", "pod")

    assert matcher is None
    assert why in undivided


async def test_a_failed_search_leaves_the_expression_undivided() -> None:
    matcher, undivided = await divided(Answers({}), OF_NODES)
    assert (None, f"there is no {OF_NODES}") == (matcher, undivided)
