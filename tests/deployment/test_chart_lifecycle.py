"""The chart on a real API server: installed, upgraded, rolled back and removed. Pods are run by fake kubelets."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cluster_fixtures import StartCluster
from deployment.base import BASE, NAMESPACE, ROOT, base_documents
from deployment.custom_resources import custom_resource_definitions
from deployment.helm import ALL_ON, CHART, RELEASE, SETUP, Helm, HelmError, documents_in
from deployment.kustomize import Document, identity, named, read_documents
from deployment.prepare import prepare_documents
from programs import program

from equipoise.contracts.eviction.approval import APPROVAL_ROLE, approval_rules
from equipoise.testbed.api import Api, ApiError
from equipoise.testbed.binaries.build import HELM_3
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import node

pytestmark = pytest.mark.timeout(1800)  # only for the first build of helm

CLAIM = "data-nats-0"
WITHOUT_BUS = {"kubernetes", "permissions", "approvals", "colocation"}
"""Checks of doctor that need the API server only."""

OPTIONAL_PARTS = {
    "hints": {"enabled": True},
    "reclaimer": {"enabled": True},
    "agent": {"enabled": True, "evictions": True},
}

Objects = set[tuple[str, str, str]]

OPERATORS = ("monitoring.coreos.com/v1", "cert-manager.io/v1")
"""Kinds that the API server of the testbed has only with the definitions of operators."""


@pytest.fixture(scope="module")
async def cluster(start_cluster: StartCluster) -> Cluster:
    """With nodes for the pods."""
    cluster = start_cluster()
    await cluster.add_nodes([node("alpha"), node("beta")])
    return cluster


@pytest.fixture(scope="module")
async def cluster_with_operators(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """With the kinds of the Prometheus operator and of cert-manager; nothing runs that handles their objects."""
    definitions = custom_resource_definitions(tmp_path_factory.mktemp("modules"))
    async with cluster.api() as api:
        await api.apply(definitions)
        for version in OPERATORS:
            kinds = [each["spec"]["names"]["kind"] for each in definitions if each["spec"]["group"] in version]
            for path in (f"/apis/{version}", f"/openapi/v3/apis/{version}"):
                await api.wait(path, lambda found, kinds=kinds: all(kind in str(found) for kind in kinds))
    return cluster


def namespace(name: str) -> Document:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def secret(name: str) -> Document:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}}


def volume(name: str) -> Document:
    """For the claim of NATS: the testbed has no StorageClass. A volume that was used is not bound again."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "4Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/data"},
        },
    }


async def dry_run(api: Api, document: Document) -> None:
    """As `kubectl apply --dry-run=server --validate=strict`. Raises ApiError."""
    path = f"{await api.path(document)}?fieldManager=test&force=true&dryRun=All&fieldValidation=Strict"
    await api.request("PATCH", path, document, content_type="application/apply-patch+yaml")


def pod_of(document: Document) -> Document:
    """The pod of a Deployment, StatefulSet or Job, without what must exist for a pod alone."""
    template = document["spec"]["template"]
    spec = {key: value for key, value in template["spec"].items() if key != "priorityClassName"}
    claims = document["spec"].get("volumeClaimTemplates", [])
    spec["volumes"] = spec["volumes"] + [{"name": each["metadata"]["name"], "emptyDir": {}} for each in claims]
    metadata = template["metadata"] | {key: document["metadata"][key] for key in ("name", "namespace")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def test_the_api_server_accepts_every_object(cluster: Cluster, helm: Helm) -> None:
    """Strictly, with everything switched on; and Pod Security `restricted` every pod but the agent's, which has a
    namespace of its own. It refuses what is wrong."""
    rendered = documents_in(helm.text(ALL_ON))
    known = [each for each in rendered if each["apiVersion"] not in OPERATORS]
    assert {each["kind"] for each in rendered} > {"ServiceMonitor", "PrometheusRule", "Certificate"}
    programs = [each for each in known if "template" in each.get("spec", {})]
    assert len(programs) == 16, "with the Job without pods that is created before `equipoise-prepare`"
    (agents,) = [each for each in known if each["kind"] == "Namespace"]
    async with cluster.api() as api:
        await api.apply([namespace(NAMESPACE), agents])
        async with asyncio.TaskGroup() as group:
            for document in [*known, *map(pod_of, programs)]:
                group.create_task(dry_run(api, document))
        deployment = next(each for each in known if each["kind"] == "Deployment")
        with pytest.raises(ApiError, match="replica"):
            await dry_run(api, deployment | {"spec": deployment["spec"] | {"replica": 2}})
        pod = pod_of(deployment)
        with pytest.raises(ApiError, match="restricted"):
            await dry_run(api, pod | {"spec": pod["spec"] | {"hostNetwork": True}})
        name = agents["metadata"]["name"]  # helm creates it in the next tests
        await api.request("DELETE", f"/api/v1/namespaces/{name}")
        await api.wait("/api/v1/namespaces", lambda found: name not in str(found["items"]), what="it is deleted")


async def test_the_api_server_accepts_the_objects_for_operators(cluster_with_operators: Cluster, helm: Helm) -> None:
    """By the definitions of the operators: those of the chart, and the rules of k8s/metrics. Misspelt, it refuses."""
    rendered = [each for each in documents_in(helm.text(ALL_ON)) if each["apiVersion"] in OPERATORS]
    rules = [each for path in (ROOT / "k8s" / "metrics").glob("prometheus-rule*.yaml") for each in read_documents(path)]
    assert {each["kind"] for each in rendered} == {"ServiceMonitor", "PrometheusRule", "Certificate", "Issuer"}
    async with cluster_with_operators.api() as api:
        await api.apply([namespace(NAMESPACE)])
        async with asyncio.TaskGroup() as group:
            for document in [*rendered, *rules]:
                group.create_task(dry_run(api, document))
        for kind in ("ServiceMonitor", "PrometheusRule", "Certificate"):
            document = next(each for each in rendered if each["kind"] == kind)
            with pytest.raises(ApiError, match="misspelt"):
                await dry_run(api, document | {"spec": document["spec"] | {"misspelt": 1}})


async def test_kubeconform_accepts_every_object(
    cluster_with_operators: Cluster, helm: Helm, kubeconform: Path, tmp_path: Path
) -> None:
    """With the schemas that the API server publishes, as a pipeline without a cluster would check the chart."""
    text = helm.text(ALL_ON)
    rendered = documents_in(text)
    async with cluster_with_operators.api() as api:
        for version in {each["apiVersion"] for each in rendered}:
            path = f"apis/{version}" if "/" in version else f"api/{version}"
            published = await api.request("GET", f"/openapi/v3/{path}")
            write_schemas(published, {each["kind"] for each in rendered}, tmp_path)
    misspelt = text.replace("revisionHistoryLimit:", "revisionHistoryLimits:", 1)
    assert await asyncio.to_thread(verdicts, kubeconform, tmp_path, text) == (len(rendered), 0)
    assert await asyncio.to_thread(verdicts, kubeconform, tmp_path, misspelt) == (len(rendered) - 1, 1)


def write_schemas(published: Document, kinds: Collection[str], folder: Path) -> None:
    """A file for each of these kinds. An object has no other fields than those that are named."""
    schemas = published["components"]["schemas"]
    close(schemas)
    for name, schema in schemas.items():
        for each in schema.get("x-kubernetes-group-version-kind", ()):
            if each["kind"] in kinds:
                root = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
                parts = [each["kind"].lower(), each["group"].partition(".")[0], each["version"]]
                (folder / f"{'-'.join(filter(None, parts))}.json").write_text(json.dumps(root))


def close(schema: Any) -> None:
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
        for each in schema.values():
            close(each)


def verdicts(program: Path, schemas: Path, text: str) -> tuple[int, int]:
    """The number of valid and of other objects."""
    location = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    done = subprocess.run(
        [program, "-strict", "-summary", "-output", "json", "-schema-location", location, "-"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    summary = json.loads(done.stdout)["summary"]
    return summary.pop("valid"), sum(summary.values())


async def objects(api: Api) -> Objects:
    """Everything in the cluster but Events, and what the API server and its controllers keep for themselves."""
    groups = ["/api/v1"]
    for group in (await api.request("GET", "/apis"))["groups"]:
        groups.append(f"/apis/{group['preferredVersion']['groupVersion']}")
    found: Objects = set()

    async def collect(root: str, resource: Mapping[str, Any]) -> None:
        for item in (await api.request("GET", f"{root}/{resource['name']}")).get("items") or ():
            found.add((resource["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]))

    async with asyncio.TaskGroup() as tasks:
        for root in groups:
            for resource in (await api.request("GET", root))["resources"]:
                if "list" in resource["verbs"] and resource["kind"] not in ("Event", "Lease", "ComponentStatus"):
                    tasks.create_task(collect(root, resource))
    return found


async def until_left(api: Api, before: Objects, expected: Objects) -> None:
    """Waits until nothing else is left than expected: pods and their slices end after the objects that own them."""
    left: Objects = set()
    for _ in range(300):
        left = await objects(api) - before
        if left == expected:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"left: {sorted(left - expected)}; missing: {sorted(expected - left)}")


async def job_names(api: Api) -> list[str]:
    jobs = await api.request("GET", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")
    return [each["metadata"]["name"] for each in jobs["items"] if SETUP.fullmatch(each["metadata"]["name"])]


async def version(api: Api) -> tuple[str, str]:
    """The option with which helm renders for this API server."""
    return "--kube-version", (await api.request("GET", "/version"))["gitVersion"]


async def doctor(cluster: Cluster, api: Api, helm: Helm, folder: Path) -> list[Document]:
    """What `equipoise doctor` finds with the account, the command and the variables of the Job of `helm test`."""
    # With a longer interval the first hints are not due yet, however slow the machine is.
    values = {"hints": {"enabled": True}, "config": {"scorer": {"hints": {"interval": "1h"}}}}
    rendered = documents_in(helm.text(values, options=await version(api)))
    tests = [each for each in rendered if each["metadata"].get("annotations", {}).get("helm.sh/hook") == "test"]
    (job,) = (each for each in tests if each["kind"] == "Job")
    await api.apply([each for each in tests if each is not job])
    token = await cluster.service_account_token(NAMESPACE, job["spec"]["template"]["spec"]["serviceAccountName"])
    (container,) = job["spec"]["template"]["spec"]["containers"]
    program, *arguments = container["command"]
    config = named(rendered, "ConfigMap", "equipoise")
    files = {"/etc/equipoise": config["data"]["equipoise.yaml"], "/run/secrets/nats": "password"}
    environment = {"PATH": os.environ["PATH"], **cluster.in_cluster_environment}
    environment["EQUIPOISE_KUBERNETES__SERVICE_ACCOUNT"] = str(token.parent)
    for variable in container["env"]:
        path = Path(variable["value"])
        environment[variable["name"]] = str(folder / path.name) if str(path.parent) in files else variable["value"]
        if str(path.parent) in files:
            (folder / path.name).write_text(files[str(path.parent)])
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name(program),
        *arguments,
        *("-o", "json"),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    findings: list[Document] = json.loads(output)["findings"]
    return findings


async def write_hints(api: Api) -> None:
    """As the annotator does, in another namespace."""
    root = "/apis/equipoise.dev/v1alpha1"
    await api.wait(root, lambda found: bool(found["resources"]), what="the kind of the hints is served")
    hints = {"apiVersion": "equipoise.dev/v1alpha1", "kind": "PlacementHints", "metadata": {"name": "equipoise-hints"}}
    await api.request("POST", f"{root}/namespaces/default/placementhints", hints | {"until": "2027-01-15T08:00:00Z"})


async def live_and_die(cluster: Cluster, helm: Helm, folder: Path, pv: str) -> None:
    """Install, test, upgrade, roll back, uninstall."""
    release = (RELEASE, CHART, "--namespace", NAMESPACE, "--wait", "--timeout", "60s")
    async with cluster.api() as api:
        await api.apply([*read_documents(BASE / "namespace.yaml"), volume(pv)])
        before = await objects(api)
        notes = await asyncio.to_thread(helm.run, "install", *release, "--wait-for-jobs", values=OPTIONAL_PARTS)
        assert "has no permission to evict" in notes
        assert "NEXT: check the installation" in notes
        assert f"PersistentVolumeClaim {CLAIM}" in notes
        installed = await objects(api)
        assert {identity(each) for each in helm.template(OPTIONAL_PARTS, options=await version(api))} <= installed
        prepared = {identity(each)[::2] for each in prepare_documents(helm)}
        assert prepared
        assert not prepared & {each[::2] for each in installed}, "the rights to create Secrets end with the Job"
        await write_hints(api)
        [first] = await job_names(api)

        found = await doctor(cluster, api, helm, folder)
        errors = {each["check"]: each["message"] for each in found if each["state"] == "error"}
        assert errors.keys() == {"bus", "prometheus"}, "what is not there yet, and nothing else"
        assert "cannot connect to NATS at tls://nats:4222" in errors["bus"]
        assert "cannot be queried" in errors["prometheus"]
        [hints] = [each for each in found if each["subject"] == "placement hints"]
        assert hints["message"].startswith("none were written: pods get none; the first ones after an installation")
        assert {each["check"] for each in found if each["state"] == "ok"} >= WITHOUT_BUS
        assert not [each for each in found if each["check"] in WITHOUT_BUS and each["state"] == "unknown"]
        parts = {each["subject"].partition(" ")[0] for each in found if each["check"] == "permissions"}
        assert parts >= {"reclaimer", "agent"}
        tested = await asyncio.to_thread(helm.run, "test", RELEASE, "--namespace", NAMESPACE, "--timeout", "60s")
        assert "Succeeded" in tested
        assert not [
            each for each in await objects(api) if each[2] == "equipoise-test" and each[0].startswith("Cluster")
        ]

        with pytest.raises(HelmError, match="installed in this cluster already, as release equipoise in namespace"):
            await asyncio.to_thread(helm.run, "install", "second", CHART, "--namespace", "default", values={})

        role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles/{APPROVAL_ROLE}"
        approved = await api.patch(role, {"rules": msgspec.to_builtins(approval_rules(["uid"]))})
        assert approved["rules"]
        changed = {"mode": "advise", "image": {"tag": "0.2.0"}, "config": {"load": {"base": "capacity"}}}
        # Without it the namespace of the agents would be deleted, and a rollback at once refused while that lasts.
        changed["agent"] = {"enabled": True}
        changed["nats"] = {"existingSecret": "mine"}
        notes = await asyncio.to_thread(helm.run, "upgrade", *release, "--wait-for-jobs", values=changed)
        assert "Secret mine: one password per NATS user" in notes
        await api.apply([secret("mine")])
        notes = await asyncio.to_thread(helm.run, "upgrade", *release, "--wait-for-jobs", values=changed)
        assert "    equipoise plan\n" in notes
        await api.request("DELETE", await api.path(secret("mine")))
        [second] = await job_names(api)
        assert second != first
        upgraded = await objects(api)
        assert ("ClusterRoleBinding", "", "equipoise-evict") in upgraded
        assert not {name for _, _, name in upgraded if "hints" in name and not name.endswith("-fence")}
        assert (await api.request("GET", role))["rules"] == approved["rules"]

        await asyncio.to_thread(
            helm.run, "rollback", RELEASE, "1", "--namespace", NAMESPACE, "--wait", "--timeout", "60s"
        )
        assert await job_names(api) == [first]
        assert ("ClusterRoleBinding", "", "equipoise-evict") not in await objects(api)
        await write_hints(api)
        pods = await api.request("GET", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/equipoise-binder")
        assert pods["spec"]["template"]["spec"]["containers"][0]["image"] == "equipoise:0.1.0"

        await asyncio.to_thread(helm.run, "uninstall", RELEASE, "--namespace", NAMESPACE, "--wait", "--timeout", "60s")
        await api.request(
            "DELETE", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/equipoise-test?propagationPolicy=Background"
        )
        await until_left(api, before, {("PersistentVolumeClaim", NAMESPACE, CLAIM)})
        await api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims/{CLAIM}")


async def test_it_is_installed_upgraded_rolled_back_and_removed(cluster: Cluster, helm: Helm, tmp_path: Path) -> None:
    """Nothing remains but the claim that the notes name, and for five minutes the Job of `helm test` with its log."""
    await live_and_die(cluster, replace(helm, kubeconfig=cluster.kubeconfig), tmp_path, "first")


@pytest.mark.weekly
async def test_helm_3_does_the_same(cluster: Cluster, tmp_path: Path) -> None:
    """Takes a minute: helm runs ten times."""
    helm = Helm(program=program(HELM_3, installed=False), home=tmp_path, kubeconfig=cluster.kubeconfig)
    await live_and_die(cluster, helm, tmp_path, "third")


@pytest.mark.weekly
async def test_it_takes_over_an_installation_by_kustomize(cluster: Cluster, helm: Helm) -> None:
    """Takes seconds: helm runs three times. Without the flags of docs/install.md it is refused."""
    helm = replace(helm, kubeconfig=cluster.kubeconfig)
    release = (RELEASE, CHART, "--namespace", NAMESPACE, "--wait", "--timeout", "60s")
    async with cluster.api() as api:
        await api.apply([*base_documents(), volume("taken-over")])
        with pytest.raises(HelmError, match="cannot be imported into the current release"):
            await asyncio.to_thread(helm.run, "install", *release)
        flags = ("--take-ownership", "--force-conflicts")
        await asyncio.to_thread(helm.run, "install", *release, *flags, values={"image": {"tag": "0.2.0"}})
        binder = await api.request("GET", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/equipoise-binder")
        assert binder["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
        assert binder["spec"]["template"]["spec"]["containers"][0]["image"] == "equipoise:0.2.0"
        await asyncio.to_thread(helm.run, "uninstall", RELEASE, "--namespace", NAMESPACE, "--wait", "--timeout", "60s")
        assert "equipoise-binder" not in {name for _, _, name in await objects(api)}
