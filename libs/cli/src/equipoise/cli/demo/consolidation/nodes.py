"""Nodes that Karpenter makes, with what Equipoise and the demo expect of nodes."""

from typing import Any

from equipoise.cli.demo.consolidation.fleet import AGENT_MILLI, INSTANCE_TYPE
from equipoise.lab.model.trace import Trace
from equipoise.testbed.api import Api, ApiError
from equipoise.testbed.karpenter import INITIALIZED
from equipoise.testbed.objects import Manifest, deployment, pod_template

PLACEHOLDER = "placeholder"
VIRTUAL = "kwok.x-k8s.io/node"
NODES_PATH = "/api/v1/nodes"
NODES_SECONDS = 180.0


async def make_nodes(api: Api, trace: Trace, daemons: list[Manifest]) -> dict[str, str]:
    """Lets Karpenter make the nodes: one for each of as many pods, which are then deleted again.

    The names of the nodes, by those in the trace. `daemons`: what runs on every node.
    """
    template = pod_template(PLACEHOLDER, cpu=f"{INSTANCE_TYPE.cpu_milli // 2 + AGENT_MILLI}m", memory="1Gi")
    placeholder = deployment(PLACEHOLDER, template, replicas=len(trace.nodes))
    await api.apply([*daemons, placeholder])

    def made(response: Any) -> bool:
        ready = [node for node in response["items"] if INITIALIZED in node["metadata"]["labels"]]
        return len(ready) == len(trace.nodes)

    response = await api.wait(
        NODES_PATH, made, timeout=NODES_SECONDS, what=f"Karpenter has made {len(trace.nodes)} nodes"
    )
    await api.request("DELETE", f"{await api.path(placeholder)}?propagationPolicy=Foreground")
    await api.wait(
        f"/api/v1/namespaces/default/pods?labelSelector=app={PLACEHOLDER}",
        lambda pods: not pods["items"],
        what="the pods are gone for which the nodes were made",
    )
    names = sorted(node["metadata"]["name"] for node in response["items"])
    for name in names:
        await prepare_node(api, name)
    return dict(zip((node.name for node in trace.nodes), names, strict=True))


async def prepare_node(api: Api, node: str) -> None:
    """Removes the label of virtual nodes, which Equipoise does not measure, and writes the capacity.

    The kwok provider writes the requests of the first pods as capacity. It is twice the allocatable CPU here, as in the
    demo: a fake node does not throttle its pods, and their sum may be above its cores. Does nothing if Karpenter has
    just removed the node.
    """
    labels = {"metadata": {"labels": {VIRTUAL: None}}}
    cpu, memory = f"{2 * INSTANCE_TYPE.cpu_milli}m", f"{INSTANCE_TYPE.memory_mib}Mi"
    try:
        await api.patch(f"{NODES_PATH}/{node}", labels)
        capacity = {"cpu": cpu, "memory": memory, "pods": "110"}
        await api.patch(f"{NODES_PATH}/{node}/status", {"status": {"capacity": capacity}})
    except ApiError as error:
        if error.status != 404:
            raise
