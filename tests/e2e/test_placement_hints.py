"""Placement hints on a real API server, with a kube-scheduler that nobody configured."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from cli.programs import run
from cluster_fixtures import StartCluster
from deployment.base import NAMESPACE, ROOT, base_documents
from deployment.kustomize import read_documents
from e2e.hinted_pods import AFFINITIES, EARLIER, HINTED_KEYS, OWN_TERM, UNTOUCHED, Document, pod_of, preferred_terms
from prometheus_client import CollectorRegistry

from equipoise.annotator.service import Annotator
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.cli.doctor.checks import CHECKS
from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.cli.doctor.run import diagnose
from equipoise.cli.explain.pod_hint import read_pod_hint
from equipoise.cli.hints.state import read_hints_state
from equipoise.cli.service_settings import AllSettings
from equipoise.contracts.bus.subjects import placement_hint
from equipoise.contracts.configuration.settings import Placement
from equipoise.contracts.hints.policy import HINTED, NAME
from equipoise.contracts.hints.probe_pod import probe_pod
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP
from equipoise.contracts.messages.placement import PlacementHints, WeightedNodes, WorkloadHint
from equipoise.runtime.configuration import Configuration, Kubernetes, Shared
from equipoise.runtime.kubernetes.client import PODS, Kube
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.http.responses import as_body
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.testbed.api import Api, ApiError
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.objects import deployment, namespace, node, pod_template

HINTS = ROOT / "k8s" / "hints"
API = "/apis/equipoise.dev/v1alpha1"
POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"

WEB = HINTED_KEYS["Deployment.web"]

PATIENCE = 3.0
"""Seconds in which a pod must be created, on a busy machine: the policy itself takes milliseconds."""

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
UNLISTED = {"prefer": [{"weight": 50, "nodes": [4]}]}


def hints_object(
    place: str, hints: Mapping[str, Any], *, until: datetime = datetime(2036, 1, 1, tzinfo=UTC)
) -> Document:
    """With hints of this version, except for the workloads `EARLIER`."""
    texts = {key: hint_text(hint) for key, hint in hints.items() if key not in EARLIER}
    distinct = [*dict.fromkeys([*texts.values(), hint_text(UNLISTED)])]
    places = {key: distinct.index(text) for key, text in texts.items()}
    return {
        "apiVersion": "equipoise.dev/v1alpha1",
        "kind": "PlacementHints",
        "metadata": {"name": NAME, "namespace": place},
        "until": until.isoformat(),
        "nodes": "alpha beta gamma delta",
        "distinctHints": distinct,
        "workloads": places
        | {"StatefulSet.unlisted": len(distinct), "StatefulSet.db": distinct.index(hint_text(UNLISTED))},
        "hostnames": ["alpha", "beta", "gamma", "delta"],
        "hints": {key: hint for key, hint in hints.items() if key in EARLIER},
    }


def hint_text(hint: Document) -> str:
    """A hint of an earlier version as this version writes it."""
    terms = [
        *hint.get("prefer", ()),
        *([hint["avoid"] | {"weight": -hint["avoid"]["weight"]}] if "avoid" in hint else ()),
    ]
    return " ".join(f"{term['weight']}:{','.join(map(str, term['nodes']))}" for term in terms)


def manifests(policy: str = "policy.yaml") -> list[Document]:
    """The kind, the policy and its binding; without a policy the kind alone."""
    files = [HINTS / name for name in ("definition.yaml", policy) if name]
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]


VALIDITIES = (3, 9, 27)
"""Seconds."""


class Pods:
    """Dry-run creations of pods."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def create(self, place: str, **fields: Any) -> Document:
        """The pod as the API server would store it. Raises ApiError when it refuses the pod, and TimeoutError."""
        pod = pod_of(place, **fields)
        async with asyncio.timeout(PATIENCE):
            created: Document = await self._api.request("POST", f"/api/v1/namespaces/{place}/pods?dryRun=All", pod)
        return created

    async def create_every_kind(self) -> None:
        """Raises as `create`."""
        for fields in (*HINTED_KEYS.values(), *UNTOUCHED.values()):
            await self.create("shop", **fields)

    async def until(self, hinted: bool, place: str, **fields: Any) -> None:
        """Wait until a new pod gets a hint, or none. The API server refuses no pod meanwhile, and delays none."""
        async with asyncio.timeout(60):
            while await self.is_hinted(place, **fields) is not hinted:  # noqa: ASYNC110  each time is a request
                await asyncio.sleep(0.02)

    async def is_hinted(self, place: str, **fields: Any) -> bool:
        return HINTED in (await self.create(place, **fields))["metadata"].get("annotations", {})


@pytest.fixture(scope="module")
async def cluster(mutating_policies: None, start_cluster: StartCluster) -> Cluster:
    """It also serves the version of the policy that Kubernetes 1.34 and 1.35 have."""
    cluster = start_cluster(arguments={"kube-apiserver": [f"--runtime-config={API_GROUP}/v1beta1=true"]})
    await cluster.add_nodes([node(name) for name in ("alpha", "beta", "gamma", "delta")])
    await cluster.apply([namespace(name) for name in ("shop", "quiet")])
    await install(cluster)
    return cluster


async def install(cluster: Cluster, policy: str = "policy.yaml") -> None:
    """The kind, the policy, and hints in the namespace shop."""
    await cluster.apply(manifests(policy))
    await cluster.wait(API, lambda found: bool(found["resources"]), what="the kind of the hints is served")
    keys = [*HINTED_KEYS, "DaemonSet.agent", "Node.alpha"]
    broken = dict.fromkeys(("StatefulSet.broken", "StatefulSet.earlier-broken"), UNLISTED)
    await cluster.apply([hints_object("shop", dict.fromkeys(keys, HINT) | broken)])


@pytest.fixture(scope="module")
async def api(cluster: Cluster) -> AsyncIterator[Api]:
    async with cluster.api() as api:
        yield api


@pytest.fixture(scope="module")
async def pods(api: Api) -> Pods:
    """When the policy is in effect."""
    pods = Pods(api)
    await pods.until(True, "shop", **WEB)
    return pods


@pytest.fixture
async def repaired(cluster: Cluster, api: Api, pods: Pods) -> AsyncIterator[None]:
    """Afterwards everything is as before."""
    yield
    await install(cluster)
    await pods.until(True, "shop", **WEB)


async def delete_policy(api: Api) -> None:
    await api.request("DELETE", f"{POLICIES}/{NAME}")


# Which pods get hints


@pytest.mark.parametrize("key", HINTED_KEYS)
async def test_a_pod_gets_the_hint_of_its_workload(api: Api, pods: Pods, key: str) -> None:
    """As preferred terms; an annotation names the workload and the version of the hints."""
    stored = await api.request("GET", f"{API}/namespaces/shop/placementhints/{NAME}")
    pod = await pods.create("shop", **HINTED_KEYS[key])

    assert TERMS == preferred_terms(pod)
    assert f"{key}@{stored['metadata']['resourceVersion']}" == pod["metadata"]["annotations"][HINTED]


@pytest.mark.parametrize("affinity", AFFINITIES)
async def test_the_affinity_of_the_user_remains(pods: Pods, affinity: str) -> None:
    """The terms of hints come after it."""
    own = AFFINITIES[affinity] or {}
    pod = await pods.create("shop", affinity=AFFINITIES[affinity], **WEB)
    before = [OWN_TERM] if affinity in ("preferred", "both") else []

    assert [*before, *TERMS] == preferred_terms(pod)
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
    created = await pods.create("quiet", **WEB)

    assert "affinity" not in created["spec"]


async def test_hints_expire_by_themselves(api: Api, pods: Pods) -> None:
    """When `until` has passed, no new pod gets them, whatever time its client claims."""
    await api.apply([namespace("late")])
    until = now() + timedelta(seconds=4)
    await api.apply([hints_object("late", {"Deployment.web": HINT}, until=until)])
    await pods.until(True, "late", **WEB)
    await pods.until(False, "late", **WEB)
    forged = await pods.create("late", written_at="2020-01-01T00:00:00Z", **WEB)

    assert now() >= until - timedelta(seconds=1)
    assert "2020-01-01T00:00:00Z" in {entry["time"] for entry in forged["metadata"]["managedFields"]}
    assert "affinity" not in forged["spec"]


async def test_a_namespace_can_be_switched_off(api: Api, pods: Pods) -> None:
    """By its label: its pods get no hints from then on."""
    await api.apply([namespace("own"), hints_object("own", {"Deployment.web": HINT})])
    await pods.until(True, "own", **WEB)
    await api.patch("/api/v1/namespaces/own", {"metadata": {"labels": {"equipoise.dev/hints": "off"}}})

    await pods.until(False, "own", **WEB)


async def test_the_policy_for_kubernetes_1_34_adds_the_same_hints(cluster: Cluster, api: Api, pods: Pods) -> None:
    """The manifest with the beta version of the API is accepted, and is the same policy."""
    before = await api.request("GET", f"{POLICIES}/{NAME}")
    await delete_policy(api)
    await pods.until(False, "shop", **WEB)
    await cluster.apply(manifests("policy-v1beta1.yaml"))
    await pods.until(True, "shop", **WEB)

    assert TERMS == preferred_terms(await pods.create("shop", **WEB))
    assert before["spec"] == (await api.request("GET", f"{POLICIES}/{NAME}"))["spec"]


# What the API server accepts as hints

INVALID: Mapping[str, Callable[[Document], object]] = {
    "weight 0": lambda hints: term(hints).update(weight=0),
    "weight 101": lambda hints: term(hints).update(weight=101),
    "weight 5.5": lambda hints: term(hints).update(weight=5.5),
    "no nodes": lambda hints: term(hints).update(nodes=[]),
    "51 nodes": lambda hints: term(hints).update(nodes=[0] * 51),
    "a place before the first": lambda hints: term(hints).update(nodes=[-1]),
    "11 terms": lambda hints: hints["hints"][EARLIER[0]].update(prefer=[{"weight": 1, "nodes": [0]}] * 11),
    "an empty hint": lambda hints: hints["hints"].update({EARLIER[0]: {}}),
    "no label value": lambda hints: hints.update(hostnames=["-alpha"]),
    "a long label value": lambda hints: hints.update(hostnames=["a" * 64]),
    "a hint before the first": lambda hints: hints["workloads"].update({"Deployment.web": -1}),
    "a hint beyond all": lambda hints: hints["workloads"].update({"Deployment.web": 5_000}),
    **{
        f"the hint '{text:.20}'": lambda hints, text=text: hints.update(distinctHints=[text])
        for text in (
            "",
            "0:0",
            "101:0",
            "-101:0",
            "5.5:0",
            "1:",
            "1:-1",
            "1:0,",
            "1:10000",
            "1:0  1:0",
            "-1:0 1:0",
            "-1:0 -1:0",
            " ".join(["1:0"] * 11),
            "1:" + "0," * 1_500 + "0",
        )
    },
    **{
        f"the names '{names:.20}'": lambda hints, names=names: hints.update(nodes=names)
        for names in ("", "-alpha", "alpha  beta", "alpha ", "a" * 64)
    },
    "no time": lambda hints: hints.update(until="tomorrow"),
    "without a time": lambda hints: hints.pop("until"),
}


def term(hints: Document) -> Document:
    found: Document = hints["hints"][EARLIER[0]]["prefer"][0]
    return found


@pytest.mark.parametrize("change", INVALID)
async def test_hints_that_would_make_a_pod_invalid_are_refused(api: Api, cluster: Cluster, change: str) -> None:
    """When they are written: a policy cannot ignore later what it produced."""
    hints = json.loads(json.dumps(hints_object("quiet", {"Deployment.web": HINT, EARLIER[0]: HINT})))
    path = f"{API}/namespaces/quiet/placementhints?dryRun=All"
    await api.request("POST", path, hints)
    INVALID[change](hints)

    with pytest.raises(ApiError) as refusal:
        await api.request("POST", path, hints)
    assert refusal.value.status == 422


# The annotator writes hints


@pytest.fixture(scope="module")
async def token(cluster: Cluster, api: Api) -> str:
    """Of its account, when its policies are in effect."""
    documents = [*base_documents(), *read_documents(HINTS / "annotator.yaml")]
    kinds = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    fences = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    names = (NAMESPACE, "equipoise-annotator", "equipoise-annotator-hints")
    await api.apply(
        document
        for document in documents
        if document["kind"] in fences or (document["kind"] in kinds and document["metadata"]["name"] in names)
    )
    token = (await cluster.service_account_token(NAMESPACE, "equipoise-annotator")).read_text()
    async with asyncio.timeout(60):
        while "-fence" not in await refusal(api, token, hints_object("quiet", {})):  # noqa: ASYNC110  a request each time
            await asyncio.sleep(0.05)
    return token


async def refusal(api: Api, token: str, hints: Document) -> str:
    """Why the annotator may not create them; "" when it may."""
    path = f"{API}/namespaces/{hints['metadata']['namespace']}/placementhints?dryRun=All&fieldManager=thief"
    try:
        await api.request("POST", path, hints, token=token)
    except ApiError as error:
        return str(error)
    return ""


def now() -> datetime:
    return datetime.fromtimestamp(SystemClock().now(), UTC)


OWNER = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "name": NAME, "uid": "0-0"}
FORBIDDEN: Mapping[str, tuple[Document, str]] = {
    "name": ({"name": "other"}, "the hints of a namespace only"),
    "label": ({"labels": {"a": "b"}}, "no labels, annotations or finalizers"),
    "annotation": ({"annotations": {"a": "b"}}, "no labels, annotations or finalizers"),
    "finalizer": ({"finalizers": ["example.com/never"]}, "no labels, annotations or finalizers"),
    "owner": ({"ownerReferences": [OWNER | {"kind": "ClusterRole"}]}, "the owner of hints is the policy"),
    "blocking owner": ({"ownerReferences": [OWNER | {"blockOwnerDeletion": True}]}, "the owner of hints is the policy"),
}


@pytest.mark.parametrize("field", FORBIDDEN)
async def test_the_fence_refuses_other_metadata(api: Api, token: str, field: str) -> None:
    """And permits the owner that the annotator writes."""
    hints = hints_object("quiet", {"Deployment.web": HINT}, until=now() + timedelta(minutes=5))
    hints["metadata"]["ownerReferences"] = [OWNER]
    assert "" == await refusal(api, token, hints)
    metadata, why = FORBIDDEN[field]
    hints["metadata"] |= metadata

    reason = await refusal(api, token, hints)
    assert "equipoise-hints-fence" in reason
    assert why in reason


async def test_hints_do_not_outlast_a_stolen_token(api: Api, token: str) -> None:
    """Whatever time the client claims for its request, also if it stored that by a request before."""
    hints = hints_object("quiet", {"Deployment.web": HINT}, until=now() + timedelta(minutes=11))
    assert "at most ten minutes" in await refusal(api, token, hints)
    entry = {"manager": "thief", "operation": "Update", "apiVersion": hints["apiVersion"], "fieldsType": "FieldsV1"}
    forged = [entry | {"time": "2036-01-01T00:00:00Z", "fieldsV1": {"f:hints": {}}}]
    hints["metadata"]["managedFields"] = forged
    assert "at most ten minutes" in await refusal(api, token, hints)

    path = f"{API}/namespaces/quiet/placementhints/{NAME}"
    hints["until"] = (now() + timedelta(minutes=5)).isoformat()
    stored = await api.request("POST", f"{path.rpartition('/')[0]}?fieldManager=thief", hints, token=token)
    stored["metadata"]["managedFields"] = forged
    stored = await api.request("PUT", f"{path}?fieldManager=thief", stored, token=token)
    assert ["2036-01-01T00:00:00Z"] == [each["time"] for each in stored["metadata"]["managedFields"]]
    stored["until"] = (now() + timedelta(minutes=11)).isoformat()
    for query in ("?fieldManager=thief", "?fieldManager=other", ""):
        with pytest.raises(ApiError, match="at most ten minutes"):
            await api.request("PUT", path + query, stored, token=token)
    await api.request("DELETE", path)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"{API}/placementhints"),
        ("DELETE", f"{API}/namespaces/shop/placementhints/{NAME}"),
        ("DELETE", f"{POLICIES}/{NAME}"),
        ("PUT", f"{POLICIES}/{NAME}"),
        ("GET", "/api/v1/namespaces/shop/configmaps"),
        ("POST", "/api/v1/namespaces/shop/pods"),
    ],
)
async def test_the_role_permits_nothing_else(api: Api, token: str, method: str, path: str) -> None:
    with pytest.raises(ApiError) as refused:
        await api.request(method, path, {} if method in ("PUT", "POST") else None, token=token)
    assert 403 == refused.value.status


class Scorer:
    """What it publishes, and an annotator that writes it."""

    def __init__(self, bus: MemoryBus, stop: Callable[[], Awaitable[None]]) -> None:
        self._bus = bus
        self.stop_annotator = stop

    async def publish(self, place: str, hints: Mapping[str, WorkloadHint], *, ago: float = 0.0) -> None:
        computed_at = SystemClock().now() - ago
        await self._bus.publish(
            placement_hint(place), PlacementHints(namespace=place, computed_at=computed_at, hints=dict(hints))
        )


@pytest.fixture
async def scorer(cluster: Cluster, token: str, pods: Pods) -> AsyncIterator[Scorer]:
    """With the annotator's own account."""
    clock, metrics = SystemClock(), CollectorRegistry()
    account = await cluster.service_account_token(NAMESPACE, "equipoise-annotator")
    connection = Kubernetes(service_account=str(account.parent))
    own = AnnotatorSettings()
    async with (
        connect_kube(connection, "annotator", clock, environment=cluster.in_cluster_environment) as kube,
        MemoryBus(clock) as bus,
    ):
        shared = Shared(kubernetes=Kubernetes(namespace=NAMESPACE), placement=Placement(hints=True))
        runtime = Runtime(
            configuration=Configuration(shared=shared, own=own, hash=""),
            identity="one", message_bus=bus, api_server=kube, clock=clock,
            health=Health(configuration_hash="", metrics=metrics), metrics=metrics,
        )  # fmt: skip
        annotator = Annotator(runtime)
        await annotator.attach()
        task = asyncio.create_task(annotator.run())

        async def stop() -> None:
            task.cancel()
            await asyncio.wait([task])

        yield Scorer(bus, stop)
        await stop()


def prefers(*names: str) -> WorkloadHint:
    return WorkloadHint(prefer=(WeightedNodes(weight=100, hostnames=names),))


async def test_new_pods_of_a_deployment_go_where_its_hint_leads(
    cluster: Cluster, api: Api, kube: Kube, scorer: Scorer
) -> None:
    """With the unconfigured kube-scheduler; and elsewhere when the hint names other nodes. Each pod shows its hint."""
    await api.apply([namespace("led")])
    for app, nodes, ago in (("first", ("gamma",), 60), ("second", ("alpha", "beta"), 0)):
        await scorer.publish("led", {f"Deployment.{app}": prefers(*nodes)}, ago=ago)
        stored = await cluster.wait(
            f"{API}/namespaces/led/placementhints/{NAME}",
            lambda found, app=app: f"Deployment.{app}" in found.get("workloads", {}),
            what="the annotator has written the hint",
        )
        await Pods(api).until(True, "led", owner=f"ReplicaSet/{app}-1", labels={"pod-template-hash": "1"})
        await api.apply([deployment(app, pod_template(app), replicas=4, namespace="led")])
        placed = await cluster.wait(
            f"/api/v1/namespaces/led/pods?labelSelector=app={app}",
            lambda pods: sum("nodeName" in pod["spec"] for pod in pods["items"]) == 4,
            what="its pods are placed",
        )

        assert {*nodes} == {pod["spec"]["nodeName"] for pod in placed["items"]}
        hinted = {pod["metadata"]["annotations"][HINTED] for pod in placed["items"]}
        assert {f"Deployment.{app}@{stored['metadata']['resourceVersion']}"} == hinted
        hint = await read_pod_hint(kube, "led", placed["items"][0]["metadata"]["name"])
        assert hint is not None
        assert (f"Deployment.{app}", len(nodes), 0, 100) == (
            hint.workload,
            hint.preferred,
            hint.avoided,
            hint.node_weight,
        )


async def test_the_hints_of_a_stopped_equipoise_expire(api: Api, pods: Pods, scorer: Scorer) -> None:
    """Nobody has to delete them."""
    await api.apply([namespace("started"), *(namespace(f"stopped-{left}") for left in VALIDITIES)])
    await scorer.publish("started", {"Deployment.web": prefers("alpha")})
    await pods.until(True, "started", **WEB)
    await api.request("DELETE", f"{API}/namespaces/started/placementhints/{NAME}")
    for left in VALIDITIES:  # on a slow machine short ones expire before a pod gets them
        place, expires = f"stopped-{left}", time.monotonic() + left
        await scorer.publish(place, {"Deployment.web": prefers("alpha")}, ago=300 - left)
        while time.monotonic() < expires and not (hinted := await pods.is_hinted(place, **WEB)):
            pass  # each time is a request
        if hinted:
            break
    assert hinted
    await scorer.stop_annotator()

    await pods.until(False, place, **WEB)


async def test_what_somebody_else_changed_is_written_again(api: Api, scorer: Scorer, cluster: Cluster) -> None:
    """An entry of another manager does not keep the annotator from writing."""
    path = f"{API}/namespaces/edited/placementhints/{NAME}"
    await api.apply([namespace("edited")])
    await scorer.publish("edited", {"Deployment.web": prefers("alpha")}, ago=60)
    await cluster.wait(path, lambda found: found["nodes"] == "alpha")
    await api.patch(f"{path}?fieldManager=kubectl-edit", {"nodes": "delta"})
    await scorer.publish("edited", {"Deployment.web": prefers("beta")})

    await cluster.wait(path, lambda found: found["nodes"] == "beta")


async def test_with_the_policy_all_hints_are_deleted(
    cluster: Cluster, api: Api, pods: Pods, scorer: Scorer, repaired: None
) -> None:
    """It owns them, whatever their namespace."""
    await api.apply([namespace("owned")])
    await scorer.publish("owned", {"Deployment.web": prefers("alpha")})
    await pods.until(True, "owned", **WEB)
    await scorer.stop_annotator()
    await delete_policy(api)

    await cluster.wait(
        f"{API}/placementhints",
        lambda found: not [each for each in found["items"] if each["metadata"].get("ownerReferences")],
        what="the garbage collector has deleted them",
    )


# Commands


@pytest.fixture(scope="module")
async def kube(cluster: Cluster) -> AsyncIterator[Kube]:
    """As the administrator."""
    connection = Kubernetes(kubeconfig=str(cluster.kubeconfig))
    async with connect_kube(connection, "test", SystemClock(), environment={}) as kube:
        yield kube


async def doctor(kube: Kube, *, enabled: bool = True) -> list[Finding]:
    """What the check of `equipoise doctor` finds, long after the installation."""
    settings = AllSettings(shared=Shared(placement=Placement(hints=enabled)))
    clock = ManualClock(SystemClock().now() + timedelta(hours=1).total_seconds())
    environment = Environment(settings=settings, clock=clock, kube=kube)
    return (await diagnose(environment, {"hints": CHECKS["hints"]})).findings


async def test_doctor_proves_that_a_new_pod_gets_its_hint(api: Api, pods: Pods, kube: Kube) -> None:
    """By a dry run, also where Pod Security allows restricted pods only. Nothing is stored."""
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    await api.patch("/api/v1/namespaces/shop", {"metadata": {"labels": restricted}})
    findings = await doctor(kube)
    await api.patch("/api/v1/namespaces/shop", {"metadata": {"labels": dict.fromkeys(restricted)}})

    assert "on" == (await read_hints_state(kube, SystemClock())).state
    assert {"ok"} == {finding.state for finding in findings}, findings
    assert f"policy {NAME}" in {finding.subject for finding in findings}
    assert ["gets its hint (created in a dry run)"] == [
        finding.message for finding in findings if finding.subject.startswith("new pod of ")
    ]
    assert [] == (await api.request("GET", "/api/v1/namespaces/shop/pods"))["items"]


@pytest.mark.parametrize("key", HINTED_KEYS)
async def test_the_pod_of_doctor_is_that_of_the_workload(api: Api, pods: Pods, key: str) -> None:
    """Of every kind that gets hints."""
    pod = as_body(PODS, probe_pod("shop", key, name="new"))
    created = await api.request("POST", "/api/v1/namespaces/shop/pods?dryRun=All", pod)

    assert created["metadata"]["annotations"][HINTED].startswith(f"{key}@")


async def test_the_command_shows_the_hints_of_a_workload(cluster: Cluster, pods: Pods) -> None:
    """By its name alone, or by kind and name; the nodes by their names."""
    for name in ("shop/web", "shop/Deployment.web"):
        code, output = await hints_command(cluster, name, "-o", "json")
        assert 0 == code, output
        shown = json.loads(output)
        assert (False, ["Deployment.web"]) == (shown["expired"], [*shown["hints"]])
        assert [["alpha", "beta"], ["gamma"]] == [
            each["hostnames"] for each in shown["hints"]["Deployment.web"]["prefer"]
        ]
    _, text = await hints_command(cluster, "shop")
    assert "Deployment.web" in text
    _, text = await hints_command(cluster, "shop/web")
    assert "avoid       1  delta 50" in text


@pytest.mark.parametrize(
    ("name", "code", "problem"),
    [
        ("quiet", 1, "no placement hints were written in namespace quiet: `equipoise doctor` checks why"),
        ("shop/unknown", 1, "there are no placement hints for unknown in namespace shop"),
        ("a/b/c", 2, "'a/b/c' is not a workload"),
    ],
)
async def test_hints_that_are_not_there(cluster: Cluster, pods: Pods, name: str, code: int, problem: str) -> None:
    found, output = await hints_command(cluster, name)

    assert code == found
    assert problem in output


async def hints_command(cluster: Cluster, *words: str) -> tuple[int, str]:
    """Exit code and output of `equipoise hints`."""
    return await run("hints", *words, KUBECONFIG=str(cluster.kubeconfig))


# Whatever is broken, pods are created


async def delete_binding(api: Api) -> None:
    await api.request("DELETE", f"{POLICIES.removesuffix('policies')}policybindings/{NAME}")


async def break_expression(api: Api) -> None:
    expression = "[JSONPatch{op: 'add', path: '/spec/affinity', value: params.nothing}]"
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
    await api.patch(f"{POLICIES}/{NAME}", {"spec": {"mutations": [mutation]}})


async def delete_kind(api: Api) -> None:
    await api.request("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/placementhints.equipoise.dev")


async def expire(api: Api) -> None:
    await api.patch(f"{API}/namespaces/shop/placementhints/{NAME}", {"until": "2020-01-01T00:00:00Z"})


async def delete_hints(api: Api) -> None:
    await api.request("DELETE", f"{API}/namespaces/shop/placementhints/{NAME}")


BROKEN = {
    delete_policy: f"there is no MutatingAdmissionPolicy {NAME}",
    delete_binding: "has no binding",
    break_expression: "gets no hint, although it is fresh",
    delete_kind: "does not know the kind PlacementHints",
    expire: "the newest have expired",
    delete_hints: "none were written",
}
"""What `equipoise doctor` finds. Of one namespace without hints among others, nothing: it may have none."""


@pytest.mark.parametrize(("break_it", "found"), BROKEN.items(), ids=lambda value: getattr(value, "__name__", ""))
async def test_pods_are_created_whatever_is_broken(
    api: Api, pods: Pods, kube: Kube, repaired: None, break_it: Callable[[Api], Awaitable[None]], found: str
) -> None:
    """None is refused or delayed, neither before the API server has seen the change nor after it. `doctor` names it."""
    await break_it(api)
    await pods.until(False, "shop", **WEB)

    await pods.create_every_kind()
    errors = [finding.message for finding in await doctor(kube) if finding.state == "error"]
    assert found in " ".join(errors)


@pytest.mark.weekly
async def test_pods_are_created_after_a_restart_of_the_api_server(cluster: Cluster, pods: Pods) -> None:
    """The first ones without hints, until it has read them."""
    await asyncio.to_thread(cluster.restart, "kube-apiserver")
    await pods.create_every_kind()

    await pods.until(True, "shop", **WEB)
