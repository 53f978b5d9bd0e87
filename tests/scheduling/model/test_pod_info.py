"""Pods with what follows from their parts."""

import gc
from random import Random
from typing import Any

import msgspec
import pytest
from scheduling.pods import a_framework, a_node, a_pod

from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, ResourceRequirements, SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import NodeSelectorTerm
from equipoise.contracts.kubernetes.objects.pod import (
    Affinity,
    Container,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodes,
)
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.nominated import Nominated
from equipoise.scheduling.model.pod_info import PodInfo, PodReader
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.default_preemption import TERMINATING, DefaultPreemption
from equipoise.scheduling.plugins.node_affinity import NodeAffinityPlugin
from equipoise.scheduling.plugins.resources.node_resources_fit import NodeResourcesFit
from equipoise.scheduling.scheduler import Scheduler

WEB = a_pod("web", {"cpu": "1"}, labels={"app": "web"}).pod


def changed(pod: Pod, name: str = "other", **spec: Any) -> Pod:
    """A pod with the same parts, except for these."""
    metadata = msgspec.structs.replace(pod.metadata, name=name, uid=f"uid-{name}")
    return msgspec.structs.replace(pod, metadata=metadata, spec=msgspec.structs.replace(pod.spec, **spec))


def test_pods_of_the_same_parts_share_their_shape() -> None:
    """They differ in name, node and priority."""
    reader = PodReader()
    one, two = reader.read(WEB), reader.read(changed(WEB, node_name="a", priority=7))

    assert one.shape is two.shape
    assert (one.name, two.name, two.uid, two.priority) == ("web", "other", "uid-other", 7)


@pytest.mark.parametrize(
    "part",
    [
        {"containers": [Container(name="main", resources=ResourceRequirements(requests={"cpu": "2"}))]},
        {"init_containers": [Container(name="init", resources=ResourceRequirements(requests={"cpu": "2"}))]},
        {"overhead": {"cpu": "1"}},
        {"resources": ResourceRequirements(requests={"cpu": "3"})},
        {"node_selector": {"disk": "ssd"}},
        {"affinity": Affinity()},
    ],
    ids=lambda part: next(iter(part)),
)
def test_pods_of_other_parts_have_a_shape_of_their_own(part: dict[str, Any]) -> None:
    """What follows from the part is that of the pod, whatever was read before."""
    reader = PodReader()
    before = reader.read(WEB)
    other = reader.read(changed(WEB, **part))

    assert other.shape is not before.shape
    assert other.requests == PodReader().read(other.pod).requests


def test_labels_namespace_and_termination_are_part_of_the_shape() -> None:
    reader = PodReader()
    pods = [
        WEB,
        msgspec.structs.replace(WEB, metadata=msgspec.structs.replace(WEB.metadata, labels={"app": "db"})),
        msgspec.structs.replace(WEB, metadata=msgspec.structs.replace(WEB.metadata, namespace="elsewhere")),
        msgspec.structs.replace(
            WEB,
            metadata=msgspec.structs.replace(
                WEB.metadata, deletion_timestamp=a_pod(terminating=True).pod.metadata.deletion_timestamp
            ),
        ),
    ]

    infos = [reader.read(pod) for pod in pods]  # all of them are kept, and so are their shapes

    assert len({info.group_key for info in infos}) == 4


def test_shapes_without_pods_are_not_kept() -> None:
    """Workloads come and go."""
    reader = PodReader()
    for number in range(100):
        reader.read(a_pod(f"pod-{number}", {"cpu": "1"}).pod)
    gc.collect()

    assert len(reader) == 0


# Pods that are made of others

APP = LabelSelector(match_labels={"app": "web"})
TERM = PodAffinityTerm(label_selector=APP, topology_key="kubernetes.io/hostname")


def a_template() -> PodInfo:
    affinity = Affinity(pod_anti_affinity=PodAffinity(required=[TERM]))
    return a_pod("web", {"cpu": "1"}, labels={"app": "web"}, priority=7, affinity=affinity)


def everything(pod: PodInfo) -> dict[str, Any]:
    """All that can be read of it, but its name, its uid and what it was parsed from."""
    names = [name for name in dir(pod) if not name.startswith("_")]
    values = {name: getattr(pod, name) for name in names if name not in ("name", "uid", "pod")}
    return {name: value for name, value in values.items() if not callable(value)}


def test_a_replica_differs_in_name_and_uid_only() -> None:
    """Also from a replica, and whether the template was used before or not."""
    template = a_template()
    replica = template.replica("web-1", "uid-1")

    assert ("web-1", "uid-1") == (replica.name, replica.uid)
    assert everything(replica) == everything(template) == everything(replica.replica("web-2", "uid-2"))
    assert ("web", "uid-web") == (template.name, template.uid)


def test_the_nodes_that_a_pod_requires_have_a_key_that_is_made_once() -> None:
    """Of all its replicas, and the same for other pods that require the same nodes."""
    pod, same, other = (
        a_pod(name, node_selector={"disk": disk}) for name, disk in (("a", "s"), ("b", "s"), ("c", "h"))
    )

    assert pod.shape.required_nodes_key is pod.replica("d", "uid-d").shape.required_nodes_key
    assert pod.shape.required_nodes_key == same.shape.required_nodes_key != other.shape.required_nodes_key


def test_a_deleted_pod_is_not_selected_with_the_others() -> None:
    """It is still the same pod, and the original is not changed."""
    snapshot, pod = ClusterSnapshot([a_node()]), a_template()
    snapshot.add_pod(pod, 0)
    snapshot.remove_pod(pod, 0)
    snapshot.add_pod(pod.deleted(), 0)

    assert [True] == [group.pod.terminating for group in snapshot.groups.selected("default", APP)]
    assert snapshot.has_pod(pod, 0)
    assert not pod.terminating

    snapshot.remove_pod(pod, 0)
    assert not snapshot.groups.selected("default", APP)


def test_a_pod_that_is_put_on_a_node_keeps_its_name() -> None:
    placed = a_template().replica("web-1", "uid-1").on_node("a")

    assert (placed.name, placed.uid, placed.pod.spec.node_name) == ("web-1", "uid-1", "a")


def test_preferred_nodes_are_added_to_a_pod() -> None:
    """Its other terms remain, and the original has none of them."""

    def preferring(name: str, weight: int) -> PreferredNodes:
        rule = SelectorRequirement(key="kubernetes.io/hostname", operator="In", values=[name])
        return PreferredNodes(weight=weight, preference=NodeSelectorTerm(match_expressions=[rule]))

    snapshot, template = ClusterSnapshot([a_node("a"), a_node("b"), a_node("c")]), a_template()
    pod = template.with_preferred_nodes([preferring("a", 50)]).with_preferred_nodes([preferring("b", 100)])

    found = [
        a_framework(NodeAffinityPlugin()).score(CycleState(), each, snapshot, snapshot.rows).total.tolist()
        for each in (template, pod)
    ]

    assert [[0, 0, 0], [50, 100, 0]] == found
    assert pod.required_anti_affinity == template.required_anti_affinity


@pytest.mark.parametrize("preempted", [True, False])
def test_a_preempted_pod_keeps_its_preemptor_waiting(preempted: bool) -> None:
    """While the victim terminates, the nominated pod removes no other. It may if the victim was deleted otherwise."""
    victim = a_pod("victim", {"cpu": "4"})
    snapshot, nominated = ClusterSnapshot([a_node(cpu="4")]), Nominated()
    snapshot.add_pod(victim.deleted(preempted=preempted), 0)
    new = a_pod("new", {"cpu": "4"}, priority=1)
    nominated.add(new, "node-1")
    preemption = DefaultPreemption(lambda: framework, nominated, lambda: [], lambda: 0.0)
    framework = a_framework(NodeResourcesFit(), preemption)

    found = Scheduler(framework).schedule(new, snapshot, Random(1), nominated=nominated).preemption

    assert found is not None
    assert preempted != bool(found.victims)
    assert preempted == (TERMINATING in str(found.status.reasons))
