"""Objects, messages and measurements that cannot be true, through all services at once on a real cluster."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import nats

from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.utilization import NODE_UTILIZATION
from equipoise.testbed import objects
from equipoise.testbed.api import ApiError
from faults import cluster_setup
from faults.catalog.fault import Extent, fault
from faults.catalog.metrics import USAGE, real_services, with_value
from faults.fakes import take_lease
from faults.fault_proxy import rewrite
from faults.history import History
from faults.rig import Rig

PODS = f"/api/v1/namespaces/{cluster_setup.NAMESPACE}/pods"
TENANT = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
MEASURED = cluster_setup.NODES[9]
"""Whose metrics are absurd."""

OLDER = 2.0
"""Seconds by which the own Lease is older than that of the tenant: the API server writes whole seconds. An older one
would stop evictions."""

AMOUNTS: Mapping[str, Mapping[str, str]] = {
    "infinite": {"cpu": "1e308"},
    "exa": {"cpu": "10E", "memory": "7E"},
    "largest": {"cpu": "9223372036854775807"},
}
"""Requests by name of the pod."""

MESSAGES: Mapping[str, Mapping[str, Any]] = {
    "poison-usage": {"pods": {"u": {"cpu": 1e39, "memory": 1}}},
    "poison-time": {"queried_at": 1e300},
    "poison-base": {"base": {"cpu": 1e308, "memory": -1e39}},
    "poison-type": {"windows": ["5m"]},
}
"""What the message about a node contains instead, by its name."""


async def poison(rig: Rig, extent: Extent) -> None:
    """Pods with absurd requests, a Lease and a node with years that do not exist, an annotation with escape sequences,
    absurd messages and measurements, before the services start and while they run. No service ends, evictions go on,
    and everything is named."""
    rig.descheduler.epoch = await take_lease(rig.kube, cluster_setup.OWN, "faults")
    await rig.until_time(rig.clock.now() + OLDER)
    await _apply(rig)
    scheduler = _start_scheduler(rig)
    try:
        async with real_services(rig, {"reclaimer": 1, "annotator": 1}):
            pids = {name: program.pid for name, program in rig.programs.items() if program.runs}
            await rig.evictions(1)
            for _ in range(extent.times):
                await _remove(rig)
                await _apply(rig)
                rig.prometheus.rule(rewrite(body=_absurd), path=USAGE)
                await _publish(rig)
                await rig.propose_as_leader()  # the load of the nodes is level by now
                await rig.evictions(extent.evictions)
                rig.descheduler.epoch = None
                await _check(rig, pids)
                if (code := rig.cluster.guard.exit_code(scheduler)) is not None:
                    rig.find(f"equipoise scheduler ended with code {code}")
                rig.prometheus.clear()
            await _remove(rig)
    finally:
        await _remove(rig)
        with suppress(ProcessLookupError):
            os.kill(scheduler, signal.SIGTERM)


def _start_scheduler(rig: Rig) -> int:
    """`equipoise scheduler` beside kube-scheduler; its process id. It ends with the cluster."""
    program = [
        str(Path(sys.executable).with_name("equipoise")),
        "scheduler",
        "--kubeconfig",
        str(rig.cluster.kubeconfig),
    ]
    listen = f"127.0.0.1:{rig.port('scheduler-0')}"
    return rig.cluster.guard.start(
        [*program, "--listen", listen, "--namespace", cluster_setup.OWN],
        log=rig.cluster.log("equipoise-scheduler"),
        environment={},
    )


async def _check(rig: Rig, pids: Mapping[str, int]) -> None:
    """Records what ended, and what no service names."""
    for name, pid in pids.items():
        if not rig.program(name).runs or rig.program(name).pid != pid:
            rig.find(f"{name} ended")

    async def named(what: str) -> bool:
        reports = await asyncio.gather(*(rig.program(name).readiness() for name in pids))
        return any(what in problem for report in reports if report for problem in report["problems"])

    for what in ("shop/poison-", "messages: 4 cannot be read", "poison-node", MEASURED):
        try:
            await rig.until(lambda what=what: named(what), f"a service names {what}")
        except Exception as error:
            rig.find(f"no service names {what}: {error}")


async def _apply(rig: Rig) -> None:
    for name, amounts in AMOUNTS.items():
        await _post(rig, PODS, _pod(name, amounts))
    bound = _pod("bound", {"cpu": "100m"})
    bound["spec"]["nodeName"] = MEASURED
    bound["metadata"]["annotations"] = {"equipoise.dev/evict": "\x1b]52;c;aGFjaw==\x07" + 200_000 * "x"}
    await _post(rig, PODS, bound)
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


def _pod(name: str, requests: Mapping[str, str]) -> dict[str, Any]:
    container = {"name": "a", "image": "a", "resources": {"requests": dict(requests)}}
    metadata = {"name": f"poison-{name}", "namespace": cluster_setup.NAMESPACE}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


async def _post(rig: Rig, path: str, body: Mapping[str, Any]) -> None:
    """What exists already stays."""
    try:
        await rig.api.request("POST", path, body)
    except ApiError as error:
        if error.status != 409:
            raise


async def _remove(rig: Rig) -> None:
    names = [*(f"{PODS}/poison-{name}?gracePeriodSeconds=0" for name in (*AMOUNTS, "bound"))]
    for path in (*names, f"{TENANT}/equipoise-descheduler", "/api/v1/nodes/poison-node"):
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
