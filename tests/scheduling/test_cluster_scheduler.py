"""A cluster in memory: objects that are removed."""

import random
from typing import Any

import msgspec
from scheduling.pods import a_node, a_pod

from equipoise.contracts.kubernetes.objects import Namespace, ObjectMeta, Pod
from equipoise.scheduling.cluster_scheduler import KINDS, ClusterScheduler


def on_node(pod: Pod, node: str) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))


def a_cluster() -> ClusterScheduler:
    return ClusterScheduler(random.Random(1))


def test_a_pod_that_is_removed_makes_room() -> None:
    cluster, running = a_cluster(), on_node(a_pod("running", {"cpu": "3"}).pod, "node-1")
    cluster.put(a_node("node-1", cpu="4"))
    cluster.put(running)
    assert cluster.decide(a_pod("next", {"cpu": "3"})).node == ""

    cluster.remove(running)
    cluster.remove(running)
    assert cluster.decide(a_pod("next", {"cpu": "3"})).node == "node-1"


def test_a_node_that_returns_still_has_its_pods() -> None:
    cluster, node = a_cluster(), a_node("node-1", cpu="4")
    cluster.put(node)
    cluster.put(on_node(a_pod("running", {"cpu": "3"}).pod, "node-1"))
    cluster.remove(node)
    assert cluster.decide(a_pod("next", {"cpu": "1"})).node == ""

    cluster.put(node)
    assert cluster.decide(a_pod("next", {"cpu": "3"})).node == ""
    assert cluster.decide(a_pod("next", {"cpu": "1"})).node == "node-1"


def test_objects_of_every_kind_can_be_removed() -> None:
    """Also those that are not there."""
    cluster = a_cluster()
    for kind, model in KINDS.items():
        values: dict[str, Any] = {"kind": kind, "metadata": ObjectMeta(name="one", namespace="shop")}
        item = model(**values)
        cluster.remove(item)
        cluster.put(item)
        cluster.remove(item)
    cluster.put(Namespace(metadata=ObjectMeta(name="kept")))

    assert list(cluster.snapshot.namespaces) == ["kept"]
    assert len(cluster.snapshot.rows) == 0
    assert cluster.budgets == {}
