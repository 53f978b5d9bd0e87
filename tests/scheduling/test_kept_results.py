"""What is kept between two decisions, because it follows from the nodes or from objects, never makes another decision.

After each of a sequence of changes, a scheduler decides as a new one with the same objects.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from scheduling.pods import a_node, a_pod
from scheduling.topology import HOST, ZONE

from equipoise.contracts.kubernetes.objects.metadata import (
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    ResourceRequirements,
)
from equipoise.contracts.kubernetes.objects.node import ContainerImage, Node, Taint
from equipoise.contracts.kubernetes.objects.pod import Container, Toleration
from equipoise.contracts.kubernetes.objects.workload import (
    KubernetesService,
    KubernetesServiceSpec,
    WorkloadObject,
    WorkloadSpec,
)
from equipoise.scheduling.cluster_scheduler import ClusterScheduler
from equipoise.scheduling.model.pod_info import PodInfo

NODES = ("a", "b", "c", "d")
APPS = ("web", "db")
IMAGE = "app:1"
OWNER = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="1", controller=True)

Change = Callable[[ClusterScheduler, dict[str, Any]], None]
"""Of a scheduler, and of the objects that a new one gets: by kind and name."""


def put(cluster: ClusterScheduler, objects: dict[str, Any], key: str, item: Any) -> None:
    cluster.put(item)
    objects[key] = item


def remove(cluster: ClusterScheduler, objects: dict[str, Any], key: str) -> None:
    if key in objects:
        cluster.remove(objects.pop(key))


def put_pod(cluster: ClusterScheduler, objects: dict[str, Any], number: int, pod: PodInfo, node: str) -> None:
    if f"node {node}" not in objects:
        return
    remove_pod(cluster, objects, number)
    objects[f"pod {number}"] = placed = pod.replica(f"running-{number}", f"uid-{number}").on_node(node)
    cluster.put_pod(placed)


def remove_pod(cluster: ClusterScheduler, objects: dict[str, Any], number: int) -> None:
    if (before := objects.pop(f"pod {number}", None)) is not None:
        cluster.remove_pod(before)


def remove_node(cluster: ClusterScheduler, objects: dict[str, Any], name: str) -> None:
    """With its pods, which otherwise wait for its return."""
    for key, pod in list(objects.items()):
        if isinstance(pod, PodInfo) and pod.pod.spec.node_name == name:
            remove_pod(cluster, objects, int(key.removeprefix("pod ")))
    remove(cluster, objects, f"node {name}")


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    """Mostly plain ones: with cpu and memory, a host name, without taints and images."""
    name = draw(st.sampled_from(NODES))
    rarely = st.sampled_from([False] * 5 + [True])
    effects = st.sampled_from(["NoSchedule", "PreferNoSchedule"])
    node = a_node(
        name,
        labels={ZONE: draw(st.sampled_from(["1", "2"]))} if draw(rarely) else {},
        taints=[Taint(key="dedicated", effect=draw(effects))] if draw(rarely) else [],
        cordoned=draw(rarely),
        cpu=draw(st.sampled_from(["4", "8"])),
        memory="0" if draw(rarely) else draw(st.sampled_from(["16Gi", "20Gi", "9e17"])),
        pods=draw(st.sampled_from([2, 110])),
        **({"example.com/gpu": "1"} if draw(rarely) else {}),
    )
    if draw(rarely):
        del node.metadata.labels[HOST]
    if draw(rarely):
        node.status.images.append(ContainerImage(names=[IMAGE], size_bytes=500 * 2**20))
    return node


@st.composite
def pods(draw: st.DrawFn) -> PodInfo:
    requests: dict[str, str] = {}
    for resource, amounts in (
        ("cpu", ["100m", "1500m", "3"]),
        ("memory", ["1Gi", "7Gi", "5e18"]),
        ("example.com/gpu", ["1"]),
    ):
        if draw(st.booleans()):
            requests[resource] = draw(st.sampled_from(amounts))
    found = a_pod(
        "new",
        labels={"app": draw(st.sampled_from(APPS))},
        containers=[Container(name="main", image=IMAGE, resources=ResourceRequirements(requests=requests))],
        tolerations=draw(st.sampled_from([[], [Toleration(key="dedicated", operator="Exists")]])),
    )
    if draw(st.booleans()):
        found.pod.metadata.owner_references.append(OWNER)
    return found


def service(labels: Mapping[str, str]) -> KubernetesService:
    metadata = ObjectMeta(name="service", namespace="default")
    return KubernetesService(metadata=metadata, spec=KubernetesServiceSpec(selector=dict(labels)))


def workload(labels: Mapping[str, str]) -> WorkloadObject:
    metadata = ObjectMeta(name="web", namespace="default")
    selector = LabelSelector(match_labels=dict(labels))
    return WorkloadObject(kind="ReplicaSet", metadata=metadata, spec=WorkloadSpec(selector=selector))


apps = st.builds(lambda name: {"app": name}, st.sampled_from(APPS))
numbers = st.integers(0, 5)
changes: st.SearchStrategy[Change] = st.one_of(
    nodes().map(lambda node: partial(put, key=f"node {node.metadata.name}", item=node)),
    st.builds(lambda name: partial(remove_node, name=name), st.sampled_from(NODES)),
    st.builds(
        lambda number, pod, node: partial(put_pod, number=number, pod=pod, node=node),
        numbers,
        pods(),
        st.sampled_from(NODES),
    ),
    st.builds(lambda number: partial(remove_pod, number=number), numbers),
    apps.map(lambda labels: partial(put, key="service", item=service(labels))),
    apps.map(lambda labels: partial(put, key="workload", item=workload(labels))),
    st.sampled_from(["service", "workload"]).map(lambda key: partial(remove, key=key)),
)


def result(cluster: ClusterScheduler, pod: PodInfo) -> dict[str, object]:
    """Without the choice between equal nodes, which depends on their order."""
    decision = cluster.decide(pod)
    assert decision.diagnosis is not None or not len(cluster.snapshot.rows)
    scores = decision.scores
    by_plugin = {} if scores is None else {"total": scores.total, **scores.raw, **_prefixed(scores.weighted)}
    return {
        "text": decision.message(len(cluster.snapshot.rows)),
        "refused": {}
        if decision.diagnosis is None
        else {cluster.snapshot.name(row): status for row, status in decision.diagnosis.by_node().items()},
        **{name: dict(zip(decision.feasible, each.tolist(), strict=True)) for name, each in by_plugin.items()},
    }


def _prefixed(scores: Mapping[str, Any]) -> dict[str, Any]:
    return {f"weighted {name}": each for name, each in scores.items()}


@given(
    st.lists(nodes(), min_size=2, max_size=4), st.lists(changes, max_size=12), st.lists(pods(), min_size=1, max_size=3)
)
def test_decisions_follow_from_the_objects_alone(
    first: Sequence[Node], then: Sequence[Change], new: Sequence[PodInfo]
) -> None:
    cluster = ClusterScheduler(random.Random(1))
    objects: dict[str, Any] = {}
    for node in first:
        put(cluster, objects, f"node {node.metadata.name}", node)

    for change in (lambda cluster, objects: None, *then):
        change(cluster, objects)
        fresh = ClusterScheduler(random.Random(1))
        for item in objects.values():
            if isinstance(item, PodInfo):
                fresh.put_pod(item)
            else:
                fresh.put(item)
        for pod in new:
            assert result(cluster, pod) == result(fresh, pod)


def test_a_node_that_gets_a_taint_is_avoided_from_then_on() -> None:
    cluster = ClusterScheduler(random.Random(1))
    for name in ("a", "b"):
        cluster.put(a_node(name))
    assert _scores(cluster, "TaintToleration") == {"a": 300, "b": 300}

    cluster.put(a_node("a", taints=[Taint(key="old", effect="PreferNoSchedule")]))

    assert _scores(cluster, "TaintToleration") == {"a": 0, "b": 300}


def test_pods_are_spread_by_the_present_workload_and_the_present_services() -> None:
    """One pod of the app runs on node a, which then scores less if the selector counts it."""
    cluster = ClusterScheduler(random.Random(1))
    for name in ("a", "b"):
        cluster.put(a_node(name))
    cluster.put_pod(a_pod("running", labels={"app": "web"}, node_name="a"))
    counted, equal = {"a": 132, "b": 200}, {"a": 200, "b": 200}

    cluster.put(workload({"app": "db"}))
    assert _scores(cluster, "PodTopologySpread") == equal
    cluster.put(workload({"app": "web"}))
    assert _scores(cluster, "PodTopologySpread") == counted
    cluster.put(service({"tier": "front"}))
    assert _scores(cluster, "PodTopologySpread") == equal
    cluster.remove(service({}))
    assert _scores(cluster, "PodTopologySpread") == counted


def _scores(cluster: ClusterScheduler, plugin: str) -> dict[str, int]:
    """Weighted, by node: of a pod of the workload, which a Service selects."""
    pod = a_pod("new", labels={"app": "web", "tier": "front"})
    pod.pod.metadata.owner_references.append(OWNER)
    decision = cluster.decide(pod)
    assert decision.scores is not None
    return dict(zip(decision.feasible, decision.scores.weighted[plugin].tolist(), strict=True))
