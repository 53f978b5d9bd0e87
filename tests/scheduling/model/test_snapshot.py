"""The nodes of a cluster and the pods on them."""

import math
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scheduling.pods import a_node, a_pod

from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import NodeSelector, NodeSelectorTerm
from equipoise.scheduling.model.pod_groups import count_by_node
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot

NODES = 4


def contents(snapshot: ClusterSnapshot) -> object:
    """Everything that a plugin can read of the pods. Resources that nobody requests any more are 0."""
    return (
        {
            name: (snapshot.allocatable[index].tolist(), snapshot.requested[index].tolist())
            for name, index in snapshot.resources.items()
            if snapshot.allocatable[index].any() or snapshot.requested[index].any()
        },
        snapshot.assumed.tolist(),
        snapshot.lowest_priority,
        [sorted(pod.uid for pod in snapshot.pods_on(row)) for row in snapshot.rows.tolist()],
        {
            name: counts
            for name in snapshot.groups.namespaces  # also those that had pods once
            if any(counts := count_by_node(snapshot.groups.selected(name, LabelSelector()), NODES).tolist())
        },
    )


@st.composite
def pods(draw: Callable[[st.SearchStrategy[object]], object]) -> PodInfo:
    requests = draw(
        st.dictionaries(st.sampled_from(["cpu", "memory", "example.com/gpu"]), st.sampled_from(["1", "2", "0"]))
    )
    labels = draw(st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["a", "b"])))
    name = f"pod-{draw(st.integers(0, 10**9))}"
    namespace = draw(st.sampled_from(["alpha", "beta"]))
    priority = draw(st.integers(-1, 1))
    return a_pod(name, requests, labels=labels, namespace=str(namespace), priority=priority)  # type: ignore[arg-type]


def test_the_lowest_priority_is_that_of_any_pod() -> None:
    """Infinite without pods."""
    snapshot = a_snapshot()
    found = [snapshot.lowest_priority]
    pods = [a_pod(f"pod-{number}", priority=priority) for number, priority in enumerate((5, -3, -3))]
    for pod in pods:
        snapshot.add_pod(pod, 0)
        found.append(snapshot.lowest_priority)
    for pod in pods[1:]:
        snapshot.remove_pod(pod, 0)
        found.append(snapshot.lowest_priority)

    assert [math.inf, 5, -3, -3, -3, 5] == found


placed = st.lists(st.tuples(pods(), st.integers(0, NODES - 1)), max_size=12, unique_by=lambda pair: pair[0].uid)


def a_snapshot() -> ClusterSnapshot:
    return ClusterSnapshot([a_node(f"node-{number}") for number in range(NODES)])


@given(before=placed, more=placed)
def test_removing_what_was_added_restores_the_snapshot(
    before: list[tuple[PodInfo, int]], more: list[tuple[PodInfo, int]]
) -> None:
    snapshot = a_snapshot()
    for pod, row in before:
        snapshot.add_pod(pod, row)
    expected = contents(snapshot)
    known = {pod.uid for pod, _ in before}
    added = [(pod, row) for pod, row in more if pod.uid not in known]
    for pod, row in added:
        snapshot.add_pod(pod, row)
    for pod, row in added:
        snapshot.remove_pod(pod, row)

    assert contents(snapshot) == expected


@given(before=placed, more=placed)
def test_a_change_of_a_clone_does_not_change_the_original(
    before: list[tuple[PodInfo, int]], more: list[tuple[PodInfo, int]]
) -> None:
    snapshot = a_snapshot()
    for pod, row in before:
        snapshot.add_pod(pod, row)
    expected = contents(snapshot)
    clone = snapshot.clone()
    for pod, row in before[::2]:
        clone.remove_pod(pod, row)
    known = {pod.uid for pod, _ in before}
    for pod, row in more:
        if pod.uid not in known:
            clone.add_pod(pod, row)

    assert contents(snapshot) == expected
    assert contents(snapshot.clone()) == expected


@given(before=placed, more=placed)
def test_many_pods_are_added_as_one_after_the_other(
    before: list[tuple[PodInfo, int]], more: list[tuple[PodInfo, int]]
) -> None:
    """Pods of one shape included."""
    known = {pod.uid for pod, _ in before}
    more = [(pod, row) for pod, row in more if pod.uid not in known]
    more += [(PodInfo(pod.pod, pod.shape, uid=f"{pod.uid}-again"), (row + 1) % NODES) for pod, row in more[:3]]
    one_by_one, at_once = a_snapshot(), a_snapshot()
    for pod, row in before:
        one_by_one.add_pod(pod, row)
        at_once.add_pod(pod, row)
    for pod, row in more:
        one_by_one.add_pod(pod, row)
    at_once.add_pods([(row, [pod for pod, place in more if place == row]) for row in range(NODES)])

    assert contents(at_once) == contents(one_by_one)


def test_a_pod_is_added_to_a_node_once() -> None:
    snapshot = a_snapshot()

    with pytest.raises(ValueError, match="is on node node-0 already"):
        snapshot.add_pods([(1, [a_pod("other")]), (0, [a_pod("one"), a_pod("one")])])

    assert contents(snapshot) == contents(a_snapshot())


@given(placed)
def test_the_sums_are_those_of_the_pods(pairs: list[tuple[PodInfo, int]]) -> None:
    snapshot = a_snapshot()
    for pod, row in pairs:
        snapshot.add_pod(pod, row)

    for resource, index in snapshot.resources.items():
        for row in range(NODES):
            assert snapshot.requested[index, row] == sum(pod.request(resource) for pod in snapshot.pods_on(row))


def test_a_container_without_requests_is_assumed_to_use_a_little() -> None:
    snapshot = ClusterSnapshot(
        [a_node()], [a_pod(node_name="node-1"), a_pod("zero", {"cpu": "0", "memory": "0"}, node_name="node-1")]
    )

    assert snapshot.requested[:2, 0].tolist() == [0, 0]
    assert snapshot.assumed[:, 0].tolist() == [100, 200 * 2**20]


def test_a_changed_node_keeps_its_row_and_its_pods() -> None:
    snapshot = ClusterSnapshot([a_node("a"), a_node("b", labels={"disk": "ssd"})], [a_pod(node_name="b")])
    row = snapshot.row("b")
    assert row is not None
    ssd = selector("disk", "ssd")
    assert snapshot.labels.selected(ssd, b"ssd")[row]

    assert snapshot.put_node(a_node("b", labels={"disk": "hdd"}, cpu="8")) == row

    assert snapshot.allocatable[0, row] == 8_000
    assert [pod.name for pod in snapshot.pods_on(row)] == ["pod-1"]
    assert not snapshot.labels.selected(ssd, b"ssd")[row]


def test_the_row_of_a_removed_node_is_used_again_without_its_pods() -> None:
    snapshot = ClusterSnapshot([a_node("a"), a_node("b")], [a_pod(node_name="a")])
    snapshot.remove_node("a")

    assert [snapshot.name(row) for row in snapshot.rows.tolist()] == ["b"]
    row = snapshot.put_node(a_node("c"))
    assert snapshot.columns == 2
    assert not list(snapshot.pods_on(row))
    assert snapshot.requested[:, row].tolist() == [0, 0, 0, 0]


def test_nodes_can_be_added_to_a_full_snapshot() -> None:
    snapshot = ClusterSnapshot([a_node("a")], [a_pod(requests={"cpu": "1"}, node_name="a")])
    for number in range(20):
        snapshot.put_node(a_node(f"more-{number}", cpu="2"))

    assert len(snapshot.rows) == 21
    assert snapshot.allocatable[0, snapshot.rows].tolist() == [4_000, *[2_000] * 20]
    assert snapshot.requested[0, snapshot.rows].tolist() == [1_000, *[0] * 20]


def test_a_pod_cannot_be_added_twice_or_removed_from_another_node() -> None:
    snapshot = ClusterSnapshot([a_node("a"), a_node("b")], [a_pod(node_name="a")])

    with pytest.raises(ValueError, match="is on node a already"):
        snapshot.add_pod(a_pod(), 0)
    with pytest.raises(KeyError):
        snapshot.remove_pod(a_pod(), 1)


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ["ssd"], [True, False, False]),
        ("NotIn", ["ssd"], [False, True, True]),
        ("Exists", [], [True, True, False]),
        ("DoesNotExist", [], [False, False, True]),
    ],
)
def test_selectors_of_nodes(operator: str, values: list[str], expected: list[bool]) -> None:
    nodes = [a_node("a", labels={"disk": "ssd"}), a_node("b", labels={"disk": "hdd"}), a_node("c")]
    rule = SelectorRequirement(key="disk", operator=operator, values=values)
    term = NodeSelectorTerm(match_expressions=[rule])

    assert ClusterSnapshot(nodes).labels.term(term).tolist() == expected


def test_numbers_of_labels_are_compared() -> None:
    nodes = [a_node(str(number), labels={"number": str(number)}) for number in range(4)]
    rule = SelectorRequirement(key="number", operator="Gt", values=["1"])

    found = ClusterSnapshot(nodes).labels.term(NodeSelectorTerm(match_expressions=[rule]))

    assert np.flatnonzero(found).tolist() == [2, 3]


def selector(key: str, *values: str) -> NodeSelector:
    rule = SelectorRequirement(key=key, operator="In", values=list(values))
    return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[rule])])


def test_pods_of_one_workload_are_one_group() -> None:
    alike = [a_pod(f"web-{number}", labels={"app": "web"}, node_name="a") for number in range(3)]
    other = a_pod("db", labels={"app": "db"}, node_name="a")
    snapshot = ClusterSnapshot([a_node("a")], [*alike, other])

    assert len(snapshot.groups.selected("default", LabelSelector())) == 2


@given(before=pods(), after=pods())
def test_a_pod_that_is_put_replaces_itself(before: PodInfo, after: PodInfo) -> None:
    """Whatever has changed: nothing of the earlier version remains."""
    node = a_node("node-0")
    metadata = msgspec.structs.replace(after.pod.metadata, uid=before.uid, name=before.name)
    changed = before.updated(msgspec.structs.replace(after.pod, metadata=metadata))
    again = changed.updated(changed.pod)
    snapshot, expected = ClusterSnapshot([node], size=NODES), ClusterSnapshot([node], size=NODES)
    for pod in (before, changed, again):
        snapshot.put_pod(pod, 0)
    expected.add_pod(PodInfo(again.pod), 0)

    assert contents(expected) == contents(snapshot)
    assert again.requests is changed.requests
    (found,) = snapshot.pods_on(0)
    assert found is again
