"""Whether the label of series about pods names the nodes of the pods."""

from math import nan

from equipoise.collector.decisions.further.pod_nodes import nodes_to_compare, why_on_other_nodes
from equipoise.collector.decisions.node_names import node_names
from equipoise.collector.decisions.query import Origin, Sample, Scrape

NAMES = node_names({f"node-{number}": [] for number in range(30)})


def a_sample(node: str, pod: str = "", value: float = 1.0, job: str = "kubelet", target: str = "") -> Sample:
    origin = Origin(node=node, scrape=Scrape(job=job), target=target, label="node", text=node)
    return Sample(origin=origin, namespace="shop", pod=pod, series="", value=value)


def test_the_nodes_with_most_pods_of_each_job_are_compared() -> None:
    """A job with few pods may be the one with another label. Other values of the label are in every query."""
    kubelet = [a_sample(f"node-{number}", value=float(number)) for number in range(30)]
    exporter = a_sample("node-3", value=2.0, job="exporter")

    expected = sorted(["node-3", *(f"node-{number}" for number in range(20, 30))])
    assert expected == nodes_to_compare([*kubelet, exporter, a_sample("proxy", value=99.0)], NAMES)


def test_no_node_has_thousands_of_pods() -> None:
    """The response about them would be large. Each pod may be a target of its own."""
    targets = [a_sample("node-1", value=700.0, target=target) for target in "abc"]
    assert "2100 pods have series of node-1, more than a node can have" == nodes_to_compare(targets, NAMES)
    assert ["node-1"] == nodes_to_compare(targets[:2], NAMES)
    assert "the number of pods of node-1 is nan" == nodes_to_compare([a_sample("node-1", value=nan)], NAMES)


def test_one_of_a_hundred_pods_may_be_on_another_node() -> None:
    """It was created again. A pod that is known to have left the node is not counted, and neither is one that ended."""
    nodes = {("shop", f"web-{number}"): {"node-1"} for number in range(100)}
    left = {("shop", "web-2"): {"node-1", "node-2"}}
    right = [a_sample("node-1", pod) for _, pod in nodes]
    one = [*right, a_sample("node-2", "web-1"), a_sample("node-2", "web-2"), a_sample("node-2", "ended")]
    two = [*one, a_sample("node-2", "web-3")]

    assert "" == why_on_other_nodes(one, nodes | left, NAMES)
    assert "2% of the pods run on other nodes than their series name" == why_on_other_nodes(two, nodes | left, NAMES)


def test_each_job_has_its_own_share() -> None:
    """Many right series of another job do not hide it."""
    nodes = {("shop", f"web-{number}"): {"node-1"} for number in range(1_000)}
    right = [a_sample("node-1", pod) for _, pod in nodes]
    exporter = a_sample("node-2", "web-1", job="exporter")

    assert "100% of the pods" in why_on_other_nodes([*right, exporter], nodes, NAMES)
