"""The Job that creates the Secrets, on a real API server with its own account."""

import asyncio
import base64
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from cluster_fixtures import StartCluster
from deployment.base import BASE, NAMESPACE, ROOT
from deployment.chart_differences import comparable
from deployment.helm import Helm
from deployment.kustomize import Document, read_documents, read_kustomization
from deployment.prepare import ACCOUNT, check_jobs, prepare_documents, run_prepare

from equipoise.cli.cluster_now.reading import detected_profile
from equipoise.cli.prepare.discovery import discover
from equipoise.cli.service_settings import AllSettings
from equipoise.collector.settings import CollectorSettings
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.runtime.bus.permissions import USERS
from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.testbed.api import Api, ApiError
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import node

pytestmark = pytest.mark.timeout(1800)  # only for the first build of helm

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
ALL = {
    "equipoise-nats",
    "equipoise-nats-tls",
    "equipoise-extender-tls",
    "equipoise-extender-client",
    "equipoise-hints-webhook-tls",
}


STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "example.com/none",
}


@pytest.fixture(scope="module")
async def cluster(start_cluster: StartCluster) -> Cluster:
    """With a volume for every claim."""
    cluster = start_cluster()
    await cluster.apply([STORAGE_CLASS])
    return cluster


async def secrets_of(api: Api) -> dict[str, dict[str, str]]:
    return {each["metadata"]["name"]: each["data"] for each in (await api.request("GET", SECRETS))["items"]}


WITH_WEBHOOK: Document = {"hints": {"enabled": True, "admission": "webhook"}}


def test_the_hook_is_the_folder(helm: Helm) -> None:
    """With the annotations of Helm, which deletes all of it when the Job has completed."""
    rendered = prepare_documents(helm, WITH_WEBHOOK)
    for each in rendered:
        assert "hook-succeeded" in each["metadata"].pop("annotations")["helm.sh/hook-delete-policy"]
    folder = read_kustomization(ROOT / "k8s" / "prepare")
    # With Helm, the configuration of the services may name a Prometheus; it is in a ConfigMap of its own.
    (configuration,) = (each for each in rendered if each["kind"] == "ConfigMap")
    rendered.remove(configuration)
    (pod,) = (each["spec"]["template"]["spec"] for each in rendered if each["kind"] == "Job")
    (container,) = pod["containers"]
    assert container["command"].pop() == "--volume"  # if the values ask for it
    for entries in (container["env"], container["volumeMounts"], pod["volumes"]):
        assert "configuration" in str(entries.pop()).replace("EQUIPOISE_CONFIG", "configuration")
    assert comparable(rendered) == comparable(folder)
    assert {each["kind"] for each in folder} >= {"Role", "RoleBinding", "ServiceAccount", "Job"}


@pytest.mark.parametrize(
    ("values", "kept_out"),
    [
        ({}, set()),
        ({"certManager": {"enabled": True}}, {"nats-certificate", "extender-certificates"}),
        ({"nats": {"existingSecret": "mine"}}, {"passwords"}),
        ({"nats": {"tls": {"existingSecret": "mine"}}}, {"nats-certificate"}),
        ({"nats": {"enabled": False, "url": "tls://nats.example.com:4222"}}, {"passwords", "nats-certificate"}),
        ({"extender": {"enabled": False}}, {"extender-certificates"}),
        ({"extender": {"tls": {"existingSecret": "mine"}}}, {"extender-certificates"}),
        ({"extender": {"tls": {"clientSecret": "mine"}}}, {"extender-certificates"}),
    ],
)
def test_secrets_with_a_name_of_your_own_are_not_created(helm: Helm, values: Document, kept_out: set[str]) -> None:
    """Nor those of cert-manager, and of what is not used: by default the webhook of hints is not."""
    (job,) = (each for each in prepare_documents(helm, values) if each["kind"] == "Job")
    command = job["spec"]["template"]["spec"]["containers"][0]["command"]
    assert {each.removeprefix("--without=") for each in command[2:] if each != "--volume"} == {
        "hints-webhook-certificate",
        *kept_out,
    }


def test_a_job_without_pods_is_created_before_the_rights(helm: Helm) -> None:
    """It differs in nothing that a quota or a policy may refuse, so that these rights never exist without the Job."""
    (check,) = check_jobs(helm, WITH_WEBHOOK)
    documents = prepare_documents(helm, WITH_WEBHOOK)
    (job,) = (each for each in documents if each["kind"] == "Job")
    weights = [int(each["metadata"]["annotations"].get("helm.sh/hook-weight", "0")) for each in (check, *documents)]

    assert weights[0] < min(weights[1:])
    assert (check["spec"].pop("completions"), check["metadata"]["name"]) == (0, f"{job['metadata']['name']}-check")
    assert (check["spec"], check["metadata"]["labels"]) == (job["spec"], job["metadata"]["labels"])


def test_argo_cd_deletes_the_rights_when_a_sync_has_failed(helm: Helm) -> None:
    """It deletes no hook without `hook-failed` then, also none that has succeeded. The Job remains, for its log."""
    kept = {
        each["kind"]
        for each in prepare_documents(helm)
        if "hook-failed" not in each["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
    }
    assert kept == {"Job"}


@pytest.mark.parametrize("values", [{"prepare": {"enabled": False}}, {"rbac": {"create": False}}])
def test_it_can_be_left_out(helm: Helm, values: Document) -> None:
    assert not [*check_jobs(helm, values), *prepare_documents(helm, values)]


async def test_without_storage_for_nats_it_fails_at_once(cluster: Cluster, helm: Helm) -> None:
    """With what to do, before anything is created; its exit code ends the Job. Without a volume nothing is missing."""
    documents = prepare_documents(helm)
    (job,) = (each for each in documents if each["kind"] == "Job")
    [rule] = job["spec"]["podFailurePolicy"]["rules"]
    async with cluster.api() as api:
        await api.apply([*read_documents(BASE / "namespace.yaml"), *(each for each in documents if each is not job)])
        await api.request("DELETE", await api.path(STORAGE_CLASS))
        failed = await run_prepare(cluster, documents)
        assert failed.code in rule["onExitCodes"]["values"], failed.text
        assert "no default StorageClass for the volume of NATS" in failed.text
        assert not await secrets_of(api)
        await api.apply([STORAGE_CLASS])
    for values in ({"persistence": {"enabled": False}}, {"persistence": {"storageClass": "fast"}}):
        assert "--volume" not in str(prepare_documents(helm, {"nats": values}))


async def test_it_creates_what_is_missing_and_keeps_what_exists(cluster: Cluster, helm: Helm) -> None:
    """Takes seconds: two processes. Secrets of your own, as of an older chart; a second run changes nothing; no value
    of a Secret is printed."""
    documents = prepare_documents(helm, WITH_WEBHOOK)
    own = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "equipoise-nats-tls", "namespace": NAMESPACE}}
    async with cluster.api() as api:
        await api.apply([*read_documents(BASE / "namespace.yaml"), own | {"stringData": {"ca.crt": "mine"}}])
        await api.apply([each for each in documents if each["kind"] != "Job"])
        first = await run_prepare(cluster, documents)
        assert first.code == 0, first.text
        created = await secrets_of(api)
        assert created.keys() == ALL
        assert created["equipoise-nats"].keys() == set(USERS)
        assert len(set(created["equipoise-nats"].values())) == len(USERS)
        assert base64.b64decode(created["equipoise-nats-tls"]["ca.crt"]) == b"mine"
        second = await run_prepare(cluster, documents)
        assert second.code == 0, second.text
        assert await secrets_of(api) == created
        for data in created.values():
            for value in data.values():
                assert value not in first.text + second.text
                assert base64.b64decode(value).decode() not in first.text + second.text


PROMETHEUS: list[Document] = [
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "prometheus", "namespace": "tenant"},
        "spec": {"selector": {"app": "prometheus"}, "ports": [{"port": 9090}]},
    },
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "prometheus-0", "namespace": "tenant", "labels": {"app": "prometheus"}},
        "spec": {"serviceAccountName": "default", "containers": [{"name": "prometheus", "image": "prometheus"}]},
    },
]


async def test_the_source_of_metrics_is_written_down_once(cluster: Cluster, helm: Helm) -> None:
    """Takes seconds: three processes. A Prometheus of a tenant is not taken, and named, with what can be done; nothing
    is written if the configuration names its own; what was written is kept."""
    documents = prepare_documents(helm)
    found = f"/api/v1/namespaces/{NAMESPACE}/configmaps/equipoise-discovered"
    async with cluster.api() as api:
        tenant = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant"}}
        await api.apply([*read_documents(BASE / "namespace.yaml"), tenant])
        await api.wait(
            "/api/v1/namespaces/tenant/serviceaccounts", lambda accounts: bool(accounts["items"]), what="its account"
        )
        await api.apply([*PROMETHEUS, *(each for each in documents if each["kind"] != "Job")])
        if "equipoise-discovered" in str(await api.request("GET", found.rpartition("/")[0])):
            await api.request("DELETE", found)
        named = {"config": {"collector": {"prometheus": {"url": "http://mine:9090"}}}}
        assert (await run_prepare(cluster, prepare_documents(helm, named))).code == 0
        with pytest.raises(ApiError, match=" 404 "):
            await api.request("GET", found)
        first = await run_prepare(cluster, documents)
        assert first.code == 0, first.text
        data = (await api.request("GET", found))["data"]
        assert data["reason"] in first.text
        assert "may not read nodes/metrics: http://prometheus.tenant.svc:9090" in data["reason"]
        assert "config.collector.prometheus.url" in data["reason"]
        assert "tenant" not in data["equipoise.yaml"]
        second = await run_prepare(cluster, documents)
        assert "exists, and is kept" in second.text
        assert (await api.request("GET", found))["data"] == data


async def test_its_account_may_create_these_secrets_only(cluster: Cluster, helm: Helm) -> None:
    """Takes seconds: a process, which ends its rights. No other name, no token of another account, and it reads
    none."""
    documents = [each for each in prepare_documents(helm) if each["kind"] != "Job"]

    def secret(name: str, **fields: Any) -> Document:
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name} | fields.pop("metadata", {})} | fields

    async with cluster.api() as api:
        await api.apply([*read_documents(BASE / "namespace.yaml"), *documents])
        for name in ALL & (await secrets_of(api)).keys():
            await api.request("DELETE", f"{SECRETS}/{name}")
        # Until the policy is in effect, its own program creates nothing either.
        assert (await run_prepare(cluster, prepare_documents(helm))).code == 0
        await api.request("DELETE", f"{SECRETS}/equipoise-nats")
        bindings = [each for each in documents if each["kind"] in ("RoleBinding", "ClusterRoleBinding")]
        for each in bindings:
            with pytest.raises(ApiError, match=" 404 "):
                await api.request("GET", await api.path(each))
        await api.apply(bindings)
        token = (await cluster.service_account_token(NAMESPACE, ACCOUNT)).read_text()
        token_type = {
            "type": "kubernetes.io/service-account-token",
            "metadata": {"annotations": {"kubernetes.io/service-account.name": "equipoise-prepare"}},
        }
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b"}
        refusal = ""
        async with asyncio.timeout(60):  # the API server applies a new binding with a delay
            while "equipoise-prepare-fence" not in refusal:
                with pytest.raises(ApiError) as raised:
                    await api.request("POST", SECRETS, secret("other"), token=token)
                refusal = str(raised.value)
        for refused in (
            secret("other"),
            secret("equipoise-nats", **token_type),
            secret("equipoise-nats", metadata={"ownerReferences": [owner]}),
            secret("equipoise-nats", metadata={"finalizers": ["example.com/a"]}),
        ):
            with pytest.raises(ApiError, match="equipoise-prepare-fence"):
                await api.request("POST", SECRETS, refused, token=token)
        ledger = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "equipoise-ledger"}}
        with pytest.raises(ApiError, match="equipoise-prepare-fence"):
            await api.request("POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", ledger, token=token)
        for method, path, body in (
            ("GET", SECRETS, None),
            ("GET", f"{SECRETS}/equipoise-nats-tls", None),
            ("DELETE", f"{SECRETS}/equipoise-nats-tls", None),
            ("PATCH", f"{SECRETS}/equipoise-nats-tls", {}),
            ("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps", None),
            ("PATCH", f"/api/v1/namespaces/{NAMESPACE}/configmaps/equipoise-discovered", {}),
            ("POST", "/api/v1/namespaces/default/secrets", secret("equipoise-nats")),
        ):
            with pytest.raises(ApiError, match=" 403 "):
                await api.request(method, path, body, token=token)


def cluster_prometheus() -> list[Document]:
    """As an administrator installs it: its account may read the metrics of nodes."""
    rbac, names = "rbac.authorization.k8s.io", {"name": "prometheus", "namespace": "monitoring"}
    rule = {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": names},
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": "prometheus"}, "rules": [rule]},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "prometheus"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "prometheus"},
            "subjects": [{"kind": "ServiceAccount", **names}],
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": names,
            "spec": {"selector": {"app": "prometheus"}, "ports": [{"port": 9090}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**names, "labels": {"app": "prometheus"}},
            "spec": {
                "serviceAccountName": "prometheus",
                "containers": [{"name": "prometheus", "image": "prometheus"}],
            },
        },
    ]


async def test_a_prometheus_that_measures_the_nodes_is_found_with_its_profile(cluster: Cluster) -> None:
    """Takes seconds: it must have scraped the nodes twice. A real Prometheus, whose Service no DNS knows here: requests
    to its address are sent to that of the testbed."""
    asked: list[str] = []

    async def profile_of(settings: CollectorSettings, load: LoadSettings, nodes: Sequence[Node], clock: Clock) -> str:
        asked.append(settings.prometheus.url)
        here = msgspec.structs.replace(settings.prometheus, url=cluster.prometheus_url)
        return await detected_profile(msgspec.structs.replace(settings, prometheus=here), load, nodes, clock)

    await cluster.add_nodes([node("measured-0"), node("measured-1")])
    await cluster.apply(cluster_prometheus())
    await cluster.wait(
        "/api/v1/namespaces/monitoring/pods",
        lambda pods: all(is_ready(each) for each in pods["items"]),
        what="the pod of Prometheus is Ready",
    )
    kubeconfig, clock = Kubernetes(kubeconfig=str(cluster.kubeconfig)), SystemClock()
    async with connect_kube(kubeconfig, "prepare", clock) as kube:
        found = await discover(kube, AllSettings(), clock, profile_of)
    url = "http://prometheus.monitoring.svc:9090"
    assert found.collector == {"source": "prometheus", "prometheus": {"url": url, "profile": "kubelet"}}, found.reason
    assert set(asked) == {url}


def is_ready(pod: Document) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))
