"""`equipoise scheduler` beside kube-scheduler on a real API server."""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cli.programs import Running, started
from cluster_fixtures import StartCluster
from deployment.base import ROOT
from deployment.kustomize import read_documents

from equipoise.testbed.api import ApiError
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import namespace, node, pod, pod_template
from equipoise.testbed.processes.configuration import kubeconfig
from equipoise.testbed.processes.loopback import get

OURS = "equipoise-scheduler"
OWN = "equipoise-system"

PLUGIN = """
class Reversed:
    name = "Reversed"

    def score_node(self, state, pod, snapshot, row):
        return 100 if pod.labels.get("app") == "reversed" and snapshot.name(row) == "node-b" else 0
"""

BURST = 200
"""Pods; a node runs 110."""

PODS = "/api/v1/namespaces/shop/pods"
ONE_BOUND = f"{PODS}?fieldSelector=spec.nodeName!=&limit=1"


@pytest.fixture(scope="module")
def cluster(start_cluster: StartCluster) -> Cluster:
    cluster = start_cluster()
    asyncio.run(cluster.add_nodes([node("node-a", cpu=4), node("node-b", cpu=4, labels={"disk": "ssd"})]))
    own = read_documents(ROOT / "k8s" / "scheduler" / f"{OURS}.yaml")
    asyncio.run(cluster.apply([namespace("shop"), namespace(OWN), *own]))
    return cluster


@pytest.fixture(scope="module")
def account(cluster: Cluster) -> Path:
    """The kubeconfig of the scheduler's own account."""
    name = "equipoise-python-scheduler"
    token = asyncio.run(cluster.service_account_token(OWN, name)).read_text()
    file = cluster.directory / "python-scheduler.kubeconfig"
    document = kubeconfig(server=cluster.url, ca_file=str(cluster.ca_file), user=name, token=token)
    file.write_text(json.dumps(document))
    return file


@asynccontextmanager
async def scheduler(cluster: Cluster, account: Path, *arguments: str | Path) -> AsyncIterator[tuple[Running, str]]:
    """A running one, and the address of its metrics."""
    address = f"127.0.0.1:{cluster.free_port()}"
    running = await started("scheduler", "--kubeconfig", account, "--namespace", OWN, "--listen", address, *arguments)
    try:
        await running.prints("leading")
        yield running, address
    finally:
        if running.process.returncode is None:
            running.process.send_signal(signal.SIGTERM)
            assert 0 == await running.ends(), running.output
            assert "orbidden" not in running.output


async def create(
    cluster: Cluster, name: str, cpu: str = "1", *, app: str = "web", ours: bool = True, **spec: Any
) -> None:
    if ours:
        spec["schedulerName"] = OURS
    await cluster.apply([pod(name, pod_template(app, cpu=cpu, spec=spec), namespace="shop")])


async def until_runs(cluster: Cluster, name: str) -> str:
    """Its node."""
    path = f"/api/v1/namespaces/shop/pods/{name}"
    found = await cluster.wait(path, lambda it: it["status"]["phase"] == "Running", what=f"{name} runs")
    return str(found["spec"]["nodeName"])


async def until_reported(cluster: Cluster, name: str, reason: str) -> dict[str, Any]:
    """The event about this pod."""

    def of_pod(events: Any) -> list[dict[str, Any]]:
        return [each for each in events["items"] if each["regarding"].get("name") == name and each["reason"] == reason]

    path = "/apis/events.k8s.io/v1/namespaces/shop/events"
    found = await cluster.wait(path, lambda events: bool(of_pod(events)), what=f"an event {reason} about {name}")
    return of_pod(found)[0]


async def delete_all(cluster: Cluster) -> None:
    await cluster.request("DELETE", "/api/v1/namespaces/shop/pods?gracePeriodSeconds=0")
    await cluster.wait(PODS, lambda pods: not pods["items"])


async def test_pods_run_where_they_fit_and_others_are_left_to_kube_scheduler(
    cluster: Cluster, account: Path, tmp_path: Path
) -> None:
    """By node selector, and by a plugin in Python. kube-scheduler binds its own pods, and none of ours."""
    plugin = tmp_path / "reversed_order.py"
    plugin.write_text(PLUGIN)
    async with scheduler(cluster, account, "--plugin", f"{plugin}:Reversed") as (_, address):
        await create(cluster, "selected", nodeSelector={"disk": "ssd"})
        await create(cluster, "scored", "100m", app="reversed")
        await create(cluster, "theirs", ours=False)
        await create(cluster, "nobody", schedulerName="nobody", ours=False)

        assert "node-b" == await until_runs(cluster, "selected")
        assert "node-b" == await until_runs(cluster, "scored")
        await until_runs(cluster, "theirs")
        event = await until_reported(cluster, "selected", "Scheduled")
        assert (OURS, "Binding") == (event["reportingController"], event["action"])
        assert "default-scheduler" == (await until_reported(cluster, "theirs", "Scheduled"))["reportingController"]
        left = await cluster.request("GET", "/api/v1/namespaces/shop/pods/nobody")
        assert "nodeName" not in left["spec"]
        page = (await asyncio.to_thread(get, f"http://{address}/metrics")).decode()
        assert 'scheduler_schedule_attempts_total{profile="equipoise-scheduler",result="scheduled"} 2.0' in page
        assert b'"ready":true' in await asyncio.to_thread(get, f"http://{address}/readyz")
    await delete_all(cluster)
    lease = await cluster.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases/equipoise-scheduler")
    assert not lease["spec"].get("holderIdentity"), "it was released"


async def test_an_unschedulable_pod_says_why_and_runs_after_a_node_is_added(cluster: Cluster, account: Path) -> None:
    path = "/api/v1/namespaces/shop/pods/large"
    async with scheduler(cluster, account):
        await create(cluster, "large", "6")
        found = await cluster.wait(path, lambda it: it["status"].get("conditions"), what="it has a condition")
        (condition,) = found["status"]["conditions"]
        event = await until_reported(cluster, "large", "FailedScheduling")

        assert ("PodScheduled", "False", "Unschedulable") == tuple(condition[k] for k in ("type", "status", "reason"))
        assert condition["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
        assert condition["message"] == event["note"]
        assert "Warning" == event["type"]

        await cluster.add_nodes([node("node-c", cpu=8)])
        assert "node-c" == await until_runs(cluster, "large")
    await delete_all(cluster)
    await cluster.request("DELETE", "/api/v1/nodes/node-c")


async def test_a_pod_of_higher_priority_preempts_one_of_lower_priority(cluster: Cluster, account: Path) -> None:
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("low", 10), ("high", 1000))
    ]
    await cluster.apply(classes)
    only = {"nodeSelector": {"disk": "ssd"}}
    async with scheduler(cluster, account) as (_, address):
        await create(cluster, "low", "3", priorityClassName="low", **only)
        await create(cluster, "theirs", "500m", ours=False, **only)
        await until_runs(cluster, "low")
        await until_runs(cluster, "theirs")
        await create(cluster, "high", "3", priorityClassName="high", **only)

        assert "node-b" == await until_runs(cluster, "high")
        event = await until_reported(cluster, "low", "Preempted")
        assert "Preempting" == event["action"]
        pods = await cluster.request("GET", PODS)
        assert {"theirs", "high"} == {each["metadata"]["name"] for each in pods["items"]}
        page = (await asyncio.to_thread(get, f"http://{address}/metrics")).decode()
        assert "scheduler_preemption_victims_sum 1.0" in page
    await delete_all(cluster)


async def test_no_pod_is_bound_twice_when_the_scheduler_is_killed_during_bindings(
    cluster: Cluster, account: Path
) -> None:
    """A scheduler that has bound all pods before it is killed proves nothing, so there are more bursts then."""
    before, names = BURST, list[str]()
    for burst in range(5):
        names = [f"burst-{burst}-{number}" for number in range(BURST)]
        before = await bound_when_killed(cluster, account, names)
        if before < BURST:
            break
        await delete_all(cluster)
    async with scheduler(cluster, account):
        await cluster.wait(PODS, lambda pods: bound(pods) == BURST, what="all are bound")

    times = Counter(each.pod for each in cluster.bindings() if each.pod in names)
    assert 0 < before < BURST
    assert {1} == set(times.values())
    # The audit log lacks requests whose client was killed before the response; those of the second scheduler are there.
    assert len(times) >= BURST - before
    await delete_all(cluster)


async def bound_when_killed(cluster: Cluster, account: Path, names: Sequence[str]) -> int:
    """The number of these pods that a scheduler has bound. It was killed as soon as one was."""
    template = pod_template("burst", cpu="10m", spec={"schedulerName": OURS})
    await cluster.apply([pod(name, template, namespace="shop") for name in names])
    async with cluster.api() as api, scheduler(cluster, account) as (running, _):
        while not bound(await api.request("GET", ONE_BOUND)):  # noqa: ASYNC110  the API server has no event to wait for
            await asyncio.sleep(0.01)
        os.kill(running.process.pid, signal.SIGKILL)
        await running.ends()
    return bound(await cluster.request("GET", PODS))


def bound(pods: Any) -> int:
    return sum("nodeName" in each["spec"] for each in pods["items"])


# What the account may write

STORAGE = "/api/v1/persistentvolumes"


def a_volume(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/data"},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
                }
            },
            **spec,
        },
    }


def a_claim(name: str, storage_class: str = "local", namespace: str = "shop") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


@pytest.fixture(scope="module")
async def stored(cluster: Cluster) -> None:
    """A storage class whose volumes are chosen with the node, a volume, and an opted-out namespace."""
    local = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    out = namespace("opted-out")
    out["metadata"]["annotations"] = {"equipoise.dev/evict": "false"}
    await cluster.apply([local, a_volume("one"), a_volume("two"), out])


async def test_volumes_are_bound_within_the_policy(cluster: Cluster, account: Path, stored: None) -> None:
    """With the node of the volume; the claim gets it."""
    await cluster.apply([a_claim("data")])
    async with scheduler(cluster, account):
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        await create(cluster, "with-volume", "100m", volumes=volumes)

        assert "node-b" == await until_runs(cluster, "with-volume")
    claim = await cluster.request("GET", "/api/v1/namespaces/shop/persistentvolumeclaims/data")
    assert claim["spec"]["volumeName"] in ("one", "two")
    await delete_all(cluster)


class Thief:
    """Requests of whoever has the token of the scheduler."""

    def __init__(self, cluster: Cluster, token: str) -> None:
        self._cluster = cluster
        self._token = token

    async def refusal(self, method: str, path: str, body: Any = None, **options: Any) -> str:
        """ "" if it is permitted. Nothing is changed."""
        try:
            query = "&".join(["dryRun=All", *(f"{name}={value}" for name, value in options.items())])
            kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
            async with self._cluster.api() as api:
                await api.request(method, f"{path}?{query}", body, token=self._token, content_type=kind)
        except ApiError as error:
            return str(error)
        return ""

    async def patch(self, path: str, patch: Any) -> str:
        return await self.refusal("PATCH", path, patch)


@pytest.fixture
async def thief(cluster: Cluster, stored: None) -> Thief:
    token = await cluster.service_account_token(OWN, "equipoise-python-scheduler")
    thief = Thief(cluster, token.read_text())
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "other"}}
    async with asyncio.timeout(60):
        while "own Lease only" not in await thief.refusal(  # noqa: ASYNC110  no event tells that a policy is in effect
            "POST", f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases", lease
        ):
            await asyncio.sleep(0.1)
    return thief


async def test_the_effect_of_a_taken_lease_ends_with_the_token(cluster: Cluster, thief: Thief) -> None:
    """No Lease for more than ten minutes, none that no holder can count on from, and none that cannot be deleted."""
    metadata = {"name": "equipoise-scheduler", "namespace": OWN}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    await cluster.apply([{**lease, "spec": {"leaseDurationSeconds": 15, "leaseTransitions": 3}}])
    path = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases/equipoise-scheduler"
    stored = await cluster.request("GET", path)

    async def refusal(finalizers: list[str] | None = None, **spec: int) -> str:
        metadata = {**stored["metadata"], "finalizers": finalizers or []}
        return await thief.refusal("PUT", path, {**stored, "metadata": metadata, "spec": {**stored["spec"], **spec}})

    assert await refusal(leaseDurationSeconds=600, leaseTransitions=4) == ""
    assert "at most ten minutes" in await refusal(leaseDurationSeconds=601)
    assert "one after the other" in await refusal(leaseTransitions=2**31 - 1)
    assert "one after the other" in await refusal(leaseTransitions=2)
    assert "no finalizers" in await refusal(["example.com/never"])


OPTIONS = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {}, "dryRun": ["All"]}


def preempted() -> dict[str, Any]:
    """The condition that the scheduler writes. Without a recent time, a controller would withdraw it."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "x"}
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")  # noqa: TID251  of the API server
    return {"status": {"conditions": [{**condition, "lastTransitionTime": now}]}}


async def test_only_recorded_victims_outside_of_the_system_can_be_deleted(cluster: Cluster, thief: Thief) -> None:
    """A deletion needs their UID and their own grace period."""
    out = pod_template("web", cpu="10m")
    out["metadata"].setdefault("annotations", {})["equipoise.dev/evict"] = "false"
    places = {"unrecorded": "shop", "system": "kube-system", "own": OWN, "quiet": "opted-out", "victim": "shop"}
    made = [pod(name, pod_template("web", cpu="10m"), namespace=place) for name, place in places.items()]
    await cluster.apply([*made, pod("protected", out, namespace="shop")])
    places = {"protected": "shop", **places}
    found = {}
    for name, place in places.items():
        path = f"/api/v1/namespaces/{place}/pods/{name}"
        await cluster.wait(path, lambda it: it["status"]["phase"] == "Running", what=f"{name} runs")
        if name != "unrecorded":
            async with cluster.api() as api:
                await api.patch(f"{path}/status", preempted(), kind="strategic-merge-patch")
        document = await cluster.request("GET", path)
        options = {**OPTIONS, "preconditions": {"uid": document["metadata"]["uid"]}}
        found[name] = await thief.refusal("DELETE", path, options)
    path = "/api/v1/namespaces/shop/pods/victim"
    found["without its uid"] = await thief.refusal("DELETE", path, OPTIONS)
    uid = (await cluster.request("GET", path))["metadata"]["uid"]
    at_once = {**OPTIONS, "preconditions": {"uid": uid}, "gracePeriodSeconds": 0}
    found["at once"] = await thief.refusal("DELETE", path, at_once)
    await delete_all(cluster)

    assert found.pop("victim") == ""
    wanted = {
        "unrecorded": "has recorded",
        "system": "of the system",
        "own": "of the system or of Equipoise",
        "quiet": "the namespace has opted out",
        "protected": "the pod has opted out",
        "without its uid": "by its UID",
        "at once": "grace period",
    }
    assert {name: text for name, text in wanted.items() if text not in found[name]} == {}, found


VOLUME = f"{STORAGE}/two"
CLAIMS = "/api/v1/namespaces/shop/persistentvolumeclaims"
SELECTED = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "node-b"}}}
READY = {"type": "Ready", "status": "True"}
CLAIM_REF = {"kind": "PersistentVolumeClaim", "namespace": "shop", "name": "new", "uid": "u-1", "apiVersion": "v1"}


@pytest.mark.parametrize(
    ("path", "patch", "why"),
    [
        (VOLUME, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}, "give a volume that has no claim"),
        (VOLUME, {"spec": {"claimRef": CLAIM_REF, "capacity": {"storage": "2Gi"}}}, "anything else of a volume"),
        (VOLUME, {"metadata": {"labels": {"a": "b"}}}, "labels"),
        (VOLUME, {"metadata": {"finalizers": ["example.com/held"]}}, "finalizers"),
        (VOLUME, {"metadata": {"annotations": {"a": "b"}}}, "annotation of its own choice"),
        ("bound", {"spec": {"claimRef": CLAIM_REF}}, "that has no claim"),
        ("/claims/fresh", {"metadata": {"annotations": {"a": "b"}}}, "annotation of its own choice"),
        ("/claims/fresh", {"metadata": {"finalizers": ["example.com/held"]}}, "finalizers"),
        (
            "/claims/data",
            {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "x"}}},
            "neither a volume",
        ),
        ("/pods/waits/status", {"metadata": {"labels": {"a": "b"}}}, "labels"),
        ("/pods/waits/status", {"status": {"phase": "Succeeded"}}, "anything else of"),
        (
            "/pods/waits/status",
            {"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}},
            "anything else of",
        ),
        (
            "/pods/waits/status",
            {"status": {"conditions": [READY]}},
            "conditions PodScheduled",
        ),
    ],
)
async def test_nothing_else_can_be_changed(
    cluster: Cluster, thief: Thief, path: str, patch: dict[str, Any], why: str
) -> None:
    """A volume's policy and claim, labels, finalizers, what the kubelet reports."""
    waits = pod("waits", pod_template("web", spec={"schedulerName": "nobody"}), namespace="shop")
    await cluster.apply([a_claim("fresh"), a_claim("data"), waits])
    if path == "bound":
        path = VOLUME
        data = await cluster.request("GET", f"{CLAIMS}/data")
        held = {**CLAIM_REF, "name": "data", "uid": data["metadata"]["uid"]}
        async with cluster.api() as api:
            await api.patch(VOLUME, {"spec": {"claimRef": held}})
    found = await thief.patch(path.replace("/claims", CLAIMS).replace("/pods/waits", f"{PODS}/waits"), patch)

    assert why in found


@pytest.mark.parametrize("kind", ["labels", "annotations"])
async def test_a_binding_changes_nothing_else_of_a_pod(cluster: Cluster, thief: Thief, kind: str) -> None:
    """The API server copies its labels and annotations to the pod, which could so be selected by others."""
    waits = pod("waits", pod_template("web", spec={"schedulerName": "nobody"}), namespace="shop")
    await cluster.apply([waits])
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "waits", "namespace": "shop"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-b"},
    }
    changed = {**binding, "metadata": {**binding["metadata"], kind: {"app": "bank"}}}

    assert "no labels and no annotations" in await thief.refusal("POST", f"{PODS}/waits/binding", changed)
    assert "" == await thief.refusal("POST", f"{PODS}/waits/binding", binding)


async def test_what_the_scheduler_writes_is_permitted(cluster: Cluster, thief: Thief) -> None:
    """Beside the tests above, which run it."""
    await cluster.apply([a_volume("three"), a_claim("fresh")])
    await cluster.wait(
        f"{STORAGE}/three", lambda it: it.get("status", {}).get("phase") == "Available", what="available"
    )
    mark = {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}
    assert "" == await thief.patch(f"{STORAGE}/three", {"metadata": mark, "spec": {"claimRef": CLAIM_REF}})
    assert "" == await thief.patch(f"{CLAIMS}/fresh", SELECTED)
