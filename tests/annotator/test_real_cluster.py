"""The annotator's account at a real API server: what the fence lets it do, and that no write of it starts a rollout."""

import asyncio
from collections.abc import AsyncIterator
from copy import deepcopy
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from builders import a_node_utilization, a_workload, a_workload_utilization, nodes_being_emptied
from cluster_fixtures import StartCluster
from custom_kinds import clone_set_definition, custom_workload, rollout_definition
from deployment.base import NAMESPACE, ROOT, base_documents
from deployment.kustomize import Document, read_kustomization
from prometheus_client import CollectorRegistry

from equipoise.annotator.decisions.write_decision import WriteThreshold
from equipoise.annotator.service import Annotator
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.contracts.bus.subjects import NODES_EMPTYING, node_utilization, workload_utilization
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.kubernetes.annotations import LOAD, RECLAIMED, USAGE, read_node_load, read_workload_usage
from equipoise.contracts.kubernetes.crane import KEYS
from equipoise.contracts.kubernetes.nodes.consolidation_taint import CONSOLIDATION
from equipoise.runtime.configuration import Configuration, Kubernetes, Shared
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.testbed.api import ApiError
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.objects import daemon_set, deployment, namespace, node, pod_template, stateful_set

SOON = WriteThreshold(min_change=5, min_interval=Duration(1), refresh_period=Duration(1_800))

MERGE = "application/merge-patch+json"
ACCESS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
FENCE = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")

NODE = "/api/v1/nodes/alpha"
DEPLOYMENT = "/apis/apps/v1/namespaces/shop/deployments/web"
CLONE_SET = "/apis/apps.kruise.io/v1alpha1/namespaces/shop/clonesets/cloned"
OBJECTS = {"Node": NODE, "Deployment": DEPLOYMENT, "CloneSet": CLONE_SET}

WORKLOADS = {
    a_workload("web"): DEPLOYMENT,
    a_workload("db", kind="StatefulSet"): "/apis/apps/v1/namespaces/shop/statefulsets/db",
    a_workload("agent", kind="DaemonSet"): "/apis/apps/v1/namespaces/shop/daemonsets/agent",
    a_workload("cloned", kind="CloneSet", group="apps.kruise.io"): CLONE_SET,
    a_workload("canary", kind="Rollout", group="argoproj.io"): (
        "/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/canary"
    ),
}


def access_and_fence(documents: list[Document]) -> list[Document]:
    return [
        document
        for document in documents
        if document["kind"] == "Namespace"
        or (document["kind"] in (*ACCESS, *FENCE) and document["metadata"]["name"].startswith("equipoise-annotator"))
    ]


@pytest.fixture(scope="module")
async def cluster(start_cluster: StartCluster) -> Cluster:
    """Every kind of workload that is annotated, and the annotator's account with its fence."""
    cluster = start_cluster()
    await cluster.add_nodes([node("alpha")])
    template = pod_template
    await cluster.apply([namespace("shop"), clone_set_definition(), rollout_definition()])
    for kind in ("apps.kruise.io/v1alpha1", "argoproj.io/v1alpha1"):
        await cluster.wait(f"/apis/{kind}", lambda found: bool(found["resources"]), what=f"{kind} is served")
    await cluster.apply(
        [
            deployment("web", template("web"), replicas=2, namespace="shop"),
            stateful_set("db", template("db"), replicas=2, namespace="shop"),
            daemon_set("agent", template("agent"), namespace="shop"),
            custom_workload("apps.kruise.io/v1alpha1", "CloneSet", "cloned", template("cloned"), namespace="shop"),
            custom_workload("argoproj.io/v1alpha1", "Rollout", "canary", template("canary"), namespace="shop"),
            *access_and_fence(base_documents()),
        ]
    )
    await cluster.wait(
        "/api/v1/namespaces/shop/pods",
        lambda pods: sum(pod["status"].get("phase") == "Running" for pod in pods["items"]) == 5,
        what="the pods of the three built-in kinds run",
    )
    await cluster.wait(
        DEPLOYMENT,
        lambda document: document["status"].get("availableReplicas") == 2,
        what="its controller has counted them: the fence's tests compare all of it with what was there before",
    )
    return cluster


class Account:
    """Writes as the annotator."""

    def __init__(self, cluster: Cluster, token: str) -> None:
        self._cluster = cluster
        self._token = token

    async def patch(self, path: str, change: Document) -> Any:
        async with self._cluster.api() as api:
            return await api.request("PATCH", path, change, token=self._token, content_type=MERGE)

    async def refusal(self, path: str, change: Document) -> str:
        """Why the API server refused it; "" when it did not."""
        try:
            await self.patch(path, change)
        except ApiError as error:
            return str(error)
        return ""

    async def fenced(self, annotation: str, *, allowed: bool) -> None:
        """Wait until the API server uses the fence that was just applied."""
        async with asyncio.timeout(60):
            for number in count():  # always another value: an existing one may be written again
                refusal = await self.refusal(NODE, {"metadata": {"annotations": {annotation: str(number)}}})
                if bool(refusal) != allowed:
                    return
                await asyncio.sleep(0.1)


@pytest.fixture(scope="module")
async def annotator(cluster: Cluster) -> Account:
    token = await cluster.service_account_token(NAMESPACE, "equipoise-annotator")
    account = Account(cluster, token.read_text())
    await account.fenced("example.com/foreign", allowed=False)
    return account


CONTAINER = {"name": "main", "image": "other"}
FORBIDDEN: dict[str, Document] = {
    "label": {"metadata": {"labels": {"pool": "other"}}},
    "taint": {"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}},
    "unschedulable": {"spec": {"unschedulable": True}},
    "image": {"spec": {"template": {"spec": {"containers": [CONTAINER]}}}},
    "replicas": {"spec": {"replicas": 0}},
    "ownerReference": {
        "metadata": {
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "0-0"}],
        }
    },
    "finalizer": {"metadata": {"finalizers": ["example.com/never"]}},
    "foreign annotation": {"metadata": {"annotations": {"example.com/mine": "1"}}},
    "evict": {"metadata": {"annotations": {"equipoise.dev/evict": "false"}}},
    "foreign beside ours": {"metadata": {"annotations": {LOAD: "{}", "example.com/mine": "1"}}},
    "status": {"status": {"phase": "Terminated", "replicas": 9, "observedGeneration": 99}},
}
NO_SUCH_FIELD = {
    ("Node", "image"), ("Node", "replicas"), ("Deployment", "taint"), ("Deployment", "unschedulable")
}  # fmt: skip
"""The API server drops a field that the kind does not have: nothing remains to refuse."""


def own_fields(document: Document) -> Document:
    """The object without the fields that the API server and kubelets change by themselves."""
    remaining = deepcopy(document)
    for name in ("resourceVersion", "managedFields"):
        remaining["metadata"].pop(name, None)
    for condition in remaining.get("status", {}).get("conditions", ()):
        condition.pop("lastHeartbeatTime", None)
    return remaining


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("change", FORBIDDEN)
async def test_the_fence_refuses_other_changes(cluster: Cluster, annotator: Account, kind: str, change: str) -> None:
    """The role allows to patch the object; this change is refused and has no effect."""
    path = OBJECTS[kind]
    before = own_fields(await cluster.request("GET", path))
    refusal = await annotator.refusal(path, FORBIDDEN[change])
    assert own_fields(await cluster.request("GET", path)) == before
    if change != "status" and (kind, change) not in NO_SUCH_FIELD:
        assert "equipoise-annotator-fence" in refusal


@pytest.mark.parametrize("kind", OBJECTS)
async def test_the_role_does_not_allow_status_changes(annotator: Account, kind: str) -> None:
    """No role includes the subresource, the only way to change a status."""
    assert "403" in await annotator.refusal(f"{OBJECTS[kind]}/status", FORBIDDEN["status"])


@pytest.mark.parametrize("path", OBJECTS.values(), ids=OBJECTS)
async def test_the_fence_allows_our_annotations(annotator: Account, path: str) -> None:
    """They are written, changed and removed."""
    for value in ("{}", "{ }", None):
        response = await annotator.patch(
            path, {"metadata": {"annotations": {LOAD: value, USAGE: value, RECLAIMED: value}}}
        )
        annotations = response["metadata"].get("annotations", {})
        assert [annotations.get(key) for key in (LOAD, USAGE, RECLAIMED)] == [value] * 3


@pytest.fixture
async def crane(cluster: Cluster, annotator: Account) -> AsyncIterator[None]:
    """The fence of k8s/overlays/crane instead of the base's."""
    await cluster.apply(access_and_fence(read_kustomization(ROOT / "k8s" / "overlays" / "crane")))
    await annotator.fenced(KEYS[0], allowed=True)
    yield
    await annotator.patch(NODE, {"metadata": {"annotations": dict.fromkeys(KEYS)}})
    await cluster.apply(access_and_fence(base_documents()))
    await annotator.fenced(KEYS[0], allowed=False)


@pytest.mark.parametrize("path", OBJECTS.values(), ids=OBJECTS)
async def test_the_fence_refuses_cranes_annotations_by_default(annotator: Account, path: str) -> None:
    """Each of them."""
    for key in KEYS:
        assert "its own three annotations only" in await annotator.refusal(
            path, {"metadata": {"annotations": {key: "1"}}}
        )


async def test_the_crane_overlay_allows_cranes_annotations_on_nodes_only(annotator: Account, crane: None) -> None:
    """All of them, and no other change."""
    annotations = dict.fromkeys(KEYS, "0.5,2027-01-15T08:00:00Z")
    response = await annotator.patch(NODE, {"metadata": {"annotations": annotations}})
    assert {key: response["metadata"]["annotations"].get(key) for key in KEYS} == annotations
    for path in (DEPLOYMENT, CLONE_SET):
        for key in KEYS:
            assert await annotator.refusal(path, {"metadata": {"annotations": {key: "1"}}})
    for name in ("label", "taint", "foreign annotation", "evict", "finalizer"):
        assert "equipoise-annotator-fence" in await annotator.refusal(NODE, FORBIDDEN[name])


SINCE = 1_800_000_000.0
OURS: Document = {"key": CONSOLIDATION, "value": "20270115T080000Z", "effect": "PreferNoSchedule"}
FOREIGN: list[Document] = [
    {"key": "example.com/draining", "effect": "NoSchedule", "timeAdded": "2027-01-01T00:00:00Z"},
    {"key": "dedicated", "value": "db", "effect": "PreferNoSchedule"},
]
MAY_TAINT = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/equipoise-annotator-consolidation"


async def tainted(cluster: Cluster, *taints: Document) -> None:
    """The node has the foreign taints, and these."""
    async with cluster.api() as api:
        await api.request("PATCH", NODE, {"spec": {"taints": [FOREIGN[0], *taints, FOREIGN[1]]}}, content_type=MERGE)


async def taints_of(cluster: Cluster) -> list[Document]:
    found: list[Document] = (await cluster.request("GET", NODE))["spec"].get("taints", [])
    return found


async def until_refusal(account: Account, taints: list[Document], *, refused: bool) -> None:
    """Wait until the API server uses the permission that was just granted, or withdrawn."""
    async with asyncio.timeout(60):
        while ("not write its taint" in await account.refusal(NODE, {"spec": {"taints": taints}})) != refused:
            pass


@pytest.fixture
async def foreign_taints(cluster: Cluster) -> AsyncIterator[None]:
    await tainted(cluster)
    yield
    async with cluster.api() as api:
        await api.request("PATCH", NODE, {"spec": {"taints": None}}, content_type=MERGE)


@pytest.fixture
async def consolidation(cluster: Cluster, annotator: Account, foreign_taints: None) -> AsyncIterator[None]:
    """k8s/consolidation is applied."""
    await cluster.apply(read_kustomization(ROOT / "k8s" / "consolidation"))
    await until_refusal(annotator, [*FOREIGN, OURS], refused=False)
    await tainted(cluster)
    yield
    await cluster.request("DELETE", MAY_TAINT)
    await tainted(cluster)
    await until_refusal(annotator, [*FOREIGN, OURS], refused=True)


async def test_without_its_permission_the_annotator_may_only_remove_its_taint(
    cluster: Cluster, annotator: Account, foreign_taints: None
) -> None:
    """So the taint ends whatever is configured."""
    assert "not write its taint" in await annotator.refusal(NODE, {"spec": {"taints": [*FOREIGN, OURS]}})
    await tainted(cluster, OURS)
    changed = [*FOREIGN, OURS | {"value": "20280115T080000Z"}]
    assert "not write its taint" in await annotator.refusal(NODE, {"spec": {"taints": changed}})
    assert await annotator.refusal(NODE, {"spec": {"taints": FOREIGN}}) == ""
    assert await taints_of(cluster) == FOREIGN


FORBIDDEN_TAINTS: dict[str, Document] = {
    "other effect": {"taints": [*FOREIGN, OURS | {"effect": "NoSchedule"}]},
    "other key": {"taints": [*FOREIGN, OURS, {"key": "x", "effect": "PreferNoSchedule"}]},
    "foreign value": {"taints": [FOREIGN[0], FOREIGN[1] | {"value": "x"}, OURS]},
    "foreign time": {"taints": [FOREIGN[0] | {"timeAdded": "2027-02-01T00:00:00Z"}, FOREIGN[1], OURS]},
    "foreign removed": {"taints": [FOREIGN[0], OURS]},
    "all removed": {"taints": None},
    "order": {"taints": [*reversed(FOREIGN), OURS]},
    "cordon": {"taints": [*FOREIGN, OURS], "unschedulable": True},
    "provider": {"taints": [*FOREIGN, OURS], "providerID": "x://y"},
}


@pytest.mark.parametrize("change", FORBIDDEN_TAINTS)
async def test_with_its_permission_the_annotator_may_change_no_other_taint(
    cluster: Cluster, annotator: Account, consolidation: None, change: str
) -> None:
    """And nothing else of the spec of a node."""
    before = await taints_of(cluster)
    refusal = await annotator.refusal(NODE, {"spec": FORBIDDEN_TAINTS[change]})

    assert "equipoise-annotator-fence" in refusal
    assert await taints_of(cluster) == before
    beside = {"metadata": {"labels": {"pool": "other"}}, "spec": {"taints": [*FOREIGN, OURS]}}
    assert "labels, owners or finalizers" in await annotator.refusal(NODE, beside)


async def test_a_node_has_the_taint_while_it_is_being_emptied(
    cluster: Cluster, consolidation: None, bus: MemoryBus
) -> None:
    """Other taints keep their place and all of their fields. Takes seconds: a new replica waits for its Lease."""
    uid = (await cluster.request("GET", NODE))["metadata"]["uid"]
    message = nodes_being_emptied("alpha", at=SystemClock().now(), uid=uid, since=SINCE)
    await bus.publish(NODES_EMPTYING, message)
    await cluster.wait(NODE, has_taints([*FOREIGN, OURS]), what="the node has the taint")
    await bus.publish(NODES_EMPTYING, nodes_being_emptied(at=SystemClock().now()))
    await cluster.wait(NODE, has_taints(FOREIGN), what="the taint is removed")


def has_taints(taints: list[Document]) -> Any:
    return lambda document: document["spec"].get("taints", []) == taints


async def rolled_out(cluster: Cluster) -> dict[str, Any]:
    """What would be different after a rollout: pods, and what controllers keep of each template."""
    kinds = {
        "pods": "/api/v1/namespaces/shop/pods",
        "replica sets": "/apis/apps/v1/namespaces/shop/replicasets",
        "revisions": "/apis/apps/v1/namespaces/shop/controllerrevisions",
    }
    found: dict[str, Any] = {}
    for name, path in kinds.items():
        listed = await cluster.request("GET", path)
        found[name] = {(item["metadata"]["name"], item["metadata"]["uid"]) for item in listed["items"]}
    for path in WORKLOADS.values():
        document = await cluster.request("GET", path)
        found[path] = document["spec"]
    return found


@pytest.fixture
async def bus(cluster: Cluster, annotator: Account) -> AsyncIterator[MemoryBus]:
    """A whole annotator, under its own account, listens to it."""
    clock, metrics = SystemClock(), CollectorRegistry()
    directory: Path = (await cluster.service_account_token(NAMESPACE, "equipoise-annotator")).parent
    connection = Kubernetes(service_account=str(directory))
    environment = cluster.in_cluster_environment
    async with (
        connect_kube(connection, "annotator", clock, environment=environment) as kube,
        MemoryBus(clock) as opened,
    ):
        own, shared = AnnotatorSettings(nodes=SOON, workloads=SOON), Shared(kubernetes=Kubernetes(namespace=NAMESPACE))
        runtime = Runtime(
            configuration=Configuration(shared=shared, own=own, hash=""), identity="one", message_bus=opened,
            api_server=kube, clock=clock, health=Health(configuration_hash="", metrics=metrics), metrics=metrics,
        )  # fmt: skip
        service = Annotator(runtime)
        await service.attach()
        task = asyncio.create_task(service.run())
        yield opened
        task.cancel()
        await asyncio.wait([task])


async def test_annotating_a_workload_starts_no_rollout(cluster: Cluster, bus: MemoryBus) -> None:
    """The object has the annotation; spec, pods, ReplicaSets and revisions are unchanged.

    A changed annotation increases a Deployment's generation; its controller observes it and changes nothing.
    """
    before = await rolled_out(cluster)
    generations = {path: (await cluster.request("GET", path))["metadata"]["generation"] for path in WORKLOADS.values()}
    for sequence, cores in ((1, 1.0), (2, 2.0)):  # the precondition of the second write is the first one
        now = SystemClock().now()
        windows = a_node_utilization(cpu=cores, sampled_at=now).windows
        for workload in WORKLOADS:
            utilization = a_workload_utilization(
                workload, sampled_at=now, queried_at=now, windows=windows, sequence=sequence
            )
            await bus.publish(workload_utilization(workload), utilization)
        for workload, path in WORKLOADS.items():
            await cluster.wait(path, has_usage(cores), what=f"{workload} has its usage")
        await asyncio.sleep(1.1)  # the minimum interval
    settled = "a controller has seen what was written"
    for path in WORKLOADS.values():
        if "/apis/apps/" in path:
            await cluster.wait(
                path,
                lambda document: document["status"]["observedGeneration"] == document["metadata"]["generation"],
                what=settled,
            )
    await asyncio.sleep(1)  # a rollout that began would show by now: the controllers act within milliseconds
    assert await rolled_out(cluster) == before
    for path, generation in generations.items():
        after = (await cluster.request("GET", path))["metadata"]["generation"]
        assert after == generation + 2 * (path == DEPLOYMENT)


def has_usage(cores: float) -> Any:
    def read(document: Document) -> bool:
        usage, _ = read_workload_usage(document["metadata"].get("annotations", {}))
        return usage is not None and usage.windows["5m"].mean.cpu == cores

    return read


async def test_a_node_is_annotated_while_its_kubelet_updates_it(cluster: Cluster, bus: MemoryBus) -> None:
    """Heartbeats change its version; both loads are written all the same."""
    uid = (await cluster.request("GET", NODE))["metadata"]["uid"]
    for sequence, load in ((1, 0.3), (2, 0.6)):
        now = SystemClock().now()
        message = a_node_utilization("alpha", 10 * load, uid=uid, sampled_at=now, queried_at=now, sequence=sequence)
        await bus.publish(node_utilization("alpha"), message)
        await cluster.wait(NODE, has_load(load), what=f"the node has a load of {load}")
        beat = {"metadata": {"labels": {"beat": str(sequence)}}}
        async with cluster.api() as api:
            await api.request("PATCH", NODE, beat, content_type=MERGE)
        await asyncio.sleep(1.1)  # the minimum interval


def has_load(share: float) -> Any:
    def read(document: Document) -> bool:
        load, _ = read_node_load(document["metadata"].get("annotations", {}))
        return load is not None and load.windows["5m"].mean.cpu == share

    return read
