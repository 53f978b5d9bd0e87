"""Objects, messages and measurements that cannot be true, through all services at once on a real cluster."""

import asyncio
import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import nats
from agent.agent_process import AgentProcess
from agent.fake_cgroups import FakeCgroups
from readers.poisoned_pods import HARMLESS, UNKNOWN, Change, generated_pods

from equipoise.contracts.bus import subjects
from equipoise.contracts.kubernetes.annotations import read_node_load
from equipoise.contracts.messages.plan import PlanRequest, PlanResponse
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.score import ExplainRequest, Explanation
from equipoise.contracts.messages.utilization import NODE_UTILIZATION
from equipoise.runtime.kubernetes.client import PODS as POD_RESOURCE
from equipoise.testbed import objects
from equipoise.testbed.api import ApiError
from faults import cluster_setup
from faults.catalog.fault import Extent, fault
from faults.catalog.metrics import USAGE, real_services, with_value
from faults.convergence import placement_differences
from faults.fakes import take_lease
from faults.fault_proxy import WATCH, respond, rewrite
from faults.history import History
from faults.rig import Inconclusive, Rig

PODS = f"/api/v1/namespaces/{cluster_setup.NAMESPACE}/pods"
TENANT = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
MEASURED = cluster_setup.NODES[9]
"""Whose metrics are absurd."""

OLDER = 2.0
"""Seconds by which the own Lease is older than that of the tenant: the API server writes whole seconds. An older one
would stop evictions."""

ANNOTATED = 900.0
"""Seconds: the age of the load in the annotations of a node that is measured."""

GENERATED = 10
"""Random pods, by `Extent.times`."""

ACCOUNT = "agent-poison"
SCHEDULERS = ("default-scheduler", "equipoise-scheduler")
LIMIT = "50000 100000"
"""cpu.max of an ordinary pod of the band batch."""

LOGIN = '<html><body>a login page of a proxy: 24" <a href="/login">'
"""With an odd number of quotes."""

LARGEST = {"env": [{"name": "A", "value": "<" * 700_000}]}
"""Of a container: its event is six times as long, because `<` is sent as `\\u003c`."""

MESSAGES: Mapping[str, Mapping[str, Any]] = {
    "poison-usage": {"pods": {"u": {"cpu": 1e39, "memory": 1}}},
    "poison-time": {"queried_at": 1e300},
    "poison-base": {"base": {"cpu": 1e308, "memory": -1e39}},
    "poison-type": {"windows": ["5m"]},
}
"""What the message about a node contains instead, by its name."""


async def poison(rig: Rig, extent: Extent) -> None:
    """Pods with amounts that no machine has, or with annotations that are hard to read, and random ones; a Lease and a
    node with years that do not exist, absurd messages and measurements, and responses that are no JSON: before the
    services start and while they run. No service ends, no other object is hidden, evictions go on, and everything is
    named."""
    rig.descheduler.epoch = await take_lease(rig.kube, cluster_setup.OWN, "faults")
    await rig.until_time(rig.clock.now() + OLDER)
    names = await _apply(rig, extent, 0)
    scheduler = _start_scheduler(rig)
    try:
        async with _agent(rig) as agent, real_services(rig, {"reclaimer": 1, "annotator": 1}):
            pids = {name: program.pid for name, program in rig.programs.items() if program.runs}
            await rig.evictions(1)
            for number in range(extent.times):
                await _remove(rig, names)
                names = await _apply(rig, extent, number + 1)
                rig.prometheus.rule(rewrite(body=_absurd), path=USAGE)
                for name in pids:
                    rig.proxy.rule(respond(200, LOGIN), path="/api/v1/pods", token=rig.tokens[name], times=1)
                rig.proxy.abort(WATCH)
                await _publish(rig)
                await rig.propose_as_leader()  # the load of the nodes is level by now
                await rig.evictions(extent.evictions)
                rig.descheduler.epoch = None
                await _check(rig, pids, agent)
                if (code := rig.cluster.guard.exit_code(scheduler)) is not None:
                    rig.find(f"equipoise scheduler ended with code {code}")
                rig.proxy.clear()
                rig.prometheus.clear()
            await _remove(rig, names)
    finally:
        await _remove(rig, names)
        with suppress(ProcessLookupError):
            os.kill(scheduler, signal.SIGTERM)


@asynccontextmanager
async def _agent(rig: Rig) -> AsyncIterator[AgentProcess]:
    """The agent of the node with the poisoned pods; its cgroups are files in a directory."""
    account = {"name": ACCOUNT, "namespace": cluster_setup.OWN}
    await rig.api.apply([{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}])
    token = await rig.cluster.service_account_token(cluster_setup.OWN, ACCOUNT)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "cgroup"
        root.mkdir()
        FakeCgroups(root, 2).make("top/kubepods/besteffort")
        agent = AgentProcess(rig.cluster, MEASURED, "top", token, Path(directory), root=root)
        with agent.running():
            yield agent


def _start_scheduler(rig: Rig) -> int:
    """`equipoise scheduler` beside kube-scheduler; its process id. It ends with the cluster."""
    program = [
        str(Path(sys.executable).with_name("equipoise")),
        "scheduler",
        "--kubeconfig",
        str(rig.cluster.kubeconfig),
    ]
    listen = f"127.0.0.1:{rig.port('scheduler-0')}"
    document = {
        "apiVersion": "equipoise.dev/v1alpha1",
        "kind": "EquipoiseConfiguration",
        "nats": {"url": rig.nats_url},
    }
    file = rig.cluster.directory / "equipoise-scheduler.yaml"
    file.write_text(json.dumps(document))
    load = ["--policy", "profile", "--equipoise-config", str(file)]
    return rig.cluster.guard.start(
        [*program, *load, "--listen", listen, "--namespace", cluster_setup.OWN],
        log=rig.cluster.log("equipoise-scheduler"),
        environment={},
    )


async def _check(rig: Rig, pids: Mapping[str, int], agent: AgentProcess) -> None:
    """Records what ended, what no service names, and what is hidden."""
    for name, pid in pids.items():
        if not rig.program(name).runs or rig.program(name).pid != pid:
            rig.find(f"{name} ended")

    async def named(what: str) -> bool:
        reports = await asyncio.gather(*(rig.program(name).readiness() for name in pids))
        return any(what in problem for report in reports if report for problem in report["problems"])

    for what in ("shop/poison-", "messages: 4 cannot be read", "poison-node", MEASURED):
        await _expect(rig, lambda what=what: named(what), f"a service names {what}")
    since = rig.clock.now()
    for what, condition in (
        ("the collector publishes the pods of every node", _placed),
        ("the scorer knows the load of every other node", _scored),
        ("the descheduler plans with every node", _planned),
        ("the annotator annotates every other node", lambda rig: _annotated(rig, since)),
        ("the reclaimer offers amounts of every other node", _offered),
    ):
        await _expect(rig, lambda condition=condition: condition(rig), what)
    for number, scheduler in enumerate(SCHEDULERS):
        await _scheduled(rig, f"poison-not-{number}", scheduler)
    await _limited(rig, agent)


async def _expect(rig: Rig, condition: Callable[[], Any], what: str) -> None:
    try:
        await rig.until(condition, what, seconds=20.0)
    except Inconclusive as error:
        rig.find(str(error).partition("\n")[0])


OTHERS = frozenset(cluster_setup.NODES) - {MEASURED}


async def _placed(rig: Rig) -> bool:
    pods = [pod for pod in await rig.kube.list(POD_RESOURCE) if not pod.metadata.name.startswith("poison-")]
    ordinary = {pod.metadata.uid for pod in pods}
    placements = {
        name: msgspec.structs.replace(placement, pods=[pod for pod in placement.pods if pod.uid in ordinary])
        for name, placement in rig.recorder.placements.items()
        if name in cluster_setup.NODES
    }
    return not placement_differences(placements, cluster_setup.NODES, pods)


async def _scored(rig: Rig) -> bool:
    request = ExplainRequest(pod=PodDemand(namespace="shop", name="new", uid="new"), nodes=list(cluster_setup.NODES))
    explanation = await rig.bus.request(subjects.SCORE_EXPLAIN, request, Explanation, timeout=5.0)
    return not explanation.neutral and OTHERS <= {each.node for each in explanation.nodes if each.status != "unknown"}


async def _planned(rig: Rig) -> bool:
    plan = await rig.bus.request(subjects.PLAN_PREVIEW, PlanRequest(), PlanResponse, timeout=5.0)
    return plan.considered >= len(cluster_setup.NODES)


async def _nodes(rig: Rig) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = (await rig.api.request("GET", "/api/v1/nodes"))["items"]
    return [node for node in nodes if node["metadata"]["name"] in OTHERS]


async def _annotated(rig: Rig, since: float) -> bool:
    loads = [read_node_load(node["metadata"].get("annotations", {}))[0] for node in await _nodes(rig)]
    return all(load is not None and load.sampled_at.timestamp() > since - ANNOTATED for load in loads)


async def _offered(rig: Rig) -> bool:
    return all("kubernetes.io/batch-cpu" in node["status"]["allocatable"] for node in await _nodes(rig))


def fails_for_all(pod: Mapping[str, Any]) -> bool:
    """Whether kube-scheduler 1.37 can place no pod: the sum of what a node's pods request overflows, and its plugin
    NodeResourcesFit returns an invalid score for that node."""
    conditions = pod["status"].get("conditions", ())
    return any(each.get("reason") == "SchedulerError" and "invalid score" in each["message"] for each in conditions)


async def _scheduled(rig: Rig, name: str, scheduler: str) -> None:
    """A pod without anything special is bound."""
    pod = _pod(name, {})
    pod["spec"]["schedulerName"] = scheduler
    await _post(rig, PODS, pod)

    async def bound() -> bool:
        found = await rig.api.request("GET", f"{PODS}/{name}")
        return bool(found["spec"].get("nodeName")) or (scheduler == "default-scheduler" and fails_for_all(found))

    await _expect(rig, bound, f"{scheduler} binds a pod")
    await rig.api.request("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")


async def _limited(rig: Rig, agent: AgentProcess) -> None:
    """A pod of the band batch on the node of the agent."""
    amounts = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Mi"}
    pod = _pod("poison-not-batch", {"spec": {"nodeName": MEASURED}})
    pod["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    created = await rig.api.request("POST", PODS, pod)
    group = f"top/kubepods/besteffort/pod{created['metadata']['uid']}"
    cgroups = FakeCgroups(agent.root, 2)
    cgroups.make(group)
    await _expect(rig, lambda: cgroups.get(group, "cpu.max").startswith(LIMIT), "the agent limits a pod")
    await _expect(rig, lambda: any("shop/poison-" in each for each in agent.problems()), "the agent names a pod")
    if not agent.runs:
        rig.find("the agent ended")
    await rig.api.request("DELETE", f"{PODS}/poison-not-batch?gracePeriodSeconds=0")


async def _apply(rig: Rig, extent: Extent, seed: int) -> list[str]:
    """The names of the pods that the API server accepted."""
    large = {"spec": {"containers": [{"name": "a", "image": "a", **LARGEST}]}}
    bound = {**HARMLESS, **UNKNOWN, "large": large}
    pods: list[dict[str, Any]] = [_pod(f"poison-{name}", change, MEASURED) for name, change in bound.items()]
    pods += [_pod(f"poison-{name}-free", change) for name, change in (*HARMLESS.items(), *UNKNOWN.items())]
    generator = random.Random(f"{rig.generator.random()} {seed}")
    for name, change in generated_pods(generator, GENERATED * extent.times):
        pods.append(_pod(f"poison-{name}", change, generator.choice(("", MEASURED))))
    accepted = [pod["metadata"]["name"] for pod in pods if await _post(rig, PODS, pod)]
    missing = {f"poison-{name}" for name in bound} - set(accepted)
    if missing or len(accepted) < len(bound) + GENERATED * extent.times // 4:
        raise Inconclusive(f"the API server refused {sorted(missing)} and {len(pods) - len(accepted)} pods in all")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "equipoise-descheduler"},
        "spec": {"holderIdentity": "tenant", "renewTime": "0000-01-01T00:00:00.000000Z"},
    }
    await _post(rig, TENANT, lease)
    node = objects.node("poison-node", cpu="1e300")
    node["spec"]["unschedulable"] = True
    await _post(rig, "/api/v1/nodes", node)
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "0000-01-01T00:00:00Z", "reason": "a"}
    status = {"status": {"conditions": [condition], "capacity": {"cpu": "1e300"}, "allocatable": {"cpu": "1e300"}}}
    with suppress(ApiError):
        await rig.api.request(
            "PATCH", "/api/v1/nodes/poison-node/status", status, content_type="application/merge-patch+json"
        )
    return accepted


def _pod(name: str, change: Change, node: str = "") -> dict[str, Any]:
    template = {"metadata": {}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    pod = objects.pod(name, template, namespace=cluster_setup.NAMESPACE)
    for part, values in change.items():
        pod[part] = {**pod[part], **values}
    if node:
        pod["spec"] = {**pod["spec"], "nodeName": node}
    return pod


async def _post(rig: Rig, path: str, body: Mapping[str, Any]) -> bool:
    """Whether the API server accepts it. What exists already stays."""
    try:
        await rig.api.request("POST", path, body)
    except ApiError as error:
        return error.status == 409
    return True


async def _remove(rig: Rig, names: list[str]) -> None:
    paths = [f"{PODS}/{name}?gracePeriodSeconds=0" for name in names]
    for path in (*paths, f"{TENANT}/equipoise-descheduler", "/api/v1/nodes/poison-node"):
        with suppress(ApiError):
            await rig.api.request("DELETE", path)


async def _publish(rig: Rig) -> None:
    client = await nats.connect(rig.nats_url.split(","), max_reconnect_attempts=3)
    try:
        for name, change in MESSAGES.items():
            subject = subjects.node_utilization(name)
            document = msgspec.to_builtins(NODE_UTILIZATION) | {"node": name} | change
            await client.publish(subject, json.dumps(document).encode(), headers={"ce-subject": subject})
        await client.flush()
    finally:
        await client.close()


def _absurd(document: Any) -> Any:
    """Values of one node that no machine has, and of a series without one."""
    if document["data"]["resultType"] != "vector":
        return document
    found = []
    for number, series in enumerate(document["data"]["result"]):
        absurd = ("1e39", "1e308", "-1e308")[number % 3]
        found.append(with_value(series, absurd) if series["metric"].get("node") == MEASURED else series)
    return document | {"data": document["data"] | {"result": found}}


def nothing_was_found(history: History) -> list[str]:
    """No service ended, and everything was named."""
    return [finding.what for finding in history.findings]


FAULTS = (fault(poison, 47, intents=0, evictions=1, also=nothing_was_found),)
