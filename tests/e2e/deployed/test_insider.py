"""A hostile insider of k8s/base: what the token or NATS password of one service, or a pod of the cluster, can do.

docs/security.md states for each identity what it permits; these tests try the rest.
"""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import msgspec
import pytest
from deployment.base import NAMESPACE, base_documents, optional_accounts
from deployment.installation import DeployedCluster, Installation
from deployment.kustomize import Document, named
from deployment.processes import EXTENDER_PORT

from equipoise.binder.decisions.event import fence_probe
from equipoise.contracts.bus import subjects
from equipoise.contracts.eviction.approval import APPROVAL_ROLE, NOT_APPROVED, approval_rules
from equipoise.contracts.messages.message import Message, type_name
from equipoise.contracts.messages.utilization import NODE_UTILIZATION, UTILIZATION_CYCLE
from equipoise.contracts.messages.values.lease import LONGEST_LEASE
from equipoise.runtime.kubernetes.fence import PROBE
from equipoise.testbed.api import ApiError

pytestmark = pytest.mark.timeout(600)

PATIENCE = 60.0
MERGE = "application/merge-patch+json"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC}/namespaces/{NAMESPACE}/roles"
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "00000000-0000-0000-0000-000000000000"}
IDENTITIES = (
    "collector", "annotator", "scorer", "descheduler", "binder", "setup", "live-page", "hints-webhook", "prepare"
)  # fmt: skip


# The API server


@pytest.fixture(scope="module", autouse=True)
async def policies_in_effect(deployed: DeployedCluster) -> None:
    """Also of the Job that creates Secrets, and of the webhook of hints.

    The API server applies new policies with a delay. What each one refuses is requested in a dry run.
    """
    await deployed.cluster.apply(optional_accounts())
    probe = lease(PROBE)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": PROBE}}
    rule = {"apiGroups": ["equipoise.dev"], "resources": ["evictions"], "verbs": ["approve"]}
    role = {"metadata": {"name": APPROVAL_ROLE, "namespace": NAMESPACE}, "rules": [rule]}
    event = msgspec.to_builtins(fence_probe(NAMESPACE, PROBE, 1_800_000_000))
    for policy, account, method, path, body in (
        ("annotator", "annotator", "POST", LEASES, probe),
        ("binder", "binder", "POST", f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events", event),
        ("approval", "descheduler", "PUT", f"{ROLES}/{APPROVAL_ROLE}", role),
        ("lease", "collector", "POST", LEASES, probe),
        ("prepare", "prepare", "POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", secret),
    ):
        token, refusal = await deployed.token_of(account), ""
        async with asyncio.timeout(PATIENCE):
            while f"equipoise-{policy}-fence" not in refusal:
                try:
                    await deployed.cluster.request(method, f"{path}?dryRun=All", body, token=token)
                except ApiError as error:
                    refusal = str(error)


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
    for role in (APPROVAL_ROLE, "equipoise-descheduler", "equipoise-binder"):
        yield "DELETE", f"{ROLES}/{role}", None
        yield "PATCH", f"{RBAC}/namespaces/{NAMESPACE}/rolebindings/{role}", {"subjects": None}
        if (account, role) != ("descheduler", APPROVAL_ROLE):
            yield "PATCH", f"{ROLES}/{role}", {"rules": None}
    for policy in ("annotator", "hints", "hints-webhook", "binder", "surge", "approval", "lease", "prepare"):
        for kind in ("validatingadmissionpolicies", "validatingadmissionpolicybindings"):
            yield "DELETE", f"{ADMISSION}/{kind}/equipoise-{policy}-fence", None
            yield "PATCH", f"{ADMISSION}/{kind}/equipoise-{policy}-fence", {"spec": None}
    yield "DELETE", f"{ADMISSION}/validatingwebhookconfigurations", None
    for method in ("DELETE", "PATCH"):
        yield method, f"{ADMISSION}/mutatingwebhookconfigurations/equipoise-hints", {"webhooks": []}
    yield "POST", f"{ADMISSION}/mutatingwebhookconfigurations", {"metadata": {"name": "own"}, "webhooks": []}
    for name in ("equipoise-nats", "equipoise-hints-webhook-tls"):
        yield "PATCH", f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}", {"data": {}}
        yield "DELETE", f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}", None
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


@pytest.mark.parametrize("account", ["collector", "annotator"])
async def test_a_lease_cannot_be_made_undeletable(installation: Installation, account: str) -> None:
    document = lease(f"equipoise-{account}-other")
    document["metadata"]["finalizers"] = ["example.com/never"]
    token = await installation.deployed.token_of(account)
    with pytest.raises(ApiError, match="no finalizers"):
        await installation.deployed.cluster.request("POST", f"{LEASES}?dryRun=All", document, token=token)


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
    far: dict[str, Any] = {"queried_at": 1e11, "epoch": 2_000_000_000_000}
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


# The tokens of the binder and the descheduler


OTHER = "other-system"
"""A namespace with the same accounts, roles and policies, where no descheduler runs that changes approvals."""


@pytest.fixture(scope="module")
async def tokens(deployed: DeployedCluster) -> dict[str, str]:
    """Of the accounts in OTHER."""
    cluster = deployed.cluster
    documents = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OTHER}}]
    for document in base_documents():
        if document["kind"] == "ClusterRoleBinding":
            document["metadata"]["name"] += "-other"
        if document["kind"] in ("ServiceAccount", "Role", "RoleBinding", "ClusterRoleBinding"):
            documents.append(json.loads(json.dumps(document).replace(NAMESPACE, OTHER)))
    await cluster.apply(documents)
    return {
        service: (await cluster.service_account_token(OTHER, f"equipoise-{service}")).read_text()
        for service in ("binder", "descheduler")
    }


@pytest.fixture
async def pods(deployed: DeployedCluster) -> AsyncIterator[dict[str, str]]:
    """UIDs of three pods by name."""
    path, cluster = "/api/v1/namespaces/default/pods", deployed.cluster
    uids = {}
    for name in ("first", "second", "third"):
        container = {"name": "main", "image": "none"}
        spec = {"nodeName": "small-00", "automountServiceAccountToken": False, "containers": [container]}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "insider"}},
            "spec": spec,
        }
        uids[name] = (await cluster.request("POST", path, pod))["metadata"]["uid"]
    yield uids
    for name in uids:
        with suppress(ApiError):
            await cluster.request("DELETE", f"{path}/{name}?gracePeriodSeconds=0")


async def evict(deployed: DeployedCluster, tokens: dict[str, str], name: str, uid: str, **options: Any) -> str:
    """With the token of the binder: why it is refused, "" if it is not."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": "default"},
        "deleteOptions": {"preconditions": {"uid": uid}, **options},
    }
    path = f"/api/v1/namespaces/default/pods/{name}/eviction"
    try:
        await deployed.cluster.request("POST", path, eviction, token=tokens["binder"])
    except ApiError as error:
        return str(error)
    return ""


async def evict_until(deployed: DeployedCluster, tokens: dict[str, str], name: str, uid: str, why: str) -> str:
    """It is refused for this reason, or not at all (""). The API server applies a changed Role with a delay."""
    async with asyncio.timeout(PATIENCE):
        while True:
            refusal = await evict(deployed, tokens, name, uid)
            if why in refusal and bool(why) == bool(refusal):
                return refusal
            await asyncio.sleep(0.02)


APPROVALS = f"{RBAC}/namespaces/{OTHER}/roles/{APPROVAL_ROLE}"


async def write_role(
    deployed: DeployedCluster, token: str, rules: list[Document], metadata: Document | None = None
) -> None:
    """The Role of the approved evictions."""
    role = await deployed.cluster.request("GET", APPROVALS)
    role["rules"] = rules
    role["metadata"] |= metadata or {}
    await deployed.cluster.request("PUT", APPROVALS, role, token=token)


def approving(*uids: str, **fields: Any) -> Document:
    (rule,) = approval_rules(uids)
    return {**msgspec.to_builtins(rule), **fields}


async def test_the_token_of_the_binder_evicts_only_approved_pods(
    deployed: DeployedCluster, tokens: dict[str, str], pods: dict[str, str]
) -> None:
    """Which takes the token of the descheduler: by UID, and until it withdraws the approval."""
    for name, uid in pods.items():
        assert NOT_APPROVED in await evict(deployed, tokens, name, uid)
    with pytest.raises(ApiError) as refused:
        await write_role(deployed, tokens["binder"], [approving(*pods.values())])
    assert refused.value.status == 403

    await write_role(deployed, tokens["descheduler"], [approving(pods["first"])])
    await evict_until(deployed, tokens, "first", pods["first"], "")
    assert NOT_APPROVED in await evict(deployed, tokens, "second", pods["second"])

    # Nothing is evicted with the UID of another pod, but the policy admits it while that one is approved.
    await write_role(deployed, tokens["descheduler"], [approving(pods["second"])])
    await evict_until(deployed, tokens, "third", pods["second"], "precondition")
    await write_role(deployed, tokens["descheduler"], [])
    await evict_until(deployed, tokens, "third", pods["second"], NOT_APPROVED)
    assert NOT_APPROVED in await evict(deployed, tokens, "second", pods["second"])
    assert await evict(deployed, tokens, "second", pods["second"], dryRun=["All"]) == ""


async def test_approvals_remain_when_the_manifests_are_applied_again(
    deployed: DeployedCluster, tokens: dict[str, str]
) -> None:
    """As GitOps tools do: it would refuse the evictions of the last evaluation."""
    await write_role(deployed, tokens["descheduler"], [approving("uid")])
    role = named(base_documents(), "Role", APPROVAL_ROLE)
    role["metadata"]["namespace"] = OTHER
    [applied] = await deployed.cluster.apply([role])
    assert [rule["resourceNames"] for rule in applied["rules"]] == [["uid"]]


OWN_RULE = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]}
OWN_ROLE = {**approving(APPROVAL_ROLE), "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]}


@pytest.mark.parametrize(
    ("rules", "metadata"),
    [
        pytest.param([approving("uid", resourceNames=[])], {}, id="every pod"),
        pytest.param([{**approving("uid"), "resourceNames": None}], {}, id="every pod, without the field"),
        pytest.param([approving(*map(str, range(1_001)))], {}, id="more than a thousand pods"),
        pytest.param([approving("first"), approving("second")], {}, id="two rules"),
        pytest.param([approving("uid", verbs=["*"])], {}, id="every verb"),
        pytest.param([approving("uid", resources=["*"])], {}, id="every resource of the group"),
        pytest.param([OWN_RULE], {}, id="a permission of the descheduler"),
        pytest.param([{**OWN_ROLE, "verbs": ["update"]}], {}, id="to approve"),
        pytest.param(
            [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}], {}, id="a permission of nobody"
        ),
        pytest.param([], {"labels": {"team": "thief"}}, id="a label"),
        pytest.param([], {"annotations": {"helm.sh/resource-policy": "keep"}}, id="an annotation"),
        pytest.param([], {"finalizers": ["example.com/never"]}, id="a finalizer"),
        pytest.param([], {"ownerReferences": [{**OWNER, "controller": True}]}, id="an owner"),
    ],
)
async def test_the_token_of_the_descheduler_grants_nothing_but_approvals(
    deployed: DeployedCluster, tokens: dict[str, str], rules: list[Document], metadata: Document
) -> None:
    """The API server refuses permissions that it does not have, and the policy all others in this Role."""
    before = (await deployed.cluster.request("GET", APPROVALS))["rules"]
    with pytest.raises(ApiError, match=r"equipoise-approval-fence|attempting to grant RBAC permissions"):
        await write_role(deployed, tokens["descheduler"], rules, metadata)
    assert (await deployed.cluster.request("GET", APPROVALS))["rules"] == before


async def test_an_approved_eviction_respects_budgets(
    deployed: DeployedCluster, tokens: dict[str, str], pods: dict[str, str]
) -> None:
    """With both tokens: no limit of the binder remains, but the PodDisruptionBudgets."""
    await write_role(deployed, tokens["descheduler"], [approving(*pods.values())])
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "insider", "namespace": "default"},
        "spec": {"minAvailable": len(pods), "selector": {"matchLabels": {"app": "insider"}}},
    }
    await deployed.cluster.apply([budget])
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/insider"
    try:
        await deployed.cluster.wait(budgets, lambda found: found.get("status", {}).get("currentHealthy") == len(pods))
        refusal = await evict_until(deployed, tokens, "first", pods["first"], "disruption budget")
    finally:
        await deployed.cluster.request("DELETE", budgets)
    assert "429" in refusal


# Pods of the cluster


async def connect_idle(url: str, count: int) -> list[socket.socket]:
    """This many connections that send nothing."""
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
        # Not at the first attempt: on a busy machine the kernel drops connections that wait to be accepted.
        await installation.machine.ready(service, PATIENCE)
        async with asyncio.timeout(PATIENCE):
            while sum(map(is_closed, opened)) < 800:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    finally:
        for connection in opened:
            connection.close()
