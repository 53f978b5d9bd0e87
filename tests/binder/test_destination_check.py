"""Where a replacement could go, by what the bus says."""

import msgspec
import pytest
from builders import NOW, a_node_utilization, a_placed_pod, a_placement

from equipoise.binder.decisions.destination_check import no_destination, unsettled_reason
from equipoise.binder.state.cluster_state import NodeState, node_state
from equipoise.contracts.configuration.settings import LoadSettings, Marks, Thresholds
from equipoise.contracts.fit import FitPod
from equipoise.contracts.messages.placement import NodePlacement, Taint
from equipoise.contracts.messages.resources import Resources

POD = FitPod(uid="uid-web-1", namespace="shop", name="web-1", requests={"cpu": 0.5})
RELIEF = Resources(cpu=1.0, memory=2.0**30)


def a_node(name: str = "node-b", cpu: float | None = 1.0, placement: NodePlacement | None = None) -> NodeState:
    node = node_state(placement or a_placement(name))
    return msgspec.structs.replace(node, utilization=a_node_utilization(name, cpu=cpu))


def refusal(*nodes: NodeState, intended: str = "node-b", relief: Resources = RELIEF) -> str:
    return no_destination(
        POD,
        "node-a",
        intended,
        relief,
        nodes,
        load=LoadSettings(),
        thresholds=Thresholds(high=Marks(cpu=65)),
        now=NOW,
        skew=0.0,
    )


def test_one_is_enough() -> None:
    """One node with room is enough, though others have none."""
    assert refusal(a_node("node-b", cpu=9.0), a_node("node-c")) == ""


def test_its_own_node_is_no_target() -> None:
    """The pod's own node does not count, however idle it is."""
    assert "no other node" in refusal(a_node("node-a"))


def test_the_intended_target_says_why() -> None:
    """When nothing fits, the reason of the node that was meant is told."""
    assert "node-c" in refusal(a_node("node-b", cpu=9.0), a_node("node-c", cpu=8.0), intended="node-c")


def test_counts_what_is_not_measured_yet() -> None:
    """Pods that came a moment ago are added to a node's mean: it is not as idle as it looks."""
    pods = [
        a_placed_pod(f"new-{number}", placed_at=NOW - 5, running_since=NOW - 4, requests=Resources(cpu=1.0))
        for number in range(6)
    ]
    assert "high threshold" in refusal(a_node(placement=a_placement("node-b", pods)))


@pytest.mark.parametrize(("cpu", "relief"), [(None, RELIEF), (5.6, RELIEF), (float("nan"), RELIEF)])
def test_unknown_and_full_nodes(cpu: float | None, relief: Resources) -> None:
    """A node of unknown load, and one that the pod would lift above the mark, is no target."""
    assert refusal(a_node(cpu=cpu), relief=relief)


def test_exactly_at_the_mark_is_not_above_it() -> None:
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
def test_autoscalers_are_left_their_nodes(key: str, source: bool, target: bool) -> None:
    """A node that is about to be removed neither loses nor gets pods; a candidate for that gets none."""
    node = a_node(placement=a_placement("node-b", taints=[Taint(key=key, effect="PreferNoSchedule")]))
    assert bool(unsettled_reason(node, LoadSettings(), NOW)) == source
    assert bool(refusal(node)) == target


def test_an_unready_node_is_no_target() -> None:
    """Nor a source."""
    node = a_node(placement=a_placement("node-b", ready=False))
    assert "not Ready" in unsettled_reason(node, LoadSettings(), NOW)
    assert "not Ready" in refusal(node)


def test_another_node_of_the_same_name() -> None:
    """Utilization of a node that was replaced under its name is not that of the new one."""
    assert "unknown" in refusal(a_node(placement=a_placement("node-b", uid="new")))


def test_a_busy_fleet_is_levelled_above_the_mark() -> None:
    """A target above the mark is one if it stays cooler than the source with the pod on it."""
    assert "high threshold" in refusal(a_node("node-a", cpu=8.0), a_node("node-b", cpu=7.0))
    assert refusal(a_node("node-a", cpu=8.5), a_node("node-b", cpu=7.0)) == ""
