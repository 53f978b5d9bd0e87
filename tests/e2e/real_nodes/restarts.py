"""A restart of a kubelet and the loss of a node, with the installed chart; and the service proxy of the API server.

`python -m e2e.real_nodes.restarts [1.35]` with tests/ in PYTHONPATH, as root. Its last line is a JSON document.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from deployment.base import NAMESPACE
from e2e.real_nodes import manifests
from e2e.real_nodes.installation import Installation, installed, machine_load, new_cluster, note, print_result, values
from e2e.real_nodes.manifests import SHOP

from equipoise.testbed import objects
from equipoise.testbed.objects import Manifest
from equipoise.testbed.real_nodes.addresses import node_name
from equipoise.testbed.real_nodes.requirements import CGROUPS

BATCH_MILLI = 200
AMOUNTS = {"kubernetes.io/batch-cpu": str(BATCH_MILLI), "kubernetes.io/batch-memory": "32Mi"}
QUOTA = BATCH_MILLI * 100
"""Microseconds in each period of 100 ms."""

NO_QUOTA = -1
FOLLOWED_SECONDS = 180.0
OFF_SECONDS = 150.0
"""Longer than usage takes to be known, and shorter than the time after which the pods of a lost node are replaced."""

AGENTS = "equipoise-agent"
OWN_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@dataclass(kw_only=True)
class Restarts:
    """The nodes and what runs on them."""

    installation: Installation

    async def proxied(self) -> dict[str, bool]:
        """Whether /readyz of each pod, and of the page by its Service, answers through the API server."""
        paths = {"page": f"/api/v1/namespaces/{NAMESPACE}/services/equipoise-live-page:8765/proxy/readyz"}
        for pod in (await self.installation.api.request("GET", OWN_PODS))["items"]:
            ports = {port.get("name"): port["containerPort"] for port in pod["spec"]["containers"][0].get("ports", ())}
            if "health" in ports:
                name = pod["metadata"]["name"]
                paths[name] = f"{OWN_PODS}/{name}:{ports['health']}/proxy/readyz"
        return {name: (await self.installation.api.request("GET", path))["ready"] for name, path in paths.items()}

    async def all_ready(self) -> float:
        """Waits until all pods of the chart are ready. Returns the seconds."""
        began = time.monotonic()

        def ready(pods: Manifest) -> bool:
            running = [pod for pod in pods["items"] if pod["status"].get("phase") != "Succeeded"]
            return bool(running) and all(_is_ready(pod) for pod in running)

        for namespace in (NAMESPACE, AGENTS):
            path = f"/api/v1/namespaces/{namespace}/pods"
            await self.installation.api.wait(path, ready, timeout=FOLLOWED_SECONDS, what="all pods are ready")
        return time.monotonic() - began

    async def node_is(self, node: str, *, ready: bool) -> None:
        def matches(found: Manifest) -> bool:
            return _is_ready(found) == ready

        what = f"{node} is {'ready' if ready else 'not ready'}"
        await self.installation.api.wait(f"/api/v1/nodes/{node}", matches, timeout=FOLLOWED_SECONDS, what=what)

    async def restarted(self, restart: Callable[[], Any]) -> dict[str, int]:
        """How many containers of the chart were started again, by pod, while this was done."""
        before = await self._restarts()
        await restart()
        after = await self._restarts()
        return {name: count - before.get(name, 0) for name, count in after.items() if count > before.get(name, 0)}

    async def _restarts(self) -> dict[str, int]:
        pods = (await self.installation.api.request("GET", OWN_PODS))["items"]
        return {
            pod["metadata"]["name"]: sum(each["restartCount"] for each in pod["status"].get("containerStatuses", ()))
            for pod in pods
        }

    async def offer(self) -> None:
        """Lets the first node offer what the batch pod requests, as the reclaimer does."""
        path = f"/api/v1/nodes/{node_name(1)}/status"
        await self.installation.api.patch(path, {"status": {"capacity": AMOUNTS, "allocatable": AMOUNTS}})

    async def quota_is(self, uid: str, wanted: int) -> float:
        """Waits until the CPU quota of a batch pod has this value. Returns the seconds."""
        group = f"kubepods/besteffort/pod{uid}/cpu.cfs_quota_us"
        began, found = time.monotonic(), None
        while found != wanted:
            if time.monotonic() > began + FOLLOWED_SECONDS:
                raise SystemExit(f"the quota of the batch pod is {found}, not {wanted}")
            files = list((CGROUPS / "cpu").glob(f"{self.installation.real.directory.name}/n1/{group}"))
            found = int(files[0].read_text()) if files else None
            await asyncio.sleep(0.5)
        return time.monotonic() - began

    def evictions(self) -> int:
        return sum(each.succeeded for each in self.installation.real.cluster.evictions())


def batch_pod() -> Manifest:
    """On the first node."""
    container = {
        "name": "main",
        "image": "busybox",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "100000"],
        "resources": {"requests": AMOUNTS, "limits": AMOUNTS},
    }
    spec = {"nodeName": node_name(1), "terminationGracePeriodSeconds": 1, "containers": [container]}
    return objects.pod("batch", {"metadata": {}, "spec": spec}, namespace=SHOP)


def _is_ready(item: Manifest) -> bool:
    """Whether a pod or node is ready."""
    return any(each["type"] == "Ready" and each["status"] == "True" for each in item["status"].get("conditions", ()))


async def run(installation: Installation) -> dict[str, Any]:
    """All steps, and what was seen."""
    real, api, restarts, load = installation.real, installation.api, Restarts(installation=installation), machine_load()
    with_agent = {**values(real.prometheus_url), "agent": {"enabled": True}}
    await installation.helm("upgrade", with_agent)
    await restarts.offer()
    await api.apply([objects.namespace(SHOP), batch_pod()])
    uid = (await api.request("GET", f"/api/v1/namespaces/{SHOP}/pods/batch"))["metadata"]["uid"]
    limited = await restarts.quota_is(uid, QUOTA)
    note(f"the agent limits the batch pod after {limited:.1f} s")
    proxied = await restarts.proxied()
    note(f"the API server has proxied {len(proxied)} requests")

    async def kubelet() -> None:
        await real.restart_kubelet("n1")
        await asyncio.sleep(20)  # a node that were lost would be noticed later only
        await restarts.all_ready()
        await restarts.quota_is(uid, QUOTA)

    by_kubelet = await restarts.restarted(kubelet)
    note(f"a restart of the kubelet has started containers again: {by_kubelet}")

    for node, cordoned in (("n2", True), ("n1", False)):
        await api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": cordoned}})
    await api.apply([*manifests.server(), manifests.ballast("n1")])
    path = f"/api/v1/namespaces/{SHOP}/pods?labelSelector=app%3D{manifests.WEB}"
    await api.wait(path, lambda pods: bool(pods["items"]) and _is_ready(pods["items"][0]), what="the server is ready")
    await api.patch("/api/v1/nodes/n2", {"spec": {"unschedulable": False}})
    real.power_off("n2")
    await restarts.node_is("n2", ready=False)
    note("n2 is lost")
    await asyncio.sleep(OFF_SECONDS)
    while_lost = restarts.evictions()
    real.power_on("n2")
    await restarts.node_is("n2", ready=True)
    back = await restarts.all_ready()
    note(f"all services are ready {back:.0f} s after the node")
    deadline = time.monotonic() + 2 * FOLLOWED_SECONDS
    while not restarts.evictions() and time.monotonic() < deadline:  # noqa: ASYNC110  polls a real component
        await asyncio.sleep(1)
    moved = restarts.evictions()
    note(f"{moved} pods moved afterwards")

    real.power_off("n1")
    await restarts.node_is("n1", ready=False)
    real.power_on("n1")
    await restarts.node_is("n1", ready=True)
    await restarts.all_ready()
    again = await restarts.quota_is(uid, QUOTA)
    note(f"the agent limits the batch pod again after {again:.1f} s")
    await installation.helm("upgrade", {**with_agent, "agent": {"enabled": False}})
    await restarts.quota_is(uid, NO_QUOTA)
    return {
        "proxied": proxied,
        "restarted_by_kubelet": by_kubelet,
        "evictions_while_a_node_is_lost": while_lost,
        "services_ready_after_node": round(back, 1),
        "evictions_afterwards": moved,
        "machine_load": [load, machine_load()],
    }


async def main(kubernetes: str = "") -> None:
    real = new_cluster(kubernetes)
    async with installed(real) as installation:
        print_result(await run(installation))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
