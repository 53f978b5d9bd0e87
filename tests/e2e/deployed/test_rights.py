"""The permissions of the accounts of k8s/base on a real API server, restricted by the fence and the overlays."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from deployment.base import NAMESPACE, ROOT, base_documents
from deployment.installation import DeployedCluster, Installation
from deployment.kustomize import Document, identity, read_documents, read_kustomization
from prometheus_client import CollectorRegistry

from equipoise.binder.decisions.event import fence_probe
from equipoise.binder.decisions.eviction_response import read_response
from equipoise.contracts.eviction.approval import APPROVAL_ROLE
from equipoise.contracts.kubernetes.objects import Lease, ObjectMeta
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.kubernetes.client import EVENTS, PODS, EvictionResult, KubeError, Resource
from equipoise.runtime.kubernetes.client import LEASES as LEASES_RESOURCE
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.fence import PROBE, until_fenced
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.health import Health
from equipoise.testbed.api import ApiError

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
}
WRITES_IN_OTHER_NAMESPACES: dict[str, set[str]] = {
    "annotator": PATCHES,
    "binder": {"create events.events.k8s.io", "create pods/eviction"},
}
READS = ("get", "list", "watch")


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
        token=await deployed.token_of(service),
    )
    return {
        " ".join(filter(None, (verb, f"{resource}.{group}".rstrip("."), name)))
        for rule in review["status"]["resourceRules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames") or ("",)
        if group not in ("authorization.k8s.io", "authentication.k8s.io")  # granted to every user
    }


@pytest.mark.parametrize("service", WRITES_IN_OWN_NAMESPACE)
async def test_an_account_has_exactly_the_expected_write_permissions(deployed: DeployedCluster, service: str) -> None:
    """According to the API server, in the own and in another namespace."""
    for namespace, expected in (
        (NAMESPACE, WRITES_IN_OWN_NAMESPACE[service]),
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
    granted = await permissions(deployed, service, NAMESPACE)
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
    "taint": (NODE, {"taints": [{"key": "x", "effect": "NoSchedule"}]}),
    "unschedulable": (NODE, {"unschedulable": True}),
    "replicas": (DEPLOYMENT, {"replicas": 0}),
    "image": (DEPLOYMENT, {"template": {"spec": {"containers": [{"name": "main", "image": "other"}]}}}),
}
FORBIDDEN = [
    *(
        pytest.param(path, {"metadata": change}, why, id=f"{name} of a {path.split('/')[-2][:-1]}")
        for path in (NODE, DEPLOYMENT)
        for name, (change, why) in METADATA.items()
    ),
    *(pytest.param(path, {"spec": change}, "not change the spec", id=name) for name, (path, change) in SPEC.items()),
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


async def test_the_annotator_fence_applies_in_any_namespace(deployed: DeployedCluster) -> None:
    """An overlay may set `namespace:`. The policy also applies to the account there."""
    cluster = deployed.cluster
    await cluster.apply(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}},
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "equipoise-annotator", "namespace": "elsewhere"},
            },
            binding("elsewhere", "equipoise-annotator"),
        ]
    )
    token = (await cluster.service_account_token("elsewhere", "equipoise-annotator")).read_text()
    change = {"metadata": {"labels": {"pool": "other"}}}
    async with cluster.api() as api:
        refusal = ""
        async with asyncio.timeout(60):  # the API server applies a new binding with a delay
            while "equipoise-annotator-fence" not in refusal:
                with pytest.raises(ApiError) as refused:
                    await api.request("PATCH", NODE, change, token=token, content_type=MERGE)
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
