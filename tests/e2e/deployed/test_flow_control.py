"""The priority level of k8s/base/flow-control.yaml on a real API server."""

import asyncio
import ssl

import aiohttp
import pytest
from deployment.base import NAMESPACE, ROOT
from deployment.installation import DeployedCluster
from deployment.kustomize import read_documents

pytestmark = pytest.mark.timeout(600)

FLOW_CONTROL = "/apis/flowcontrol.apiserver.k8s.io/v1"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/equipoise-collector"
ACCOUNTS = ("collector", "annotator", "descheduler", "binder", "setup")


async def flow_schema(deployed: DeployedCluster, account: str, path: str) -> str:
    """The FlowSchema of a request, whether it is permitted or not: the API server names its UID in the response."""
    context = ssl.create_default_context(cafile=str(deployed.cluster.ca_file))
    headers = {"Authorization": f"Bearer {await deployed.token_of(account)}"}
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
        session.get(f"{deployed.cluster.url}{path}", headers=headers) as response,
    ):
        uid = response.headers["X-Kubernetes-PF-FlowSchema-UID"]
    schemas = (await deployed.cluster.request("GET", f"{FLOW_CONTROL}/flowschemas"))["items"]
    [name] = [schema["metadata"]["name"] for schema in schemas if schema["metadata"]["uid"] == uid]
    return str(name)


async def until_used(deployed: DeployedCluster, account: str, path: str, expected: str) -> None:
    """The API server applies a new FlowSchema with a delay."""
    async with asyncio.timeout(60):
        while True:
            if await flow_schema(deployed, account, path) == expected:
                return
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("account", ACCOUNTS)
async def test_the_requests_of_a_service_have_a_priority_level_of_their_own(
    deployed: DeployedCluster, account: str
) -> None:
    """Those for Leases apart from the others, so that long lists do not delay them."""
    await until_used(deployed, account, "/api/v1/nodes?limit=1", "equipoise")
    await until_used(deployed, account, "/version", "equipoise")
    await until_used(deployed, account, LEASE, "equipoise-leases")


async def test_the_second_scheduler_is_not_in_this_level(deployed: DeployedCluster) -> None:
    """A kube-scheduler needs more than a descheduler."""
    await until_used(deployed, "collector", "/api/v1/nodes?limit=1", "equipoise")
    await deployed.cluster.apply(read_documents(ROOT / "k8s" / "scheduler" / "second-scheduler.yaml"))
    assert await flow_schema(deployed, "scheduler", "/api/v1/nodes?limit=1") == "service-accounts"


async def test_the_level_exists_and_its_services_have_a_queue_each(deployed: DeployedCluster) -> None:
    """A FlowSchema without its level is reported by the API server as dangling."""
    for name in ("equipoise", "equipoise-leases"):
        path = f"{FLOW_CONTROL}/flowschemas/{name}"
        schema = await deployed.cluster.wait(path, lambda schema: bool(schema.get("status", {}).get("conditions")))
        assert [(each["type"], each["status"]) for each in schema["status"]["conditions"]] == [("Dangling", "False")]
        assert schema["spec"]["distinguisherMethod"] == {"type": "ByUser"}
    level = await deployed.cluster.request("GET", f"{FLOW_CONTROL}/prioritylevelconfigurations/equipoise")
    assert level["spec"]["limited"]["limitResponse"]["type"] == "Queue"
