"""Further resources at the last check before an eviction: no replacement may make its target hot in one."""

import msgspec
import pytest
from builders import GIB, NOW, a_node_utilization, a_placed_pod, a_placement

from equipoise.binder.decisions.destination_check import concluded, destination_search
from equipoise.binder.state.cluster_state import NodeState
from equipoise.contracts.configuration.settings import FurtherResource, FurtherThresholds, LoadSettings, Thresholds
from equipoise.contracts.load.demand import pod_usage
from equipoise.contracts.messages.utilization import ResourceStatus, WindowUsage
from equipoise.contracts.messages.values.resources import Resources

LOAD = LoadSettings()
MEASURED = LoadSettings(resources={"network": FurtherResource(node="rate(sent[$window])", capacity=1.0)})
THRESHOLDS = Thresholds(resources={"network": FurtherThresholds(high=70)})
SENDS = Resources(cpu=1.0, memory=GIB, further={"network": 30.0})


def a_node(name: str, sends: float | None, *, age: float = 5.0, has: bool = True) -> NodeState:
    """A node that can send 100 units per second."""
    utilization = a_node_utilization(name)
    windows = {
        window: WindowUsage(
            sampled_at=usage.sampled_at,
            mean=msgspec.structs.replace(usage.mean, further=None if sends is None else {"network": sends}),
        )
        for window, usage in utilization.windows.items()
    }
    utilization = msgspec.structs.replace(
        utilization,
        base=msgspec.structs.replace(utilization.base, further={"network": 100.0} if has else None),
        windows=windows,
        resources={"network": ResourceStatus(sampled_at=NOW - age)} if has else {},
    )
    return NodeState(placement=a_placement(name), utilization=utilization)


def why(*nodes: NodeState, load: LoadSettings = LOAD) -> str:
    obstacle = concluded(
        destination_search(
            "node-a",
            "node-b",
            SENDS,
            {node.placement.node: node for node in nodes},
            [],
            usage_of=pod_usage({}, load=load, now=NOW),
            load=load,
            thresholds=THRESHOLDS,
            now=NOW,
            skew=0.0,
        )
    )
    return "" if obstacle is None else obstacle.why


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (a_node("node-b", 30.0), ""),
        (a_node("node-b", 45.0), "its network load would be 75%: above 70% (high threshold) and the pod's node"),
        (a_node("node-b", None), "its network load is unknown"),
        (a_node("node-b", 30.0, age=150.0), "its network load is unknown"),
        (a_node("node-b", None, has=False), ""),
    ],
)
def test_the_target_stays_below_its_threshold_with_the_pod(target: NodeState, text: str) -> None:
    """An unknown load is full; a node that does not have the resource has no load of it."""
    found = why(a_node("node-a", 60.0), target)
    assert found == (f"no node for the replacement: node-b: {text}" if text else "")


def test_a_node_that_should_have_the_resource_and_has_none_in_its_message_is_no_target() -> None:
    """The collector has an earlier configuration, or an earlier version."""
    nodes = a_node("node-a", 60.0), a_node("node-b", None, has=False)
    assert "no node for the replacement: node-b: its network load is unknown" == why(*nodes, load=MEASURED)

    elsewhere = FurtherResource(node="rate(sent[$window])", capacity=1.0, node_selector={"network": "fast"})
    assert "" == why(*nodes, load=LoadSettings(resources={"network": elsewhere}))


def test_what_terminating_pods_use_leaves_the_node_of_the_pod_anyway() -> None:
    """Without them, the node of the pod is cooler than the target would be."""
    source = a_node("node-a", 95.0)
    assert source.utilization is not None
    utilization = msgspec.structs.replace(source.utilization, pods={"uid-ends": SENDS})
    ending = a_placed_pod("ends", uid="uid-ends", terminating=True)
    source = NodeState(placement=a_placement("node-a", [ending]), utilization=utilization)
    assert "its network load would be 75%" in why(source, a_node("node-b", 45.0))


def test_a_target_above_its_threshold_may_be_cooler_than_the_node_of_the_pod() -> None:
    """As for cpu and memory: in a busy cluster, nodes are leveled around a mean that may be above the threshold."""
    assert "" == why(a_node("node-a", 95.0), a_node("node-b", 45.0))
