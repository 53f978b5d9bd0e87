"""Where a replacement could be placed, by the messages on the bus."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from builders import (
    GIB,
    NOW,
    a_batch_pod,
    a_gone_pod,
    a_node_utilization,
    a_placed_pod,
    a_placement,
    a_workload,
    a_workload_utilization,
)
from scheduling.pods import a_pod

from equipoise.binder.decisions.destination_check import (
    LARGEST_BATCH,
    Obstacle,
    concluded,
    destination_search,
    refused_by_filters,
    source_refusal,
)
from equipoise.binder.state.cluster_state import NodeState, put_placement
from equipoise.contracts.configuration.settings import LoadSettings, PressureThresholds, ResourceThresholds, Thresholds
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector
from equipoise.contracts.kubernetes.objects.node import Taint
from equipoise.contracts.kubernetes.objects.pod import Affinity, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from equipoise.contracts.load.demand import pod_usage
from equipoise.contracts.messages.placement import NodeColocation, NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import WorkloadUtilization
from equipoise.contracts.messages.values.pressure import NodePressure, Pressure
from equipoise.contracts.messages.values.resources import Resources
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.model.volumes import Volumes

POD = a_pod(requests={"cpu": "500m"})
REDUCTION = Resources(cpu=1.0, memory=2.0**30)
LOAD = LoadSettings()
NO_THRESHOLDS = PressureThresholds()


def a_node(name: str = "node-b", cpu: float | None = 1.0, placement: NodePlacement | None = None) -> NodeState:
    placement = placement or a_placement(name)
    node = NodeState(placement=placement)
    return msgspec.structs.replace(node, utilization=a_node_utilization(name, cpu=cpu))


def obstacle(
    *nodes: NodeState,
    intended: str = "node-b",
    reduction: Resources = REDUCTION,
    pod: PodInfo = POD,
    workloads: Sequence[WorkloadUtilization] = (),
    pressure: PressureThresholds = NO_THRESHOLDS,
) -> Obstacle | None:
    snapshot = ClusterSnapshot()
    for node in nodes:
        put_placement(snapshot, node.placement)
    return concluded(
        destination_search(
            "node-a",
            intended,
            reduction,
            {node.placement.node: node for node in nodes},
            [refused_by_filters(pod, snapshot, Volumes())],
            usage_of=pod_usage({each.workload: each for each in workloads}, load=LOAD, now=NOW),
            load=LOAD,
            thresholds=Thresholds(high=ResourceThresholds(cpu=65), pressure=pressure),
            now=NOW,
            skew=0.0,
        )
    )


def refusal(*nodes: NodeState, intended: str = "node-b", **arguments: Any) -> str:
    found = obstacle(*nodes, intended=intended, **arguments)
    return "" if found is None else found.why


def test_one_node_with_room_is_enough() -> None:
    assert refusal(a_node("node-b", cpu=9.0), a_node("node-c")) == ""


@pytest.mark.parametrize("usage", [Resources(), Resources(cpu=16.0)])
def test_a_pod_that_left_makes_no_target_of_a_hot_node(usage: Resources) -> None:
    """Unmeasured, it subtracts nothing, whatever it requested; measured, no more than the other pods leave."""
    gone = a_gone_pod("job-1", NOW - 1, running_since=NOW - 200, requests=Resources(cpu=16.0), usage=usage)
    placement = a_placement("node-b", [a_placed_pod("web-2", placed_at=NOW - 90_000)], gone=[gone])
    utilization = a_node_utilization("node-b", cpu=8.0, pods={"uid-web-2": Resources(cpu=7.0)})
    node = NodeState(placement=placement, utilization=utilization)

    assert "its cpu load would be" in refusal(node)


@pytest.mark.parametrize("cpu", [1.0, 9.0])
def test_other_nodes_are_examined_only_if_the_target_is_refused(cpu: float) -> None:
    """Few at first: in a large cluster, one of them is enough."""
    nodes = {f"node-{number}": a_node(f"node-{number}", cpu=1.0) for number in range(200)} | {"node-b": a_node(cpu=cpu)}
    examined = []

    def refused(batch: Sequence[NodeState]) -> dict[str, str]:
        examined.extend(node.placement.node for node in batch)
        return {}

    found = concluded(destination_search(
        "node-a", "node-b", REDUCTION, nodes, [refused], usage_of=pod_usage({}, load=LOAD, now=NOW), load=LOAD,
        thresholds=Thresholds(high=ResourceThresholds(cpu=65)), now=NOW, skew=0.0,
    ))  # fmt: skip

    assert found is None
    assert examined == ["node-b"] if cpu == 1.0 else examined[0] == "node-b" and len(examined) < 20


def test_a_search_over_all_nodes_is_made_in_steps_between_which_nodes_may_change() -> None:
    """In a cluster of thousands of nodes, one step would block the binder."""
    nodes = {f"node-{number}": a_node(f"node-{number}", cpu=9.0) for number in range(3_000)}
    examined = list[int]()

    def refused(batch: Sequence[NodeState]) -> dict[str, str]:
        examined.append(len(batch))
        return {}

    search = destination_search(
        "node-a", "node-0", REDUCTION, nodes, [refused], usage_of=pod_usage({}, load=LOAD, now=NOW), load=LOAD,
        thresholds=Thresholds(high=ResourceThresholds(cpu=65)), now=NOW, skew=0.0,
    )  # fmt: skip
    for _ in range(3):
        next(search)
    del nodes["node-2999"]
    nodes["new"] = a_node("new", cpu=1.0)
    found = concluded(search)

    assert [1, 10, 100, LARGEST_BATCH, LARGEST_BATCH] == examined[:5]
    assert 2_999 == sum(examined)
    assert found is not None
    assert found.why.startswith("no node for the replacement: node-0: its cpu load would be")


def test_the_pods_own_node_is_no_target() -> None:
    """However idle it is."""
    assert "no other node" in refusal(a_node("node-a"))


def test_the_reason_is_that_of_the_intended_target() -> None:
    assert "node-c" in refusal(a_node("node-b", cpu=9.0), a_node("node-c", cpu=8.0), intended="node-c")


def test_pods_that_are_not_measured_yet_count() -> None:
    """They are added to the mean of their node."""
    pods = [
        a_placed_pod(f"new-{number}", placed_at=NOW - 5, running_since=NOW - 4, requests=Resources(cpu=1.0))
        for number in range(6)
    ]
    assert "high threshold" in refusal(a_node(placement=a_placement("node-b", pods)))


@pytest.mark.parametrize(("cpu", "reduction"), [(None, REDUCTION), (5.6, REDUCTION), (float("nan"), REDUCTION)])
def test_a_node_of_unknown_load_or_above_the_threshold_is_no_target(cpu: float | None, reduction: Resources) -> None:
    assert refusal(a_node(cpu=cpu), reduction=reduction)


def test_exactly_at_the_threshold_is_not_above_it() -> None:
    """5.5 cores and one more of ten are 65 %."""
    assert refusal(a_node(cpu=5.5)) == ""


@pytest.mark.parametrize(
    ("key", "source", "target"),
    [
        ("ToBeDeletedByClusterAutoscaler", True, True),
        ("karpenter.sh/disrupted", True, True),
        ("DeletionCandidateOfClusterAutoscaler", False, True),
        ("example.com/soft", False, False),
    ],
)
def test_a_node_that_an_autoscaler_removes_loses_and_gets_no_pods(key: str, source: bool, target: bool) -> None:
    """A candidate for removal gets none."""
    node = a_node(placement=a_placement("node-b", taints=[Taint(key=key, effect="PreferNoSchedule")]))
    assert bool(source_refusal(node.placement, LoadSettings(), NOW)) == source
    assert bool(refusal(node)) == target


def test_a_node_that_was_created_while_a_clock_was_ahead_is_not_new_until_then() -> None:
    """That could take years."""
    later = NOW + 31_536_000
    node = a_node(placement=a_placement("node-b", created_at=later, ready_since=later))
    assert source_refusal(node.placement, LoadSettings(), NOW) == ""


def test_a_node_that_is_not_ready_is_neither_target_nor_source() -> None:
    node = a_node(placement=a_placement("node-b", ready=False))
    assert "not Ready" in source_refusal(node.placement, LoadSettings(), NOW)
    assert "not Ready" in refusal(node)


@pytest.mark.parametrize(
    ("fields", "source", "target"),
    [
        ({"created_at": NOW - 299}, "node is younger than 300 s", "node is younger than 300 s"),
        ({"ready_since": NOW - 299}, "node was not Ready within the last 300 s", "node was not Ready"),
        ({"ready_since": None}, "it is not known since when the node is Ready", "it is not known since when"),
        ({"cordoned": True}, "", "node is cordoned"),
        ({"labels": {"liqo.io/type": "virtual-node"}}, "", "virtual node (Liqo)"),
    ],
)
def test_a_node_is_refused_for_the_same_reason_as_by_the_descheduler(
    fields: dict[str, Any], source: str, target: str
) -> None:
    """Otherwise moves that the descheduler proposes would be refused."""
    placement = a_placement("node-b", **fields)
    assert source_refusal(placement, LoadSettings(), NOW) == source
    assert target in refusal(a_node(placement=placement))
    assert bool(refusal(a_node(placement=placement))) == bool(target)


def test_the_utilization_of_a_replaced_node_is_not_used() -> None:
    """Its name is the same, its UID is not."""
    assert "unknown" in refusal(a_node(placement=a_placement("node-b", uid="new")))


def test_in_a_busy_cluster_a_target_may_be_above_the_threshold() -> None:
    """If with the pod it stays cooler than the source."""
    assert "high threshold" in refusal(a_node("node-a", cpu=8.0), a_node("node-b", cpu=7.0))
    assert refusal(a_node("node-a", cpu=8.5), a_node("node-b", cpu=7.0)) == ""


# What the replacement requests


def test_a_node_with_pressure_above_half_of_the_threshold_is_no_target() -> None:
    pressed = a_node()
    pressure = NodePressure(sampled_at=NOW, waiting=Pressure(cpu=0.3))
    pressed = msgspec.structs.replace(pressed, utilization=a_node_utilization("node-b", cpu=1.0, pressure=pressure))

    assert refusal(pressed) == ""
    assert "node has pressure: pods wait for CPU 30%" in refusal(pressed, pressure=PressureThresholds(cpu=50))
    assert refusal(pressed, pressure=PressureThresholds(cpu=70)) == ""


def test_a_node_without_enough_unrequested_resources_is_no_target() -> None:
    """The node has 10 cores, of which a pod requests half a core."""
    occupied = a_placement("node-b", [a_placed_pod(placed_at=NOW - 90_000)])

    assert refusal(a_node(placement=occupied), pod=a_pod(requests={"cpu": "9500m"})) == ""
    assert "node-b: Insufficient cpu" in refusal(a_node(placement=occupied), pod=a_pod(requests={"cpu": "9501m"}))


def test_a_full_node_is_no_target() -> None:
    full = a_placement("node-b", [a_placed_pod()], pod_capacity=1)

    assert "node-b: Too many pods" in refusal(a_node(placement=full))


def test_taints_and_labels_are_those_of_the_placement() -> None:
    tainted = a_placement("node-b", taints=[Taint(key="team", value="a", effect="NoSchedule")])

    assert "untolerated taint" in refusal(a_node(placement=tainted))
    assert "node affinity/selector" in refusal(a_node(), pod=a_pod(node_selector={"disk": "ssd"}))
    labelled = a_placement("node-b", labels={"disk": "ssd"})
    assert refusal(a_node(placement=labelled), pod=a_pod(node_selector={"disk": "ssd"})) == ""


def test_a_batch_pod_needs_what_the_node_offers_of_its_band() -> None:
    offered = NodeColocation(amounts={"batch": Resources(cpu=2.0, memory=4 * GIB)})
    offering = a_placement("node-b", [a_batch_pod()], colocation=offered)

    def asking(milli: int) -> PodInfo:
        return a_pod(requests={"kubernetes.io/batch-cpu": str(milli)})

    assert refusal(a_node(placement=offering), pod=asking(1_000)) == ""
    assert "Insufficient kubernetes.io/batch-cpu" in refusal(a_node(placement=offering), pod=asking(1_001))
    assert "Insufficient kubernetes.io/batch-cpu" in refusal(a_node(), pod=asking(1))


def test_rules_between_pods_are_not_checked() -> None:
    """A placement has no labels of pods: the descheduler has checked them."""
    term = PodAffinityTerm(topology_key="zone", label_selector=LabelSelector(match_labels={"app": "db"}))
    spread = TopologySpreadConstraint(topology_key="zone", label_selector=LabelSelector(match_labels={"app": "web"}))
    pod = a_pod(affinity=Affinity(pod_affinity=PodAffinity(required=[term])), topology_spread_constraints=[spread])

    assert refusal(a_node(), pod=pod) == ""


@pytest.mark.parametrize("resource", ["ephemeral-storage", "nvidia.com/gpu", "hugepages-2Mi"])
def test_resources_that_no_placement_has_are_not_checked(resource: str) -> None:
    """The descheduler, which reads whole nodes, has checked them."""
    assert refusal(a_node(), pod=a_pod(requests={resource: "1"})) == ""


def test_a_node_with_an_object_that_cannot_be_read_is_no_target() -> None:
    """What is requested there is not known."""
    unreadable = a_placement("node-b", unreadable="pod shop/web-1: cpu is '1e308'")
    assert "node-b: an object cannot be read: pod shop/web-1" in refusal(a_node(placement=unreadable))


# What is not known


def new_pods(count: int = 6) -> list[PlacedPod]:
    """Pods of the workload `web` that request a core each and are not measured yet."""
    return [
        a_placed_pod(f"new-{number}", placed_at=NOW - 5, running_since=NOW - 4, requests=Resources(cpu=1.0))
        for number in range(count)
    ]


NODE = a_placement("node-b")
UNKNOWN: dict[str, Sequence[NodeState]] = {
    "no message about the load": [NodeState(placement=NODE)],
    "the load of an earlier node": [a_node(placement=a_placement("node-b", uid="new"))],
    "an old sample": [NodeState(placement=NODE, utilization=a_node_utilization("node-b", sampled_at=NOW - 121))],
    "no window": [NodeState(placement=NODE, utilization=a_node_utilization("node-b", windows={}))],
    "one resource": [a_node(cpu=None)],
    "no number": [a_node(cpu=float("nan"))],
    "no message about the target": [a_node("node-c", cpu=9.0)],
    "no other node": [a_node("node-a")],
    "no node": [],
    "pods that are not measured": [a_node(placement=a_placement("node-b", new_pods()))],
    "the load of the pod's node": [NodeState(placement=a_placement("node-a")), a_node(cpu=7.0)],
    "the pod's node": [a_node(cpu=7.0)],
}
DEFINITE: dict[str, Sequence[NodeState]] = {
    "too hot": [a_node("node-a", cpu=7.0), a_node(cpu=7.0)],
    "too hot without new pods": [
        a_node("node-a", cpu=7.0), a_node(cpu=7.0, placement=a_placement("node-b", new_pods()))
    ],
    "one resource is known": [
        a_node("node-a", cpu=7.0),
        NodeState(placement=NODE, utilization=a_node_utilization("node-b", cpu=7.0, memory=None)),
    ],
    "cordoned, load unknown": [NodeState(placement=a_placement("node-b", cordoned=True))],
    "not Ready, load unknown": [NodeState(placement=a_placement("node-b", ready=False))],
    "no capacity, load unknown": [NodeState(placement=a_placement("node-b", [a_placed_pod()], pod_capacity=1))],
    "load of another node unknown": [
        a_node("node-a", cpu=7.0), a_node(cpu=7.0), NodeState(placement=a_placement("node-c"))
    ],
}  # fmt: skip


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_is_not_known_is_no_reason_against_a_target(case: str) -> None:
    """Nor is it one for it: nothing is evicted until it is known."""
    found = obstacle(*UNKNOWN[case])
    assert found is not None
    assert found.unknown, found.why


@pytest.mark.parametrize("case", DEFINITE)
def test_a_target_is_refused_for_what_is_known(case: str) -> None:
    """However little else is."""
    found = obstacle(*DEFINITE[case])
    assert found is not None
    assert not found.unknown, found.why


def test_new_pods_use_as_much_as_their_workload() -> None:
    """As in the plan of the descheduler, and not what they request."""
    target = a_node(placement=a_placement("node-b", new_pods()))
    assert obstacle(target, workloads=[a_workload_utilization(a_workload(), cpu=0.1)]) is None
    assert obstacle(target, workloads=[a_workload_utilization(a_workload(), cpu=2.0)])
