"""Which changes of the cluster may help a pod that a plugin refused."""

from typing import Any

import pytest
from scheduling.pods import a_node, a_pod
from scheduling.storage import uses
from scheduling.topology import HOST, ZONE, apart, app, in_zone, near, term

from equipoise.contracts.kubernetes.objects.node import Node, Taint
from equipoise.contracts.kubernetes.objects.pod import Container, ContainerPort, Toleration, TopologySpreadConstraint
from equipoise.scheduling.configuration import default_configuration
from equipoise.scheduling.framework.events import ClusterEvent, QueueingHint
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.volumes import Volumes
from equipoise.scheduling.plugins.handle import Handle
from equipoise.scheduling.plugins.node_affinity import NodeAffinityPlugin
from equipoise.scheduling.plugins.node_name import NodeName
from equipoise.scheduling.plugins.node_ports import NodePorts
from equipoise.scheduling.plugins.node_unschedulable import NodeUnschedulable
from equipoise.scheduling.plugins.pods.inter_pod_affinity import InterPodAffinity
from equipoise.scheduling.plugins.pods.pod_topology_spread import PodTopologySpread
from equipoise.scheduling.plugins.resources.node_resources_fit import NodeResourcesFit
from equipoise.scheduling.plugins.scheduling_gates import SchedulingGates
from equipoise.scheduling.plugins.taint_toleration import TaintToleration
from equipoise.scheduling.plugins.volumes.node_volume_limits import NodeVolumeLimits
from equipoise.scheduling.plugins.volumes.volume_binding import VolumeBinding
from equipoise.scheduling.plugins.volumes.volume_restrictions import VolumeRestrictions
from equipoise.scheduling.plugins.volumes.volume_zone import VolumeZone
from equipoise.scheduling.profile import build_framework


def changed(old: Node | None, new: Node | None) -> ClusterEvent:
    action: Any = "add" if old is None else "delete" if new is None else "update"
    return ClusterEvent(kind="Node", action=action, old=old, new=new)


def gone(pod: PodInfo) -> ClusterEvent:
    return ClusterEvent(kind="Pod", action="delete", old=pod)


def with_port(name: str, port: int, **more: Any) -> PodInfo:
    container = Container(name="main", ports=[ContainerPort(host_port=port)])
    return a_pod(name, containers=[container], **more)


SPOT = Taint(key="spot", effect="NoSchedule")
SSD = a_node(labels={"disk": "ssd"})
TOLERANT = a_pod(tolerations=[Toleration(key="spot", operator="Exists")])

CASES: dict[str, tuple[QueueingHint, PodInfo, ClusterEvent, bool]] = {
    "a node with the labels": (NodeAffinityPlugin(), a_pod(node_selector={"disk": "ssd"}), changed(None, SSD), True),
    "a node without the labels": (
        NodeAffinityPlugin(),
        a_pod(node_selector={"disk": "hdd"}),
        changed(None, SSD),
        False,
    ),
    "a node gets the labels": (
        NodeAffinityPlugin(),
        a_pod(node_selector={"disk": "ssd"}),
        changed(a_node(), SSD),
        True,
    ),
    "a node had the labels before": (
        NodeAffinityPlugin(),
        a_pod(node_selector={"disk": "ssd"}),
        changed(SSD, a_node(labels={"disk": "ssd", "a": "b"})),
        False,
    ),
    "a pod is gone, but labels are missing": (
        NodeAffinityPlugin(),
        a_pod(node_selector={"disk": "ssd"}),
        gone(a_pod("old")),
        False,
    ),
    "the named node": (NodeName(), a_pod(node_name="node-1"), changed(None, a_node("node-1")), True),
    "another node than the named one": (NodeName(), a_pod(node_name="node-1"), changed(None, a_node("node-2")), False),
    "a node is uncordoned": (NodeUnschedulable(), a_pod(), changed(a_node(cordoned=True), a_node()), True),
    "a node is cordoned": (NodeUnschedulable(), a_pod(), changed(a_node(), a_node(cordoned=True)), False),
    "a taint is gone": (TaintToleration(), a_pod(), changed(a_node(taints=[SPOT]), a_node()), True),
    "a taint that is not tolerated": (TaintToleration(), a_pod(), changed(None, a_node(taints=[SPOT])), False),
    "a taint that is tolerated": (TaintToleration(), TOLERANT, changed(None, a_node(taints=[SPOT])), True),
    "a pod with the port is gone": (NodePorts(), with_port("new", 80), gone(with_port("old", 80)), True),
    "a pod with another port is gone": (NodePorts(), with_port("new", 80), gone(with_port("old", 81)), False),
    "a pod is gone": (NodeResourcesFit(), a_pod(requests={"cpu": "1"}), gone(a_pod("old")), True),
    "a node that is large enough": (NodeResourcesFit(), a_pod(requests={"cpu": "1"}), changed(None, a_node()), True),
    "a node that is too small": (NodeResourcesFit(), a_pod(requests={"cpu": "5"}), changed(None, a_node()), False),
    "a node grows": (
        NodeResourcesFit(),
        a_pod(requests={"cpu": "5"}),
        changed(a_node(), a_node(cpu="8")),
        True,
    ),
    "a pod is resized to less": (
        NodeResourcesFit(),
        a_pod(requests={"cpu": "1"}),
        ClusterEvent(kind="Pod", action="update", old=a_pod("old", {"cpu": "2"}), new=a_pod("old", {"cpu": "1"})),
        True,
    ),
    "a pod is resized to more": (
        NodeResourcesFit(),
        a_pod(requests={"cpu": "1"}),
        ClusterEvent(kind="Pod", action="update", old=a_pod("old", {"cpu": "1"}), new=a_pod("old", {"cpu": "2"})),
        False,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_whether_an_event_may_help(name: str) -> None:
    plugin, pod, event, helps = CASES[name]

    assert plugin.may_help(pod, event) is helps


@pytest.mark.parametrize("plugin", [NodeAffinityPlugin(), NodeUnschedulable(), TaintToleration(), NodeResourcesFit()])
def test_a_change_of_the_pod_itself_may_help(plugin: QueueingHint) -> None:
    pod = a_pod()
    event = ClusterEvent(kind="UnscheduledPod", action="update", old=pod, new=pod)

    assert plugin.may_help(pod, event)


def added(pod: PodInfo) -> ClusterEvent:
    return ClusterEvent(kind="Pod", action="add", new=pod)


def relabelled(old: PodInfo, new: PodInfo) -> ClusterEvent:
    return ClusterEvent(kind="Pod", action="update", old=old, new=new)


WEB, DB = {"app": "web"}, {"app": "db"}
NEAR_DB, APART = near(term(app("db"), HOST)), apart(term(app("web"), HOST))
NEW, OLD_WEB, OLD_DB = a_pod("new", labels=WEB), a_pod("old", labels=WEB), a_pod("old", labels=DB)
SPREAD = a_pod("new", labels=WEB, topology_spread_constraints=[TopologySpreadConstraint(
    topology_key=ZONE, label_selector=app("web")
)])  # fmt: skip
CONSTRAINED = PodTopologySpread(lambda pod: None)
CLAIM = a_pod("new", volumes=uses("data"))


@pytest.mark.parametrize(
    ("plugin", "pod", "event", "helps"),
    [
        (InterPodAffinity(), a_pod("new", affinity=NEAR_DB), added(OLD_DB), True),
        (InterPodAffinity(), a_pod("new", affinity=NEAR_DB), added(OLD_WEB), False),
        (InterPodAffinity(), a_pod("new", affinity=NEAR_DB), relabelled(OLD_WEB, OLD_DB), True),
        (InterPodAffinity(), a_pod("new", affinity=NEAR_DB), relabelled(OLD_DB, OLD_DB), False),
        (InterPodAffinity(), a_pod("new", affinity=NEAR_DB, namespace="shop"), added(OLD_DB), False),
        (InterPodAffinity(), a_pod("new", affinity=APART), gone(OLD_WEB), True),
        (InterPodAffinity(), NEW, gone(a_pod("old", affinity=APART)), True),
        (InterPodAffinity(), NEW, gone(OLD_WEB), False),
        (InterPodAffinity(), NEW, changed(None, SSD), True),
        (InterPodAffinity(), NEW, changed(SSD, SSD), False),
        (InterPodAffinity(), NEW, changed(SSD, None), False),
        (CONSTRAINED, SPREAD, gone(OLD_WEB), True),
        (CONSTRAINED, SPREAD, gone(OLD_DB), False),
        (CONSTRAINED, SPREAD, gone(a_pod("old", labels=WEB, namespace="shop")), False),
        (CONSTRAINED, SPREAD, relabelled(OLD_WEB, OLD_DB), True),
        (CONSTRAINED, SPREAD, relabelled(OLD_WEB, OLD_WEB), False),
        (CONSTRAINED, SPREAD, changed(None, SSD), False),
        (CONSTRAINED, SPREAD, changed(None, in_zone("a", "a")), True),
        (CONSTRAINED, SPREAD, changed(in_zone("a", "a"), None), True),
        (CONSTRAINED, SPREAD, changed(in_zone("a", "a"), in_zone("a", "b")), True),
        (CONSTRAINED, SPREAD, changed(in_zone("a", "a"), in_zone("a", "a")), False),
        (VolumeRestrictions(Volumes()), CLAIM, gone(a_pod("old", volumes=uses("data"))), True),
        (VolumeRestrictions(Volumes()), CLAIM, gone(a_pod("old", volumes=uses("data"), namespace="shop")), False),
        (VolumeRestrictions(Volumes()), CLAIM, gone(OLD_WEB), False),
        (NodeVolumeLimits(Volumes()), CLAIM, gone(a_pod("old", volumes=uses("other"))), True),
        (NodeVolumeLimits(Volumes()), CLAIM, gone(OLD_WEB), False),
        (VolumeZone(Volumes()), CLAIM, gone(OLD_WEB), False),
        (VolumeZone(Volumes()), CLAIM, changed(None, SSD), True),
        (VolumeBinding(Volumes()), CLAIM, ClusterEvent(kind="PersistentVolume", action="add"), True),
        (VolumeBinding(Volumes()), CLAIM, ClusterEvent(kind="PersistentVolume", action="delete"), False),
        (SchedulingGates(), NEW, changed(None, SSD), False),
    ],
)
def test_plugins_about_pods_and_volumes(plugin: QueueingHint, pod: PodInfo, event: ClusterEvent, helps: bool) -> None:
    assert plugin.may_help(pod, event) is helps


def test_every_plugin_that_refuses_pods_has_hints() -> None:
    """Except that of devices, which is helped by every event: what it waits for is not watched."""
    framework = build_framework(default_configuration().profiles[0], Handle())
    plugins = [plugin for point in ("preEnqueue", "preFilter", "filter") for plugin in framework.plugins(point)]

    assert {plugin.name for plugin in plugins if not isinstance(plugin, QueueingHint)} == {"DynamicResources"}
