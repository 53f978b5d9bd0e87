"""k8s/base as it is on a real API server: the loop works with every program run as its own account and NATS user."""

import json

import pytest
from deployment.base import NAMESPACE, ROOT
from deployment.judging import Judged
from deployment.kustomize import Document, named, read_documents
from deployment.worlds import Run, World

from equipoise.contracts.bus.subjects import SERVICES

pytestmark = pytest.mark.timeout(600)

ACCOUNT = "system:serviceaccount:equipoise-system:equipoise-{}"


async def test_the_binder_alone_evicts_as_itself(judged: Judged) -> None:
    """Pods really move, and the audit log knows each eviction as the binder's account, with the pod's UID demanded."""
    assert len(judged.evictions) > 10
    assert {eviction.user for eviction in judged.evictions} == {ACCOUNT.format("binder")}
    assert all(eviction.uid for eviction in judged.evictions)


async def test_no_right_is_missing(run: Run, judged: Judged) -> None:
    """Neither a log, nor /readyz, nor NATS, nor the audit log tells of anything that was refused."""
    for name in (*SERVICES, "setup"):
        log = run.machine.log(name).read_text()
        assert "orbidden" not in log, name
        assert "ot permitted" not in log, name
    assert "Violation" not in run.machine.log("nats").read_text()
    assert not [text for texts in judged.problems.values() for text in texts if "ermi" in text or "orbidden" in text]
    events = [json.loads(line) for line in run.world.cluster.audit_log.read_text().splitlines() if '"code":403' in line]
    own = {ACCOUNT.format(name) for name in (*SERVICES, "setup")}
    seats = [event for event in events if event["user"]["username"] in own]
    assert seats == []


async def test_all_pods_are_admitted_as_restricted(world: World) -> None:
    """The API server makes every pod of k8s/base and of the second scheduler in a namespace that enforces it."""
    await world.cluster.apply(read_documents(ROOT / "k8s" / "scheduler" / "second-scheduler.yaml"))
    wanted = {f"equipoise-{name}" for name in (*SERVICES, "scheduler")}

    def replicas(found: Document) -> dict[str, int]:
        return {
            item["metadata"]["name"]: item["status"].get("replicas", 0) - item["spec"]["replicas"]
            for item in found["items"]
        }

    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/{{}}"
    await world.cluster.wait(path.format("deployments"), lambda seen: replicas(seen) == dict.fromkeys(wanted, 0))
    await world.cluster.wait(path.format("statefulsets"), lambda seen: replicas(seen) == {"nats": 0})
    jobs = await world.cluster.request("GET", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")
    assert [sum(job["status"].get(state, 0) for state in ("active", "succeeded")) for job in jobs["items"]] in ([1], [])


async def test_the_second_scheduler_places_with_our_scores(run: Run) -> None:
    """The stock kube-scheduler, with the shipped configuration and its own account, asks over HTTPS and binds.

    It and the scorer know each other by what `equipoise certificates` made.
    """
    world = run.world
    documents = read_documents(ROOT / "k8s" / "scheduler" / "second-scheduler.yaml")
    await world.cluster.apply(documents)
    text = named(documents, "ConfigMap", "equipoise-scheduler")["data"]["scheduler.yaml"]
    folder = run.machine.path
    (folder / "scheduler.kubeconfig").write_text(json.dumps(await kubeconfig(world, "scheduler")))
    (folder / "scheduler.yaml").write_text(
        run.scheduler_here(text) + f"clientConnection: {{kubeconfig: {folder}/scheduler.kubeconfig}}\n"
    )
    flags = [f"--{name}-kubeconfig={folder}/scheduler.kubeconfig" for name in ("authentication", "authorization")]
    address = ["--bind-address=127.0.0.1", f"--secure-port={world.cluster.free_port()}"]
    run.machine.run_beside(
        "scheduler",
        (str(world.binaries.kube_scheduler), f"--config={folder}/scheduler.yaml", *flags, *address),
    )
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "chooser", "namespace": "launch"},
        "spec": {"schedulerName": "equipoise", "containers": [{"name": "main", "image": "pause"}]},
    }
    await world.cluster.apply([pod])
    await world.cluster.wait(
        "/api/v1/namespaces/launch/pods/chooser", lambda seen: "nodeName" in seen["spec"], what="the pod is bound"
    )
    await run.until(
        lambda: any(line["subject"] == "equipoise.decision.scorer.launch.chooser" for line in run.said()),
        60,
        "the scorer was asked",
    )
    assert "orbidden" not in run.machine.log("scheduler").read_text()


async def kubeconfig(world: World, name: str) -> Document:
    cluster = {"server": world.cluster.url, "certificate-authority": str(world.cluster.ca_file)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": cluster}],
        "users": [{"name": name, "user": {"token": await world.token_of(name)}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": name}}],
        "current-context": "here",
    }
