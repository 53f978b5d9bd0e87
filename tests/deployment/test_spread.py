"""The replicas of a service are on different nodes and in different zones, as kube-scheduler decides."""

import random

import pytest
from deployment.base import base_documents, colocation_documents
from deployment.kustomize import Document, identity

from equipoise.scheduling import ClusterScheduler, read_pod

DEPLOYMENTS = [
    document
    for document in {identity(each): each for each in (*base_documents(), *colocation_documents())}.values()
    if document["kind"] == "Deployment" and document["spec"]["replicas"] > 1
]


def placed(deployment: Document, zones: dict[str, str]) -> list[str]:
    """The nodes of the replicas. kube-scheduler prefers large nodes: `a`, then all but those of zone `y`.

    `zones`: by node; empty: no label.
    """
    cluster = ClusterScheduler(random.Random(1))
    for name, zone in zones.items():
        labels = {"kubernetes.io/hostname": name} | ({"topology.kubernetes.io/zone": zone} if zone else {})
        cpu = 64 if name == "a" else 4 if zone == "y" else 32
        size = {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "110"}
        cluster.put_documents(
            [{"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"allocatable": size}}]
        )
    nodes = []
    for number in range(deployment["spec"]["replicas"]):
        template = deployment["spec"]["template"]
        spec = {key: value for key, value in template["spec"].items() if key not in ("priorityClassName", "volumes")}
        metadata = {"name": f"pod-{number}", "uid": f"pod-{number}", "namespace": "equipoise-system"}
        pod = read_pod({"metadata": {**template["metadata"], **metadata}, "spec": spec})
        nodes.append(cluster.place(pod).node)
    return nodes


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda deployment: deployment["metadata"]["name"])
def test_replicas_are_on_different_nodes_of_a_cluster_without_zones(deployment: Document) -> None:
    nodes = placed(deployment, {"a": "", "b": "", "c": ""})
    assert len(set(nodes)) == len(nodes)


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda deployment: deployment["metadata"]["name"])
def test_replicas_are_in_different_zones(deployment: Document) -> None:
    zones = {"a": "x", "b": "x", "c": "x", "d": "y"}
    assert {zones[node] for node in placed(deployment, zones)} == {"x", "y"}
