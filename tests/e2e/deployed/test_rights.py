"""What the accounts of k8s/base may do at a real API server, and what the fence and the overlays take from them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from deployment.base import NAMESPACE, ROOT, base_documents
from deployment.kustomize import Document, identity, read_kustomization
from deployment.worlds import Run, World

from equipoise.binder.decisions.eviction_response import read_response
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.kubernetes.client import PODS, EvictionResult
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
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
WRITES_AT_HOME: dict[str, set[str]] = {
    "collector": {f"create {LEASES}", *(f"update {LEASES} {name}" for name in COLLECTOR_LEASES)},
    "annotator": {f"create {LEASES}", f"update {LEASES}", *PATCHES},
    "scorer": set(),
    "descheduler": {f"create {LEASES}", f"update {LEASES} equipoise-descheduler"},
    "binder": {"create events.events.k8s.io", "create pods/eviction", "update configmaps equipoise-ledger"},
    "setup": {"create configmaps"},
}
WRITES_ELSEWHERE: dict[str, set[str]] = {
    "annotator": PATCHES,
    "binder": {"create events.events.k8s.io", "create pods/eviction"},
}
READS = ("get", "list", "watch")


async def rights(world: World, service: str, namespace: str) -> set[str]:
    """All that the account may do there, as the API server says: `patch deployments.apps`, with names where bound."""
    review = await world.cluster.request(
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        },
        token=await world.token_of(service),
    )
    return {
        " ".join(filter(None, (verb, f"{resource}.{group}".rstrip("."), name)))
        for rule in review["status"]["resourceRules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames") or ("",)
        if group not in ("authorization.k8s.io", "authentication.k8s.io")  # what everyone may ask about oneself
    }


@pytest.mark.parametrize("service", WRITES_AT_HOME)
async def test_an_account_can_write_what_is_its_own_and_nothing_else(world: World, service: str) -> None:
    """Every right to write, as the API server lists them, in our own and in another namespace."""
    for namespace, expected in (
        (NAMESPACE, WRITES_AT_HOME[service]),
        ("shop", WRITES_ELSEWHERE.get(service, set())),
    ):
        found = await rights(world, service, namespace)
        assert {right for right in found if right.split()[0] not in READS} == expected, namespace


@pytest.mark.parametrize("service", WRITES_AT_HOME)
async def test_no_account_can_read_secrets(world: World, service: str) -> None:
    """Nobody reads Secrets, only the binder reads a ConfigMap, the ledger; the scorer and setup read nothing."""
    found = await rights(world, service, NAMESPACE)
    reads = {right for right in found if right.split()[0] in READS}
    assert not [right for right in reads if "secrets" in right or "*" in right]
    configmaps = {right for right in reads if "configmaps" in right}
    assert configmaps == ({"get configmaps equipoise-ledger"} if service == "binder" else set())
    assert bool(reads) == (service not in ("scorer", "setup"))


# The fence

NODE = "/api/v1/nodes/small-00"
DEPLOYMENT = "/apis/apps/v1/namespaces/shop/deployments/service-00"
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "00000000-0000-0000-0000-000000000000"}
METADATA = {
    "label": ({"labels": {"pool": "other"}}, "labels, owners or finalizers"),
    "owner": ({"ownerReferences": [OWNER]}, "labels, owners or finalizers"),
    "finalizer": ({"finalizers": ["example.com/never"]}, "labels, owners or finalizers"),
    "foreign annotation": ({"annotations": {"example.com/mine": "1"}}, "two annotations only"),
    "protection": ({"annotations": {"equipoise.dev/evict": "false"}}, "two annotations only"),
    "both": ({"annotations": {"equipoise.dev/load": "{}", "example.com/mine": "1"}}, "two annotations only"),
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
async def annotator(world: World) -> AsyncIterator[Any]:
    """Writes as the annotator's account; the fence stands."""
    token = await world.token_of("annotator")
    async with world.cluster.api() as api:

        async def patch(path: str, change: Document) -> Any:
            return await api.request("PATCH", path, change, token=token, content_type=MERGE)

        yield patch


@pytest.mark.parametrize(("path", "change", "why"), FORBIDDEN)
async def test_the_fence_refuses(run: Run, annotator: Any, path: str, change: Document, why: str) -> None:
    """The annotator's role allows to patch the object; the fence does not let this part of it change."""
    with pytest.raises(ApiError, match=f"equipoise-annotator-fence.*{why}") as refused:
        await annotator(path, change)
    assert refused.value.status == 422


@pytest.mark.parametrize("path", [NODE, DEPLOYMENT])
async def test_the_fence_lets_our_annotations_pass(run: Run, annotator: Any, path: str) -> None:
    """Both are written, changed and removed."""
    for value in ("{}", "{ }", None):
        answer = await annotator(
            path, {"metadata": {"annotations": {"equipoise.dev/load": value, "equipoise.dev/usage": value}}}
        )
        kept = {key: text for key, text in answer["metadata"].get("annotations", {}).items() if "equipoise.dev" in key}
        assert kept == ({} if value is None else {"equipoise.dev/load": value, "equipoise.dev/usage": value})


@pytest.mark.parametrize("path", [NODE, DEPLOYMENT])
async def test_a_status_stays_as_it_is(run: Run, annotator: Any, path: str) -> None:
    """The subresource is refused, and a status within a patch of the object changes nothing."""
    change = {"status": {"observedGeneration": 1, "phase": "Terminated"}}
    with pytest.raises(ApiError) as refused:
        await annotator(f"{path}/status", change)
    assert refused.value.status == 403
    before = (await run.world.cluster.request("GET", path))["status"]
    after = (await annotator(path, change))["status"]
    assert after.get("phase") == before.get("phase")
    assert after.get("observedGeneration") == before.get("observedGeneration")


async def test_the_annotator_cannot_take_the_lease_of_another(run: Run, annotator: Any) -> None:
    """Who held the descheduler's Lease could forge the epoch of intents."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/equipoise-descheduler"
    token, refusal = await run.world.token_of("annotator"), "the object has been modified"
    while "the object has been modified" in refusal:  # its holder renews it all the time
        lease = await run.world.cluster.request("GET", path)
        lease["spec"]["holderIdentity"] = "thief"
        with pytest.raises(ApiError) as refused:
            await run.world.cluster.request("PUT", path, lease, token=token)
        refusal = str(refused.value)
    assert "equipoise-annotator-fence" in refusal


async def test_the_annotators_fence_holds_in_any_namespace(world: World) -> None:
    """An overlay may set `namespace:`; the policy finds the account there, too."""
    cluster = world.cluster
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
        async with asyncio.timeout(60):  # the API server learns of a new binding a moment later
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
async def victims(world: World) -> dict[str, str]:
    """A pod that anyone may evict in each of these namespaces: its UID by its namespace."""
    opted_out = {"name": "opted-out", "annotations": {"equipoise.dev/evict": "false"}}
    await world.cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": opted_out}])
    uids = {}
    for namespace in ("default", "kube-system", "opted-out", NAMESPACE):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "victim", "namespace": namespace},
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
        created = await world.cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
        uids[namespace] = created["metadata"]["uid"]
    return uids


async def evict_as_binder(world: World, namespace: str, options: Document) -> Any:
    """A dry run."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "victim", "namespace": namespace},
        "deleteOptions": {"dryRun": ["All"], **options},
    }
    path = f"/api/v1/namespaces/{namespace}/pods/victim/eviction"
    return await world.cluster.request("POST", path, eviction, token=await world.token_of("binder"))


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
async def test_the_binders_fence_refuses(
    world: World, victims: dict[str, str], namespace: str, options: Document, why: str
) -> None:
    """The role of the binder allows every eviction; the fence refuses these, whoever has its token."""
    with pytest.raises(ApiError, match=f"equipoise-binder-fence.*{why}") as refused:
        await evict_as_binder(world, namespace, {"preconditions": {"uid": victims[namespace]}, **options})
    assert refused.value.status == 422


async def test_the_binders_fence_allows_an_eviction_with_a_uid(world: World, victims: dict[str, str]) -> None:
    """What the binder itself sends is allowed."""
    result = await evict_as_binder(world, "default", {"preconditions": {"uid": victims["default"]}})
    assert result["status"] == "Success"


# The overlays


@pytest.fixture
async def overlaid(world: World) -> AsyncIterator[Any]:
    """Makes the cluster as an overlay wants it, instead of the base; the base is back afterwards."""
    base = base_documents()

    async def overlay(name: str) -> None:
        wanted = read_kustomization(ROOT / "k8s" / "overlays" / name)
        await world.cluster.apply([d for d in wanted if d["kind"].endswith(("Role", "RoleBinding"))])
        async with world.cluster.api() as api:
            for document in base:
                if identity(document) not in {identity(other) for other in wanted}:
                    await api.request("DELETE", await api.path(document))

    yield overlay
    await world.cluster.apply([d for d in base if d["kind"].endswith(("Role", "RoleBinding"))])


async def until_evicts(world: World, namespace: str, may: bool) -> None:
    """Until the binder may evict there, or may not: the API server hears of a changed role a moment later."""
    async with asyncio.timeout(60):
        while ("create pods/eviction" in await rights(world, "binder", namespace)) != may:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def try_to_evict(world: World, namespace: str) -> EvictionResult:
    """A dry run as the binder's account, on a pod of this namespace."""
    directory = (await world.cluster.service_account_token(NAMESPACE, "equipoise-binder")).parent
    connection = Kubernetes(service_account=str(directory))
    environment = world.cluster.in_cluster_environment
    async with connect_kube(connection, "binder", SystemClock(), environment=environment) as kube:
        async with connect_kube(Kubernetes(kubeconfig=str(world.cluster.kubeconfig)), "test", SystemClock()) as admin:
            pod = (await admin.list(PODS, namespace))[0]
        return await kube.evict(namespace, pod.metadata.name, uid=pod.metadata.uid, dry_run=True)


async def test_observe_takes_the_right_to_evict_away(world: World, overlaid: Any) -> None:
    """In no namespace, not even dry; and the binder reads that refusal as a dry run that lacked the right."""
    assert (await try_to_evict(world, "shop")).status == 201
    await overlaid("observe")
    for namespace in ("shop", "payments", NAMESPACE):
        await until_evicts(world, namespace, False)
    answer = await try_to_evict(world, "shop")
    assert answer.status == 403
    verdict = read_response(answer.status, answer.message, dry_run=True).finish
    assert verdict is not None
    assert verdict.outcome == Outcome.DRY_RUN
    assert "missing" in verdict.detail


async def test_namespaced_gives_it_where_it_is_bound(world: World, overlaid: Any) -> None:
    """Only in the namespace of the RoleBinding."""
    await overlaid("namespaced")
    for namespace in ("default", "shop", "payments", NAMESPACE):
        await until_evicts(world, namespace, namespace == "default")
