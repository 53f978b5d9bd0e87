"""Profiles of co-location on a real API server: which pods they change, how, and that they refuse none."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import msgspec
import pytest
import yaml
from cli.programs import invoke
from cluster_fixtures import StartCluster
from deployment.base import ROOT, colocation_documents
from deployment.kustomize import read_kustomization

from equipoise.cli.doctor.checks import CHECKS
from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.cli.doctor.run import diagnose
from equipoise.cli.service_settings import AllSettings
from equipoise.contracts.colocation.profile import stored_profile_faults
from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.kubernetes.client import Kube
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.api import ApiError
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import deployment, namespace, node, pod, pod_template

Document = dict[str, Any]

PROFILES = """
profiles:
  - name: offline
    namespaceSelector: {matchLabels: {team: offline}}
    labels: {koordinator.sh/qosClass: BE, example.com/cost-center: "7"}
    annotations: {example.com/note: "a=b, c"}
    terminationGracePeriodSeconds: 7
  - name: shared
    namespaceSelector: {matchLabels: {team: shared}}
    objectSelector: {matchLabels: {kind: report}}
    qos: LS
    band: mid
  - name: some
    namespaceSelector: {matchLabels: {team: some}}
    percent: 30
  - name: exclusive
    namespaceSelector: {matchLabels: {team: exclusive}}
    qos: LSR
    band: prod
"""
OFFLINE = "/api/v1/namespaces/equipoise-system/configmaps/equipoise-colocation-offline"


class Created(msgspec.Struct):
    """What the API server made of a pod, in a dry run."""

    status: int
    pod: Document
    warnings: list[str]

    def resources(self, container: str = "main") -> Document:
        spec = self.pod["spec"]
        (found,) = (
            each for each in (*spec["containers"], *spec.get("initContainers", ())) if each["name"] == container
        )
        resources: Document = found.get("resources", {})
        return resources

    @property
    def profile(self) -> str | None:
        name: str | None = self.pod["metadata"].get("labels", {}).get("equipoise.dev/colocation-profile")
        return name


class Namespaces:
    """Creates pods in dry runs, one after the other."""

    def __init__(self, cluster: Cluster, session: aiohttp.ClientSession) -> None:
        self._cluster = cluster
        self._session = session

    async def create(self, body: Document) -> Created:
        url = f"{self._cluster.url}/api/v1/namespaces/{body['metadata']['namespace']}/pods?dryRun=All"
        headers = {"Authorization": f"Bearer {self._cluster.admin_token}"}
        async with self._session.post(url, json=body, headers=headers) as response:
            return Created(response.status, await response.json(), response.headers.getall("Warning", []))

    async def until(self, body: Document, *, changed: bool, label: str = "") -> Created:
        """Repeated until the API server uses what was just applied, for example a ConfigMap.

        `label`: that the pod then has, as key=value.
        """
        key, _, value = label.partition("=")
        for _ in range(600):
            created = await self.create(body)
            found = created.pod["metadata"].get("labels", {}) if created.status == 201 else {}
            if (created.profile is not None) == changed and (not label or found.get(key) == value):
                return created
        raise AssertionError(f"the pod is {created.pod}")

    async def until_warned(self, body: Document) -> None:
        """The policy that warns is another one: the API server may use it later."""
        for _ in range(600):
            if (await self.create(body)).warnings:
                return
        raise AssertionError("there is no warning")


@pytest.fixture(scope="module")
async def cluster(mutating_policies: None, start_cluster: StartCluster) -> Cluster:
    cluster = start_cluster()
    spaces = [namespace(name) for name in ("offline", "shared", "some", "exclusive", "plain", "equipoise-system")]
    for each in spaces:
        each["metadata"]["labels"] = {"team": each["metadata"]["name"]}
    await cluster.apply(spaces)
    for name in ("offline", "shared", "some", "exclusive", "plain"):
        await cluster.wait(
            f"/api/v1/namespaces/{name}/serviceaccounts", lambda found: bool(found["items"]), what="pods may be created"
        )
    await cluster.apply([older_pod()])
    await cluster.apply(read_kustomization(ROOT / "k8s" / "colocation" / "profiles"))
    result = invoke("colocation", "profile", "-", text=PROFILES)
    assert result.exit_code == 0, result.output
    await cluster.apply(list(yaml.safe_load_all(result.stdout)))
    return cluster


@pytest.fixture
async def pods(cluster: Cluster) -> AsyncIterator[Namespaces]:
    context = ssl.create_default_context(cafile=str(cluster.ca_file))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        namespaces = Namespaces(cluster, session)
        await namespaces.until(a_pod(), changed=True)
        for name in ("offline", "some", "exclusive"):
            whole = {"resources": {"requests": {"cpu": "500m"}}}
            owner = {"kind": "ReplicaSet", "uid": "8c2ae1b4-0000-4000-8000-000000000000"}
            await namespaces.until_warned(a_pod(name, owner=owner, **whole))
        yield namespaces


def a_pod(
    of: str = "offline",
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Document:
    resources: Document = {"requests": dict(requests or {"cpu": "100m", "memory": "64Mi"})}
    if limits:
        resources["limits"] = dict(limits)
    container = {"name": "main", "image": "fake", "resources": resources}
    metadata: Document = {"labels": dict(labels or {}), "annotations": dict(annotations or {})}
    if owner:
        metadata["ownerReferences"] = [{"apiVersion": "apps/v1", "name": "x", "uid": "0-0", "controller": True} | owner]
    return pod("new", {"metadata": metadata, "spec": {"containers": [container]} | spec}, namespace=of)


async def test_a_pod_becomes_a_batch_pod(pods: Namespaces) -> None:
    """Labels, annotations, priority, grace period and amounts; Kubernetes counts it as BestEffort."""
    created = await pods.create(a_pod(requests={"cpu": "1500m", "memory": "1Gi"}, limits={"cpu": "2", "memory": "2Gi"}))
    assert created.status == 201
    metadata, spec = created.pod["metadata"], created.pod["spec"]
    assert metadata["labels"]["equipoise.dev/qos"] == metadata["labels"]["koordinator.sh/qosClass"] == "BE"
    assert metadata["labels"]["example.com/cost-center"] == "7"
    assert metadata["annotations"]["example.com/note"] == "a=b, c"
    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == ("equipoise-batch", 5000, "Never")
    assert spec["terminationGracePeriodSeconds"] == 7
    assert created.resources() == {
        "requests": {"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "1073741824"},
        "limits": {"kubernetes.io/batch-cpu": "2k", "kubernetes.io/batch-memory": "2147483648"},
    }
    assert created.pod["status"]["qosClass"] == "BestEffort"
    assert not created.warnings


@pytest.mark.parametrize(
    ("name", "quantity", "expected"),
    [
        ("cpu", "1500m", "1500"), ("cpu", "0.1", "100"), ("cpu", "1e-1", "100"), ("cpu", "100u", "1"),
        ("cpu", "2500000u", "2500"), ("cpu", "1.0001", "1001"), ("cpu", "0.29", "290"), ("cpu", "4.35", "4350"),
        ("cpu", "3k", "3M"), ("memory", "1G", "1G"), ("memory", "1.5Gi", "1610612736"), ("memory", "0.5Mi", "524288"),
        ("memory", "129e6", "129M"), ("memory", "1Ti", "1099511627776"), ("memory", "1m", "1"),
        ("memory", "7Ei", "8070450532247928832"),
    ],
)  # fmt: skip
async def test_amounts_are_whole_and_rounded_up(pods: Namespaces, name: str, quantity: str, expected: str) -> None:
    created = await pods.create(a_pod(requests={name: quantity}))
    assert created.resources()["requests"] == {f"kubernetes.io/batch-{name}": expected}


async def test_limits_alone_are_requests_too(pods: Namespaces) -> None:
    body = a_pod(limits={"cpu": "1"})
    del body["spec"]["containers"][0]["resources"]["requests"]
    assert (await pods.create(body)).resources() == {
        "requests": {"kubernetes.io/batch-cpu": "1k"},
        "limits": {"kubernetes.io/batch-cpu": "1k"},
    }


async def test_init_containers_are_changed_and_other_resources_stay(pods: Namespaces) -> None:
    first = {"name": "first", "image": "fake", "resources": {"requests": {"cpu": "1", "ephemeral-storage": "1Gi"}}}
    created = await pods.create(a_pod(initContainers=[first]))
    assert created.resources("first")["requests"] == {"kubernetes.io/batch-cpu": "1k", "ephemeral-storage": "1Gi"}


async def test_a_pod_with_batch_amounts_keeps_them(pods: Namespaces) -> None:
    amounts = {"kubernetes.io/batch-cpu": "700", "kubernetes.io/batch-memory": "1Gi"}
    created = await pods.create(a_pod(requests=amounts, limits=amounts))
    assert (created.profile, created.resources()["requests"]) == ("offline", amounts)


async def test_another_priority_class_is_replaced(pods: Namespaces) -> None:
    created = await pods.create(a_pod(priorityClassName="system-cluster-critical"))
    assert created.pod["spec"]["priority"] == 5000


async def test_a_profile_selects_pods_and_may_offer_another_band(pods: Namespaces) -> None:
    created = await pods.create(a_pod("shared", labels={"kind": "report"}))
    assert created.pod["metadata"]["labels"]["equipoise.dev/qos"] == "LS"
    assert created.pod["spec"]["priority"] == 7000
    assert created.resources()["requests"].keys() == {"kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"}
    assert (await pods.create(a_pod("shared"))).profile is None


async def test_a_profile_of_the_band_prod_changes_no_resources(pods: Namespaces) -> None:
    created = await pods.create(a_pod("exclusive", requests={"cpu": "2", "memory": "64Mi"}))
    assert created.pod["spec"]["priority"] == 9000
    assert created.resources()["requests"] == {"cpu": "2", "memory": "64Mi"}


async def test_a_percentage_selects_whole_workloads(pods: Namespaces) -> None:
    """By the last four hexadecimal digits of the owner's UID; a pod without an owner is not changed."""
    changed = {}
    for digits in ("0000", "001d", "001e", "0063", "0064", "ffff"):
        uid = f"8c2ae1b4-0000-4000-8000-00000000{digits}"
        created = await pods.create(a_pod("some", owner={"kind": "ReplicaSet", "uid": uid}))
        changed[digits] = created.profile is not None
    assert changed == {digits: int(digits, 16) % 100 < 30 for digits in changed}
    assert len(set(changed.values())) == 2
    created = await pods.create(a_pod("some"))
    assert (created.profile, created.warnings) == (None, [])


async def test_a_workload_of_the_share_that_is_not_changed_gives_a_warning(pods: Namespaces) -> None:
    """And one outside of it does not."""
    whole = {"resources": {"requests": {"cpu": "1"}}}
    for digits, warned in (("0000", True), ("0063", False)):
        uid = f"8c2ae1b4-0000-4000-8000-00000000{digits}"
        created = await pods.create(a_pod("some", owner={"kind": "ReplicaSet", "uid": uid}, **whole))
        assert (created.status, created.profile, bool(created.warnings)) == (201, None, warned)


UNCHANGED: dict[str, Document] = {
    "another namespace": a_pod("plain"),
    "opted out": a_pod(annotations={"equipoise.dev/colocation": "off"}),
    "of a DaemonSet": a_pod(owner={"kind": "DaemonSet"}),
    "mirror pod": a_pod(annotations={"kubernetes.io/config.mirror": "0"}, nodeName="a"),
}
NOT_SUPPORTED: dict[str, Document] = {
    "huge pages": a_pod(
        requests={"cpu": "1", "hugepages-2Mi": "2Mi", "memory": "1Gi"}, limits={"hugepages-2Mi": "2Mi"}
    ),
    "resources of the pod as a whole": a_pod(resources={"requests": {"cpu": "1"}}),
    "other band in Koordinator's label": a_pod(labels={"koordinator.sh/priority-class": "koord-prod"}),
    "amounts of another band": a_pod(requests={"kubernetes.io/mid-cpu": "5"}, limits={"kubernetes.io/mid-cpu": "5"}),
    "parts of cores": a_pod("exclusive", requests={"cpu": "1500m"}),
    "annotations without room for another": a_pod(annotations={"example.com/a": "x" * (256 * 1_024 - 13)}),
    "annotations without room in bytes": a_pod(annotations={"example.com/a": "ä" * 131_060}),
    "no cores": a_pod("exclusive", requests={"memory": "1Gi"}),
}


@pytest.mark.parametrize("name", [*UNCHANGED, *NOT_SUPPORTED])
async def test_other_pods_stay_as_they_are(pods: Namespaces, name: str) -> None:
    """With a warning where the user may expect something else."""
    body = (UNCHANGED | NOT_SUPPORTED)[name]
    created = await pods.create(body)
    assert (created.status, created.profile) == (201, None)
    assert created.resources()["requests"] == body["spec"]["containers"][0]["resources"]["requests"]
    assert bool(created.warnings) == (name in NOT_SUPPORTED)


INVALID: dict[str, Document | None] = {
    "no ConfigMap": None,
    "percent": {"percent": "abc"},
    "negative percent": {"percent": "-1"},
    "large percent": {"percent": "101"},
    "unknown band": {"resources": "huge", "priorityClassName": "equipoise-huge"},
    "unknown resources": {"resources": "huge"},
    "resources of another band": {"resources": "mid"},
    "no class": {"qosClass": None},
    "unknown class": {"qosClass": "best"},
    "class and band": {"qosClass": "LSR"},
    "class and resources": {"qosClass": "LS"},
    "priority class": {"priorityClassName": "other"},
    "no priority class": {"priorityClassName": None},
    "grace period": {"terminationGracePeriodSeconds": "-5"},
    "label name": {"labels": "a b=c"},
    "label value": {"labels": "a=b c"},
    "label without a value": {"labels": "abc"},
    "label of the profile": {"labels": "equipoise.dev/qos=LS"},
    "label of another band": {"labels": "koordinator.sh/priority-class=koord-prod"},
    "annotation name": {"annotations": "a b=c"},
    "long annotations": {"annotations": "a=" + "b" * 70_000},
}


@pytest.mark.parametrize("name", INVALID)
async def test_a_profile_that_cannot_be_read_leaves_pods_as_they_are(
    cluster: Cluster, pods: Namespaces, name: str
) -> None:
    """The ConfigMap is missing or invalid: pods are created, with a warning that names profile and ConfigMap."""
    data = INVALID[name]
    before = await cluster.request("GET", OFFLINE)
    if data is None:
        await cluster.request("DELETE", OFFLINE)
    else:
        async with cluster.api() as api:
            stored = await api.patch(OFFLINE, {"data": data})
        # `equipoise doctor` finds the same faults.
        assert list(stored_profile_faults(stored["data"]))
    created = await pods.until(a_pod(), changed=False)
    assert created.status == 201
    assert created.resources()["requests"] == {"cpu": "100m", "memory": "64Mi"}
    (warning,) = created.warnings
    assert "the co-location profile offline did not change this pod" in warning
    assert "ConfigMap equipoise-system/equipoise-colocation-offline" in warning
    await cluster.apply([{key: before[key] for key in ("apiVersion", "kind", "data")} | {"metadata": METADATA}])
    await pods.until(a_pod(), changed=True)


VALID: dict[str, Document] = {
    "empty lines": {"labels": "\na=b\n\n", "annotations": "\n"},
    "names with a prefix": {"labels": "example.com/a.b_c=d", "annotations": "example.com/a=b=c d"},
    "label of the band": {"labels": "koordinator.sh/priority-class=koord-batch"},
    "label without characters": {"labels": "a="},
    "grace period": {"terminationGracePeriodSeconds": "000000005"},
}


@pytest.mark.parametrize("name", VALID)
async def test_a_profile_without_faults_changes_pods(cluster: Cluster, pods: Namespaces, name: str) -> None:
    """The conditions of the policy and those that `equipoise doctor` checks are two programs for the same rules."""
    before = await cluster.request("GET", OFFLINE)
    mark = f"example.com/case={list(VALID).index(name)}"
    data = VALID[name] | {"labels": f"{mark}\n{VALID[name].get('labels', '')}"}
    async with cluster.api() as api:
        stored = await api.patch(OFFLINE, {"data": data})

    assert not list(stored_profile_faults(stored["data"]))
    created = await pods.until(a_pod(), changed=True, label=mark)
    assert created.status == 201

    await cluster.apply([{key: before[key] for key in ("apiVersion", "kind", "data")} | {"metadata": METADATA}])
    await pods.until(a_pod(), changed=True)


METADATA = {"name": "equipoise-colocation-offline", "namespace": "equipoise-system"}
BATCH = {"kubernetes.io/batch-cpu": "100"}
REFUSED: dict[str, tuple[Document, str]] = {
    "unknown class": (a_pod("plain", labels={"equipoise.dev/qos": "best"}), "must be one of"),
    "BE without a band": (a_pod("plain", labels={"equipoise.dev/qos": "BE"}), "needs a priority of the bands"),
    "BE of Koordinator": (a_pod("plain", labels={"koordinator.sh/qosClass": "BE"}), "needs a priority of the bands"),
    "BE of the band prod": (
        a_pod("plain", labels={"equipoise.dev/qos": "BE"}, priorityClassName="equipoise-prod"),
        "needs a priority of the bands",
    ),
    "BE of the band prod in Koordinator's label": (
        a_pod("plain", labels={"koordinator.sh/qosClass": "BE", "koordinator.sh/priority-class": "koord-prod"},
              priorityClassName="equipoise-batch"),
        "needs a priority of the bands",
    ),
    "LSR without a band": (
        a_pod("plain", {"cpu": "1"}, labels={"equipoise.dev/qos": "LSR"}), "needs a priority of the band prod",
    ),
    "parts of cores": (
        a_pod("plain", {"cpu": "1500m"}, labels={"equipoise.dev/qos": "LSE"}, priorityClassName="equipoise-prod"),
        "need whole cores",
    ),
    "batch amounts without BE": (a_pod("plain", BATCH, BATCH), "need the label"),
    "both kinds of requests": (
        a_pod("plain", BATCH | {"memory": "1Gi"}, BATCH, labels={"equipoise.dev/qos": "BE"},
              priorityClassName="equipoise-batch"),
        "either cpu and memory",
    ),
    "part of a milli-core": (
        a_pod("plain", {"kubernetes.io/batch-cpu": "1.5"}, labels={"equipoise.dev/qos": "BE"},
              priorityClassName="equipoise-batch"),
        "whole numbers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_contradictions_of_class_band_and_amounts_are_refused(pods: Namespaces, name: str) -> None:
    body, why = REFUSED[name]
    created = await pods.create(body)
    assert created.status == 422
    assert why in created.pod["message"]


ACCEPTED = {
    "without labels": a_pod("plain"),
    "LS": a_pod("plain", labels={"equipoise.dev/qos": "LS"}),
    "an unknown class of Koordinator": a_pod("plain", labels={"koordinator.sh/qosClass": "other"}),
    "band in Koordinator's label": a_pod(
        "plain", labels={"koordinator.sh/qosClass": "BE", "koordinator.sh/priority-class": "koord-batch"}
    ),
    "whole cores of the pod": a_pod(
        "plain", {"cpu": "1500m"}, labels={"koordinator.sh/qosClass": "LSE"}, containers=[
            {"name": name, "image": "fake", "resources": {"requests": {"cpu": "500m"}}} for name in ("main", "second")
        ],
    ),
    "SYSTEM": a_pod("plain", labels={"equipoise.dev/qos": "SYSTEM"}),
    "batch pod of Koordinator": a_pod(
        "plain", BATCH, BATCH, labels={"koordinator.sh/qosClass": "BE"}, priorityClassName="equipoise-batch"
    ),
    "whole cores": a_pod(
        "plain", {"cpu": "2"}, labels={"equipoise.dev/qos": "LSR"}, priorityClassName="equipoise-prod"
    ),
    "more requested than limited": a_pod(
        "plain", BATCH, {"kubernetes.io/batch-cpu": "200"}, labels={"equipoise.dev/qos": "BE"},
        priorityClassName="equipoise-free",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
async def test_other_combinations_are_accepted(pods: Namespaces, name: str) -> None:
    created = await pods.create(ACCEPTED[name])
    assert created.status == 201, created.pod["message"]


def older_pod() -> Document:
    """Contradicts the policy, which did not exist when it was created."""
    body = a_pod("plain", labels={"equipoise.dev/qos": "BE"})
    return body | {"metadata": body["metadata"] | {"name": "older"}}


async def test_the_class_of_a_pod_cannot_be_changed(cluster: Cluster, pods: Namespaces) -> None:
    async with cluster.api() as api:
        for labels in ({"equipoise.dev/qos": "LSE"}, {"equipoise.dev/qos": None}):
            with pytest.raises(ApiError, match="cannot be changed"):
                await api.patch("/api/v1/namespaces/plain/pods/older", {"metadata": {"labels": labels}})


async def test_a_pod_from_before_the_policy_can_be_updated(cluster: Cluster, pods: Namespaces) -> None:
    """For example to remove a finalizer."""
    async with cluster.api() as api:
        await api.patch("/api/v1/namespaces/plain/pods/older", {"metadata": {"labels": {"other": "label"}}})


async def test_the_class_of_a_profile_cannot_be_deleted(cluster: Cluster, pods: Namespaces) -> None:
    """Every new pod of the profile would be refused. One that no profile gives can be deleted."""
    other = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "other"}, "value": 1}
    await cluster.apply([other])
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    async with cluster.api() as api:
        await api.request("DELETE", f"{path}/other")
        with pytest.raises(ApiError, match="first delete the MutatingAdmissionPolicyBinding equipoise-colocation-"):
            await api.request("DELETE", f"{path}/equipoise-batch?dryRun=All")


async def test_defaults_of_a_limit_range_become_batch_amounts(cluster: Cluster, pods: Namespaces) -> None:
    """LimitRanger adds them again after the policy, which then removes them again."""
    limits = [{"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "500m"}}]
    place = {"name": "defaults", "namespace": "offline"}
    await cluster.apply([{"apiVersion": "v1", "kind": "LimitRange", "metadata": place, "spec": {"limits": limits}}])
    body = a_pod()
    del body["spec"]["containers"][0]["resources"]
    for _ in range(600):
        created = await pods.create(body)
        if created.resources():
            break
    await cluster.request("DELETE", "/api/v1/namespaces/offline/limitranges/defaults")
    assert created.resources() == {
        "requests": {"kubernetes.io/batch-cpu": "500"},
        "limits": {"kubernetes.io/batch-cpu": "2k"},
    }


async def test_defaults_of_a_limit_range_do_not_replace_what_a_pod_asks_for(cluster: Cluster, pods: Namespaces) -> None:
    """koordinator#1344: the container limit of 2 cores beside a pod of 1 core of the band did not start."""
    limits = [
        {
            "type": "Container",
            "default": {"cpu": "2", "memory": "2Gi"},
            "defaultRequest": {"cpu": "100m", "memory": "500Mi"},
        }
    ]
    place = {"name": "others", "namespace": "offline"}
    await cluster.apply([{"apiVersion": "v1", "kind": "LimitRange", "metadata": place, "spec": {"limits": limits}}])
    body, bare = a_pod(), a_pod()
    asked = {"cpu": "1", "memory": "1Gi"}
    body["spec"]["containers"][0]["resources"] = {"requests": asked, "limits": asked}
    del bare["spec"]["containers"][0]["resources"]
    for _ in range(600):  # until the API server uses the LimitRange
        if (await pods.create(bare)).resources():
            break
    created = await pods.create(body)
    await cluster.request("DELETE", "/api/v1/namespaces/offline/limitranges/others")

    amounts = {"kubernetes.io/batch-cpu": "1k", "kubernetes.io/batch-memory": str(2**30)}
    assert created.resources() == {"requests": amounts, "limits": amounts}


# Placement


@pytest.fixture(scope="module")
async def offering(cluster: Cluster) -> None:
    """The node alpha offers 3 batch cores, and beta none."""
    alpha = node("alpha")
    amounts = alpha["status"]["capacity"] | {"kubernetes.io/batch-cpu": "3000", "kubernetes.io/batch-memory": "4Gi"}
    await cluster.add_nodes([node("beta"), alpha | {"status": {"capacity": amounts, "allocatable": amounts}}])


async def test_changed_pods_run_where_their_amounts_are_offered(
    cluster: Cluster, pods: Namespaces, offering: None
) -> None:
    """kube-scheduler counts the amounts: of three pods with 1.5 cores two fit, although each node has 16 cores."""
    template = pod_template("report", cpu="1500m", memory="1Gi")
    await cluster.apply([deployment("report", template, replicas=3, namespace="offline")])

    def settled(found: Document) -> bool:
        conditions = [each for item in found["items"] for each in item["status"].get("conditions", ())]
        waiting = [each for each in conditions if each.get("reason") == "Unschedulable"]
        return len(waiting) == 1 and sum(item["status"].get("phase") == "Running" for item in found["items"]) == 2

    found = await cluster.wait("/api/v1/namespaces/offline/pods", settled, what="two pods run, and one does not fit")
    await cluster.request("DELETE", "/apis/apps/v1/namespaces/offline/deployments/report")

    assert sorted(each["spec"].get("nodeName", "") for each in found["items"]) == ["", "alpha", "alpha"]
    (waiting,) = [each for each in found["items"] if "nodeName" not in each["spec"]]
    message = next(each["message"] for each in waiting["status"]["conditions"] if each["type"] == "PodScheduled")
    assert "2 Insufficient kubernetes.io/batch-cpu" in message


# What `equipoise doctor` finds


@pytest.fixture
async def kube(cluster: Cluster) -> AsyncIterator[Kube]:
    """As the administrator."""
    connection = Kubernetes(kubeconfig=str(cluster.kubeconfig))
    async with connect_kube(connection, "doctor", SystemClock(), environment={}) as kube:
        yield kube


async def doctor(kube: Kube) -> list[Finding]:
    environment = Environment(settings=AllSettings(), clock=SystemClock(), kube=kube)
    return (await diagnose(environment, {"colocation": CHECKS["colocation"]})).findings


async def errors(kube: Kube) -> dict[str, str]:
    """Messages by subject."""
    found = await doctor(kube)
    assert "unknown" not in {finding.state for finding in found}, found
    return {finding.subject: finding.message for finding in found if finding.state == "error"}


POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


async def test_doctor_finds_what_is_missing(cluster: Cluster, pods: Namespaces, offering: None, kube: Kube) -> None:
    """A complete installation is ok. Then the policy of each account and the PriorityClass of a profile are deleted."""
    assert [] == [finding.subject for finding in await doctor(kube) if "fence" in finding.subject], "no accounts yet"
    kinds = ("Namespace", "ServiceAccount", "ValidatingAdmissionPolicy")
    others = [each for each in colocation_documents() if each["metadata"]["name"] != "equipoise-system"]
    accounts = [each for each in others if each["kind"] in kinds]
    await cluster.apply(accounts)

    complete = {finding.subject: finding for finding in await doctor(kube)}
    agents = complete.pop("agents")
    assert ("warning", True) == (agents.state, "none is ready on 1 of 1 node" in agents.message), "there is no kubelet"
    assert {"ok"} == {finding.state for finding in complete.values()}, complete
    assert "1 of 2 nodes offer amounts" == complete["co-location"].message
    assert complete.keys() >= {
        "policy equipoise-reclaimer-fence", "policy equipoise-agent-fence", "policy equipoise-colocation",
        "profile offline", "profile shared", "profile some", "profile exclusive",
    }  # fmt: skip

    for account in ("reclaimer", "agent"):
        await cluster.request("DELETE", f"{POLICIES}/equipoise-{account}-fence")
    found = await errors(kube)
    assert found.keys() == {"policy equipoise-reclaimer-fence", "policy equipoise-agent-fence"}
    assert "may write every field of nodes/status" in found["policy equipoise-reclaimer-fence"]
    await cluster.apply(accounts)
    assert {} == await errors(kube)

    guard = f"{POLICIES}/equipoise-colocation-classes"  # forbids to delete the class of a profile
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await cluster.request("DELETE", guard)
    await until_deleted(cluster, f"{classes}/equipoise-mid")
    found = await errors(kube)
    assert {"profile shared": "there is no PriorityClass equipoise-mid: its pods are refused"} == found
    await cluster.apply(read_kustomization(ROOT / "k8s" / "colocation" / "profiles"))
    assert {} == await errors(kube)


async def until_deleted(cluster: Cluster, path: str) -> None:
    """The API server applies the deletion of a policy with a delay."""
    async with asyncio.timeout(60):
        while True:
            try:
                await cluster.request("DELETE", path)
                return
            except ApiError as error:
                if error.status != 422:
                    raise
            await asyncio.sleep(0.1)


async def test_pods_stay_as_they_are_without_the_policy(cluster: Cluster, pods: Namespaces) -> None:
    """With the same warning. The last test: it deletes the policy."""
    policy = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/equipoise-colocation"
    await cluster.request("DELETE", policy)
    created = await pods.until(a_pod(), changed=False)
    assert created.status == 201
    assert "policy equipoise-colocation is missing" in created.warnings[0]
