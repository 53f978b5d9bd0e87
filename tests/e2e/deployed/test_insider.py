"""A hostile insider of k8s/base: what the token or NATS password of one service, or a pod of the cluster, can do.

docs/security.md states for each identity what it permits; these tests try the rest.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import msgspec
import pytest
from deployment.base import NAMESPACE
from deployment.installation import DeployedCluster, Installation
from deployment.kustomize import Document
from deployment.processes import EXTENDER_PORT

from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.lease import LONGEST_LEASE
from equipoise.contracts.messages.message import Message, type_name
from equipoise.contracts.messages.utilization import NODE_UTILIZATION, UTILIZATION_CYCLE
from equipoise.testbed.api import ApiError

pytestmark = pytest.mark.timeout(600)

PATIENCE = 60.0
MERGE = "application/merge-patch+json"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
IDENTITIES = ("collector", "annotator", "scorer", "descheduler", "binder", "setup", "live-page")


# The API server


def role_binding(account: str) -> Document:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "insider"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": f"equipoise-{account}", "namespace": NAMESPACE}],
    }


def lease(name: str) -> Document:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"holderIdentity": "thief", "leaseDurationSeconds": 15},
    }


def attempts(account: str) -> Iterable[tuple[str, str, Any]]:
    """Requests that no identity of Equipoise may send."""
    pod, node = "/api/v1/namespaces/{}/pods/any", "/api/v1/nodes/small-00"
    for namespace in ("shop", "kube-system", NAMESPACE):
        yield "DELETE", pod.format(namespace), {"gracePeriodSeconds": 0}
        yield "DELETE", f"/api/v1/namespaces/{namespace}/pods", None
        yield "PATCH", pod.format(namespace), {"metadata": {"labels": {"pool": "other"}}}
        yield "POST", f"{pod.format(namespace)}/binding", {"target": {"kind": "Node", "name": "small-00"}}
        yield "POST", f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": "own"}}
        yield "GET", f"/api/v1/namespaces/{namespace}/secrets", None
        yield "POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token", {"spec": {}}
    yield "POST", f"{pod.format('shop')}/exec?command=id", None
    yield "DELETE", node, None
    yield "PATCH", node, {"spec": {"unschedulable": True}}
    yield "GET", f"{node}/proxy/pods", None
    yield "PATCH", "/api/v1/namespaces/shop", {"metadata": {"annotations": {"equipoise.dev/evict": None}}}
    yield "PATCH", f"/api/v1/namespaces/{NAMESPACE}/configmaps/equipoise", {"data": {}}
    yield "POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/equipoise-binder/token", {"spec": {}}
    yield "PATCH", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/equipoise-binder", {"spec": {"replicas": 0}}
    yield "PATCH", "/apis/apps/v1/namespaces/shop/deployments/service-00/scale", {"spec": {"replicas": 0}}
    yield "POST", f"{RBAC}/clusterrolebindings", role_binding(account)
    yield "PATCH", f"{RBAC}/clusterroles/equipoise-{account}", {"rules": None}
    for policy in ("equipoise-annotator-fence", "equipoise-binder-fence", "equipoise-lease-fence"):
        for kind in ("validatingadmissionpolicies", "validatingadmissionpolicybindings"):
            yield "DELETE", f"{ADMISSION}/{kind}/{policy}", None
            yield "PATCH", f"{ADMISSION}/{kind}/{policy}", {"spec": None}
    yield "DELETE", f"{ADMISSION}/validatingwebhookconfigurations", None
    yield "DELETE", "/apis/networking.k8s.io/v1/namespaces/equipoise-system/networkpolicies/equipoise-closed", None
    yield "DELETE", "/apis/policy/v1/namespaces/equipoise-system/poddisruptionbudgets/equipoise-binder", None
    for name in ("equipoise-descheduler", "equipoise-collector", "equipoise-annotator-0"):
        yield "DELETE", f"{LEASES}/{name}", None
    yield "DELETE", LEASES, None
    yield "DELETE", f"/api/v1/namespaces/{NAMESPACE}/configmaps/equipoise-ledger", None
    if account != "binder":
        yield "PUT", f"/api/v1/namespaces/{NAMESPACE}/configmaps/equipoise-ledger", {"data": {}}
        yield "POST", f"{pod.format('shop')}/eviction", {"kind": "Eviction", "apiVersion": "policy/v1"}


@pytest.mark.parametrize("account", IDENTITIES)
async def test_a_stolen_token_writes_nothing_else(deployed: DeployedCluster, account: str) -> None:
    """Each request is refused by RBAC, or, where a role permits the verb, by a policy."""
    token = await deployed.token_of(account)
    async with deployed.cluster.api() as api:
        for method, path, body in attempts(account):
            content = MERGE if method == "PATCH" else "application/json"
            with pytest.raises(ApiError) as refused:
                await api.request(method, path, body, token=token, content_type=content)
            reason = str(refused.value)
            # A pod that does not exist is reported only to somebody who may write it.
            assert refused.value.status == 403 or "-fence" in reason, f"{account}: {method} {path}: {reason}"


TOO_LONG = {"leaseDurationSeconds": int(LONGEST_LEASE) + 1}

LEASE_ATTEMPTS = [
    ("collector", "POST", "equipoise-collector-other", {}, ""),
    ("collector", "POST", "equipoise-descheduler-2", {}, "its own Leases"),
    ("collector", "POST", "equipoise-annotator-99", {}, "its own Leases"),
    ("descheduler", "POST", "equipoise-collector-15", {}, "its own Leases"),
    ("descheduler", "POST", "equipoise-annotator-99", {}, "its own Leases"),
    ("descheduler", "PUT", "equipoise-descheduler", TOO_LONG, "at most ten minutes"),
    ("descheduler", "PUT", "equipoise-descheduler", {"leaseTransitions": 2**31 - 1}, "one after the other"),
    ("collector", "PUT", "equipoise-collector", TOO_LONG, "at most ten minutes"),
    ("collector", "PUT", "equipoise-collector", {"leaseTransitions": 2**31 - 1}, "one after the other"),
    ("annotator", "POST", "equipoise-annotator-99", TOO_LONG, "at most ten minutes"),
]


@pytest.mark.parametrize(("account", "method", "name", "spec", "why"), LEASE_ATTEMPTS)
async def test_the_effect_of_a_taken_lease_ends_with_the_token(
    installation: Installation, account: str, method: str, name: str, spec: Document, why: str
) -> None:
    """A Lease of another service, one for decades, or a transition from which its holder cannot count on."""
    cluster = installation.deployed.cluster
    token = await installation.deployed.token_of(account)
    path = f"{LEASES}/{name}" if method == "PUT" else LEASES
    refusal = "the object has been modified"
    while "the object has been modified" in refusal:  # its holder renews it continuously
        document = lease(name) if method == "POST" else await cluster.request("GET", path)
        document["spec"] |= spec
        try:
            await cluster.request(method, f"{path}?dryRun=All", document, token=token)
        except ApiError as error:
            refusal = str(error)
        else:
            refusal = ""
    assert why in refusal
    assert bool(why) == bool(refusal)


# NATS


@asynccontextmanager
async def client_of(installation: Installation, user: str) -> AsyncIterator[Any]:
    client = await installation.machine.nats_client(user)
    try:
        yield client
    finally:
        await client.close()


def headers_of(subject: str, message: Message) -> dict[str, str]:
    return {"ce-subject": subject, "ce-type": type_name(type(message))}


async def forge(client: Any, subject: str, message: Message) -> None:
    await client.publish(subject, msgspec.json.encode(message), headers=headers_of(subject, message))


async def scores(installation: Installation) -> list[int]:
    """The response to kube-scheduler for a pod without a workload."""
    tls = ssl.create_default_context(cafile=str(installation.extender_client / "ca.crt"))
    tls.load_cert_chain(installation.extender_client / "tls.crt", installation.extender_client / "tls.key")
    nodes = await installation.deployed.cluster.request("GET", "/api/v1/nodes")
    body = {
        "Pod": {"metadata": {"name": "probe", "namespace": "shop", "uid": "probe"}, "spec": {"containers": []}},
        "NodeNames": [node["metadata"]["name"] for node in nodes["items"]],
    }
    url = f"{installation.machine.url(EXTENDER_PORT, 'https')}/prioritize"
    name = "equipoise-scorer.equipoise-system.svc"
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session,
        session.post(url, json=body, ssl=tls, server_hostname=name) as response,
    ):
        return [entry["Score"] for entry in await response.json(content_type=None)]


async def until_scored(installation: Installation, seconds: float = PATIENCE) -> float:
    """Until scores differ; returns the seconds that it took."""
    begun = asyncio.get_running_loop().time()
    while True:
        found: list[int] = []
        with suppress(aiohttp.ClientError, TimeoutError):
            found = await scores(installation)
        elapsed = asyncio.get_running_loop().time() - begun
        if len(set(found)) > 1:
            return elapsed
        assert elapsed < seconds, f"{found}: {await installation.machine.readiness('scorer')}"
        await asyncio.sleep(0.2)


async def test_messages_from_the_future_do_not_silence_the_scorer(installation: Installation) -> None:
    """With the password of the collector: their effect must end when the password is changed.

    A cycle of a shard that does not exist, with more nodes than the cluster has, and the usage of every node.
    """
    await until_scored(installation)
    far: dict[str, Any] = {"queried_at": 1e12, "epoch": 2**60}
    nodes = (await installation.deployed.cluster.request("GET", "/api/v1/nodes"))["items"]
    async with client_of(installation, "collector") as client:
        for shard in ("all", "ghost"):
            cycle = msgspec.structs.replace(UTILIZATION_CYCLE, shard=shard, expected=10**6, fresh=0, skew=1e6, **far)
            await forge(client, subjects.utilization_cycle(shard), cycle)
        for node in nodes:
            name = node["metadata"]["name"]
            usage = msgspec.structs.replace(NODE_UTILIZATION, node=name, uid=node["metadata"]["uid"], **far)
            await forge(client, subjects.node_utilization(name), usage)
        await client.flush()
    await until_scored(installation)


# The binder's token


async def test_evictions_with_the_token_of_the_binder_respect_budgets(deployed: DeployedCluster) -> None:
    """The limits of the binder do not bind whoever has its token; a PodDisruptionBudget does."""
    cluster, token = deployed.cluster, await deployed.token_of("binder")
    pods = (await cluster.request("GET", "/api/v1/namespaces/shop/pods"))["items"]
    pod = pods[0]["metadata"]
    path = f"/api/v1/namespaces/shop/pods/{pod['name']}/eviction"
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod["name"], "namespace": "shop"},
        "deleteOptions": {"dryRun": ["All"], "preconditions": {"uid": pod["uid"]}},
    }
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "insider", "namespace": "shop"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": pod["labels"]}},
    }
    assert (await cluster.request("POST", path, eviction, token=token))["status"] == "Success"
    await cluster.apply([budget])
    budgets = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets/insider"
    await cluster.wait(budgets, lambda found: found.get("status", {}).get("currentHealthy", 0) > 0)
    with pytest.raises(ApiError, match="violate the pod's disruption budget") as refused:
        await cluster.request("POST", path, eviction, token=token)
    assert refused.value.status == 429
    await cluster.request("DELETE", budgets)


# Pods of the cluster


async def connect_idle(url: str, count: int) -> list[socket.socket]:
    """So many connections that send nothing."""
    host, port = url.rpartition("//")[2].split(":")
    opened = []
    for _ in range(count):
        connection = socket.socket()
        connection.setblocking(False)
        connection.connect_ex((host, int(port)))
        opened.append(connection)
        await asyncio.sleep(0.001)
    return opened


def is_closed(connection: socket.socket) -> bool:
    """By the server."""
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@pytest.mark.parametrize("service", ["collector", "scorer", "descheduler", "binder"])
async def test_idle_connections_to_the_health_port_take_no_place(installation: Installation, service: str) -> None:
    """Where no NetworkPolicy is in effect, every pod can open them: the service runs out of open files or memory."""
    health = installation.machine.programs[service].health
    assert health is not None
    opened = await connect_idle(installation.machine.url(health.port), 1_000)
    try:
        assert (await installation.machine.readiness(service)).get("ready")
        async with asyncio.timeout(PATIENCE):
            while sum(map(is_closed, opened)) < 800:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    finally:
        for connection in opened:
            connection.close()
