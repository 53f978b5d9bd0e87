"""Which namespaces show how often the pods of each node are scraped."""

from equipoise.collector.decisions.covering_namespaces import MOST, covering_namespaces
from equipoise.collector.decisions.query import Sample, Scrape
from equipoise.collector.state.node_names import NodeNames, node_names

NODES = [f"node-{number}" for number in range(100)]
NAMES = node_names({node: [] for node in NODES})


def pods(namespace: str, nodes: list[str], each: float) -> list[Sample]:
    return [Sample(node=node, namespace=namespace, series=node, value=each, target=node) for node in nodes]


def test_few_series_on_every_node_are_enough() -> None:
    """A namespace with a DaemonSet before one with most pods."""
    found = covering_namespaces(
        [*pods("shop", NODES, 30.0), *pods("dns", NODES, 1.0), *pods("one", NODES[:1], 1.0)], NAMES
    )

    assert ("dns",) == found


def test_namespaces_together_have_all_nodes() -> None:
    """No namespace has a name that must exist."""
    found = covering_namespaces([*pods("blue", NODES[:60], 1.0), *pods("green", NODES[50:], 1.0)], NAMES)

    assert ("blue", "green") == found


def test_invented_nodes_are_no_reason() -> None:
    """But where no node is known by its name, all texts count."""
    invented = [f"invented-{number}" for number in range(500)]
    samples = [*pods("dns", NODES, 1.0), *pods("tenant", invented, 1.0)]

    assert ("dns",) == covering_namespaces(samples, NAMES)
    assert ("tenant", "dns") == covering_namespaces(samples, NodeNames())
    assert () == covering_namespaces([], NAMES)


def test_series_of_another_job_are_no_reason() -> None:
    """A tenant could choose whose spacing counts."""
    forged = Scrape(job="shop")
    tenant = [
        Sample(node=node, namespace="tenant", series=node, value=1.0, scrape=forged, target="10.244.1.7:80")
        for node in NODES
    ]

    assert ("dns",) == covering_namespaces([*tenant, *pods("dns", NODES, 3.0)], NAMES)


def test_the_number_of_namespaces_is_bounded() -> None:
    """Nodes without one have the usual interval."""
    assert MOST == len(covering_namespaces([each for node in NODES for each in pods(node, [node], 1.0)], NAMES))
