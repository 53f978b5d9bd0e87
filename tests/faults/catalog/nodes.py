"""Nodes become NotReady, are deleted and created again."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime

from faults import cluster_setup
from faults.catalog.changes import annotate, set_ready
from faults.catalog.deschedulers import descheduling
from faults.catalog.fault import Extent, fault
from faults.history import Span
from faults.rig import Rig, is_ready

REACTION = 3.0
"""Seconds after which every descheduler and binder must know that nodes are not Ready: the placement is published each
half second, and a read may be two seconds old."""

FLAPPING = 2.5
"""Seconds between two changes of a flapping node."""


async def nodes_not_ready(rig: Rig, extent: Extent) -> None:
    """Two nodes become NotReady and Ready again every few seconds, a node is deleted and created again, and then six of
    ten are NotReady."""
    async with descheduling(rig):
        await rig.evictions(2)
        await rig.propose_as_leader()
        for _ in range(extent.times):
            flapping, deleted, *others = rig.generator.sample(cluster_setup.NODES, len(cluster_setup.NODES))
            await asyncio.gather(_flap(rig, (flapping, others[0])), _recreate(rig, deleted))
            lost = others[:6]
            await _set_nodes_ready(rig, lost, False)
            begin = rig.clock.now() + REACTION
            try:
                await rig.until_time(begin)
                await rig.outcomes(5)
                await rig.until_time(begin + 4.0)
                rig.recorder.uncovered.append(Span(begin=begin, end=rig.clock.now()))
            finally:
                await _set_nodes_ready(rig, lost, True)
            await rig.evictions(extent.evictions)
            await rig.until(lambda: _all_pods_ready(rig, cluster_setup.NODES), "all pods are ready")


async def _flap(rig: Rig, nodes: Iterable[str]) -> None:
    for _ in range(2):
        await _set_nodes_ready(rig, nodes, False)
        await asyncio.sleep(FLAPPING)
        await _set_nodes_ready(rig, nodes, True)
        await asyncio.sleep(FLAPPING)


async def _recreate(rig: Rig, name: str) -> None:
    """Its pods remain: the garbage collector of pods waits longer."""
    await rig.api.request("DELETE", f"/api/v1/nodes/{name}")
    await asyncio.sleep(FLAPPING)
    await rig.cluster.add_nodes(node for node in cluster_setup.node_manifests() if node["metadata"]["name"] == name)


async def _set_nodes_ready(rig: Rig, names: Iterable[str], ready: bool) -> None:
    """As if kubelet had stopped or started."""
    await asyncio.gather(*(_set_node_ready(rig, name, ready) for name in names))

    async def as_wanted() -> bool:
        nodes = (await rig.api.request("GET", "/api/v1/nodes"))["items"]
        return all(is_ready(node) is ready for node in nodes if node["metadata"]["name"] in names)

    await rig.until(as_wanted, f"{', '.join(names)} are {'Ready' if ready else 'NotReady'}")
    if ready:
        await rig.until(lambda: _all_pods_ready(rig, names), "the pods of these nodes are ready")


async def _all_pods_ready(rig: Rig, nodes: Iterable[str]) -> bool:
    """Does what kubelet would do: the controller marks the pods of a lost node as not ready."""
    pods = (await rig.api.request("GET", cluster_setup.PODS))["items"]
    lost = [
        pod["metadata"]["name"]
        for pod in pods
        if pod["spec"].get("nodeName") in nodes and pod["status"]["phase"] == "Running" and not is_ready(pod)
    ]
    await set_ready(rig, lost, True)
    return not lost


async def _set_node_ready(rig: Rig, name: str, ready: bool) -> None:
    path = f"/api/v1/nodes/{name}"
    await annotate(rig, path, {"testbed/not-ready": None if ready else "true"})
    if not ready:
        now = datetime.fromtimestamp(rig.clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        lost = {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "lastTransitionTime": now}
        await rig.api.patch(f"{path}/status", {"status": {"conditions": [lost]}}, kind="strategic-merge-patch")


FAULTS = (fault(nodes_not_ready, 32, intents=20, evictions=6),)
