"""k8s/base, unchanged, on a real API server: every program runs as its own ServiceAccount and NATS user."""

import json

import pytest
from deployment.base import NAMESPACE, ROOT
from deployment.installation import DeployedCluster, Installation
from deployment.kustomize import Document, named, read_documents
from deployment.restarts import RunResult

from equipoise.contracts.bus.subjects import SERVICES

pytestmark = pytest.mark.timeout(600)

ACCOUNT = "system:serviceaccount:equipoise-system:equipoise-{}"


async def test_without_nats_every_service_waits_and_names_it(installation: Installation) -> None:
    """At an installation, whatever starts first. None is restarted: they all continue when NATS is there."""
    assert installation.without_bus.keys() == set(SERVICES)
    for service, report in installation.without_bus.items():
        assert not report["ready"], service
        assert "nats" in report["waiting_for"], service
        assert any("not connected to the bus at tls://" in problem for problem in report["problems"]), service


async def test_only_the_binder_evicts(result: RunResult) -> None:
    """Pods are evicted; by the audit log always by the binder's account and with a UID precondition."""
    assert len(result.evictions) > 10
    assert {eviction.user for eviction in result.evictions} == {ACCOUNT.format("binder")}
    assert all(eviction.uid for eviction in result.evictions)


async def test_no_permission_is_missing(installation: Installation, result: RunResult) -> None:
    """Logs, /readyz, NATS and the audit log contain no refused request."""
    for name in (*SERVICES, "setup", "live-page"):
        log = installation.machine.log(name).read_text()
        assert "orbidden" not in log, name
        assert "ot permitted" not in log, name
    assert "Violation" not in installation.machine.log("nats").read_text()
    assert not [text for texts in result.problems.values() for text in texts if "ermi" in text or "orbidden" in text]
    events = [
        json.loads(line)
        for line in installation.deployed.cluster.audit_log.read_text().splitlines()
        if '"code":403' in line
    ]
    own = {ACCOUNT.format(name) for name in (*SERVICES, "setup", "live-page")}
    assert [event for event in events if event["user"]["username"] in own] == []


async def test_all_pods_are_admitted_as_restricted(deployed: DeployedCluster) -> None:
    """Those of k8s/base, of the live page and of the second scheduler, in a namespace that enforces `restricted`."""
    await deployed.cluster.apply(read_documents(ROOT / "k8s" / "scheduler" / "second-scheduler.yaml"))
    expected = {f"equipoise-{name}" for name in (*SERVICES, "live-page", "scheduler")}

    def replicas(response: Document) -> dict[str, int]:
        return {
            item["metadata"]["name"]: item["status"].get("replicas", 0) - item["spec"]["replicas"]
            for item in response["items"]
        }

    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/{{}}"
    await deployed.cluster.wait(
        path.format("deployments"), lambda response: replicas(response) == dict.fromkeys(expected, 0)
    )
    await deployed.cluster.wait(path.format("statefulsets"), lambda response: replicas(response) == {"nats": 0})
    jobs = await deployed.cluster.request("GET", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")
    assert [sum(job["status"].get(state, 0) for state in ("active", "succeeded")) for job in jobs["items"]] in ([1], [])


async def test_the_second_scheduler_uses_the_scores(installation: Installation) -> None:
    """The stock kube-scheduler, with the shipped configuration and its own account, gets scores over HTTPS and binds.

    Both use the certificates of `equipoise certificates`.
    """
    deployed = installation.deployed
    documents = read_documents(ROOT / "k8s" / "scheduler" / "second-scheduler.yaml")
    await deployed.cluster.apply(documents)
    text = named(documents, "ConfigMap", "equipoise-scheduler")["data"]["scheduler.yaml"]
    folder = installation.machine.path
    (folder / "scheduler.kubeconfig").write_text(json.dumps(await kubeconfig(deployed, "scheduler")))
    (folder / "scheduler.yaml").write_text(
        installation.scheduler_configuration(text)
        + f"clientConnection: {{kubeconfig: {folder}/scheduler.kubeconfig}}\n"
    )
    flags = [f"--{name}-kubeconfig={folder}/scheduler.kubeconfig" for name in ("authentication", "authorization")]
    address = ["--bind-address=127.0.0.1", f"--secure-port={deployed.cluster.free_port()}"]
    installation.machine.run_command(
        "scheduler",
        (str(deployed.binaries.kube_scheduler), f"--config={folder}/scheduler.yaml", *flags, *address),
    )
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "scheduled", "namespace": "launch"},
        "spec": {"schedulerName": "equipoise", "containers": [{"name": "main", "image": "pause"}]},
    }
    await deployed.cluster.apply([pod])
    await deployed.cluster.wait(
        "/api/v1/namespaces/launch/pods/scheduled", lambda pod: "nodeName" in pod["spec"], what="the pod is bound"
    )
    await installation.until(
        lambda: any(
            line["subject"] == "equipoise.decision.scorer.launch.scheduled" for line in installation.messages()
        ),
        60,
        "the scorer publishes a decision for the pod",
    )
    assert "orbidden" not in installation.machine.log("scheduler").read_text()


async def kubeconfig(deployed: DeployedCluster, name: str) -> Document:
    cluster = {"server": deployed.cluster.url, "certificate-authority": str(deployed.cluster.ca_file)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": name, "user": {"token": await deployed.token_of(name)}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
        "current-context": "test",
    }
