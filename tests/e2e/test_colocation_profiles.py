"""Colocation profiles and the validation of QoS classes, on a real API server."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import yaml
from cluster_fixtures import StartCluster
from deployment.base import ROOT
from e2e.hinted_pods import GROUPS, Document

from equipoise.cli.colocation.profile import profile_manifests, read_profile
from equipoise.contracts.colocation.classes import PRIORITY_CLASS_BANDS, QOS_CLASSES, allowed
from equipoise.contracts.colocation.profile import PROFILE, Profile
from equipoise.contracts.colocation.profile_policy import GUARD_NAME, NAME
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP
from equipoise.contracts.load.pod_priority import QOS, QOS_LABEL
from equipoise.testbed.api import Api, ApiError
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import namespace

PROFILES = ROOT / "k8s" / "colocation" / "profiles"
SYSTEM = "equipoise-system"
CONFIG_MAPS = f"/api/v1/namespaces/{SYSTEM}/configmaps"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"

TEXTS: Mapping[str, str] = {
    "offline": """
name: offline
qosClass: BE
band: batch
labels: {koordinator.sh/qosClass: BE, team: data}
annotations: {example.com/why: "idle = cheap"}
terminationGracePeriodSeconds: 5
namespaces: [offline]
""",
    "middle": "{name: middle, qosClass: LS, band: mid, namespaces: [middle]}",
    "kept": "{name: kept, qosClass: BE, band: free, namespaces: [kept]}",
    "cores": "{name: cores, qosClass: LSR, band: prod, namespaces: [cores]}",
    "third": "{name: third, qosClass: BE, band: batch, percent: 30, namespaces: [third]}",
    "chosen": """
name: chosen
qosClass: BE
band: batch
namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [chosen, kube-system]}]}
objectSelector: {matchLabels: {work: batch}}
""",
}
"""Profiles, each of the namespace of its name."""

NAMESPACES = (*TEXTS, "plain", "broken", "limited")


def a_profile(name: str) -> Profile:
    return read_profile(TEXTS[name], name)


def a_pod(
    place: str,
    *,
    owner: str = "",
    uid: str = "0-0000",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    **spec: Any,
) -> Document:
    """With one container."""
    metadata: Document = {"name": "new", "namespace": place, "labels": labels or {}, "annotations": annotations or {}}
    if owner:
        kind, _, name = owner.partition("/")
        metadata["ownerReferences"] = [
            {"apiVersion": GROUPS[kind], "kind": kind, "name": name, "uid": uid, "controller": True}
        ]
    containers = [a_container(requests, limits)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def a_container(
    requests: Mapping[str, str] | None = None, limits: Mapping[str, str] | None = None, **fields: Any
) -> Document:
    resources = {name: dict(values) for name, values in (("requests", requests), ("limits", limits)) if values}
    return {"name": "main", "image": "fake", "resources": resources, **fields}


class Pods:
    """Dry-run creations of pods."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def create(self, pod: Document, warnings: list[str] | None = None) -> Document:
        """As the API server would store it. Raises ApiError when it refuses the pod."""
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods?dryRun=All"
        created: Document = await self._api.request("POST", path, pod, warnings=warnings)
        return created

    async def resources(self, place: str, **fields: Any) -> Document:
        """Of the first container."""
        created = await self.create(a_pod(place, **fields))
        found: Document = created["spec"]["containers"][0]["resources"]
        return found

    async def until_changed(self, place: str, *, changed: bool = True, **fields: Any) -> None:
        """Wait until a profile changes such a pod, or no longer does."""
        async with asyncio.timeout(60):
            while is_changed(await self.create(a_pod(place, **fields))) is not changed:  # noqa: ASYNC110  a request each
                await asyncio.sleep(0.02)

    async def refusal(self, pod: Document) -> str:
        """Why the API server refuses a pod; "" when it does not."""
        try:
            await self.create(pod)
        except ApiError as error:
            return str(error)
        return ""


def is_changed(pod: Document) -> bool:
    return PROFILE in pod["metadata"].get("labels", {})


@pytest.fixture(scope="module")
async def cluster(start_cluster: StartCluster) -> Cluster:
    """It also serves the version of the policy that Kubernetes 1.34 and 1.35 have."""
    cluster = start_cluster(arguments={"kube-apiserver": [f"--runtime-config={API_GROUP}/v1beta1=true"]})
    await cluster.apply([namespace(name) for name in (SYSTEM, *NAMESPACES)])
    await cluster.apply(static())
    await cluster.apply(manifests())
    return cluster


def static() -> list[Document]:
    """What k8s/colocation/profiles has."""
    names = yaml.safe_load((PROFILES / "kustomization.yaml").read_text())["resources"]
    return [document for name in names for document in yaml.safe_load_all((PROFILES / name).read_text())]


def manifests(version: str = "v1") -> list[Document]:
    return profile_manifests([a_profile(name) for name in TEXTS], SYSTEM, version)


@pytest.fixture(scope="module")
async def api(cluster: Cluster) -> AsyncIterator[Api]:
    async with cluster.api() as api:
        yield api


@pytest.fixture(scope="module")
async def pods(api: Api) -> Pods:
    """When the policies are in effect."""
    pods = Pods(api)
    for name in TEXTS:
        labels = {"work": "batch"} if name == "chosen" else {}
        await pods.until_changed(name, labels=labels, requests={"cpu": "1"}, owner="Job/a")
    async with asyncio.timeout(60):
        while not await pods.refusal(a_pod("plain", labels={QOS: "BE"})):  # noqa: ASYNC110  a request each
            await asyncio.sleep(0.02)
    return pods


# What a profile does


async def test_a_pod_becomes_a_batch_pod(pods: Pods) -> None:
    """With the class, the band, the labels and the annotations of the profile; the kubelet sees best effort."""
    pod = await pods.create(a_pod("offline", requests={"cpu": "1500m", "memory": "1Gi"}, limits={"cpu": "2"}))

    assert {
        "team": "data",
        QOS: "BE",
        QOS_LABEL: "BE",
        PROFILE: "colocation-offline",
    } == pod["metadata"]["labels"]
    assert {"example.com/why": "idle = cheap"} == pod["metadata"]["annotations"]
    spec = pod["spec"]
    assert ("equipoise-batch", 5500, "Never") == (
        spec["priorityClassName"],
        spec["priority"],
        spec["preemptionPolicy"],
    )
    assert 5 == spec["terminationGracePeriodSeconds"]
    assert {
        "requests": {"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "1073741824"},
        "limits": {"kubernetes.io/batch-cpu": "2k"},
    } == spec["containers"][0]["resources"]
    assert "BestEffort" == pod["status"]["qosClass"]


CPU = {
    "1500m": 1500, "0.1": 100, "1e-1": 100, "100u": 1, "2500000u": 2500, "1.0001": 1001, "0.29": 290, "4.35": 4350,
    "3k": 3_000_000, "1": 1000,
}  # fmt: skip
MEMORY = {
    "1G": 10**9, "1.5Gi": 1_610_612_736, "0.5Mi": 524_288, "129e6": 129_000_000, "1Ti": 2**40, "7Ei": 7 * 2**60,
    "1.1Gi": 1_181_116_007, "1m": 1, "128Mi": 2**27,
}  # fmt: skip
SUFFIXES = {
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ei": 2**60,
    "Ti": 2**40,
}


def number(text: str) -> int:
    """The API server writes 2000 as 2k."""
    digits = text.rstrip("kKMGTEi")
    return int(digits) * SUFFIXES.get(text[len(digits) :], 1)


@pytest.mark.parametrize("amount", CPU)
async def test_cpu_becomes_milli_cores(pods: Pods, amount: str) -> None:
    """Rounded up."""
    found = await pods.resources("offline", requests={"cpu": amount})

    assert {"kubernetes.io/batch-cpu": CPU[amount]} == {
        name: number(value) for name, value in found["requests"].items()
    }


@pytest.mark.parametrize("amount", MEMORY)
async def test_memory_becomes_bytes(pods: Pods, amount: str) -> None:
    """Rounded up."""
    found = await pods.resources("offline", requests={"memory": amount})

    assert {"kubernetes.io/batch-memory": MEMORY[amount]} == {
        name: number(value) for name, value in found["requests"].items()
    }


async def test_limits_alone_are_requests_too(pods: Pods) -> None:
    """As the API server copies limits to requests that are missing."""
    found = await pods.resources("offline", limits={"cpu": "1", "memory": "1k"})

    amounts = {"kubernetes.io/batch-cpu": "1k", "kubernetes.io/batch-memory": "1k"}
    assert {"requests": amounts, "limits": amounts} == found


async def test_every_container_is_converted(pods: Pods) -> None:
    """Init containers and sidecars too; other resources stay."""
    requests = {"cpu": "1", "ephemeral-storage": "1Gi"}
    init = [
        a_container(requests) | {"name": "first"},
        a_container(requests) | {"name": "side", "restartPolicy": "Always"},
    ]
    pod = await pods.create(a_pod("offline", requests=requests, initContainers=init))

    containers = [*pod["spec"]["containers"], *pod["spec"]["initContainers"]]
    expected = {"requests": {"kubernetes.io/batch-cpu": "1k", "ephemeral-storage": "1Gi"}}
    assert [expected] * 3 == [each["resources"] for each in containers]


async def test_a_pod_in_batch_units_keeps_them(pods: Pods) -> None:
    amounts = {"kubernetes.io/batch-cpu": "750", "kubernetes.io/batch-memory": "1k"}
    found = await pods.resources("offline", requests=amounts, limits=amounts)

    assert {"requests": amounts, "limits": amounts} == found


async def test_another_priority_class_is_replaced(pods: Pods) -> None:
    pod = await pods.create(a_pod("offline", priorityClassName="system-cluster-critical"))

    assert ("equipoise-batch", 5500) == (pod["spec"]["priorityClassName"], pod["spec"]["priority"])


@pytest.mark.parametrize("owner", ["Job/import", "ReplicaSet/web", "StatefulSet/db"])
async def test_pods_of_every_workload_are_changed(pods: Pods, owner: str) -> None:
    assert is_changed(await pods.create(a_pod("offline", owner=owner)))


async def test_a_mid_profile_converts_to_mid(pods: Pods) -> None:
    pod = await pods.create(a_pod("middle", requests={"cpu": "1", "memory": "1Mi"}))

    assert 7500 == pod["spec"]["priority"]
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    assert {"kubernetes.io/mid-cpu": 1000, "kubernetes.io/mid-memory": 2**20} == {
        name: number(value) for name, value in requests.items()
    }


async def test_a_free_profile_keeps_cpu_and_memory(pods: Pods) -> None:
    pod = await pods.create(a_pod("kept", requests={"cpu": "1500m"}))

    assert {"requests": {"cpu": "1500m"}} == pod["spec"]["containers"][0]["resources"]
    assert 3500 == pod["spec"]["priority"]


async def test_a_share_of_the_workloads_is_changed(pods: Pods) -> None:
    """By the last digits of their uid: all pods of a workload, or none. Pods without a workload stay as they are."""
    digits = range(0, 65_536, 1_009)
    created = [is_changed(await pods.create(a_pod("third", owner="Job/a", uid=f"0-{digit:04x}"))) for digit in digits]

    assert [digit % 100 < 30 for digit in digits] == created
    assert not is_changed(await pods.create(a_pod("third")))


async def test_selectors_choose_the_pods(pods: Pods) -> None:
    """The namespaces of the system and of Equipoise are never chosen."""
    labels = {"work": "batch"}

    assert is_changed(await pods.create(a_pod("chosen", labels=labels)))
    assert not is_changed(await pods.create(a_pod("chosen")))
    assert not is_changed(await pods.create(a_pod("kube-system", labels=labels)))
    assert not is_changed(await pods.create(a_pod("plain", labels=labels)))


HUGE = {"hugepages-2Mi": "2Mi", "memory": "1Mi"}
UNCHANGED: Mapping[str, tuple[str, Document]] = {
    "opted out": ("offline", {"annotations": {"equipoise.dev/colocation": "off"}}),
    "DaemonSet": ("offline", {"owner": "DaemonSet/agent"}),
    "mirror pod": (
        "offline",
        {"annotations": {"kubernetes.io/config.mirror": "0"}, "owner": "Node/a", "nodeName": "a"},
    ),
    "huge pages": ("offline", {"requests": HUGE, "limits": HUGE}),
    "pod-level resources": ("offline", {"resources": {"requests": {"cpu": "1"}}}),
    "other band in Koordinator's label": ("offline", {"labels": {"koordinator.sh/priority-class": "koord-prod"}}),
    "amounts of another band": (
        "offline",
        {"requests": {"kubernetes.io/mid-cpu": "5"}, "limits": {"kubernetes.io/mid-cpu": "5"}},
    ),
    "fractions of cores for whole cores": ("cores", {"requests": {"cpu": "1500m"}}),
    "no cores for whole cores": ("cores", {}),
    "other profile": ("offline", {"labels": {PROFILE: "other"}}),
}


@pytest.mark.parametrize("pod", UNCHANGED)
async def test_pods_that_cannot_be_converted_run_as_they_are(pods: Pods, pod: str) -> None:
    """None is refused."""
    place, fields = UNCHANGED[pod]
    created = await pods.create(a_pod(place, **fields))

    assert created["metadata"].get("labels", {}).get(PROFILE) in (None, "other")
    assert QOS not in created["metadata"].get("labels", {})
    assert 0 == created["spec"]["priority"]


async def test_defaults_of_a_limit_range_become_batch_amounts(api: Api, pods: Pods) -> None:
    """LimitRanger adds them again after the policy, which then removes them again."""
    limits = [{"type": "Container", "default": {"cpu": "2", "memory": "2Gi"}, "defaultRequest": {"cpu": "500m"}}]
    profile = read_profile(TEXTS["offline"].replace("offline", "limited"), "limited")
    defaults = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "defaults", "namespace": "limited"}}
    await api.apply([defaults | {"spec": {"limits": limits}}, *profile_manifests([profile], SYSTEM, "v1")])
    await pods.until_changed("limited")
    async with asyncio.timeout(60):
        while not (found := await pods.resources("limited")):  # noqa: ASYNC110  a request each
            await asyncio.sleep(0.02)

    assert {"requests", "limits"} == found.keys()
    assert {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "2147483648"} == found["requests"]
    assert {"kubernetes.io/batch-cpu": "2k", "kubernetes.io/batch-memory": "2147483648"} == found["limits"]


# Invalid profiles: pods run as they are, and their creators get a warning

BROKEN: Mapping[str, Mapping[str, str]] = {
    "percent": {"percent": "abc"},
    "negative percent": {"percent": "-1"},
    "large percent": {"percent": "101"},
    "unknown band": {"band": "huge"},
    "unknown class": {"qosClass": "XX"},
    "class and band": {"qosClass": "LSR"},
    "priority class": {"priorityClassName": "other"},
    "no priority class": {"priorityClassName": ""},
    "unknown resources": {"resources": "gpu"},
    "grace period": {"terminationGracePeriodSeconds": "-5"},
    "label name": {"labels": "a b=c"},
    "label value": {"labels": "a=b c"},
    "label without a value": {"labels": "abc"},
    "own label": {"labels": "equipoise.dev/qos=LS"},
    "label of another class": {"labels": "koordinator.sh/qosClass=LS"},
    "label of another band": {"labels": "koordinator.sh/priority-class=koord-prod"},
    "annotation name": {"annotations": "a b=c"},
    "long annotations": {"annotations": "a=" + "b" * 70_000},
    "no values": {},
}


@pytest.fixture(scope="module")
async def broken(api: Api, pods: Pods) -> Document:
    """The ConfigMap of a profile in effect."""
    profile = read_profile(TEXTS["offline"].replace("offline", "broken"), "broken")
    documents = profile_manifests([profile], SYSTEM, "v1")
    await api.apply(documents)
    await pods.until_changed("broken")
    return next(document for document in documents if document["kind"] == "ConfigMap")


async def replace_data(api: Api, config_map: Document, data: Mapping[str, str]) -> None:
    path = f"{CONFIG_MAPS}/{config_map['metadata']['name']}"
    await api.request("PUT", path, config_map | {"data": dict(data)})


@pytest.mark.parametrize("fault", BROKEN)
async def test_pods_of_an_invalid_profile_run_as_they_are(api: Api, pods: Pods, broken: Document, fault: str) -> None:
    """A warning names the profile and its ConfigMap."""
    await replace_data(api, broken, broken["data"])
    await pods.until_changed("broken")
    await replace_data(api, broken, broken["data"] | BROKEN[fault] if BROKEN[fault] else {})
    await pods.until_changed("broken", changed=False)
    warnings: list[str] = []
    created = await pods.create(a_pod("broken", requests={"cpu": "1"}), warnings)

    assert {"requests": {"cpu": "1"}} == created["spec"]["containers"][0]["resources"]
    assert 0 == created["spec"]["priority"]
    assert 1 == len(warnings)
    assert "profile equipoise-colocation-broken did not change this pod" in warnings[0]
    assert f"ConfigMap {SYSTEM}/colocation-broken is missing or invalid" in warnings[0]


async def test_pods_of_a_profile_without_its_config_map_run_as_they_are(api: Api, pods: Pods, broken: Document) -> None:
    """With the same warning."""
    await replace_data(api, broken, broken["data"])
    await pods.until_changed("broken")
    await api.request("DELETE", f"{CONFIG_MAPS}/{broken['metadata']['name']}")
    await pods.until_changed("broken", changed=False)
    warnings: list[str] = []
    await pods.create(a_pod("broken"), warnings)
    await api.apply([broken])
    await pods.until_changed("broken")

    assert "is missing or invalid" in "".join(warnings)


@pytest.mark.parametrize("pod", ["opted out", "DaemonSet"])
async def test_pods_that_are_not_meant_get_no_warning(pods: Pods, pod: str) -> None:
    place, fields = UNCHANGED[pod]
    warnings: list[str] = []
    await pods.create(a_pod(place, **fields), warnings)

    assert [] == warnings


async def test_workloads_outside_the_share_get_no_warning(pods: Pods) -> None:
    warnings: list[str] = []
    for uid in ("0-0063", "0-0000"):
        await pods.create(a_pod("third", owner="Job/a", uid=uid), warnings)

    assert [] == warnings


@pytest.mark.parametrize("name", ["equipoise-batch", "equipoise-free"])
async def test_the_class_of_a_profile_cannot_be_deleted(api: Api, pods: Pods, name: str) -> None:
    """Every new pod of the profile would be refused. The refusal names the binding to delete first."""
    path = f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}?dryRun=All"
    refusal = ""
    async with asyncio.timeout(60):
        while not refusal:
            try:
                await api.request("DELETE", path)
            except ApiError as error:
                refusal = str(error)

    assert f"delete the MutatingAdmissionPolicyBinding {NAME}-" in refusal


async def test_a_class_that_no_profile_gives_can_be_deleted(api: Api, pods: Pods) -> None:
    document = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "x"}, "value": 1}
    await api.apply([document])
    await api.request("DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses/x")


# Validation of QoS classes

PRIORITIES = {"none": None, **{band: f"equipoise-{band}" for band in PRIORITY_CLASS_BANDS}}


def a_classed_pod(label: str, qos: str, band: str) -> Document:
    spec = {} if PRIORITIES[band] is None else {"priorityClassName": PRIORITIES[band]}
    return a_pod("plain", labels={label: qos}, requests={"cpu": "1"}, **spec)


@pytest.mark.parametrize("label", [QOS, QOS_LABEL])
@pytest.mark.parametrize("qos", QOS_CLASSES)
async def test_class_and_band_go_together_as_in_koordinator(pods: Pods, label: str, qos: Any) -> None:
    """With our label and with Koordinator's: BE needs mid, batch or free, and LSR needs prod."""
    refused = {band for band in PRIORITIES if await pods.refusal(a_classed_pod(label, qos, band))}
    expected = {band for band in PRIORITY_CLASS_BANDS if not allowed(qos, band)}

    assert expected | ({"none"} if qos in ("BE", "LSR") else set()) == refused


async def test_the_band_is_read_from_koordinators_label_first(pods: Pods) -> None:
    labels = {QOS_LABEL: "BE", "koordinator.sh/priority-class": "koord-batch"}

    assert "" == await pods.refusal(a_pod("plain", labels=labels))
    assert "band prod" in await pods.refusal(
        a_pod("plain", labels=labels | {"koordinator.sh/priority-class": "koord-prod"})
    )


REFUSED: Mapping[str, tuple[Document, str]] = {
    "unknown class": ({"labels": {QOS: "XX"}}, "label equipoise.dev/qos: XX is no QoS class: use LSE, LSR, LS, BE"),
    "class without a band": ({"labels": {QOS: "BE"}}, "QoS class BE does not go with a priority of the band none"),
    "batch without a class": (
        {"requests": {"kubernetes.io/batch-cpu": "1"}, "limits": {"kubernetes.io/batch-cpu": "1"}},
        "need the label equipoise.dev/qos: BE",
    ),
    "fractions": (
        {"requests": {"kubernetes.io/mid-cpu": "1500m"}, "limits": {"kubernetes.io/mid-cpu": "1500m"}},
        "whole numbers",
    ),
    "fractions of cores": (
        {"labels": {QOS: "LSE"}, "requests": {"cpu": "1500m"}},
        "QoS class LSE needs requests of whole",
    ),
    "no cores": ({"labels": {QOS_LABEL: "LSE"}}, "QoS class LSE needs requests of whole"),
}


@pytest.mark.parametrize("pod", REFUSED)
async def test_an_invalid_pod_is_refused_with_the_reason(pods: Pods, pod: str) -> None:
    fields, reason = REFUSED[pod]

    assert reason in await pods.refusal(a_pod("plain", **fields))


ACCEPTED: Mapping[str, Document] = {
    "no labels": {},
    "unknown class in Koordinator's label": {"labels": {QOS_LABEL: "XX"}},
    "BE with cpu": {"labels": {QOS_LABEL: "BE"}, "requests": {"cpu": "1"}, "priorityClassName": "equipoise-batch"},
    "batch": {
        "labels": {QOS_LABEL: "BE"},
        "requests": {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"},
        "limits": {"kubernetes.io/batch-cpu": "1k", "kubernetes.io/batch-memory": "1Gi"},
        "priorityClassName": "equipoise-batch",
    },
}


@pytest.mark.parametrize("pod", ACCEPTED)
async def test_pods_of_koordinator_are_accepted(pods: Pods, pod: str) -> None:
    assert "" == await pods.refusal(a_pod("plain", **ACCEPTED[pod]))


async def test_the_class_of_a_pod_cannot_be_changed(api: Api, pods: Pods) -> None:
    """Other updates of a pod are never refused, also when it was created before the policy."""
    pod = a_pod("plain", labels={QOS_LABEL: "LS"})
    await api.request("POST", "/api/v1/namespaces/plain/pods", pod)
    path = "/api/v1/namespaces/plain/pods/new"
    for labels in ({QOS_LABEL: "BE"}, {QOS_LABEL: None}, {QOS: "LS"}, {"koordinator.sh/priority": "1"}):
        with pytest.raises(ApiError, match="cannot be changed"):
            await api.patch(path, {"metadata": {"labels": labels}})

    await api.patch(path, {"metadata": {"labels": {"team": "a"}}})


# Versions and absent policies (these change the cluster for all profiles, and are last)


async def test_pods_run_as_they_are_without_the_policy(api: Api, pods: Pods) -> None:
    """They get the warning."""
    await api.request("DELETE", f"{ADMISSION}/mutatingadmissionpolicies/{NAME}")
    await pods.until_changed("offline", changed=False)
    warnings: list[str] = []
    await pods.create(a_pod("offline"), warnings)
    await api.apply(static())
    await pods.until_changed("offline")

    assert f"the policy {NAME} is missing" in "".join(warnings)


async def test_the_manifests_for_kubernetes_1_34_are_the_same_policies(cluster: Cluster, api: Api, pods: Pods) -> None:
    path = f"{ADMISSION}/mutatingadmissionpolicies/{NAME}"
    before = await api.request("GET", path)
    await api.request("DELETE", path)
    await pods.until_changed("offline", changed=False)
    await cluster.apply(yaml.safe_load_all((PROFILES / "policy-v1beta1.yaml").read_text()))
    await cluster.apply(manifests("v1beta1"))
    await pods.until_changed("offline")

    assert before["spec"] == (await api.request("GET", path))["spec"]
    assert (
        "v1beta1"
        in (await api.request("GET", f"{ADMISSION}/validatingadmissionpolicies/{GUARD_NAME}"))["spec"]["paramKind"][
            "apiVersion"
        ]
    )
