"""The reclaimer, and what the status of nodes contains of its amounts."""

import asyncio
import itertools
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from equipoise.contracts.colocation.bands import RESOURCE_NAMES
from equipoise.contracts.kubernetes.quantity import parse_quantity
from equipoise.reclaimer.decisions.evaluation import CONTESTED
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

FOREIGN_PERIOD = 0.3
"""Seconds between two writes of another program."""

NOISE = 0.01 * 1_000 * cluster_setup.CORES
"""Milli-cores: an amount that should shrink by less is not written at once, nor one that should by a tenth."""


def beside_all(rig: Rig) -> AbstractAsyncContextManager[None]:
    """Two reclaimers and all other services."""
    return real_services(rig, {"reclaimer": 2})


@asynccontextmanager
async def alone(rig: Rig) -> AsyncIterator[None]:
    """A reclaimer and the collector, which start fast: nothing is proposed or evicted."""
    rig.descheduler.epoch = None
    await rig.stop_fake_collector()
    await asyncio.gather(rig.start("collector"), rig.start("reclaimer"))
    try:
        yield
        await rig.converge()
    finally:
        rig.stop_programs()
        rig.collector.take_over()
        rig.collector.publishing = True


@asynccontextmanager
async def reclaiming(
    rig: Rig, services: Callable[[Rig], AbstractAsyncContextManager[None]] = beside_all
) -> AsyncIterator[list[str]]:
    """While the services run: pods of the band batch, whose nodes are returned."""
    pods = cluster_setup.band_pods(f"{rig.since:.0f}", COUNT)
    try:
        async with services(rig):
            # Before, all pods would be bound to the node that is written first.
            await rig.until(lambda: _all_are_written(rig), "every node has the names of the bands")
            await rig.api.apply(pods)
            await rig.until(lambda: _all_run(rig), "the pods of the band run")
            requested = await requested_of_nodes(rig)
            bound_at = rig.clock.now()
            # A reclaimer must know them before something breaks: what it does not know it cannot keep.
            await rig.until(lambda: _are_known(rig, requested, bound_at), "the reclaimers know the pods of the band")
            yield sorted(requested)
    finally:
        for pod in pods:
            await rig.api.request("DELETE", f"{PODS}/{pod['metadata']['name']}")
        for name in cluster_setup.NODES:
            await overwrite(rig, name, None)


async def _all_are_written(rig: Rig) -> bool:
    return all(found.keys() >= NAMES for found in (await offered(rig)).values())


async def _all_run(rig: Rig) -> bool:
    pods = (await rig.api.request("GET", PODS))["items"]
    return sum(is_ready(pod) for pod in pods if pod["metadata"]["name"].startswith(cluster_setup.BAND_POD)) == COUNT


async def requested_of_nodes(rig: Rig) -> Mapping[str, float]:
    """Milli-cores of the band, by node that has any of its pods."""
    pods = (await rig.api.request("GET", PODS))["items"]
    bound = Counter(
        pod["spec"]["nodeName"] for pod in pods if pod["metadata"]["name"].startswith(cluster_setup.BAND_POD)
    )
    return {node: count * cluster_setup.BAND_AMOUNTS[BATCH_CPU] for node, count in bound.items()}


def _are_known(rig: Rig, requested: Mapping[str, float], since: float) -> bool:
    """By what the leader has published since then."""
    latest = {node: rig.recorder.reclaimed[node] for node in requested if node in rig.recorder.reclaimed}
    return latest.keys() == requested.keys() and all(
        message.evaluated_at > since and 1_000 * (message.bands["batch"].requested.cpu or 0.0) == requested[node]
        for node, message in latest.items()
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
    """The names of a node are set to 0 or removed, as by a kubelet that restarts. Only a reclaimer and the
    collector run."""
    async with reclaiming(rig, alone) as nodes:
        for _ in range(extent.times):
            await repaired(rig, nodes[0])
            await overwrite(rig, nodes[-1], None)
            await rig.until(lambda: _fits(rig, nodes[-1]), "the removed names are written again")


async def another_writer(rig: Rig, extent: Extent) -> None:
    """Another program writes amounts of its own to a node until the reclaimers write only the other nodes; reclaimers
    that start write it again."""
    async with reclaiming(rig) as nodes:
        for _ in range(extent.times):
            while not await left_alone(rig, nodes[0], nodes[-1]):
                pass  # another reclaimer leads, which knows nothing of the other program
            rig.stop_programs("reclaimer")
            await asyncio.gather(*(rig.program(f"reclaimer-{number}").start() for number in range(2)))
            await rig.until(lambda: _fits(rig, nodes[0]), "the amounts of the other program are replaced")


async def left_alone(rig: Rig, node: str, other: str) -> bool:
    """Another program writes a node until the reclaimers write only the other one. False: the leader changed."""
    amounts = itertools.count(1)

    async def contested() -> bool:
        await overwrite(rig, node, str(next(amounts)))
        await asyncio.sleep(FOREIGN_PERIOD)
        return node in rig.recorder.reclaimed and CONTESTED in rig.recorder.reclaimed[node].degraded

    await rig.until(contested, f"{node} is left to the other program")
    epoch = rig.recorder.reclaimed[node].epoch
    await repaired(rig, other)  # after any write of the node that had begun: there is one at a time
    last = f"{next(amounts)}"
    await overwrite(rig, node, last)
    await repaired(rig, other)
    found, read_at = (await offered(rig))[node].get(BATCH_CPU), rig.clock.now()
    await rig.until(lambda: rig.recorder.reclaimed[node].evaluated_at > read_at, f"{node} is evaluated")
    if rig.recorder.reclaimed[node].epoch != epoch:
        return False
    if found != float(last):
        rig.find(f"{node}: {found} was written, although another program writes it")
    return True


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
        requested, begin = await requested_of_nodes(rig), await offered(rig)
        largest = max(nodes, key=lambda node: begin[node][BATCH_CPU] - requested[node])
        rig.prometheus.rule(abort_connection, path="/query")
        seen = [begin[largest][BATCH_CPU]]

        async def degraded() -> bool:
            found = await offered(rig)
            for node in nodes:
                if missing := NAMES - found[node].keys():
                    rig.find(f"{node} has no {', '.join(sorted(missing))} without metrics")
            now = {node: found[node].get(BATCH_CPU, 0.0) for node in nodes}
            seen.append(now[largest])
            return len(set(seen)) > 2 and all(now[node] <= _nothing_more(requested[node]) for node in nodes)

        await rig.until(degraded, "the amounts shrink in steps to what pods request")
        rig.prometheus.clear()
        await rig.until(lambda: _grows(rig, largest, seen[-1]), "the amounts grow again")


def _nothing_more(requested: float) -> float:
    return max(requested / 0.9, requested + NOISE)


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
    fault(another_writer, 43, intents=0, evictions=0, also=pods_are_accepted),
    fault(refused_amounts, 44, intents=0, evictions=0, also=pods_are_accepted),
    fault(reclaimers_without_metrics, 45, intents=0, evictions=0, also=pods_are_accepted),
)
