"""The reclaimer's account at a real API server: what its policy permits, and a reclaimer that writes with it."""

import asyncio
from itertools import count
from typing import Any

import pytest
from builders import GIB, a_node_utilization, a_placement
from cluster_fixtures import StartCluster
from deployment.base import NAMESPACE, ROOT, base_documents
from deployment.kustomize import Document, read_documents
from prometheus_client import CollectorRegistry
from reclaimer.worlds import NAMES

from equipoise.contracts.bus.subjects import node_placement, node_utilization
from equipoise.contracts.kubernetes.quantity import parse_quantity
from equipoise.contracts.messages.values.resources import Resources
from equipoise.reclaimer.service import Reclaimer
from equipoise.reclaimer.settings import ReclaimerSettings
from equipoise.runtime.configuration import Configuration, Kubernetes, Shared
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.fence import PROBE
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.testbed.api import ApiError
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.objects import node

COLOCATION = ROOT / "k8s" / "colocation"
NODE = "/api/v1/nodes/alpha"
STATUS = f"{NODE}/status"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
MERGE = "application/merge-patch+json"
BATCH_CPU = "kubernetes.io/batch-cpu"


def documents() -> list[Document]:
    """The account and its policy, as they are deployed."""
    wanted = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    account = [each for each in read_documents(COLOCATION / "reclaimer.yaml") if each["kind"] in wanted]
    leases = [each for each in base_documents() if each["metadata"]["name"] == "equipoise-lease-fence"]
    spaces = [each for each in base_documents() if each["kind"] == "Namespace"]
    return [*spaces, *account, *leases, *read_documents(COLOCATION / "reclaimer-fence.yaml")]


@pytest.fixture(scope="module")
async def cluster(start_cluster: StartCluster) -> Cluster:
    cluster = start_cluster()
    await cluster.add_nodes([node("alpha", cpu=10)])
    await cluster.apply(documents())
    return cluster


class Account:
    """Writes as the reclaimer."""

    def __init__(self, cluster: Cluster, token: str) -> None:
        self._cluster = cluster
        self._token = token

    async def refusal(self, method: str, path: str, body: Document) -> str:
        """Why the API server refused it; "" when it did not."""
        try:
            async with self._cluster.api() as api:
                kind = {"content_type": MERGE} if method == "PATCH" else {}
                await api.request(method, path, body, token=self._token, **kind)
        except ApiError as error:
            return str(error)
        return ""


@pytest.fixture(scope="module")
async def account(cluster: Cluster) -> Account:
    token = await cluster.service_account_token(NAMESPACE, "equipoise-reclaimer")
    account = Account(cluster, token.read_text())
    async with asyncio.timeout(60):
        for number in count():  # always another value: an existing one may be written again
            if await account.refusal("PATCH", STATUS, {"metadata": {"labels": {"number": str(number)}}}):
                break
            await asyncio.sleep(0.1)
    return account


def amounts(**quantities: Any) -> Document:
    """The same in capacity and allocatable."""
    names = {f"kubernetes.io/{name.replace('_', '-')}": value for name, value in quantities.items()}
    return {"status": {"capacity": names, "allocatable": names}}


@pytest.mark.parametrize(
    "body",
    [
        amounts(batch_cpu="6500", batch_memory="1073741824", mid_cpu="100", mid_memory="0"),
        amounts(batch_cpu="10000", batch_memory="64Gi"),
        amounts(batch_cpu="0"),
        amounts(batch_cpu=None, batch_memory=None, mid_cpu=None, mid_memory=None),
    ],
    ids=["four amounts", "all of the node", "nothing", "removed"],
)
async def test_the_policy_permits_amounts_of_the_bands(account: Account, body: Document) -> None:
    assert await account.refusal("PATCH", STATUS, body) == ""


FORBIDDEN: dict[str, Document] = {
    "cpu": amounts() | {"status": {"capacity": {"cpu": "99"}, "allocatable": {"cpu": "99"}}},
    "pods": {"status": {"allocatable": {"pods": "9"}}},
    "another resource": {"status": {"capacity": {"example.com/gpu": "1"}, "allocatable": {"example.com/gpu": "1"}}},
    "only capacity": {"status": {"capacity": {BATCH_CPU: "100"}}},
    "only allocatable": {"status": {"allocatable": {BATCH_CPU: "100"}}},
    "two amounts": {"status": {"capacity": {BATCH_CPU: "100"}, "allocatable": {BATCH_CPU: "200"}}},
    "more cores than the node": amounts(batch_cpu="10001"),
    "more mid cores than the node": amounts(mid_cpu="10001"),
    "more memory than the node": amounts(batch_memory="65Gi"),
    "a removed resource": {"status": {"capacity": {"memory": None}, "allocatable": {"memory": None}}},
    "a condition": {"status": {"conditions": []}},
    "an address": {"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}},
    "node information": {"status": {"nodeInfo": {"kernelVersion": "other"}}},
    "an image": {"status": {"images": [{"names": ["x"], "sizeBytes": 1}]}},
    "a label": {"metadata": {"labels": {"pool": "other"}}},
    "an annotation": {"metadata": {"annotations": {"example.com/mine": "1"}}},
    "a finalizer": {"metadata": {"finalizers": ["example.com/never"]}},
    "a label beside an amount": amounts(batch_cpu="5") | {"metadata": {"labels": {"pool": "other"}}},
}


@pytest.mark.parametrize("change", FORBIDDEN)
async def test_the_policy_refuses_every_other_change(account: Account, change: str) -> None:
    assert "equipoise-reclaimer-fence" in await account.refusal("PATCH", STATUS, FORBIDDEN[change])


async def test_taints_and_spec_cannot_be_changed_by_way_of_the_status(cluster: Cluster, account: Account) -> None:
    """The API server ignores them there."""
    before = (await cluster.request("GET", NODE))["spec"]
    taint = {"key": "x", "effect": "NoSchedule"}
    assert await account.refusal("PATCH", STATUS, {"spec": {"taints": [taint], "unschedulable": True}}) == ""
    assert (await cluster.request("GET", NODE))["spec"] == before


async def test_the_role_permits_only_patches_of_the_status(cluster: Cluster, account: Account) -> None:
    document = await cluster.request("GET", NODE)
    for method, path, body in (
        ("PATCH", NODE, {"metadata": {"labels": {"pool": "other"}}}),
        ("PUT", NODE, document),
        ("PUT", STATUS, document),
        ("DELETE", NODE, {}),
    ):
        assert "403" in await account.refusal(method, path, body)


@pytest.mark.parametrize(("name", "refused"), [("equipoise-reclaimer", False), ("other", True), (PROBE, True)])
async def test_the_policy_permits_the_own_lease_only(account: Account, name: str, refused: bool) -> None:
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}
    refusal = await account.refusal("POST", f"{LEASES}?dryRun=All", body)
    assert ("equipoise-reclaimer-fence" in refusal) == refused
    assert refused or not refusal


async def test_a_reclaimer_writes_its_amounts_with_its_own_account(cluster: Cluster, account: Account) -> None:
    """After it has proven that its policy is in effect."""
    clock, metrics = SystemClock(), CollectorRegistry()
    token = await cluster.service_account_token(NAMESPACE, "equipoise-reclaimer")
    connection = Kubernetes(service_account=str(token.parent))
    environment = cluster.in_cluster_environment
    uid = (await cluster.request("GET", NODE))["metadata"]["uid"]
    async with (
        connect_kube(connection, "reclaimer", clock, environment=environment) as kube,
        MemoryBus(clock) as bus,
    ):
        own = ReclaimerSettings(enabled=True, mode="enforce", interval=0.2)
        runtime = Runtime(
            configuration=Configuration(shared=Shared(kubernetes=Kubernetes(namespace=NAMESPACE)), own=own, hash=""),
            identity="one", message_bus=bus, api_server=kube, clock=clock, metrics=metrics,
            health=Health(configuration_hash="", metrics=metrics),
        )  # fmt: skip
        service = Reclaimer(runtime)
        await service.attach()
        task = asyncio.create_task(service.run())
        try:
            await _publish(bus, uid, cores=1.0)
            found = await cluster.wait(
                NODE, lambda node: BATCH_CPU in node["status"]["allocatable"], what="the amounts are written"
            )
            allocatable, capacity = found["status"]["allocatable"], found["status"]["capacity"]
            assert {name: allocatable[name] for name in NAMES} == {name: capacity[name] for name in NAMES}
            assert parse_quantity(allocatable[BATCH_CPU]) == 1_000, "the first step is a tenth of the node"
        finally:
            task.cancel()
            await asyncio.wait([task])


async def _publish(bus: MemoryBus, uid: str, cores: float) -> None:
    now, usage = SystemClock().now(), Resources(cpu=cores, memory=8 * GIB)
    capacity = Resources(cpu=10.0, memory=64 * GIB)
    placement = a_placement("alpha", [], uid=uid, capacity=capacity, allocatable=capacity)
    await bus.publish(node_placement("alpha"), placement)
    utilization = a_node_utilization("alpha", cores, uid=uid, system=usage, sampled_at=now, queried_at=now)
    await bus.publish(node_utilization("alpha"), utilization)
