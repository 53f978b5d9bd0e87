"""What an upgrade, a failed installation and a repeated rendering of the chart leave as it was."""

import asyncio
import io
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from cluster_fixtures import StartCluster
from deployment.base import BASE, NAMESPACE, ROOT
from deployment.helm import ALL_ON, CHART, RELEASE, Helm, HelmError, documents_in
from deployment.kustomize import Document, read_documents
from deployment.prepare import ACCOUNT, prepare_documents, run_prepare
from programs import program

from equipoise.runtime.bus.permissions import USERS
from equipoise.testbed.api import Api
from equipoise.testbed.binaries.build import HELM_3
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import node

pytestmark = pytest.mark.timeout(1800)  # only for the first build of helm

OLDER = "2316e9b3"
"""A commit whose chart expected that Secrets exist."""

TARGET = ("--namespace", NAMESPACE)
RIGHTS = ("rolebindings", "clusterrolebindings", "roles", "clusterroles")


@pytest.fixture(scope="module")
async def cluster(start_cluster: StartCluster) -> Cluster:
    cluster = start_cluster()
    await cluster.add_nodes([node("alpha"), node("beta")])
    return cluster


def older_chart(folder: Path) -> Path:
    """Skips where the clone has no history."""
    archive = ["git", "-C", str(ROOT), "archive", OLDER, "charts/equipoise"]
    done = subprocess.run(archive, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"this clone does not have the commit {OLDER}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder / "charts" / "equipoise"


def own_secret(name: str, keys: tuple[str, ...]) -> Document:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": dict.fromkeys(keys, "mine")}


FILES = ("tls.crt", "tls.key", "ca.crt")
OWN_SECRETS = [
    own_secret("equipoise-nats", tuple(USERS)),
    *(
        own_secret(name, FILES)
        for name in ("equipoise-nats-tls", "equipoise-extender-tls", "equipoise-extender-client")
    ),
]


async def contents(api: Api) -> dict[str, Document]:
    """The Secrets of the namespace by name, without those of helm."""
    found = (await api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets"))["items"]
    return {each["metadata"]["name"]: each["data"] for each in found if each["type"] == "Opaque"}


async def names_of_rights(api: Api) -> set[str]:
    """Kinds of objects that give the Job `equipoise-prepare` its rights."""
    root = "/apis/rbac.authorization.k8s.io/v1"
    found = {kind for kind in RIGHTS if ACCOUNT in str(await api.request("GET", f"{root}/{kind}"))}
    accounts = await api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts")
    return found | ({"serviceaccounts"} if ACCOUNT in str(accounts) else set())


@pytest.mark.weekly
async def test_own_secrets_are_kept_by_an_upgrade_from_a_chart_that_expected_them(
    cluster: Cluster, helm: Helm, tmp_path: Path
) -> None:
    """Takes seconds: helm runs three times. With the values of the older release, and the new defaults. The program of
    the setup Job runs with its own account: fake kubelets run none."""
    helm = replace(helm, kubeconfig=cluster.kubeconfig)
    without_volume = {"image": {"tag": "0.0.9"}, "nats": {"persistence": {"enabled": False}}}
    options = (*TARGET, "--wait", "--timeout", "60s")
    async with cluster.api() as api:
        await api.apply([*read_documents(BASE / "namespace.yaml"), *OWN_SECRETS])
        own = await contents(api)
        old = older_chart(tmp_path)
        await asyncio.to_thread(helm.run, "install", RELEASE, old, *options, values=without_volume)
        await asyncio.to_thread(helm.run, "upgrade", RELEASE, CHART, *options, "--reset-then-reuse-values")
        binder = await api.request("GET", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/equipoise-binder")
        assert binder["spec"]["template"]["spec"]["containers"][0]["image"] == "equipoise:0.0.9"
        documents = prepare_documents(helm, without_volume)
        done = await run_prepare(cluster, documents)
        assert done.code == 0, done.text
        assert await contents(api) == own
        for name in own:
            assert f"Secret {NAMESPACE}/{name} exists, and is kept" in done.text
        for each in documents:  # the Job deletes its bindings
            if each["kind"] not in ("Job", "RoleBinding", "ClusterRoleBinding"):
                await api.request("DELETE", await api.path(each))
        await asyncio.to_thread(helm.run, "uninstall", RELEASE, *options)


@pytest.mark.parametrize(
    ("hard", "problem"),
    [
        ({"pods": "0"}, "pre-install"),
        ({"count/jobs.batch": "0"}, "allows count/jobs.batch 0, of which 0 exist: the installation creates two"),
        ({"count/jobs.batch": "1"}, "allows count/jobs.batch 1, of which 0 exist: the installation creates two"),
    ],
)
async def test_the_rights_of_the_setup_job_end_when_it_fails(
    cluster: Cluster, helm: Helm, hard: dict[str, str], problem: str
) -> None:
    """Takes seconds: helm waits for a Job that gets no pod. Where the Job itself is refused, they never exist: Helm
    deletes nothing then."""
    helm = replace(helm, kubeconfig=cluster.kubeconfig)
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": NAMESPACE},
        "spec": {"hard": hard},
    }
    async with cluster.api() as api:
        await api.apply([*read_documents(BASE / "namespace.yaml"), quota])
        path = await api.path(quota)
        await api.wait(path, lambda found: bool(found.get("status", {}).get("hard")), what="the quota is in effect")
        with pytest.raises(HelmError, match=problem):
            await asyncio.to_thread(helm.run, "install", RELEASE, CHART, *TARGET, "--timeout", "5s", values={})
        assert await names_of_rights(api) == set()
        await api.request("DELETE", path)
        await asyncio.to_thread(helm.run, "uninstall", RELEASE, *TARGET, "--ignore-not-found")
        jobs = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
        await api.request(
            "DELETE", f"{jobs}?propagationPolicy=Background"
        )  # a failed one would count in the next quota


async def test_a_policy_that_refuses_jobs_leaves_no_rights(cluster: Cluster, helm: Helm) -> None:
    """Takes seconds: the API server applies a new policy after a while. Helm cannot ask for policies: the first Job,
    which runs no pod, is refused before the rights exist."""
    helm = replace(helm, kubeconfig=cluster.kubeconfig)
    api_version, metadata = "admissionregistration.k8s.io/v1", {"name": "no-jobs"}
    rule = {"apiGroups": ["batch"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["jobs"]}
    policy = {
        "apiVersion": api_version, "kind": "ValidatingAdmissionPolicy", "metadata": metadata,
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "false", "message": "no Jobs"}],
        },
    }  # fmt: skip
    binding = {
        "apiVersion": api_version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata,
        "spec": {"policyName": "no-jobs", "validationActions": ["Deny"]},
    }  # fmt: skip
    async with cluster.api() as api:
        await api.apply([*read_documents(BASE / "namespace.yaml"), policy, binding])
        while True:
            with pytest.raises(HelmError) as caught:
                await asyncio.to_thread(helm.run, "install", RELEASE, CHART, *TARGET, "--timeout", "1s", values={})
            await asyncio.to_thread(helm.run, "uninstall", RELEASE, *TARGET, "--ignore-not-found")
            if "no Jobs" in str(caught.value):
                break
        assert await names_of_rights(api) == set()
        for document in (binding, policy):
            await api.request("DELETE", await api.path(document))


def test_rendering_again_changes_nothing(helm: Helm) -> None:
    """Argo CD renders at each sync, without a cluster: new passwords would replace those in use."""
    first, again = (helm.text(ALL_ON) for _ in range(2))
    assert first == again
    assert "Secret" not in {each["kind"] for each in documents_in(first)}


@pytest.mark.weekly
@pytest.mark.parametrize("values", [{}, {"moves": "levelDay"}, ALL_ON], ids=["default", "levelDay", "all"])
def test_helm_3_renders_the_same_objects(helm: Helm, tmp_path: Path, values: Document) -> None:
    """In another order."""
    older = Helm(program=program(HELM_3, installed=False), home=tmp_path)
    assert by_name(older.text(values)) == by_name(helm.text(values))


def by_name(text: str) -> dict[tuple[str, str, str], Document]:
    documents = documents_in(text)
    found = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in documents
    }
    assert len(found) == len(documents)
    return found
