"""The filters for the replacement of a pod that still runs."""

from typing import Any

import pytest
from scheduling.pods import a_node, a_pod

from equipoise.contracts.eviction.surge import TEMPLATE_HASH
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import NodeSelector, NodeSelectorTerm, Taint
from equipoise.contracts.kubernetes.objects.pod import (
    Affinity,
    ClaimSource,
    Container,
    ContainerPort,
    NodeAffinity,
    PodAffinity,
    PodAffinityTerm,
    TopologySpreadConstraint,
    Volume,
)
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.replacement import ReplacementFilters

FILTERS = ReplacementFilters()
WEB = {"app": "web"}
APART = Affinity(
    pod_anti_affinity=PodAffinity(
        required=[PodAffinityTerm(topology_key="zone", label_selector=LabelSelector(match_labels=WEB))]
    )
)


def allowed(
    pod: PodInfo, snapshot: ClusterSnapshot, *, current: str = "", filters: ReplacementFilters = FILTERS, **options: Any
) -> list[str]:
    row = snapshot.row(current) if current else None
    found = filters.refusals(pod, snapshot, snapshot.rows, current=row, **options)
    return [snapshot.name(row) for row in found.rows[found.passed].tolist()]


def two_nodes(*here: PodInfo) -> ClusterSnapshot:
    """Nodes `a` and `b` in zones of their own; the pods run on `a`."""
    snapshot = ClusterSnapshot([a_node(name, labels={"zone": name}) for name in ("a", "b")])
    snapshot.add_pods([(0, here)])
    return snapshot


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(requests={"cpu": "4"}),
        a_pod(labels=WEB, affinity=APART),
        a_pod(containers=[Container(name="main", ports=[ContainerPort(host_port=80)])]),
        a_pod(node_name="a"),
    ],
    ids=["requests", "anti-affinity", "host port", "node name"],
)
def test_the_pod_itself_is_in_no_way(pod: PodInfo) -> None:
    """It is gone by then: its node could take the replacement, and it has no node yet."""
    assert allowed(pod, two_nodes(pod), current="a") == ["a", "b"]


def test_the_pod_is_in_the_snapshot_afterwards() -> None:
    pod = a_pod(requests={"cpu": "4"})
    snapshot = two_nodes(pod)

    allowed(pod, snapshot, current="a")

    assert allowed(a_pod("other", requests={"cpu": "1"}), snapshot) == ["b"]


def test_its_spread_is_counted_without_the_pod() -> None:
    """Without it, its zone has the fewest pods."""
    spread = TopologySpreadConstraint(topology_key="zone", label_selector=LabelSelector(match_labels=WEB), max_skew=1)
    pod = a_pod(labels=WEB, topology_spread_constraints=[spread])
    snapshot = two_nodes(pod)
    snapshot.add_pod(a_pod("other", labels=WEB), 1)

    assert allowed(pod, snapshot, current="a") == ["a"]


def test_constraints_are_what_does_not_depend_on_what_pods_occupy() -> None:
    """A node without room, and one with a taint."""
    snapshot = ClusterSnapshot(
        [a_node("full", cpu="1"), a_node("tainted", taints=[Taint(key="x", effect="NoSchedule")])]
    )

    assert allowed(a_pod(requests={"cpu": "2"}), snapshot) == []
    assert allowed(a_pod(requests={"cpu": "2"}), snapshot, constraints=True) == ["full"]


def test_unknown_resources_are_not_checked() -> None:
    pod = a_pod(requests={"example.com/gpu": "1", "cpu": "1"})

    assert allowed(pod, two_nodes()) == []
    assert allowed(pod, two_nodes(), filters=ReplacementFilters(unknown_resources=["example.com/gpu"])) == ["a", "b"]


def test_a_pod_that_may_run_on_named_nodes_only() -> None:
    """A PreFilter plugin names them."""
    rule = SelectorRequirement(key="metadata.name", operator="In", values=["b"])
    required = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[rule])])
    pod = a_pod(affinity=Affinity(node_affinity=NodeAffinity(required=required)))

    assert allowed(pod, two_nodes()) == ["b"]


def test_a_claim_that_does_not_exist_refuses_all_nodes() -> None:
    """With the reason, though no node was examined."""
    claim = Volume(name="data", persistent_volume_claim=ClaimSource(claim_name="lost"))
    pod = a_pod(volumes=[claim])
    snapshot = two_nodes()

    found = FILTERS.refusals(pod, snapshot, snapshot.rows, current=None)

    assert not found.passed.any()
    assert found.reasons() == {'persistentvolumeclaim "lost" not found': 2}


def preferred(pod: PodInfo, snapshot: ClusterSnapshot, **options: Any) -> list[str]:
    """The feasible nodes with the highest total."""
    rows, totals = ReplacementFilters(**options).totals(pod, snapshot, snapshot.rows, current=None)
    return [snapshot.name(row) for row in rows[totals == totals.max(initial=0)].tolist()]


def test_the_emptiest_nodes_are_preferred() -> None:
    """By requests: kube-scheduler does not know usage."""
    snapshot = two_nodes(a_pod("other", {"cpu": "2"}))

    assert preferred(a_pod(requests={"cpu": "1"}), snapshot) == ["b"]
    assert preferred(a_pod(requests={"cpu": "1"}), two_nodes()) == ["a", "b"]


def test_a_node_that_refuses_the_pod_is_not_preferred() -> None:
    """Nor is any, if all do."""
    snapshot = two_nodes(a_pod("other", {"cpu": "2"}))

    assert preferred(a_pod(requests={"cpu": "1"}, node_selector={"zone": "a"}), snapshot) == ["a"]
    assert preferred(a_pod(requests={"cpu": "5"}), snapshot) == []


def test_nodes_without_pods_of_the_same_workload_are_preferred() -> None:
    """By the constraints that kube-scheduler has by default."""
    snapshot = two_nodes(a_pod("other", labels=WEB))
    selector = LabelSelector(match_labels=WEB)

    assert preferred(a_pod(labels=WEB), snapshot, default_selector=lambda pod: selector) == ["b"]


def three_zones(pod: PodInfo) -> ClusterSnapshot:
    """Two nodes in each of three zones. The pod runs on `a-1`, one of the same workload on `b-1` and on `c-1`."""
    names = [f"{zone}-{number}" for zone in "abc" for number in (1, 2)]
    snapshot = ClusterSnapshot([a_node(name, labels={"zone": name[0]}) for name in names])
    snapshot.add_pod(pod, 0)
    for row in (2, 4):
        snapshot.add_pod(pod.replica(f"other-{row}", f"other-{row}"), row)
    return snapshot


def spread_over_zones(*keys: str) -> PodInfo:
    spread = TopologySpreadConstraint(
        topology_key="zone", label_selector=LabelSelector(match_labels=WEB), max_skew=1, match_label_keys=list(keys)
    )
    return a_pod(labels=WEB | {TEMPLATE_HASH: "h1"}, topology_spread_constraints=[spread])


def test_a_replacement_that_is_placed_beside_its_pod_must_also_fit_when_the_pod_has_left() -> None:
    """Zones with 1, 1 and 1 pods: beside the pod any zone is allowed, but 0, 2 and 1 pods would remain."""
    pod = spread_over_zones()
    snapshot = three_zones(pod)
    detached = pod.without_label(TEMPLATE_HASH)
    assert allowed(detached, snapshot) == [*snapshot.names(snapshot.rows)]
    assert allowed(pod, snapshot, current="a-1", detached=detached) == ["a-1", "a-2"]


def test_a_replacement_that_is_placed_beside_its_pod_keeps_apart_from_it() -> None:
    pod = a_pod(labels=WEB | {TEMPLATE_HASH: "h1"}, affinity=APART)
    snapshot = two_nodes(pod)
    assert allowed(pod, snapshot, current="a", detached=pod.without_label(TEMPLATE_HASH)) == ["b"]


def test_a_constraint_that_selects_by_the_template_does_not_count_a_detached_pod() -> None:
    """Nor does it keep its replacement apart."""
    pod = spread_over_zones(TEMPLATE_HASH)
    snapshot = three_zones(pod)
    feasible, _ = FILTERS.totals(pod, snapshot, snapshot.rows, current=0, detached=pod.without_label(TEMPLATE_HASH))
    assert snapshot.names(feasible) == ["a-1", "a-2"]


def test_a_detached_pod_is_in_the_snapshot_only_meanwhile() -> None:
    pod = spread_over_zones()
    snapshot = three_zones(pod)
    allowed(pod, snapshot, current="a-1", detached=pod.without_label(TEMPLATE_HASH))
    assert [snapshot.pod(pod.uid, row) for row in (0, 1)] == [pod, None]
