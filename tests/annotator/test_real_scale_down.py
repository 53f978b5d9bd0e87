"""Scale-downs by the ReplicaSet controller of Kubernetes, with the deletion costs that the annotator writes."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import pytest
from builders import a_node_utilization, a_placed_pod, a_placement, a_workload, a_workload_utilization
from cluster_fixtures import StartCluster
from deployment.base import NAMESPACE, ROOT, base_documents
from deployment.kustomize import Document, read_kustomization
from prometheus_client import CollectorRegistry

from equipoise.annotator.decisions.deletion_order import First
from equipoise.annotator.service import Annotator
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.contracts.bus.subjects import node_placement, node_utilization, workload_utilization
from equipoise.contracts.eviction.deletion_cost import DELETION_COST
from equipoise.contracts.kubernetes.labels import ZONE
from equipoise.runtime.configuration import Configuration, Kubernetes, Shared
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.testbed.api import ApiError
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.objects import deployment, namespace, node, pod_template, stateful_set

HOUR = 3_600.0
MERGE = "application/merge-patch+json"
LOADS = (0.9, 0.8, 0.3, 0.3, 0.3)
"""The load of the nodes of a pool, repeated."""

POOLS = {"hottest": (5, 4), "emptiest": (5, 4), "zones": (6, 3), "fenced": (1, 1)}
"""Nodes, and the pods that each has space for: the scheduler fills all of them."""


class MinutesBeforeAnHour(SystemClock):
    """A clock that is always in the last minutes of an hour, however long a test takes."""

    def now(self) -> float:
        real = super().now()
        return real - real % HOUR + HOUR - 600 + real % 300


def a_pool(name: str) -> list[Document]:
    """The nodes of a pool, in three zones."""
    nodes, pods = POOLS[name]
    return [
        node(f"{name}-{number}", pods=pods, labels={"pool": name, ZONE: f"{name}-{number % 3}"})
        for number in range(nodes)
    ]


def a_deployment(name: str) -> Document:
    """As many pods as its pool has space for, spread by nothing but that; those of `zones` also over zones."""
    nodes, pods = POOLS[name]
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": name}},
    }
    spec = {"nodeSelector": {"pool": name}, "topologySpreadConstraints": [spread] if name == "zones" else []}
    return deployment(name, pod_template(name, cpu="10m", spec=spec), replicas=nodes * pods, namespace="shop")


def access() -> list[Document]:
    folder = read_kustomization(ROOT / "k8s" / "deletion-costs")
    own = [each for each in base_documents() if each["metadata"]["name"].startswith("equipoise-annotator")]
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    fence = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    home = [each for each in base_documents() if each["kind"] == "Namespace"]
    return [*home, *(each for each in own if each["kind"] in (*kinds, *fence)), *folder]


@pytest.fixture(scope="module")
async def cluster(start_cluster: StartCluster) -> Cluster:
    """A pool of nodes for each Deployment, all of whose pods run."""
    cluster = start_cluster()
    other = node("database", labels={"pool": "database"})
    await cluster.add_nodes([other, *(each for name in POOLS for each in a_pool(name))])
    template = pod_template("database", cpu="10m", spec={"nodeSelector": {"pool": "database"}})
    await cluster.apply(
        [namespace("shop"), *map(a_deployment, POOLS), stateful_set("database", template, namespace="shop"), *access()]
    )
    expected = sum(nodes * pods for nodes, pods in POOLS.values())
    await cluster.wait(PODS, lambda found: len(running(found["items"])) == expected, what="all pods of Deployments run")
    return cluster


PODS = "/api/v1/namespaces/shop/pods?labelSelector=app!=database"


def running(pods: list[Document]) -> list[Document]:
    return [
        pod for pod in pods if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]


async def pods_of(cluster: Cluster, name: str) -> list[Document]:
    return running((await cluster.request("GET", f"/api/v1/namespaces/shop/pods?labelSelector=app={name}"))["items"])


def by_node(pods: list[Document]) -> list[int]:
    """The number of pods on each node that has any, most first."""
    return sorted(Counter(pod["spec"]["nodeName"] for pod in pods).values(), reverse=True)


async def scaled(cluster: Cluster, name: str, replicas: int) -> list[Document]:
    """The pods that remain."""
    async with cluster.api() as api:
        path = f"/apis/apps/v1/namespaces/shop/deployments/{name}"
        await api.request("PATCH", path, {"spec": {"replicas": replicas}}, content_type=MERGE)
        await api.wait(
            f"/api/v1/namespaces/shop/pods?labelSelector=app={name}",
            lambda found: len(running(found["items"])) == replicas,
            what=f"{name} has {replicas} pods",
        )
    return await pods_of(cluster, name)


@asynccontextmanager
async def annotator(cluster: Cluster, first: First) -> AsyncIterator[MemoryBus]:
    """A whole annotator, under its own account, listens to the bus."""
    clock, metrics = MinutesBeforeAnHour(), CollectorRegistry()
    directory = (await cluster.service_account_token(NAMESPACE, "equipoise-annotator")).parent
    connection = Kubernetes(service_account=str(directory))
    async with (
        connect_kube(connection, "annotator", clock, environment=cluster.in_cluster_environment) as kube,
        MemoryBus(clock) as bus,
    ):
        own, shared = AnnotatorSettings(deletion_costs=first), Shared(kubernetes=Kubernetes(namespace=NAMESPACE))
        runtime = Runtime(
            configuration=Configuration(shared=shared, own=own, hash=""), identity="one", message_bus=bus,
            api_server=kube, clock=clock, health=Health(configuration_hash="", metrics=metrics), metrics=metrics,
        )  # fmt: skip
        service = Annotator(runtime)
        await service.attach()
        task = asyncio.create_task(service.run())
        yield bus
        task.cancel()
        await asyncio.wait([task])


async def publish(cluster: Cluster, bus: MemoryBus, name: str, replicas: int) -> None:
    """What the collector publishes of a pool and its Deployment, which had so many pods less on the days before."""
    now, pods = MinutesBeforeAnHour().now(), await pods_of(cluster, name)
    workload = a_workload(name)
    for number, each in enumerate(a_pool(name)):
        on_node = each["metadata"]["name"]
        placed = [
            a_placed_pod(pod["metadata"]["name"], uid=pod["metadata"]["uid"], workload=workload)
            for pod in pods
            if pod["spec"]["nodeName"] == on_node
        ]
        labels = each["metadata"]["labels"]
        await bus.publish(node_placement(on_node), a_placement(on_node, placed, labels=labels))
        cores = 10 * LOADS[number % len(LOADS)]
        utilization = a_node_utilization(on_node, cores, sampled_at=now, queried_at=now)
        await bus.publish(node_utilization(on_node), utilization)
    by_hour = [float(len(pods))] * 24
    by_hour[int(now // HOUR + 1) % 24] = float(replicas)
    await bus.publish(
        workload_utilization(workload),
        a_workload_utilization(
            workload,
            replicas=len(pods),
            replicas_by_hour=by_hour,
            windows=a_node_utilization(sampled_at=now).windows,
            profile={"cpu": [0.5] * 24, "memory": [1e6] * 24},
            sampled_at=now,
            queried_at=now,
        ),
    )


async def with_costs(cluster: Cluster, name: str, first: First, replicas: int) -> list[Document]:
    """The pods that remain after a scale-down that the annotator expects."""
    async with annotator(cluster, first) as bus:
        before = len(await pods_of(cluster, name))
        await publish(cluster, bus, name, replicas)
        await cluster.wait(
            f"/api/v1/namespaces/shop/pods?labelSelector=app={name}",
            lambda found: (
                sum(DELETION_COST in pod["metadata"].get("annotations", {}) for pod in found["items"])
                == before - replicas
            ),
            what="the pods that should go first have costs",
        )
    return await scaled(cluster, name, replicas)


async def test_with_costs_the_hottest_nodes_lose_their_pods(cluster: Cluster) -> None:
    """The two hottest nodes, and two pods of others. Takes seconds: a cluster starts."""
    remaining = Counter(pod["spec"]["nodeName"] for pod in await with_costs(cluster, "hottest", "hottestNodes", 10))
    assert remaining.total() == 10
    assert not {"hottest-0", "hottest-1"} & remaining.keys()


async def test_with_costs_nodes_become_empty(cluster: Cluster) -> None:
    """Two of five nodes, and one half of another. Takes seconds: a cluster starts."""
    assert by_node(await with_costs(cluster, "emptiest", "emptiestNodes", 10)) == [4, 4, 2]


async def test_with_costs_nodes_become_empty_and_zones_remain_even(cluster: Cluster) -> None:
    """Two nodes in each of three zones, and maxSkew 1. Takes seconds: a cluster starts."""
    remaining = await with_costs(cluster, "zones", "emptiestNodes", 9)
    zones = Counter(int(pod["spec"]["nodeName"].rpartition("-")[2]) % 3 for pod in remaining)
    assert zones == {0: 3, 1: 3, 2: 3}
    assert by_node(remaining) == [3, 3, 3]


def annotated(value: str | None, key: str = DELETION_COST) -> Document:
    return {"metadata": {"annotations": {key: value}}}


FORBIDDEN: dict[str, Document] = {
    "a cost of its own choice": annotated("-1"),
    "a cost with more digits": annotated("-90001"),
    "another annotation": annotated("x", "equipoise.dev/evict"),
    "an annotation of nodes and workloads": annotated("{}", "equipoise.dev/load"),
    "a label": {"metadata": {"labels": {"pod-template-hash": None}}},
    "a finalizer": {"metadata": {"finalizers": ["example.com/never"]}},
    "no owner": {"metadata": {"ownerReferences": None}},
    "an image": {"spec": {"activeDeadlineSeconds": 1}},
}


async def test_the_fence_permits_own_deletion_costs_of_pods_of_replica_sets_only(cluster: Cluster) -> None:
    """They are written, changed and removed. All other changes, and other pods, are refused."""
    token = (await cluster.service_account_token(NAMESPACE, "equipoise-annotator")).read_text()
    [pod] = await pods_of(cluster, "fenced")
    path = f"/api/v1/namespaces/shop/pods/{pod['metadata']['name']}"

    async def refusal(change: Document, at: str = path) -> str:
        try:
            async with cluster.api() as api:
                await api.request("PATCH", at, change, token=token, content_type=MERGE)
        except ApiError as error:
            return str(error)
        return ""

    async with asyncio.timeout(60):
        for number in count():  # until the API server applies the policy
            if await refusal(annotated(str(number), "example.com/foreign")):
                break
            await asyncio.sleep(0.1)
    assert [await refusal(annotated(value)) for value in ("-9999", "-9000", None, "-9001")] == [""] * 4
    found = {name: await refusal(change) for name, change in FORBIDDEN.items()}
    assert {name for name, text in found.items() if "equipoise-annotator-fence" in text} == FORBIDDEN.keys()
    async with cluster.api() as api:
        await api.request("PATCH", path, annotated("7"), content_type=MERGE)
    assert "may not replace those of other programs" in await refusal(annotated("-9999"))
    assert "may not replace those of other programs" in await refusal(annotated(None))
    database = "/api/v1/namespaces/shop/pods/database-0"
    await cluster.wait(database, lambda _: True, what="the pod of a StatefulSet exists")
    assert "pods of ReplicaSets only" in await refusal(annotated("-9999"), database)
    assert "403" in await refusal(annotated("-9999"), f"{path}/status")
