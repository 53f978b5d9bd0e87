"""The order in which nodes are searched."""

from scheduling.pods import a_node

from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.scheduling.model.snapshot import ClusterSnapshot

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


def in_zone(name: str, zone: str | None = None, region: str | None = None) -> Node:
    labels = {ZONE: zone, REGION: region}
    return a_node(name, labels={key: value for key, value in labels.items() if value is not None})


def order(snapshot: ClusterSnapshot) -> list[str]:
    return [snapshot.name(row) for row in snapshot.rows.tolist()]


def test_one_node_of_each_zone_after_the_other() -> None:
    nodes = [in_zone("a1", "a"), in_zone("a2", "a"), in_zone("a3", "a"), in_zone("b1", "b"), in_zone("none")]

    assert order(ClusterSnapshot(nodes)) == ["a1", "b1", "none", "a2", "a3"]


def test_zones_of_one_name_in_two_regions_are_different_ones() -> None:
    nodes = [in_zone("a1", "a", "x"), in_zone("a2", "a", "x"), in_zone("a3", "a", "y")]

    assert order(ClusterSnapshot(nodes)) == ["a1", "a3", "a2"]


def test_a_node_whose_zone_changes_is_the_last_one_there() -> None:
    snapshot = ClusterSnapshot([in_zone("a1", "a"), in_zone("a2", "a"), in_zone("b1", "b")])
    assert order(snapshot) == ["a1", "b1", "a2"]

    snapshot.put_node(in_zone("a1", "b"))
    assert order(snapshot) == ["a2", "b1", "a1"]

    snapshot.put_node(a_node("a1", labels={ZONE: "b", "other": "label"}))
    assert order(snapshot) == ["a2", "b1", "a1"]


def test_a_zone_without_nodes_is_forgotten() -> None:
    snapshot = ClusterSnapshot([in_zone("a1", "a"), in_zone("b1", "b"), in_zone("b2", "b")])

    snapshot.remove_node("a1")
    snapshot.put_node(in_zone("a1", "a"))

    assert order(snapshot) == ["b1", "a1", "b2"]
