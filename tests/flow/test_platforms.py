"""Nodes of several architectures and operating systems: pods go only where a pod of their workload has been ready."""

from typing import Any

import msgspec
import pytest
from builders import GIB, NOW, a_node_utilization, a_placed_pod, a_placement, a_workload
from descheduler.snapshots import a_pod, a_snapshot, evaluation_settings
from scorer.hinted import WEB, HintedCluster, a_pod_of

from equipoise.binder.decisions.destination_check import refused_by_platform
from equipoise.binder.state.cluster_state import ClusterState
from equipoise.collector.decisions.pod_times import placed_pod, trimmed
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.contracts.kubernetes.nodes.platforms import platform_of, runs_on
from equipoise.contracts.kubernetes.objects.metadata import Condition, SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import Node, NodeSelector, NodeSelectorTerm
from equipoise.contracts.kubernetes.objects.pod import Pod, PodSpec
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.state.cluster_builder import ClusterBuilder
from equipoise.scheduling.model.pod_info import PodInfo

AMD64 = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
ARM64 = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"}
WINDOWS = {
    "kubernetes.io/os": "windows",
    "kubernetes.io/arch": "amd64",
    "node.kubernetes.io/windows-build": "10.0.17763",
}
OTHER_WINDOWS = WINDOWS | {"node.kubernetes.io/windows-build": "10.0.20348"}
BETA = {"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64"}


def requiring(**labels: list[str]) -> NodeSelector:
    rules = [
        SelectorRequirement(key=f"kubernetes.io/{name}", operator="In", values=values)
        for name, values in labels.items()
    ]
    return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=rules)])


@pytest.mark.parametrize(
    ("node", "proven", "required", "expected"),
    [
        (ARM64, [AMD64], None, False),
        (ARM64, [AMD64, ARM64], None, True),
        (BETA, [AMD64], None, True),
        (WINDOWS, [AMD64], None, False),
        (WINDOWS, [OTHER_WINDOWS], None, False),
        ({}, [AMD64], None, False),  # nothing is known of a node without labels
        (AMD64, [{}], None, False),
        ({}, [{}], None, True),
        (ARM64, [], None, False),
        (ARM64, [AMD64], requiring(arch=["amd64", "arm64"]), True),  # so the pods say
        (WINDOWS, [AMD64], requiring(arch=["amd64", "arm64"]), False),
        (ARM64, [AMD64], requiring(os=["linux"]), False),
    ],
)
def test_images_run_where_the_workload_has_run_or_the_pods_say(
    node: dict[str, str], proven: list[dict[str, str]], required: NodeSelector | None, expected: bool
) -> None:
    assert runs_on(platform_of(node), [platform_of(labels) for labels in proven], required) == expected


# plans


def planned(pods: list[Pod], **labels: dict[str, str]) -> list[str]:
    """The targets of the moves away from node-a, which is hot; the other nodes are idle."""
    snapshot = a_snapshot(*pods, nodes=list(labels))
    usage = {pod.metadata.uid: Resources(cpu=2.0, memory=GIB) for pod in pods}
    hot = a_node_utilization("node-a", cpu=8.0, pods=usage)

    def with_labels(node: Node) -> Node:
        name = node.metadata.name
        metadata = msgspec.structs.replace(node.metadata, labels={HOSTNAME: name} | labels[name])
        return msgspec.structs.replace(node, metadata=metadata)

    watched = msgspec.structs.replace(snapshot.watched, nodes=[with_labels(node) for node in snapshot.watched.nodes])
    snapshot = msgspec.structs.replace(snapshot, nodes={**snapshot.nodes, "node-a": hot}, watched=watched)
    plan = LowNodeLoad().plan(ClusterBuilder(snapshot, evaluation_settings()).cluster(), {"node-a"})
    return [move.target for move in plan.moves]


WEB_PODS = [a_pod("web-1"), a_pod("web-2")]


def unready(pod: Pod) -> Pod:
    """Crashing again and again: its phase is Running."""
    status = msgspec.structs.replace(pod.status, conditions=[Condition(type="Ready", status="False")])
    return msgspec.structs.replace(pod, status=status)


def test_no_pod_is_moved_to_an_architecture_on_which_none_of_its_workload_is_ready() -> None:
    assert planned(WEB_PODS, **{"node-a": AMD64, "node-b": ARM64}) == []
    assert planned(WEB_PODS, **{"node-a": AMD64, "node-b": WINDOWS}) == []
    assert planned(WEB_PODS, **{"node-a": AMD64, "node-b": {}}) == []
    assert planned(WEB_PODS, **{"node-a": AMD64, "node-b": ARM64, "node-c": AMD64}) == ["node-c"]
    assert planned(WEB_PODS, **{"node-a": {}, "node-b": {}}) == ["node-b"]


def test_a_pod_of_the_workload_that_is_ready_there_proves_an_architecture() -> None:
    """One that crashes does not."""
    there = a_pod("web-3", "node-b")

    assert planned([*WEB_PODS, there], **{"node-a": AMD64, "node-b": ARM64}) == ["node-b"]
    assert planned([*WEB_PODS, unready(there)], **{"node-a": AMD64, "node-b": ARM64}) == []


def test_pods_that_state_their_architectures_are_moved_to_all_of_them() -> None:
    selector: dict[str, Any] = {"node_selector": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}}

    assert planned([a_pod("web-1", **selector), a_pod("web-2", **selector)], **{"node-a": ARM64, "node-b": AMD64}) == [
        "node-b"
    ]


# the binder


def test_a_binder_takes_no_other_architecture_for_a_destination() -> None:
    state = ClusterState(LoadSettings())
    for node, labels, pods in (
        ("node-a", AMD64, []), ("node-b", ARM64, []), ("node-c", ARM64, [a_placed_pod("web-3", has_been_ready=True)])
    ):  # fmt: skip
        state.on_placement(a_placement(node, pods, labels=labels), NOW)
    pod = PodInfo(Pod(spec=PodSpec(containers=[])))
    nodes = [*state.nodes.values()]
    other, own = (state.ready_platforms(a_workload(name), "node-a") for name in ("other", "web"))

    assert set(refused_by_platform(pod, other)(nodes)) == {"node-b", "node-c"}
    assert refused_by_platform(pod, own)(nodes) == {}


def test_placements_contain_whether_a_pod_has_been_ready() -> None:
    """A pod that crashes has a start time, as a pod that runs."""
    pod = a_pod()
    ready = placed_pod(trimmed(pod), None, NOW, 600.0)
    crashing = placed_pod(trimmed(unready(pod)), None, NOW, 600.0)
    later = placed_pod(trimmed(unready(pod)), ready, NOW, 600.0)

    assert (ready.has_been_ready, crashing.has_been_ready, later.has_been_ready) == (True, False, True)


# hints


def hinted_nodes(*, ready_on_arm64: bool) -> set[str]:
    cluster = HintedCluster()
    ready = msgspec.structs.replace(a_pod_of(WEB, "web-1"), has_been_ready=True)
    for number, cores in enumerate((8.0, 4.0, 5.0, 3.0)):
        cluster.node(f"node-{number}", cores, [ready] if number == 0 else [], labels={HOSTNAME: str(number)} | AMD64)
    there = msgspec.structs.replace(a_pod_of(WEB, "web-2"), has_been_ready=ready_on_arm64)
    cluster.node("node-4", 0.5, [there], labels={HOSTNAME: "4"} | ARM64)
    cluster.measured()
    return set(cluster.update()[WEB].weights)


def test_hints_name_only_nodes_of_an_architecture_on_which_the_workload_has_been_ready() -> None:
    assert "4" in hinted_nodes(ready_on_arm64=True)
    assert "4" not in hinted_nodes(ready_on_arm64=False)
