"""The nodes that kube-scheduler selects with placement hints: a burst of pods, and replacements of evicted pods.

The API server with the policy of k8s/hints, the unconfigured kube-scheduler, the collector with frozen metrics, the
scorer and the annotator with their defaults. All nodes have 16 cores.

Burst: 50 nodes with a real load of 10 % to 70 %, a Deployment from 1 to 200 pods of half a core in 5 steps of 1 s;
beside it, without hints, and with the scorer as extender. Evictions: 50, 300 and 1,000 nodes (kube-scheduler scores
only some of more than 100), 60 pods each, with an intended target among the least loaded nodes.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median, pstdev
from typing import Any

import msgspec
import yaml

from bench.output import progress, report
from bench.scheduling.cluster import CORES, GIB, PODS, FrozenCluster, bare_pod, frozen_cluster
from equipoise.contracts.bus.subjects import eviction_intent, eviction_outcome
from equipoise.contracts.hints.definition import GROUP, PLURAL, VERSION
from equipoise.contracts.hints.hints_object import HintsObject
from equipoise.contracts.hints.policy import HINTED, NAME, SWITCH
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.message import converted
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.bus import Bus, connect
from equipoise.runtime.configuration import Kubernetes, Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.scorer.decisions.placement_hints.terms import OTHER_TARGET_WEIGHT, TARGET_WEIGHT
from equipoise.testbed.api import Api
from equipoise.testbed.objects import deployment, eviction, namespace, pod_template

Document = dict[str, Any]

HINTS = Path(__file__).parents[2] / "k8s" / "hints"
OBJECT = f"/apis/{GROUP}/{VERSION}/namespaces/default/{PLURAL}/{NAME}"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"

BURST_NODES, BURST_PODS, POD_CORES = 50, 200, 0.5
STEPS, STEP = 5, 1.0
MAX_DEVIATION, MAX_RECEIVER = 8.5, 65.0

EVICTION_NODES = (50, 300, 1_000)
EVICTIONS = 60
WORKLOADS = {f"web-{number}": replicas for number, replicas in enumerate((3, 5, 8, 12, 20) * 4)}
SHARE_ON_TARGETS = 0.95

SCORER = {"hints": True}


def loads(nodes: int) -> list[float]:
    """Loads from 10 % to 70 %, in an order that has nothing to do with the names of the nodes."""
    found = [0.1 + 0.6 * number / (nodes - 1) for number in range(nodes)]
    random.Random(1).shuffle(found)
    return found


async def install(frozen: FrozenCluster) -> None:
    """The kind, the policy and its binding; and the namespace of Equipoise, for the Leases of the annotator."""
    files = (HINTS / "definition.yaml", HINTS / "policy.yaml")
    manifests = [each for file in files for each in yaml.safe_load_all(file.read_text())]
    await frozen.cluster.apply([namespace(Kubernetes().namespace), *manifests])


def app(name: str, replicas: int, *, hinted: bool = True) -> Document:
    template = pod_template(name, cpu=f"{POD_CORES * 1000:.0f}m", spec={"terminationGracePeriodSeconds": 0})
    if not hinted:
        template["metadata"]["labels"][SWITCH] = "off"
    return deployment(name, template, replicas=replicas)


async def placed(api: Api, name: str, count: int) -> dict[str, Document]:
    """The pods of a Deployment by UID, when all of them are placed."""
    found = await api.wait(
        f"{PODS}?labelSelector=app={name}",
        lambda pods: sum("nodeName" in pod["spec"] for pod in active(pods["items"])) == count,
        timeout=300.0,
        what=f"{count} pods of {name} are placed",
    )
    return {pod["metadata"]["uid"]: pod for pod in active(found["items"])}


def active(pods: Sequence[Document]) -> list[Document]:
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


async def hinted(api: Api, names: Sequence[str]) -> None:
    """Returns when the API server has a hint for each of these Deployments."""
    keys = {f"Deployment.{name}" for name in names}
    await api.wait(
        OBJECT, lambda found: keys <= found.get("workloads", {}).keys(), timeout=180.0, what="hints are written"
    )


# Burst


async def burst(frozen: FrozenCluster, mode: str) -> Counter[str]:
    """Pods on each node."""
    async with frozen.services(mode == "hints", **SCORER), frozen.cluster.api() as api:
        scheduler = frozen.scheduler(extender=mode == "extender")
        await asyncio.to_thread(frozen.cluster.restart_scheduler, scheduler)
        await api.apply([app("burst", 1, hinted=mode == "hints")])
        await placed(api, "burst", 1)
        if mode == "hints":
            await hinted(api, ["burst"])
        for step in range(1, STEPS + 1):
            scale = {"spec": {"replicas": BURST_PODS * step // STEPS}}
            await asyncio.gather(api.patch(f"{DEPLOYMENTS}/burst", scale), asyncio.sleep(STEP))
        pods = (await placed(api, "burst", BURST_PODS)).values()
        if mode == "hints":
            without = sum(HINTED not in pod["metadata"].get("annotations", {}) for pod in pods)
            report("hint_placement_without_hint", without, "pods", target=("<=", 1))
        await remove(api, ["burst"])
        return Counter(pod["spec"]["nodeName"] for pod in pods)


async def remove(api: Api, names: Sequence[str]) -> None:
    """These Deployments and all pods."""
    for name in names:
        await api.request("DELETE", f"{DEPLOYMENTS}/{name}?propagationPolicy=Background")
    await api.wait(PODS, lambda pods: not pods["items"], timeout=300.0, what="all pods are deleted")


def load_after(before: Mapping[str, float], pods: Mapping[str, int]) -> dict[str, float]:
    """Percent of its cores, by node."""
    return {name: 100 * (load + pods.get(name, 0) * POD_CORES / CORES) for name, load in before.items()}


async def measure_burst() -> None:
    async with frozen_cluster(loads(BURST_NODES)) as frozen:
        await install(frozen)
        for mode in ("stock", "hints", "extender"):
            progress(f"burst: {mode}")
            pods = await burst(frozen, mode)
            after = load_after(frozen.loads, pods)
            deviation, receiver = pstdev(after.values()), max(after[name] for name in pods)
            bounds = (MAX_DEVIATION, MAX_RECEIVER) if mode == "hints" else None
            report("hint_placement_deviation", deviation, "points of standard deviation",
                target=("<=", bounds[0]) if bounds else None, mode=mode)  # fmt: skip
            report("hint_placement_receiver", receiver, "% on the hottest node with a new pod",
                target=("<=", bounds[1]) if bounds else None, mode=mode, nodes=len(pods),
                fullest=max(pods.values()))  # fmt: skip


# Evictions


class Evictor:
    """Evicts pods as the descheduler and the binder do: an intent, an eviction through the API, an outcome."""

    def __init__(self, frozen: FrozenCluster, api: Api, bus: Bus) -> None:
        self._loads = frozen.loads
        self._api = api
        self._bus = bus
        self._generator = random.Random(2)
        self._left: dict[str, set[str]] = {name: set() for name in WORKLOADS}
        """Nodes from which pods of each Deployment were evicted: they are no targets for some minutes."""

        self.delays: list[float] = []
        """Seconds from each intent to the hint in the API server."""

    async def evict(self, name: str, replicas: int) -> str:
        """The node of the replacement: "target", "other target" or "elsewhere"."""
        pods = await placed(self._api, name, replicas)
        pod = max(pods.values(), key=lambda pod: self._loads[pod["spec"]["nodeName"]])
        self._left[name].add(pod["spec"]["nodeName"])
        coolest = sorted(self._loads, key=self._loads.__getitem__)[: len(self._loads) // 5]
        target = self._generator.choice([node for node in coolest if node not in self._left[name]])
        intent = an_intent(pod, name, target)
        started = time.monotonic()
        await self._bus.publish(eviction_intent("default", intent.pod), intent)
        found = await self._api.wait(
            OBJECT, lambda found: target in nodes_of(found, name, TARGET_WEIGHT), what="the hint names the target"
        )
        self.delays.append(time.monotonic() - started)
        others = nodes_of(found, name, OTHER_TARGET_WEIGHT)
        await self._api.request("POST", f"{PODS}/{intent.pod}/eviction", eviction(intent.pod))
        outcome = converted(
            intent, EvictionOutcome, intent_id=intent.id, outcome=Outcome.EVICTED, settled_at=SystemClock().now()
        )
        await self._bus.publish(eviction_outcome("default", intent.pod), outcome)
        after = await placed(self._api, name, replicas)
        [new] = after.keys() - pods.keys()
        node = after[new]["spec"]["nodeName"]
        return "target" if node == target else "other target" if node in others else "elsewhere"


def an_intent(pod: Document, name: str, target: str) -> EvictionIntent:
    now, metadata = SystemClock().now(), pod["metadata"]
    return EvictionIntent(
        id=metadata["uid"], pod_uid=metadata["uid"], namespace="default", pod=metadata["name"],
        node=pod["spec"]["nodeName"],
        workload=Workload(kind="Deployment", group="apps", namespace="default", name=name),
        strategy="bench", reason="bench", sampled_at=now, decided_at=now, expires_at=now + 60, target=target,
        expected_reduction=Resources(cpu=POD_CORES, memory=GIB / 8),
        epoch=LeaseEpoch(lease_uid="bench", transitions=1, holder="bench"),
    )  # fmt: skip


def nodes_of(found: Document, name: str, weight: int) -> set[str]:
    """The nodes of the terms with this weight."""
    hint = msgspec.convert(found, HintsObject).hint(f"Deployment.{name}")
    return {node for term in (hint.prefer if hint else ()) if term.weight == weight for node in term.hostnames}


async def fill(api: Api, names: Sequence[str]) -> None:
    """One pod on each node, which requests up to 8 cores, so that kube-scheduler has other reasons to choose a node."""
    generator, limit = random.Random(3), asyncio.Semaphore(16)

    async def create(number: int, name: str) -> None:
        pod = bare_pod(number, f"{generator.uniform(0.1, 8):.3f}")
        pod["spec"]["nodeName"] = name
        async with limit:
            await api.request("POST", PODS, pod)

    await asyncio.gather(*(create(number, name) for number, name in enumerate(names)))


async def measure_evictions(nodes: int) -> None:
    async with frozen_cluster(loads(nodes)) as frozen:
        await install(frozen)
        await asyncio.to_thread(frozen.cluster.restart_scheduler, frozen.scheduler(extender=False))
        async with (
            frozen.cluster.api() as api,
            frozen.services(True, **SCORER),
            connect(Nats(url=frozen.cluster.nats_url), "bench") as bus,
        ):
            await fill(api, list(frozen.loads))
            await api.apply([app(name, replicas) for name, replicas in WORKLOADS.items()])
            for name, replicas in WORKLOADS.items():
                await placed(api, name, replicas)
            await hinted(api, list(WORKLOADS))
            evictor, landed = Evictor(frozen, api, bus), Counter[str]()
            for number in range(EVICTIONS):
                name = list(WORKLOADS)[number % len(WORKLOADS)]
                landed[await evictor.evict(name, WORKLOADS[name])] += 1
                progress(f"{nodes} nodes, eviction {number + 1} of {EVICTIONS}: {dict(landed)}")
            on_targets = landed["target"] + landed["other target"]
            report("hint_placement_targets", on_targets / EVICTIONS, "of the replacements", cluster=nodes,
                on_the_target=landed["target"], target=(">=", SHARE_ON_TARGETS))  # fmt: skip
            report("hint_placement_delay", median(evictor.delays), "s from the intent to the hint in the API server",
                cluster=nodes, longest=round(max(evictor.delays), 2))  # fmt: skip


async def main() -> None:
    await measure_burst()
    for nodes in EVICTION_NODES:
        await measure_evictions(nodes)


if __name__ == "__main__":
    asyncio.run(main())
