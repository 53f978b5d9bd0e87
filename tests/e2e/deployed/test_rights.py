"""The permissions of the accounts of k8s/base and k8s/colocation on a real API server, with fences and overlays."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from deployment.base import NAMESPACE, ROOT, base_documents, optional_accounts
from deployment.installation import DeployedCluster, Installation
from deployment.kustomize import Document, identity, read_documents, read_kustomization
from prometheus_client import CollectorRegistry

from equipoise.binder.decisions.event import fence_probe
from equipoise.binder.decisions.eviction_response import read_response
from equipoise.contracts.eviction.approval import APPROVAL_ROLE
from equipoise.contracts.kubernetes.nodes.consolidation_taint import CONSOLIDATION
from equipoise.contracts.kubernetes.objects.cluster import Lease
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.kubernetes.client import EVENTS, PODS, EvictionResult, KubeError, Resource
from equipoise.runtime.kubernetes.client import LEASES as LEASES_RESOURCE
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.fence import PROBE, until_fenced
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.health import Health
from equipoise.testbed.api import ApiError
from equipoise.testbed.objects import eviction, pod

pytestmark = pytest.mark.timeout(600)

MERGE = "application/merge-patch+json"
KINDS = (
    "deployments.apps statefulsets.apps daemonsets.apps replicasets.apps cronjobs.batch jobs.batch "
    "clonesets.apps.kruise.io rollouts.argoproj.io nodes replicationcontrollers"
)
PATCHES = {f"patch {kind}" for kind in KINDS.split()}

LEASES = "leases.coordination.k8s.io"
COLLECTOR_LEASES = ("equipoise-collector", *(f"equipoise-collector-{shard}" for shard in range(16)))
WRITES_IN_OWN_NAMESPACE: dict[str, set[str]] = {
    "collector": {f"create {LEASES}", *(f"update {LEASES} {name}" for name in COLLECTOR_LEASES)},
    "annotator": {f"create {LEASES}", f"update {LEASES}", *PATCHES},
    "scorer": set(),
    "descheduler": {
        f"create {LEASES}",
        f"update {LEASES} equipoise-descheduler",
        f"update roles.rbac.authorization.k8s.io {APPROVAL_ROLE}",
        "approve evictions.equipoise.dev",
    },
    "binder": {"create events.events.k8s.io", "create pods/eviction", "update configmaps equipoise-ledger"},
    "setup": {"create configmaps"},
    "live-page": set(),
    "reclaimer": {f"create {LEASES}", f"update {LEASES} equipoise-reclaimer", "patch nodes/status"},
    "agent": set(),
    "hints-webhook": set(),
    "prepare": {
        "create secrets",
        "create configmaps",
        "delete rolebindings.rbac.authorization.k8s.io equipoise-prepare",
        "delete clusterrolebindings.rbac.authorization.k8s.io equipoise-prepare",
    },
}
WRITES_IN_OTHER_NAMESPACES: dict[str, set[str]] = {
    "annotator": PATCHES,
    "binder": {"create events.events.k8s.io", "create pods/eviction"},
    "reclaimer": {"patch nodes/status"},
    "prepare": {"delete clusterrolebindings.rbac.authorization.k8s.io equipoise-prepare"},
}
AGENTS = "equipoise-agent"
READS = ("get", "list", "watch")
EVERY_ACCOUNT = {f"{verb} clustertrustbundles.certificates.k8s.io" for verb in READS}
"""Public certificates, which every account reads since Kubernetes 1.37 (system:cluster-trust-bundle-discovery)."""


WEBHOOK = read_documents(ROOT / "k8s" / "hints" / "webhook.yaml")


@pytest.fixture(scope="module", autouse=True)
async def all_accounts(deployed: DeployedCluster) -> None:
    await deployed.cluster.apply(optional_accounts())


def home(service: str) -> str:
    """The namespace of its account."""
    return AGENTS if service == "agent" else NAMESPACE


async def token_of(deployed: DeployedCluster, service: str) -> str:
    token = await deployed.cluster.service_account_token(home(service), f"equipoise-{service}")
    return token.read_text()


async def permissions(deployed: DeployedCluster, service: str, namespace: str) -> set[str]:
    """All permissions in the namespace according to the API server, such as `patch deployments.apps`."""
    review = await deployed.cluster.request(
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        },
        token=await token_of(deployed, service),
    )
    return {
        " ".join(filter(None, (verb, f"{resource}.{group}".rstrip("."), name)))
        for rule in review["status"]["resourceRules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames") or ("",)
        if group not in ("authorization.k8s.io", "authentication.k8s.io")  # granted to every user
    } - EVERY_ACCOUNT


@pytest.mark.parametrize("service", WRITES_IN_OWN_NAMESPACE)
async def test_an_account_has_exactly_the_expected_write_permissions(deployed: DeployedCluster, service: str) -> None:
    """According to the API server, in the own and in another namespace."""
    for namespace, expected in (
        (home(service), WRITES_IN_OWN_NAMESPACE[service]),
        ("shop", WRITES_IN_OTHER_NAMESPACES.get(service, set())),
    ):
        granted = await permissions(deployed, service, namespace)
        # Approvals of the binder, which are no permission to write: they name pods, and come and go.
        approvals = {permission for permission in granted if permission.startswith("approve evictions.equipoise.dev ")}
        assert not approvals or (service, namespace) == ("binder", NAMESPACE)
        writes = {permission for permission in granted - approvals if permission.split()[0] not in READS}
        assert writes == expected, namespace


@pytest.mark.parametrize("service", WRITES_IN_OWN_NAMESPACE)
async def test_no_account_can_read_secrets(deployed: DeployedCluster, service: str) -> None:
    """No account reads Secrets, only two read a ConfigMap, the ledger; the scorer and setup read nothing."""
    granted = await permissions(deployed, service, home(service))
    reads = {permission for permission in granted if permission.split()[0] in READS}
    assert not [permission for permission in reads if "secrets" in permission or "*" in permission]
    configmaps = {permission for permission in reads if "configmaps" in permission}
    assert configmaps == ({"get configmaps equipoise-ledger"} if service in ("binder", "live-page") else set())
    assert bool(reads) == (service not in ("scorer", "setup"))


async def test_the_prometheus_of_compose_can_only_discover_nodes_and_read_their_metrics(
    deployed: DeployedCluster,
) -> None:
    """Its container has this account instead of the kubeconfig of the user."""
    documents = read_documents(ROOT / "k8s" / "compose" / "prometheus-access.yaml")
    await deployed.cluster.apply(documents)
    assert await permissions(deployed, "prometheus", NAMESPACE) == {"list nodes", "watch nodes", "get nodes/metrics"}


async def test_the_guard_of_the_webhook_may_change_one_configuration_and_create_pods(
    deployed: DeployedCluster,
) -> None:
    """The annotator, where the webhook gives the hints. Its policy permits pods in a dry run only."""
    added = {"create pods", "update mutatingwebhookconfigurations.admissionregistration.k8s.io equipoise-hints"}
    own = [each for each in WEBHOOK if each["metadata"]["name"] == "equipoise-annotator-hints-webhook"]
    await deployed.cluster.apply(own)
    granted: set[str] = set()
    async with asyncio.timeout(60):  # the API server applies a new binding with a delay
        while not added <= granted:
            granted = await permissions(deployed, "annotator", NAMESPACE)
    elsewhere = await permissions(deployed, "annotator", "shop")
    async with deployed.cluster.api() as api:
        for document in own:
            await api.request("DELETE", await api.path(document))
        async with asyncio.timeout(60):
            while added & await permissions(deployed, "annotator", NAMESPACE):
                pass
    writes = {each for each in granted if each.split()[0] not in READS}
    assert writes == WRITES_IN_OWN_NAMESPACE["annotator"] | added
    assert {each for each in elsewhere if each.split()[0] not in READS} == PATCHES | {
        each for each in added if "webhook" in each
    }


# The fence

NODE = "/api/v1/nodes/small-00"
DEPLOYMENT = "/apis/apps/v1/namespaces/shop/deployments/service-00"
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "00000000-0000-0000-0000-000000000000"}
METADATA = {
    "label": ({"labels": {"pool": "other"}}, "labels, owners or finalizers"),
    "owner": ({"ownerReferences": [OWNER]}, "labels, owners or finalizers"),
    "finalizer": ({"finalizers": ["example.com/never"]}, "labels, owners or finalizers"),
    "foreign annotation": ({"annotations": {"example.com/mine": "1"}}, "three annotations only"),
    "protection": ({"annotations": {"equipoise.dev/evict": "false"}}, "three annotations only"),
    "both": ({"annotations": {"equipoise.dev/load": "{}", "example.com/mine": "1"}}, "three annotations only"),
}
SPEC = {
    "taint": (NODE, {"taints": [{"key": "x", "effect": "NoSchedule"}]}, "its own taint only"),
    "own taint": (NODE, {"taints": [{"key": CONSOLIDATION, "effect": "PreferNoSchedule"}]}, "not write its taint"),
    "own taint, strict": (NODE, {"taints": [{"key": CONSOLIDATION, "effect": "NoExecute"}]}, "its own taint only"),
    "unschedulable": (NODE, {"unschedulable": True}, "not change the spec"),
    "replicas": (DEPLOYMENT, {"replicas": 0}, "not change the spec"),
    "image": (
        DEPLOYMENT,
        {"template": {"spec": {"containers": [{"name": "main", "image": "other"}]}}},
        "not change the spec",
    ),
}
FORBIDDEN = [
    *(
        pytest.param(path, {"metadata": change}, why, id=f"{name} of a {path.split('/')[-2][:-1]}")
        for path in (NODE, DEPLOYMENT)
        for name, (change, why) in METADATA.items()
    ),
    *(pytest.param(path, {"spec": change}, why, id=name) for name, (path, change, why) in SPEC.items()),
]


@pytest.fixture(scope="module")
async def annotator(deployed: DeployedCluster) -> AsyncIterator[Any]:
    """Patches objects as the annotator's account, with the fence in effect."""
    token = await deployed.token_of("annotator")
    async with deployed.cluster.api() as api:

        async def patch(path: str, change: Document) -> Any:
            return await api.request("PATCH", path, change, token=token, content_type=MERGE)

        yield patch


@pytest.mark.parametrize(("path", "change", "why"), FORBIDDEN)
async def test_the_fence_refuses(
    installation: Installation, annotator: Any, path: str, change: Document, why: str
) -> None:
    """The annotator's role allows patching the object; the fence rejects a change of this part."""
    with pytest.raises(ApiError, match=f"equipoise-annotator-fence.*{why}") as refused:
        await annotator(path, change)
    assert refused.value.status == 422


@pytest.mark.parametrize("path", [NODE, DEPLOYMENT])
async def test_the_fence_allows_both_annotations(installation: Installation, annotator: Any, path: str) -> None:
    """They can be written, changed and removed."""
    for value in ("{}", "{ }", None):
        patched = await annotator(
            path, {"metadata": {"annotations": {"equipoise.dev/load": value, "equipoise.dev/usage": value}}}
        )
        annotations = {
            key: text for key, text in patched["metadata"].get("annotations", {}).items() if "equipoise.dev" in key
        }
        assert annotations == ({} if value is None else {"equipoise.dev/load": value, "equipoise.dev/usage": value})


@pytest.mark.parametrize("path", [NODE, DEPLOYMENT])
async def test_a_status_cannot_be_changed(installation: Installation, annotator: Any, path: str) -> None:
    """A patch of the subresource is refused, and a status in a patch of the object is ignored."""
    change = {"status": {"observedGeneration": 1, "phase": "Terminated"}}
    with pytest.raises(ApiError) as refused:
        await annotator(f"{path}/status", change)
    assert refused.value.status == 403
    before = (await installation.deployed.cluster.request("GET", path))["status"]
    after = (await annotator(path, change))["status"]
    assert after.get("phase") == before.get("phase")
    assert after.get("observedGeneration") == before.get("observedGeneration")


async def test_the_annotator_cannot_change_the_lease_of_another_service(
    installation: Installation, annotator: Any
) -> None:
    """The holder of the descheduler's Lease could forge the epoch of intents."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/equipoise-descheduler"
    token, refusal = await installation.deployed.token_of("annotator"), "the object has been modified"
    while "the object has been modified" in refusal:  # its holder renews it continuously
        lease = await installation.deployed.cluster.request("GET", path)
        lease["spec"]["holderIdentity"] = "thief"
        with pytest.raises(ApiError) as refused:
            await installation.deployed.cluster.request("PUT", path, lease, token=token)
        refusal = str(refused.value)
    assert "equipoise-annotator-fence" in refusal


@pytest.mark.parametrize(("service", "path"), [("annotator", NODE), ("reclaimer", f"{NODE}/status")])
async def test_a_fence_applies_in_any_namespace(
    deployed: DeployedCluster, reclaimer_fence: None, service: str, path: str
) -> None:
    """An overlay may set `namespace:`. The policy also applies to the account there."""
    cluster, account = deployed.cluster, f"equipoise-{service}"
    await cluster.apply(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}},
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": account, "namespace": "elsewhere"},
            },
            binding("elsewhere", account),
        ]
    )
    token = (await cluster.service_account_token("elsewhere", account)).read_text()
    change = {"metadata": {"labels": {"pool": "other"}}}
    async with cluster.api() as api:
        refusal = ""
        async with asyncio.timeout(60):  # the API server applies a new binding with a delay
            while f"{account}-fence" not in refusal:
                with pytest.raises(ApiError) as refused:
                    await api.request("PATCH", path, change, token=token, content_type=MERGE)
                refusal = str(refused.value)


def binding(namespace: str, account: str) -> Document:
    """Binds the ClusterRole of this name to the account in another namespace."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{namespace}-{account}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


# The binder's fence


@pytest.fixture(scope="module")
async def pods_to_evict(deployed: DeployedCluster) -> dict[str, str]:
    """The UID of an unprotected pod in each of these namespaces."""
    opted_out = {"name": "opted-out", "annotations": {"equipoise.dev/evict": "false"}}
    await deployed.cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": opted_out}])
    uids = {}
    for namespace in ("default", "kube-system", "opted-out", NAMESPACE):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "evictable", "namespace": namespace},
            "spec": {
                "nodeName": "small-00",
                "automountServiceAccountToken": False,
                "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [
                    {
                        "name": "main",
                        "image": "none",
                        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    }
                ],
            },
        }
        created = await deployed.cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
        uids[namespace] = created["metadata"]["uid"]
    return uids


async def evict_as_binder(deployed: DeployedCluster, namespace: str, options: Document) -> Any:
    """A dry run."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "evictable", "namespace": namespace},
        "deleteOptions": {"dryRun": ["All"], **options},
    }
    path = f"/api/v1/namespaces/{namespace}/pods/evictable/eviction"
    return await deployed.cluster.request("POST", path, eviction, token=await deployed.token_of("binder"))


@pytest.mark.parametrize(
    ("namespace", "options", "why"),
    [
        ("default", {"preconditions": {"uid": None}}, "only evict with the UID"),
        ("default", {"preconditions": {"uid": ""}}, "only evict with the UID"),
        ("default", {"gracePeriodSeconds": 0}, "grace period"),
        ("kube-system", {}, "pods of the system or of Equipoise"),
        (NAMESPACE, {}, "pods of the system or of Equipoise"),
        ("opted-out", {}, "the namespace has opted out"),
    ],
)
async def test_the_binder_fence_refuses(
    deployed: DeployedCluster, pods_to_evict: dict[str, str], namespace: str, options: Document, why: str
) -> None:
    """The role of the binder allows every eviction; the fence refuses these for every holder of its token."""
    with pytest.raises(ApiError, match=f"equipoise-binder-fence.*{why}") as refused:
        await evict_as_binder(deployed, namespace, {"preconditions": {"uid": pods_to_evict[namespace]}, **options})
    assert refused.value.status == 422


async def test_the_binder_fence_allows_an_eviction_with_a_uid(
    deployed: DeployedCluster, pods_to_evict: dict[str, str]
) -> None:
    """The binder sends such requests."""
    result = await evict_as_binder(deployed, "default", {"preconditions": {"uid": pods_to_evict["default"]}})
    assert result["status"] == "Success"


@pytest.mark.parametrize(
    ("service", "resource", "probe"),
    [
        ("annotator", LEASES_RESOURCE, Lease(metadata=ObjectMeta(name=PROBE, namespace=NAMESPACE))),
        ("binder", EVENTS, fence_probe(NAMESPACE, PROBE, 1_800_000_000)),
        ("reclaimer", LEASES_RESOURCE, Lease(metadata=ObjectMeta(name=PROBE, namespace=NAMESPACE))),
    ],
)
async def test_each_fence_refuses_its_probe(
    deployed: DeployedCluster, service: str, resource: Resource[Any], probe: Any
) -> None:
    """That is how a service knows that its policy is in effect: without it the role permits the probe."""
    directory = (await deployed.cluster.service_account_token(NAMESPACE, f"equipoise-{service}")).parent
    connection = Kubernetes(service_account=str(directory))
    environment = deployed.cluster.in_cluster_environment
    health = Health(configuration_hash="", metrics=CollectorRegistry())
    async with connect_kube(connection, service, SystemClock(), environment=environment) as kube:
        assert kube.as_service_account
        async with asyncio.timeout(60):
            await until_fenced(kube, f"equipoise-{service}-fence", resource, probe, SystemClock(), health)
            with pytest.raises(KubeError, match=f"ValidatingAdmissionPolicy 'equipoise-{service}-fence'"):
                await kube.create(resource, probe, dry_run=True)


# Co-location. tests/reclaimer/test_real_cluster.py and tests/agent/test_fence.py have every change that is refused


def node_status(**quantities: str) -> Document:
    """The same in capacity and allocatable."""
    amounts = {f"kubernetes.io/{name.replace('_', '-')}": quantity for name, quantity in quantities.items()}
    return {"status": {"capacity": amounts, "allocatable": amounts}}


AMOUNTS = node_status(batch_cpu="1000", batch_memory="1Gi", mid_cpu="500", mid_memory="512Mi")
STATUS = f"{NODE}/status"
LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
LEASES_PATH = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
EVICTION = "/api/v1/namespaces/default/pods/batch/eviction"
PERMITTED: dict[str, tuple[str, str, str, Document | None]] = {
    "amounts of the bands": ("reclaimer", "PATCH", STATUS, AMOUNTS),
    "its Lease": ("reclaimer", "POST", LEASES_PATH, LEASE | {"metadata": {"name": "equipoise-reclaimer"}}),
    "pods of all namespaces": ("agent", "GET", "/api/v1/pods?limit=1", None),
}
REFUSED: dict[str, tuple[str, str, str, Document | None, str]] = {
    "cpu": ("reclaimer", "PATCH", STATUS, {"status": {"allocatable": {"cpu": "99"}}}, "batch and mid amounts"),
    "one of both": (
        "reclaimer",
        "PATCH",
        STATUS,
        {"status": {"allocatable": {"kubernetes.io/batch-cpu": "1"}}},
        "same",
    ),
    "label": ("reclaimer", "PATCH", STATUS, AMOUNTS | {"metadata": {"labels": {"pool": "other"}}}, "labels"),
    "node": ("reclaimer", "PATCH", NODE, {"metadata": {"labels": {"pool": "other"}}}, "cannot patch resource"),
    "another Lease": (
        "reclaimer",
        "POST",
        LEASES_PATH,
        LEASE | {"metadata": {"name": "other"}},
        "only update the status",
    ),
    "nodes": ("reclaimer", "GET", "/api/v1/nodes", None, "cannot list resource"),
    "pods": ("reclaimer", "GET", "/api/v1/pods", None, "cannot list resource"),
    "nodes by an agent": ("agent", "GET", "/api/v1/nodes", None, "cannot list resource"),
    "a status by an agent": ("agent", "PATCH", STATUS, AMOUNTS, "cannot patch resource"),
    "deletion by an agent": ("agent", "DELETE", EVICTION.removesuffix("/eviction"), None, "cannot delete resource"),
}


async def refusal(deployed: DeployedCluster, token: str, method: str, path: str, body: Document | None) -> str:
    """Why the API server refused it, in a dry run; "" when it did not."""
    content = {"content_type": MERGE} if method == "PATCH" else {}
    address = path if method == "GET" else f"{path}?dryRun=All"
    try:
        async with deployed.cluster.api() as api:
            await api.request(method, address, body, token=token, **content)
    except ApiError as error:
        if error.status not in (403, 422):
            raise
        return str(error)
    return ""


@pytest.fixture(scope="module")
async def reclaimer_fence(deployed: DeployedCluster) -> None:
    """In effect."""
    token, probe = await token_of(deployed, "reclaimer"), LEASE | {"metadata": {"name": PROBE}}
    async with asyncio.timeout(60):
        while not await refusal(deployed, token, "POST", LEASES_PATH, probe):  # noqa: ASYNC110  no event exists
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("request_", PERMITTED)
async def test_co_location_may(deployed: DeployedCluster, reclaimer_fence: None, request_: str) -> None:
    service, method, path, body = PERMITTED[request_]
    assert await refusal(deployed, await token_of(deployed, service), method, path, body) == ""


@pytest.mark.parametrize("request_", REFUSED)
async def test_co_location_may_not(deployed: DeployedCluster, reclaimer_fence: None, request_: str) -> None:
    """By its roles, or by a fence although they permit it."""
    service, method, path, body, why = REFUSED[request_]
    assert why in await refusal(deployed, await token_of(deployed, service), method, path, body)


def a_batch_pod(name: str, node: str, resource: str = "kubernetes.io/batch-cpu") -> Document:
    requests = {"requests": {resource: "100m" if resource == "cpu" else "100"}}
    resources = {"resources": requests | {"limits": requests["requests"]}}
    return pod(
        name,
        {"metadata": {}, "spec": {"nodeName": node, "containers": [{"name": "main", "image": "none"} | resources]}},
    )


@pytest.fixture(scope="module")
async def agent_of_a_node(deployed: DeployedCluster) -> str:
    """The token of the agent on small-00, bound to its pod as the kubelet requests it; and pods on two nodes."""
    agent = a_batch_pod("agent", "small-00", "cpu")
    agent["metadata"]["namespace"] = AGENTS
    agent["spec"]["serviceAccountName"] = "equipoise-agent"
    pods = [
        a_batch_pod("batch", "small-00"),
        a_batch_pod("elsewhere", "small-01"),
        a_batch_pod("ordinary", "small-00", "cpu"),
    ]
    created, *_ = await deployed.cluster.apply([agent, *pods])
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "agent", "uid": created["metadata"]["uid"]}
    path = f"/api/v1/namespaces/{AGENTS}/serviceaccounts/equipoise-agent/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}}
    token: str = (await deployed.cluster.request("POST", path, body))["status"]["token"]
    return token


async def test_an_agent_evicts_only_with_the_folder_evictions(deployed: DeployedCluster, agent_of_a_node: str) -> None:
    """Then batch pods of its own node, with their UID."""
    uids = {}
    for name in ("batch", "elsewhere", "ordinary"):
        found = await deployed.cluster.request("GET", f"/api/v1/namespaces/default/pods/{name}")
        uids[name] = found["metadata"]["uid"]

    async def refused(name: str, **options: Any) -> str:
        body = eviction(name, uid=uids[name])
        body["deleteOptions"] |= options
        path = f"/api/v1/namespaces/default/pods/{name}/eviction"
        return await refusal(deployed, agent_of_a_node, "POST", path, body)

    assert "cannot create resource" in await refused("batch")
    await deployed.cluster.apply(read_kustomization(ROOT / "k8s" / "colocation" / "evictions"))
    async with asyncio.timeout(60):  # until role and policy are in effect
        while await refused("batch") or "own node" not in await refused("elsewhere"):  # noqa: ASYNC110  no event exists
            await asyncio.sleep(0.1)
    assert await permissions(deployed, "agent", "shop") >= {"create pods/eviction"}
    assert "only evict batch pods" in await refused("ordinary")
    assert "only evict with the UID" in await refused("batch", preconditions={})
    assert "grace period" in await refused("batch", gracePeriodSeconds=0)


# The overlays


@pytest.fixture
async def apply_overlay(deployed: DeployedCluster) -> AsyncIterator[Any]:
    """Replaces the roles of the base by those of an overlay, until the end of the test."""
    base = base_documents()

    async def apply(name: str) -> None:
        documents = read_kustomization(ROOT / "k8s" / "overlays" / name)
        await deployed.cluster.apply([d for d in documents if d["kind"].endswith(("Role", "RoleBinding"))])
        async with deployed.cluster.api() as api:
            for document in base:
                if identity(document) not in {identity(other) for other in documents}:
                    await api.request("DELETE", await api.path(document))

    yield apply
    await deployed.cluster.apply([d for d in base if d["kind"].endswith(("Role", "RoleBinding"))])


async def wait_for_permission(deployed: DeployedCluster, namespace: str, allowed: bool) -> None:
    """Until the binder may evict in the namespace, or may not. The API server applies a changed role with a delay."""
    async with asyncio.timeout(60):
        while ("create pods/eviction" in await permissions(deployed, "binder", namespace)) != allowed:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def try_to_evict(deployed: DeployedCluster, namespace: str) -> EvictionResult:
    """A dry run as the binder's account, on a pod of this namespace."""
    directory = (await deployed.cluster.service_account_token(NAMESPACE, "equipoise-binder")).parent
    connection = Kubernetes(service_account=str(directory))
    environment = deployed.cluster.in_cluster_environment
    async with connect_kube(connection, "binder", SystemClock(), environment=environment) as kube:
        async with connect_kube(
            Kubernetes(kubeconfig=str(deployed.cluster.kubeconfig)), "test", SystemClock()
        ) as admin:
            pod = (await admin.list(PODS, namespace))[0]
        return await kube.evict(namespace, pod.metadata.name, uid=pod.metadata.uid, dry_run=True)


async def test_observe_removes_the_permission_to_evict(deployed: DeployedCluster, apply_overlay: Any) -> None:
    """In all namespaces, including dry runs. The binder reports a dry run for which the permission is missing."""
    assert (await try_to_evict(deployed, "shop")).status == 201
    await apply_overlay("observe")
    for namespace in ("shop", "payments", NAMESPACE):
        await wait_for_permission(deployed, namespace, False)
    response = await try_to_evict(deployed, "shop")
    assert response.status == 403
    finish = read_response(response.status, response.message, dry_run=True).finish
    assert finish is not None
    assert finish.outcome == Outcome.DRY_RUN
    assert "missing" in finish.detail


async def test_namespaced_grants_it_where_the_role_is_bound(deployed: DeployedCluster, apply_overlay: Any) -> None:
    """Only in the namespace of the RoleBinding."""
    await apply_overlay("namespaced")
    for namespace in ("default", "shop", "payments", NAMESPACE):
        await wait_for_permission(deployed, namespace, namespace == "default")
