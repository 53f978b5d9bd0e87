"""Placement hints on a real API server, with a kube-scheduler that nobody configured."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from cluster_fixtures import StartCluster
from deployment.base import ROOT
from e2e.hinted_pods import AFFINITIES, HINTED_KEYS, OWN_TERM, UNTOUCHED, Document, pod_of

from equipoise.contracts.hints.policy import HINTED, NAME
from equipoise.testbed.api import Api, ApiError
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import namespace, node

HINTS = ROOT / "k8s" / "hints"
API = "/apis/equipoise.dev/v1alpha1"
POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"

TERMS = [
    {
        "weight": weight,
        "preference": {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": operator, "values": names}]},
    }
    for weight, operator, names in ((50, "In", ["alpha", "beta"]), (25, "In", ["gamma"]), (50, "NotIn", ["delta"]))
]
"""Of `HINT`, in a pod."""

HINT = {
    "prefer": [{"weight": 50, "nodes": [0, 1]}, {"weight": 25, "nodes": [2]}],
    "avoid": {"weight": 50, "nodes": [3]},
}


def hints_object(
    place: str, hints: Mapping[str, Any], *, until: datetime = datetime(2036, 1, 1, tzinfo=UTC)
) -> Document:
    return {
        "apiVersion": "equipoise.dev/v1alpha1",
        "kind": "PlacementHints",
        "metadata": {"name": NAME, "namespace": place},
        "until": until.isoformat(),
        "hostnames": ["alpha", "beta", "gamma", "delta"],
        "hints": dict(hints),
    }


def manifests() -> list[Document]:
    """The kind, the policy and its binding."""
    files = (HINTS / "definition.yaml", HINTS / "policy.yaml")
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]


class Pods:
    """Dry-run creations of pods."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def create(self, place: str, **fields: Any) -> Document:
        """The pod as the API server would store it. Raises ApiError when it refuses the pod."""
        pod = pod_of(place, **fields)
        created: Document = await self._api.request("POST", f"/api/v1/namespaces/{place}/pods?dryRun=All", pod)
        return created

    async def until(self, hinted: bool, place: str, **fields: Any) -> None:
        """Wait until a new pod gets a hint, or none. The API server refuses no pod meanwhile."""
        async with asyncio.timeout(60):
            while await self.is_hinted(place, **fields) is not hinted:
                await asyncio.sleep(0.02)

    async def is_hinted(self, place: str, **fields: Any) -> bool:
        return HINTED in (await self.create(place, **fields))["metadata"].get("annotations", {})


@pytest.fixture(scope="module")
async def cluster(start_cluster: StartCluster) -> Cluster:
    cluster = start_cluster()
    await cluster.add_nodes([node(name) for name in ("alpha", "beta", "gamma", "delta")])
    await cluster.apply([namespace(name) for name in ("shop", "quiet")])
    await cluster.apply(manifests())
    await cluster.wait(API, lambda found: bool(found["resources"]), what="the kind of the hints is served")
    keys = [*HINTED_KEYS, "DaemonSet.agent", "Node.alpha"]
    broken = {"StatefulSet.broken": {"prefer": [{"weight": 50, "nodes": [4]}]}}
    await cluster.apply([hints_object("shop", dict.fromkeys(keys, HINT) | broken)])
    return cluster


@pytest.fixture(scope="module")
async def api(cluster: Cluster) -> AsyncIterator[Api]:
    async with cluster.api() as api:
        yield api


@pytest.fixture(scope="module")
async def pods(api: Api) -> Pods:
    """When the policy is in effect."""
    pods = Pods(api)
    await pods.until(True, "shop", **HINTED_KEYS["Deployment.web"])
    return pods


def preferred(pod: Document) -> list[Document]:
    """The preferred terms of its node affinity."""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms: list[Document] = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", [])
    return terms


# Which pods get hints


@pytest.mark.parametrize("key", HINTED_KEYS)
async def test_a_pod_gets_the_hint_of_its_workload(api: Api, pods: Pods, key: str) -> None:
    """As preferred terms; an annotation names the workload and the version of the hints."""
    stored = await api.request("GET", f"{API}/namespaces/shop/placementhints/{NAME}")
    pod = await pods.create("shop", **HINTED_KEYS[key])

    assert TERMS == preferred(pod)
    assert f"{key}@{stored['metadata']['resourceVersion']}" == pod["metadata"]["annotations"][HINTED]


@pytest.mark.parametrize("affinity", AFFINITIES)
async def test_the_affinity_of_the_user_remains(pods: Pods, affinity: str) -> None:
    """The terms of hints come after it."""
    own = AFFINITIES[affinity] or {}
    pod = await pods.create("shop", affinity=AFFINITIES[affinity], **HINTED_KEYS["Deployment.web"])
    before = [OWN_TERM] if affinity in ("preferred", "both") else []

    assert [*before, *TERMS] == preferred(pod)
    found = pod["spec"]["affinity"]
    assert own.get("podAntiAffinity") == found.get("podAntiAffinity")
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    assert own.get("nodeAffinity", {}).get(required) == found["nodeAffinity"].get(required)


@pytest.mark.parametrize("pod", UNTOUCHED)
async def test_other_pods_are_created_as_they_are(pods: Pods, pod: str) -> None:
    """Although their namespace has fresh hints."""
    sent = pod_of("shop", **UNTOUCHED[pod])
    created = await pods.create("shop", **UNTOUCHED[pod])

    assert sent["metadata"]["annotations"] == created["metadata"].get("annotations", {})
    assert "affinity" not in created["spec"]


async def test_a_namespace_without_hints_is_left_alone(pods: Pods) -> None:
    created = await pods.create("quiet", **HINTED_KEYS["Deployment.web"])

    assert "affinity" not in created["spec"]


async def test_hints_expire_by_themselves(api: Api, pods: Pods) -> None:
    """When `until` has passed, no new pod gets them, whatever time its client claims."""
    web = HINTED_KEYS["Deployment.web"]
    await api.apply([namespace("late")])
    until = datetime.now(UTC) + timedelta(seconds=4)  # noqa: TID251  that of the API server here
    await api.apply([hints_object("late", {"Deployment.web": HINT}, until=until)])
    await pods.until(True, "late", **web)
    await pods.until(False, "late", **web)
    forged = await pods.create("late", written_at="2020-01-01T00:00:00Z", **web)

    assert datetime.now(UTC) >= until - timedelta(seconds=1)  # noqa: TID251
    assert "2020-01-01T00:00:00Z" in {entry["time"] for entry in forged["metadata"]["managedFields"]}
    assert "affinity" not in forged["spec"]


async def test_a_namespace_can_be_switched_off(api: Api, pods: Pods) -> None:
    """By its label: its pods get no hints from then on."""
    web = HINTED_KEYS["Deployment.web"]
    await api.apply([namespace("own"), hints_object("own", {"Deployment.web": HINT})])
    await pods.until(True, "own", **web)
    await api.patch("/api/v1/namespaces/own", {"metadata": {"labels": {"equipoise.dev/hints": "off"}}})

    await pods.until(False, "own", **web)


# What the API server accepts as hints

INVALID: Mapping[str, Callable[[Document], object]] = {
    "weight 0": lambda hints: term(hints).update(weight=0),
    "weight 101": lambda hints: term(hints).update(weight=101),
    "weight 5.5": lambda hints: term(hints).update(weight=5.5),
    "no nodes": lambda hints: term(hints).update(nodes=[]),
    "51 nodes": lambda hints: term(hints).update(nodes=[0] * 51),
    "a place before the first": lambda hints: term(hints).update(nodes=[-1]),
    "11 terms": lambda hints: hints["hints"]["Deployment.web"].update(prefer=[{"weight": 1, "nodes": [0]}] * 11),
    "an empty hint": lambda hints: hints["hints"].update({"Deployment.web": {}}),
    "no label value": lambda hints: hints.update(hostnames=["-alpha"]),
    "a long label value": lambda hints: hints.update(hostnames=["a" * 64]),
    "no time": lambda hints: hints.update(until="tomorrow"),
    "without a time": lambda hints: hints.pop("until"),
}


def term(hints: Document) -> Document:
    found: Document = hints["hints"]["Deployment.web"]["prefer"][0]
    return found


@pytest.mark.parametrize("change", INVALID)
async def test_hints_that_would_make_a_pod_invalid_are_refused(api: Api, cluster: Cluster, change: str) -> None:
    """When they are written: a policy cannot be told later to ignore what it produced."""
    hints = yaml.safe_load(yaml.safe_dump(hints_object("quiet", {"Deployment.web": HINT})))
    path = f"{API}/namespaces/quiet/placementhints?dryRun=All"
    await api.request("POST", path, hints)
    INVALID[change](hints)

    with pytest.raises(ApiError) as refusal:
        await api.request("POST", path, hints)
    assert refusal.value.status == 422
