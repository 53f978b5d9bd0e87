"""The reclaimer, and what the status of nodes contains of its amounts."""

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from equipoise.contracts.colocation.bands import RESOURCE_NAMES
from equipoise.contracts.kubernetes.quantity import parse_quantity
from faults import cluster_setup
from faults.catalog.fault import Extent, fault
from faults.catalog.metrics import real_services
from faults.fault_proxy import abort_connection, lose_response, respond
from faults.history import History
from faults.invariants.reclaimed import NAMES
from faults.rig import Rig, is_ready

NODES = "/api/v1/nodes"
PODS = f"/api/v1/namespaces/{cluster_setup.BATCHES}/pods"
STATUS = r"/nodes/[^/]+/status"
BATCH_CPU = RESOURCE_NAMES["batch"][0]
COUNT = 8
"""Pods of the band batch."""


@asynccontextmanager
async def reclaiming(rig: Rig) -> AsyncIterator[list[str]]:
    """Two reclaimers beside the other services, and pods of the band batch, whose nodes are returned."""
    pods = cluster_setup.band_pods(f"{rig.since:.0f}", COUNT)
    try:
        async with real_services(rig, {"reclaimer": 2}):
            await rig.api.apply(pods)
            await rig.until(lambda: _all_run(rig), "the pods of the band run")
            # A reclaimer must know them before something breaks: what it does not know it cannot keep.
            await asyncio.sleep(cluster_setup.guarantees().offer_lag)
            yield await _nodes_of_pods(rig)
    finally:
        for pod in pods:
            await rig.api.request("DELETE", f"{PODS}/{pod['metadata']['name']}")
        for name in cluster_setup.NODES:
            await overwrite(rig, name, None)


async def _all_run(rig: Rig) -> bool:
    pods = (await rig.api.request("GET", PODS))["items"]
    return sum(is_ready(pod) for pod in pods if pod["metadata"]["name"].startswith(cluster_setup.BAND_POD)) == COUNT


async def _nodes_of_pods(rig: Rig) -> list[str]:
    pods = (await rig.api.request("GET", PODS))["items"]
    return sorted(
        {pod["spec"]["nodeName"] for pod in pods if pod["metadata"]["name"].startswith(cluster_setup.BAND_POD)}
    )


async def offered(rig: Rig) -> Mapping[str, Mapping[str, float]]:
    """By node and resource name."""
    nodes = (await rig.api.request("GET", NODES))["items"]
    return {
        node["metadata"]["name"]: {
            name: parse_quantity(text) for name, text in node["status"]["allocatable"].items() if name in NAMES
        }
        for node in nodes
    }


async def overwrite(rig: Rig, node: str, amount: str | None) -> None:
    """As a kubelet that restarts, or another program; None removes the names."""
    amounts = dict.fromkeys(NAMES, amount)
    await rig.api.patch(f"{NODES}/{node}/status", {"status": {"capacity": amounts, "allocatable": amounts}})


async def repaired(rig: Rig, node: str) -> None:
    """The names are set to 0, and a reclaimer writes what pods request: one of them leads and writes."""
    await overwrite(rig, node, "0")
    await rig.until(lambda: _fits(rig, node), f"the amounts of {node} are written again")


async def _fits(rig: Rig, node: str) -> bool:
    return (await offered(rig))[node].get(BATCH_CPU, 0.0) >= cluster_setup.BAND_AMOUNTS[BATCH_CPU]


async def killed_reclaimers(rig: Rig, extent: Extent) -> None:
    """Of two reclaimers one is killed, and the other one suspended for longer than its Lease; both return."""
    async with reclaiming(rig) as nodes:
        one, other = rig.programs["reclaimer-0"], rig.programs["reclaimer-1"]
        for _ in range(extent.times):
            one.kill()
            await repaired(rig, nodes[0])
            await one.start()
            other.send(signal.SIGSTOP)
            await repaired(rig, nodes[-1])
            other.send(signal.SIGCONT)
            await repaired(rig, nodes[0])


async def overwritten_amounts(rig: Rig, extent: Extent) -> None:
    """The names of a node are set to 0 or removed, as by a kubelet that restarts, and another program writes its own
    amounts for some seconds."""
    async with reclaiming(rig) as nodes:
        for _ in range(extent.times):
            await repaired(rig, nodes[0])
            await overwrite(rig, nodes[-1], None)
            await rig.until(lambda: _fits(rig, nodes[-1]), "the removed names are written again")
            for number in range(10):
                await overwrite(rig, nodes[0], str(number))
                await asyncio.sleep(0.3)
            await rig.until(lambda: _fits(rig, nodes[0]), "the amounts of the other program are replaced")


async def refused_amounts(rig: Rig, extent: Extent) -> None:
    """Writes to the status of nodes fail, are throttled, or lose their connection or response."""
    async with reclaiming(rig) as nodes:
        for _ in range(extent.times):
            throttled = respond(429, "Too many requests", {"Retry-After": "1"})
            for broken in (respond(500, "broken"), throttled, abort_connection, lose_response):
                rule = rig.proxy.rule(broken, method="PATCH", path=STATUS)
                await overwrite(rig, nodes[0], "0")
                await rig.until(lambda rule=rule: rule.taken > 0, "a write fails")
                rule.lift()
                await rig.until(lambda: _fits(rig, nodes[0]), "the amounts are written")


async def reclaimers_without_metrics(rig: Rig, extent: Extent) -> None:
    """Prometheus does not respond until the nodes offer what their pods request, and nothing more."""
    async with reclaiming(rig) as nodes:
        rig.prometheus.rule(abort_connection, path="/query")
        seen: list[float] = []

        async def degraded() -> bool:
            found = (await offered(rig))[nodes[0]]
            if NAMES - found.keys():
                rig.find(f"{nodes[0]} has no {', '.join(sorted(NAMES - found.keys()))} without metrics")
            seen.append(found.get(BATCH_CPU, 0.0))
            return seen[-1] <= COUNT * cluster_setup.BAND_AMOUNTS[BATCH_CPU] and len(set(seen)) > 2

        await rig.until(degraded, "the amounts shrink to what pods request")
        rig.prometheus.clear()
        await rig.until(lambda: _grows(rig, nodes[0], seen[-1]), "the amounts grow again")


async def _grows(rig: Rig, node: str, before: float) -> bool:
    return (await offered(rig))[node].get(BATCH_CPU, 0.0) > before


def pods_are_accepted(history: History) -> list[str]:
    """The API server creates and binds every pod, and the harness found nothing wrong."""
    refused = [
        f"{pod.pod or 'a pod'}: refused with {pod.code}" for pod in history.refused_pods if pod.at >= history.since
    ]
    return [*refused, *(finding.what for finding in history.findings)]


FAULTS = (
    fault(killed_reclaimers, 42, intents=0, evictions=0, also=pods_are_accepted),
    fault(overwritten_amounts, 43, intents=0, evictions=0, also=pods_are_accepted),
    fault(refused_amounts, 44, intents=0, evictions=0, also=pods_are_accepted),
    fault(reclaimers_without_metrics, 45, intents=0, evictions=0, also=pods_are_accepted),
)
