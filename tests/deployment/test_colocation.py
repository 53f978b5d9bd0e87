"""k8s/overlays/colocation at a real API server, with the controllers that create its pods."""

from typing import Any

from cluster_fixtures import StartCluster
from deployment.base import NAMESPACE, ROOT, colocation_documents
from deployment.kustomize import read_kustomization

from equipoise.testbed.objects import node

AGENTS = "equipoise-agent"


async def test_the_pods_of_co_location_are_admitted(start_cluster: StartCluster) -> None:
    """An agent for every node, tainted ones too, and two reclaimers; Pod Security is that of the manifests."""
    cluster = start_cluster()
    taint = {"key": "example.com/only", "value": "gpu", "effect": "NoExecute"}
    await cluster.add_nodes(
        [
            node("alpha", labels={"kubernetes.io/os": "linux"}),
            node("beta", labels={"kubernetes.io/os": "linux"}, taints=[taint]),
            node("gamma", labels={"kubernetes.io/os": "windows"}),
        ]
    )
    evictions = read_kustomization(ROOT / "k8s" / "colocation" / "evictions")
    await cluster.apply([*colocation_documents(), *evictions])

    def running(found: Any, component: str) -> list[str]:
        pods = [each for each in found["items"] if each["status"].get("phase") == "Running"]
        label = "app.kubernetes.io/component"
        return sorted(each["spec"]["nodeName"] for each in pods if each["metadata"]["labels"].get(label) == component)

    await cluster.wait(
        f"/api/v1/namespaces/{AGENTS}/pods",
        lambda pods: running(pods, "agent") == ["alpha", "beta"],
        what="an agent runs on every Linux node",
    )
    await cluster.wait(
        f"/api/v1/namespaces/{NAMESPACE}/pods",
        lambda pods: len(running(pods, "reclaimer")) == 2,
        what="two reclaimers run",
    )
