"""The policy that restricts what the binder may change of a pod, on a real API server.

The account may patch pods here, as it will with moves without a gap.
"""

import asyncio
from typing import Any

import msgspec
import pytest
from cluster_fixtures import StartCluster
from deployment.base import NAMESPACE, base_documents

from equipoise.binder.decisions.event import fence_probe
from equipoise.contracts.eviction.approval import APPROVAL_ROLE, approval_rules
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.contracts.eviction.opt_out import DO_NOT_DISRUPT
from equipoise.contracts.eviction.surge import TEMPLATE_HASH
from equipoise.testbed import objects as manifests
from equipoise.testbed.api import ApiError
from equipoise.testbed.cluster import Cluster

pytestmark = pytest.mark.timeout(300)

RBAC = "rbac.authorization.k8s.io"
PROBE = "equipoise-surge-fence-check"
MERGE = "application/merge-patch+json"
PATIENCE = 60.0
DETACH = {"labels": {TEMPLATE_HASH: None}, "annotations": {DETACHED_HASH: "h1"}}
RESTORE = {"labels": {TEMPLATE_HASH: "h1"}, "annotations": {DETACHED_HASH: None}}
KEEP = {"annotations": {DO_NOT_DISRUPT: "true"}}
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-h1", "controller": True}


def both(metadata: dict[str, Any], annotations: dict[str, str | None]) -> dict[str, Any]:
    """The patch with more annotations."""
    return {**metadata, "annotations": metadata["annotations"] | annotations}


class Insider:
    """Somebody with the token of the binder."""

    def __init__(self, cluster: Cluster, token: str) -> None:
        self.cluster = cluster
        self._token = token

    async def patch(self, name: str, metadata: dict[str, Any], *, namespace: str = "shop", **spec: Any) -> str:
        """Returns the refusal; empty if the patch was admitted."""
        body = {"metadata": metadata, **spec}
        try:
            async with self.cluster.api() as api:
                path = f"/api/v1/namespaces/{namespace}/pods/{name}"
                await api.request("PATCH", path, body, token=self._token, content_type=MERGE)
        except ApiError as error:
            return str(error)
        return ""

    async def create(self, path: str, body: Any) -> str:
        try:
            await self.cluster.request("POST", f"{path}?dryRun=All", body, token=self._token)
        except ApiError as error:
            return str(error)
        return ""

    async def pod(self, name: str, *, approved: bool = True, namespace: str = "shop", **metadata: Any) -> None:
        """Creates a pod, with the label of its ReplicaSet, and approves its eviction."""
        document = manifests.pod(name, manifests.pod_template("web"), namespace=namespace)
        owner = OWNER | {"uid": f"00000000-0000-0000-0000-{abs(hash(name)) % 10**12:012}"}
        document["metadata"]["labels"] |= {TEMPLATE_HASH: "h1"}
        document["metadata"] |= {"ownerReferences": [owner], "finalizers": ["example.com/kept"]} | metadata
        (created,) = await self.cluster.apply([document])
        uids = [created["metadata"]["uid"]] if approved else []
        path = f"/apis/{RBAC}/v1/namespaces/{NAMESPACE}/roles/{APPROVAL_ROLE}"
        async with self.cluster.api() as api:
            rules = msgspec.to_builtins(approval_rules(uids))
            await api.request("PATCH", path, {"rules": rules}, content_type=MERGE)


@pytest.fixture(scope="module")
async def insider(start_cluster: StartCluster) -> Insider:
    cluster = start_cluster()
    accounts = ("ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
    policies = ("equipoise-binder-fence", "equipoise-surge-fence")
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch", "create", "get"]}
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "patch-pods"}, "rules": [rule]}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "patch-pods"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "patch-pods"},
        "subjects": [{"kind": "ServiceAccount", "name": "equipoise-binder", "namespace": NAMESPACE}],
    }
    out = manifests.namespace("out")
    out["metadata"]["annotations"] = {"equipoise.dev/surge": "false"}
    documents = [each for each in base_documents() if each["kind"] in accounts or each["metadata"]["name"] in policies]
    spaces = [manifests.namespace(name) for name in ("shop", NAMESPACE)]
    await cluster.apply([*spaces, *documents, out, role, binding])
    token = (await cluster.service_account_token(NAMESPACE, "equipoise-binder")).read_text()
    insider = Insider(cluster, token)
    event = msgspec.to_builtins(fence_probe(NAMESPACE, PROBE, 1_800_000_000))
    async with asyncio.timeout(PATIENCE):
        while "equipoise-surge-fence" not in await insider.create(
            f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events", event
        ):
            pass  # a new policy takes effect with a delay
    return insider


async def admitted(insider: Insider, name: str, metadata: dict[str, Any]) -> None:
    """Checks that the patch is admitted, once the API server has applied the approval."""
    async with asyncio.timeout(PATIENCE):
        while why := await insider.patch(name, metadata):
            assert "has not approved" in why


async def test_an_approved_pod_is_detached_and_restored(insider: Insider) -> None:
    """Restoring needs no approval: a move must be able to end."""
    await insider.pod("moved")
    await admitted(insider, "moved", DETACH)
    await insider.pod("other", approved=False)
    assert await insider.patch("moved", RESTORE) == ""


async def test_an_approved_pod_may_be_protected_from_karpenter_while_it_is_detached(insider: Insider) -> None:
    """Only with that value, only if it has none, and not without detaching or restoring it."""
    await insider.pod("kept")
    assert "equipoise-surge-fence" in await insider.patch("kept", KEEP)
    assert "equipoise-surge-fence" in await insider.patch("kept", both(DETACH, {DO_NOT_DISRUPT: "false"}))
    await admitted(insider, "kept", both(DETACH, {DO_NOT_DISRUPT: "true"}))
    assert "equipoise-surge-fence" in await insider.patch("kept", {"annotations": {DO_NOT_DISRUPT: None}})
    assert "equipoise-surge-fence" in await insider.patch("kept", both(RESTORE, {DO_NOT_DISRUPT: "1h"}))
    assert await insider.patch("kept", both(RESTORE, {DO_NOT_DISRUPT: None})) == ""


async def test_the_annotation_of_the_owner_against_disruptions_stays(insider: Insider) -> None:
    """The binder sets it only where there is none, and removes only the value that it sets."""
    await insider.pod("owned", annotations={DO_NOT_DISRUPT: "false"})
    assert "equipoise-surge-fence" in await insider.patch("owned", both(DETACH, {DO_NOT_DISRUPT: "true"}))
    await admitted(insider, "owned", DETACH)
    assert "equipoise-surge-fence" in await insider.patch("owned", both(RESTORE, {DO_NOT_DISRUPT: None}))
    assert await insider.patch("owned", RESTORE) == ""


async def test_a_pod_without_approval_is_not_detached(insider: Insider) -> None:
    await insider.pod("plain", approved=False)
    async with asyncio.timeout(PATIENCE):
        while "has not approved" not in (why := await insider.patch("plain", DETACH)):
            assert why == "", "an approval of another pod ends with a delay, and permits nothing here"


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {TEMPLATE_HASH: None}},
        {"labels": {TEMPLATE_HASH: None}, "annotations": {DETACHED_HASH: "h2"}},
        {"labels": {TEMPLATE_HASH: "h2"}, "annotations": {DETACHED_HASH: "h1"}},
        {"labels": {"app": None, TEMPLATE_HASH: None}, "annotations": {DETACHED_HASH: "h1"}},
        {"labels": {"app": "other", TEMPLATE_HASH: None}, "annotations": {DETACHED_HASH: "h1"}},
        {"labels": {"new": "x", TEMPLATE_HASH: None}, "annotations": {DETACHED_HASH: "h1"}},
        {"labels": {TEMPLATE_HASH: None}, "annotations": {DETACHED_HASH: "h1", "new": "x"}},
        {**DETACH, "ownerReferences": []},
        {**DETACH, "finalizers": []},
        {"annotations": {DETACHED_HASH: "h1"}},
        {"annotations": {"equipoise.dev/evict": None}},
        {"labels": {"app": "other"}},
    ],
)
async def test_nothing_else_of_an_approved_pod_may_change(insider: Insider, metadata: dict[str, Any]) -> None:
    name = f"changed-{abs(hash(str(metadata))) % 10**8}"
    await insider.pod(name, annotations={"equipoise.dev/evict": "false"})
    assert "equipoise-surge-fence" in await insider.patch(name, metadata)


async def test_the_spec_of_an_approved_pod_may_not_change(insider: Insider) -> None:
    """A deadline, which could never be removed again, included."""
    await insider.pod("deadline")
    why = await insider.patch("deadline", DETACH, spec={"activeDeadlineSeconds": 1})
    assert "owners, finalizers or the spec" in why


@pytest.mark.parametrize("value", ["h2", "", None])
async def test_only_the_recorded_value_may_be_restored(insider: Insider, value: str | None) -> None:
    name = f"detached-{value or 'without' if value is not None else 'removed'}"
    await insider.pod(name)
    await admitted(insider, name, DETACH)
    wrong = {"labels": {TEMPLATE_HASH: value}, "annotations": {DETACHED_HASH: None}}
    assert "equipoise-surge-fence" in await insider.patch(name, wrong)
    assert await insider.patch(name, RESTORE) == ""


async def test_pods_of_the_system_and_of_namespaces_that_opted_out_are_not_detached(insider: Insider) -> None:
    for namespace, why in (("kube-system", "of the system"), (NAMESPACE, "of the system"), ("out", "opted out")):
        await insider.pod("excluded", namespace=namespace)
        refusal = await insider.patch("excluded", DETACH, namespace=namespace)
        assert why in refusal


async def test_a_pod_without_a_replica_set_is_not_detached(insider: Insider) -> None:
    await insider.pod("bare", ownerReferences=[])
    refusal = await insider.patch("bare", DETACH)
    assert "pods of ReplicaSets" in refusal


async def test_the_binder_creates_no_pods(insider: Insider) -> None:
    document = manifests.pod("own", manifests.pod_template("web"), namespace="shop")
    assert "may not create pods" in await insider.create("/api/v1/namespaces/shop/pods", document)
