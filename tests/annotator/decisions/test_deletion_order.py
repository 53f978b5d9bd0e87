"""Which pods a scale-down should delete first."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.annotator.decisions.deletion_order import First, NodeOutlook, deletion_order
from equipoise.contracts.kubernetes.labels import HOSTNAME, ZONE
from equipoise.contracts.kubernetes.objects.pod import TopologySpreadConstraint

FIRST: Sequence[First] = ("hottestNodes", "emptiestNodes")
ZONES = TopologySpreadConstraint(topology_key=ZONE, max_skew=1)


def a_node(
    name: str, pods: int, *, load: float | None = 0.5, relief: float = 0.05, others: int = 10, zone: str = ""
) -> NodeOutlook:
    return NodeOutlook(
        pods=[f"{name}-{number}" for number in range(pods)],
        other_pods=others,
        loads=[] if load is None else [load],
        relief=[] if load is None else [relief],
        labels={HOSTNAME: name} | ({ZONE: zone} if zone else {}),
    )


def remaining(nodes: Mapping[str, NodeOutlook], order: Sequence[Sequence[str]], label: str = HOSTNAME) -> list[int]:
    """The pods that remain in each domain."""
    deleted = {pod for group in order for pod in group}
    counts: Counter[str] = Counter()
    for node in nodes.values():
        counts[node.labels[label]] += sum(pod not in deleted for pod in node.pods)
    return [counts[domain] for domain in sorted(counts)]


def five_nodes(loads: Sequence[float] = (0.5,) * 5) -> dict[str, NodeOutlook]:
    return {f"n{number}": a_node(f"n{number}", 4, load=load) for number, load in enumerate(loads)}


def test_nodes_become_empty() -> None:
    """Five nodes with four pods each, of which ten go: two nodes are empty, and one has half of its pods."""
    nodes = five_nodes()
    order = deletion_order(nodes, [], first="emptiestNodes", count=10)

    assert remaining(nodes, order) == [0, 0, 2, 4, 4]
    assert list(map(len, order)) == [4, 4, 2]


def test_the_nodes_with_the_fewest_other_pods_become_empty() -> None:
    """Of those with equally many, the one with the lowest load."""
    nodes = {
        "many": a_node("many", 2, others=9),
        "few": a_node("few", 2, others=3, load=0.4),
        "idle": a_node("idle", 2, others=3, load=0.1),
    }
    assert deletion_order(nodes, [], first="emptiestNodes", count=4) == [["idle-0", "idle-1"], ["few-0", "few-1"]]


def test_pods_leave_the_hottest_nodes_until_these_are_as_hot_as_others() -> None:
    """One pod is five points."""
    nodes = five_nodes((0.92, 0.82, 0.5, 0.5, 0.5))
    order = deletion_order(nodes, [], first="hottestNodes", count=6)

    assert remaining(nodes, order) == [0, 2, 4, 4, 4]


def test_nodes_of_equal_load_lose_equally_many() -> None:
    """As with ReplicaSets of Kubernetes: small differences of load are none."""
    nodes = five_nodes((0.501, 0.502, 0.503, 0.504, 0.505))
    order = deletion_order(nodes, [], first="hottestNodes", count=10)

    assert remaining(nodes, order) == [2, 2, 2, 2, 2]


def test_a_node_of_unknown_load_is_no_hot_node() -> None:
    """A node that is measured loses its pods first."""
    nodes = {"unknown": a_node("unknown", 2, load=None), "cool": a_node("cool", 2, load=0.2, relief=0.01)}
    assert deletion_order(nodes, [], first="hottestNodes", count=2) == [["cool-0", "cool-1"]]


@pytest.mark.parametrize("first", FIRST)
def test_nine_pods_in_three_zones_remain_even(first: First) -> None:
    """kubernetes/kubernetes#124149, with the hottest nodes and the emptiest ones in one zone."""
    nodes = {
        f"{zone}{number}": a_node(f"{zone}{number}", 1, zone=zone, load=0.9 if zone == "a" else 0.2, others=0)
        for zone in "abc"
        for number in range(3)
    }
    for count, expected in ((3, [2, 2, 2]), (4, [1, 2, 2]), (6, [1, 1, 1])):
        order = deletion_order(nodes, [ZONES], first=first, count=count)
        assert sorted(remaining(nodes, order, ZONE)) == expected


def test_nodes_become_empty_and_zones_remain_even() -> None:
    """Six nodes with three pods each, two in each zone; half of the pods go."""
    nodes = {f"{zone}{number}": a_node(f"{zone}{number}", 3, zone=zone) for zone in "abc" for number in range(2)}
    order = deletion_order(nodes, [ZONES], first="emptiestNodes", count=9)

    assert remaining(nodes, order, ZONE) == [3, 3, 3]
    assert sorted(remaining(nodes, order)) == [0, 0, 0, 3, 3, 3]


def test_a_spread_that_is_violated_already_is_not_made_worse() -> None:
    """Only the zone with the most pods loses some."""
    nodes = {"a": a_node("a", 5, zone="a", load=0.1), "b": a_node("b", 2, zone="b", load=0.9)}
    order = deletion_order(nodes, [ZONES], first="hottestNodes", count=3)

    assert remaining(nodes, order) == [2, 2]


def test_pods_that_must_remain_count_in_the_spread() -> None:
    """Their owner excluded them from evictions."""
    nodes = {
        "a": msgspec.structs.replace(a_node("a", 1, zone="a", load=0.9), kept=1),
        "b": a_node("b", 3, zone="b", load=0.1),
    }
    order = deletion_order(nodes, [ZONES], first="hottestNodes", count=3)

    assert order == [["b-0"], ["a-0"], ["b-1"]]


def test_pods_on_nodes_without_the_label_of_a_constraint_do_not_count() -> None:
    """As in kube-scheduler."""
    nodes = {"a": a_node("a", 1, zone="a"), "b": a_node("b", 1, zone="b"), "none": a_node("none", 3, load=0.9)}
    assert deletion_order(nodes, [ZONES], first="hottestNodes", count=2) == [["none-0", "none-1"]]


Clusters = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from("abc"), st.none() | st.floats(0, 2), st.integers(0, 9)),
    min_size=1,
    max_size=8,
)


def skew(nodes: Mapping[str, NodeOutlook], deleted: set[str], key: str) -> int:
    counts: Counter[str] = Counter()
    for node in nodes.values():
        counts[node.labels[key]] += sum(pod not in deleted for pod in node.pods)
    return max(counts.values()) - min(counts.values())


@given(
    cluster=Clusters,
    count=st.integers(0, 30),
    most=st.integers(1, 3),
    first=st.sampled_from(FIRST),
    keys=st.sets(st.sampled_from([ZONE, HOSTNAME])),
    data=st.data(),
)
def test_no_skew_exceeds_its_maximum_because_of_a_deletion_wherever_the_scale_down_ends(
    cluster: list[tuple[int, Literal["a", "b", "c"], float | None, int]],
    count: int,
    most: int,
    first: First,
    keys: set[str],
    data: st.DataObject,
) -> None:
    """Also in the middle of a group, whose pods a ReplicaSet deletes in any order."""
    nodes = {
        f"n{number}": a_node(f"n{number}", pods, zone=zone, load=load, others=others)
        for number, (pods, zone, load, others) in enumerate(cluster)
    }
    constraints = [TopologySpreadConstraint(topology_key=key, max_skew=most) for key in sorted(keys)]
    order = deletion_order(nodes, constraints, first=first, count=count)
    deleted: set[str] = set()
    for group in order:
        for pod in data.draw(st.permutations(group)):
            before = {key: skew(nodes, deleted, key) for key in keys}
            deleted.add(pod)
            assert all(skew(nodes, deleted, key) <= max(most, before[key]) for key in keys)
    pods = sum(len(node.pods) for node in nodes.values())
    assert len(deleted) == min(count, pods) or keys
    assert all(len({pod.rpartition("-")[0] for pod in group}) == 1 for group in order)
