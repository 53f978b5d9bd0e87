"""The guard of the webhook of hints, with the annotator's own account, on a real API server."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster_fixtures import StartCluster
from deployment.base import NAMESPACE, ROOT, base_documents
from deployment.kustomize import read_documents
from e2e.hinted_pods import HINTED_KEYS, Document, pod_of
from e2e.running_webhook import WebhookFiles, running_webhook, service
from e2e.test_placement_hints import HINT, WEB, Pods, hints_object
from prometheus_client import CollectorRegistry

from equipoise.annotator.decisions.webhook_guard import HEALTHY_SECONDS
from equipoise.annotator.settings import AnnotatorSettings, HintsWebhookSettings, HintWriteSettings
from equipoise.annotator.shell.webhook_guard import FENCE, WebhookGuard
from equipoise.contracts.hints.policy import HINTED, NAME
from equipoise.contracts.hints.probe_pod import probe_pod
from equipoise.contracts.hints.webhook import (
    NAMESPACE_NAME,
    PODS_WEBHOOK,
    PROBE_KEY,
    SERVICE,
    STATE,
    ca_of,
    webhooks,
)
from equipoise.runtime.configuration import Configuration, Kubernetes, Shared
from equipoise.runtime.kubernetes.client import PODS, WEBHOOK_CONFIGURATIONS, Kube
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.http.responses import as_body
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.testbed.api import Api, ApiError
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import namespace, node

HINTS = ROOT / "k8s" / "hints"
CONFIGURATION = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{NAME}"
KINDS = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
FENCES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


@pytest.fixture(scope="module")
async def cluster(start_cluster: StartCluster) -> Cluster:
    """With everything of the webhook but its program."""
    cluster = start_cluster()
    await cluster.add_nodes([node(name) for name in ("alpha", "beta", "gamma", "delta")])
    await cluster.apply([namespace("shop")])
    await cluster.apply(yaml.safe_load_all((HINTS / "definition.yaml").read_text()))
    path = "/apis/equipoise.dev/v1alpha1"
    await cluster.wait(path, lambda found: bool(found["resources"]), what="the kind of the hints is served")
    await cluster.apply(
        each
        for each in (*base_documents(), *read_documents(HINTS / "webhook.yaml"))
        if each["kind"] in FENCES
        or each["kind"] == WEBHOOK_CONFIGURATIONS.kind
        or (
            each["kind"] in KINDS and ("annotator" in each["metadata"]["name"] or each["metadata"]["name"] == NAMESPACE)
        )
        or (each["metadata"]["name"] == SERVICE and each["kind"] in KINDS)
    )
    await cluster.apply([service(NAMESPACE), hints_object("shop", dict.fromkeys(HINTED_KEYS, HINT))])
    return cluster


@pytest.fixture(scope="module")
async def api(cluster: Cluster) -> AsyncIterator[Api]:
    async with cluster.api() as api:
        yield api


@asynccontextmanager
async def as_account(cluster: Cluster, name: str) -> AsyncIterator[Kube]:
    account = await cluster.service_account_token(NAMESPACE, name)
    settings = Kubernetes(service_account=str(account.parent))
    async with connect_kube(settings, "annotator", SystemClock(), environment=cluster.in_cluster_environment) as kube:
        yield kube


@pytest.fixture(scope="module")
async def kube(cluster: Cluster) -> AsyncIterator[Kube]:
    async with as_account(cluster, "equipoise-annotator") as kube:
        yield kube


@pytest.fixture(scope="module")
async def token(cluster: Cluster, api: Api) -> str:
    """Of the annotator, when its policies are in effect."""
    token = (await cluster.service_account_token(NAMESPACE, "equipoise-annotator")).read_text()
    probe = pod("equipoise-fence-check")
    async with asyncio.timeout(60):
        while FENCE not in await refusal(api, token, probe):  # noqa: ASYNC110  each time is a request
            await asyncio.sleep(0.05)
    return token


@pytest.fixture
def files(tmp_path: Path) -> WebhookFiles:
    return WebhookFiles(tmp_path / "secret", NAMESPACE)


@asynccontextmanager
async def running_guard(kube: Kube, settings: HintsWebhookSettings) -> AsyncIterator[Health]:
    metrics = CollectorRegistry()
    health = Health(configuration_hash="", metrics=metrics)
    own = AnnotatorSettings(hints=HintWriteSettings(admission="webhook", webhook=settings))
    runtime = Runtime(
        configuration=Configuration(shared=Shared(kubernetes=Kubernetes(namespace=NAMESPACE)), own=own, hash=""),
        clock=SystemClock(), health=health, metrics=metrics, identity="one", api_server=kube,
    )  # fmt: skip
    guard = WebhookGuard(runtime, is_ours=lambda _: True, hinted=lambda: ["shop"])
    task = asyncio.create_task(guard.run())
    try:
        yield health
    finally:
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def black_hole(port: int) -> AsyncIterator[None]:
    """A port that accepts connections, and never responds."""

    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)

    connections: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(silent, "127.0.0.1", port)
    try:
        yield
    finally:
        server.close()
        for writer in connections:
            writer.transport.abort()


async def put_configuration(api: Api, files: WebhookFiles, port: int) -> None:
    """The webhook is called for the pods of the namespace shop."""
    found = await api.request("GET", CONFIGURATION)
    found["webhooks"] = webhooks(ca=files.ca, namespace=NAMESPACE, port=port, hinted=["shop"])
    await api.request("PUT", CONFIGURATION, found)


def is_called(found: Document) -> bool:
    return PODS_WEBHOOK in [each["name"] for each in found.get("webhooks", ())]


class NewPods:
    """One pod after the other; how long each took, and whether it got a hint. A refused one is an error."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.found: list[tuple[float, float, bool]] = []
        """When it was sent, how long it took, and whether it got a hint."""

    async def create(self) -> None:
        while True:
            begun = time.monotonic()
            pod = await self._api.request("POST", "/api/v1/namespaces/shop/pods?dryRun=All", pod_of("shop", **WEB))
            hinted = HINTED in pod["metadata"].get("annotations", {})
            self.found.append((begun, time.monotonic() - begun, hinted))
            await asyncio.sleep(0.05)

    async def until_free(self) -> None:
        """Wait for a pod that does not wait for a webhook."""
        async with asyncio.timeout(60):
            while self.found[-1][1] >= 0.5:  # noqa: ASYNC110  each time is a pod
                await asyncio.sleep(0.05)


@asynccontextmanager
async def new_pods(api: Api) -> AsyncIterator[NewPods]:
    pods = NewPods(api)
    task = asyncio.create_task(pods.create())
    try:
        yield pods
    finally:
        if task.done():
            task.result()
        task.cancel()
        await asyncio.wait([task])


async def test_a_black_holed_webhook_is_removed(
    cluster: Cluster, api: Api, kube: Kube, token: str, files: WebhookFiles
) -> None:
    """Takes seconds: two probes. No pod is refused; until the removal each waits a second, and none afterwards."""
    port = cluster.free_port()
    await put_configuration(api, files, port)
    async with black_hole(port), running_guard(kube, files.settings(port)), new_pods(api) as pods:
        called = [time.monotonic()]

        def is_removed(found: Document) -> bool:
            if is_called(found):
                called.append(time.monotonic())
            return not is_called(found)

        found = await cluster.wait(CONFIGURATION, is_removed, what="it is removed")
        removed = time.monotonic()
        await pods.until_free()
    # The last request that found the webhook was sent after the one before it had been answered.
    before = [seconds for at, seconds, _ in pods.found if at + seconds < called[-2]]
    print(f"removed after {removed - called[0]:.1f} s; {len(before)} pods waited {max(before):.2f} s at most before")

    assert "not called since" in found["metadata"]["annotations"][STATE]
    assert len(before) >= 3
    assert min(before) >= 0.9


async def test_a_removed_webhook_is_called_again_after_a_healthy_minute(
    cluster: Cluster, api: Api, kube: Kube, token: str, files: WebhookFiles
) -> None:
    """Takes seconds: more than a minute. With the account of the webhook, and its certificate exchanged meanwhile."""
    port = cluster.free_port()
    async with (
        as_account(cluster, SERVICE) as own,
        running_webhook(own, files.settings(port)),
        running_guard(kube, files.settings(port)) as health,
    ):
        begun = time.monotonic()
        files.issue()
        found = await cluster.wait(CONFIGURATION, is_called, timeout=180, what="it is called")
        took = time.monotonic() - begun
        await Pods(api).until(True, "shop", **WEB)
        stored = await kube.get(WEBHOOK_CONFIGURATIONS, NAME)
    print(f"called after {took:.0f} s")

    assert took >= HEALTHY_SECONDS
    assert files.ca == ca_of(stored)
    assert "called since" in found["metadata"]["annotations"][STATE]
    assert [] == health.problems


@pytest.mark.parametrize("by", ["the Secret", "another program"])
async def test_a_webhook_whose_ca_was_exchanged_is_named_until_it_is_right_again(
    cluster: Cluster, api: Api, kube: Kube, token: str, files: WebhookFiles, tmp_path: Path, by: str
) -> None:
    """Takes seconds: some probes. No pod is refused or waits, and pods get hints again without a healthy minute."""
    port, other = cluster.free_port(), WebhookFiles(tmp_path / "other", NAMESPACE)
    ca = files.ca
    await put_configuration(api, files, port)
    async with (
        as_account(cluster, SERVICE) as own,
        running_webhook(own, files.settings(port)),
        running_guard(kube, files.settings(port)) as health,
    ):
        await Pods(api).until(True, "shop", **WEB)
        begun = time.monotonic()
        if by == "the Secret":
            (files.folder / "ca.crt").write_bytes(other.ca)
        else:
            await put_configuration(api, other, port)
        async with new_pods(api) as pods:
            named = await problem_of(health, exists=by == "the Secret")
            print(f"{by}: named or corrected after {time.monotonic() - begun:.1f} s")
            (files.folder / "ca.crt").write_bytes(ca)
            await problem_of(health, exists=False)
            found = await cluster.wait(CONFIGURATION, lambda found: ca_in(found) == ca, what="the CA is right")
            await Pods(api).until(True, "shop", **WEB)
    print(f"slowest pod {max(seconds for _, seconds, _ in pods.found):.2f} s; {len(pods.found)} pods")

    assert ("does not trust its certificate" in named) == (by == "the Secret")
    assert is_called(found)


def ca_in(found: Document) -> bytes:
    return base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"])


async def problem_of(health: Health, *, exists: bool) -> str:
    """Waits until a problem exists, or none does. The problem, or an empty text."""
    async with asyncio.timeout(60):
        while bool(health.problems) != exists:  # noqa: ASYNC110  each time is a look
            await asyncio.sleep(0.05)
    return "; ".join(health.problems)


# What the fence permits

Change = Callable[[Document], object]


def in_namespaces(each: Document, operator: str, names: list[str], key: str = NAMESPACE_NAME) -> None:
    each["namespaceSelector"] = {"matchExpressions": [{"key": key, "operator": operator, "values": names}]}


FORBIDDEN: Mapping[str, tuple[Change, str]] = {
    "another address": (
        lambda each: each.update(clientConfig={"url": "https://example.com/"}),
        "call the webhook of Equipoise only",
    ),
    "another Service": (lambda each: each["clientConfig"]["service"].update(name="thief"), "webhook of Equipoise only"),
    "another namespace": (
        lambda each: each["clientConfig"]["service"].update(namespace="shop"), "webhook of Equipoise only"
    ),
    "other objects": (lambda each: each["rules"][0].update(resources=["secrets"]), "for new pods only"),
    "more objects": (lambda each: each["rules"][0]["resources"].append("services"), "for new pods only"),
    "subresources": (lambda each: each["rules"][0].update(resources=["pods/exec"]), "for new pods only"),
    "another group": (lambda each: each["rules"][0].update(apiGroups=["*"]), "for new pods only"),
    "updates": (lambda each: each["rules"][0]["operations"].append("UPDATE"), "for new pods only"),
    "one more rule": (
        lambda each: each["rules"].append(each["rules"][0] | {"resources": ["secrets"]}), "for new pods only"
    ),
    "pods are refused": (lambda each: each.update(failurePolicy="Fail"), "may refuse no pod"),
    "pods wait twice": (lambda each: each.update(reinvocationPolicy="IfNeeded"), "may refuse no pod"),
    "another name": (lambda each: each.update(name="other.equipoise.dev"), "has two webhooks"),
    "every namespace": (lambda each: each.update(namespaceSelector={}), "for namespaces by name"),
    "all namespaces but some": (lambda each: in_namespaces(each, "NotIn", ["shop"]), "for namespaces by name"),
    "namespaces by another label": (
        lambda each: in_namespaces(each, "In", ["shop"], key="team"), "for namespaces by name"
    ),
    "a namespace of the system": (
        lambda each: in_namespaces(each, "In", ["shop", "kube-system"]), "none of the system"
    ),
    "the namespace of Equipoise, and others": (
        lambda each: in_namespaces(each, "In", [NAMESPACE, "shop"]), "or of Equipoise"
    ),
    "pods wait longer": (lambda each: each.update(timeoutSeconds=30), "may refuse no pod"),
}  # fmt: skip


def pod(name: str, place: str = NAMESPACE) -> Document:
    """As the guard creates it: Pod Security of the namespace allows it."""
    return as_body(PODS, probe_pod(place, PROBE_KEY, name=name))


async def refusal(api: Api, token: str, document: Document, *, dry_run: bool = True) -> str:
    """Why the annotator may not create or change it; "" when it may."""
    metadata = document["metadata"]
    place = f"/api/v1/namespaces/{metadata['namespace']}/pods" if document["kind"] == "Pod" else CONFIGURATION
    method, query = ("POST" if document["kind"] == "Pod" else "PUT"), "?dryRun=All" if dry_run else ""
    try:
        await api.request(method, place + query, document, token=token)
    except ApiError as error:
        return str(error)
    return ""


@pytest.fixture
async def own(api: Api, files: WebhookFiles) -> Document:
    """The configuration as the annotators write it."""
    await put_configuration(api, files, 443)
    found: Document = await api.request("GET", CONFIGURATION)
    return found


@pytest.mark.parametrize("change", FORBIDDEN)
async def test_the_fence_refuses_other_webhooks(api: Api, token: str, own: Document, change: str) -> None:
    """A stolen token leads the API server to no other program, and lets no pod wait."""
    assert "" == await refusal(api, token, own)
    apply, why = FORBIDDEN[change]
    for place in range(len(own["webhooks"])):
        changed = yaml.safe_load(yaml.safe_dump(own))
        apply(changed["webhooks"][place])
        reason = await refusal(api, token, changed)

        assert FENCE in reason
        assert why in reason


async def test_the_fence_refuses_more_than_two_webhooks(api: Api, token: str, own: Document) -> None:
    """A pod that many webhooks delay is refused at the deadline of its request. Fewer are permitted."""
    [probe, pods] = own["webhooks"]
    many = [pods | {"name": f"hints{number}.equipoise.dev"} for number in range(100)]

    assert "has two webhooks" in await refusal(api, token, own | {"webhooks": [probe, pods, *many]})
    assert "has two webhooks" in await refusal(api, token, own | {"webhooks": [probe, pods, many[0]]})
    assert "" == await refusal(api, token, own | {"webhooks": [probe]})


async def test_the_webhook_of_probes_delays_no_other_pods_of_equipoise(api: Api, token: str, own: Document) -> None:
    own["webhooks"][0]["objectSelector"] = {}

    assert "label of a probe" in await refusal(api, token, own)


OWNER = {"apiVersion": "v1", "kind": "Namespace", "name": "shop", "uid": "1"}


@pytest.mark.parametrize(
    "metadata",
    [{"labels": {"a": "b"}}, {"finalizers": ["example.com/never"]}, {"ownerReferences": [OWNER]}],
)  # fmt: skip
async def test_the_fence_refuses_other_metadata(api: Api, token: str, own: Document, metadata: Document) -> None:
    own["metadata"] |= metadata

    assert "may not change labels, owners or finalizers" in await refusal(api, token, own)


async def test_the_annotator_creates_no_pod(api: Api, token: str) -> None:
    """Only in a dry run, and only in its own namespace."""
    assert "" == await refusal(api, token, pod("any"))

    assert "in a dry run only" in await refusal(api, token, pod("any"), dry_run=False)
    assert "403" in await refusal(api, token, pod("any", "shop"))


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", CONFIGURATION, None),
        ("POST", CONFIGURATION.rpartition("/")[0], {"metadata": {"name": "other"}}),
        ("GET", CONFIGURATION.rpartition("/")[0], None),
        ("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/any", None),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/pods", None),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets", None),
    ],
)
async def test_the_roles_permit_nothing_else(api: Api, token: str, method: str, path: str, body: Any) -> None:
    with pytest.raises(ApiError) as refused:
        await api.request(method, path, body, token=token)
    assert 403 == refused.value.status
