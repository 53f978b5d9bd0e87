"""The cluster changes while an intent is processed: what is forbidden now was allowed when the binder read it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from equipoise.binder.shell.ledger_store import pause, resume
from equipoise.contracts.kubernetes import objects as kubernetes
from equipoise.contracts.messages.eviction import EvictionIntent
from equipoise.runtime.kubernetes.client import LEASES
from equipoise.runtime.kubernetes.leader_election import DESCHEDULER_LEASE
from equipoise.testbed import objects
from faults import cluster_setup
from faults.catalog.fault import Extent, fault
from faults.cluster_setup import NAMESPACE, OWN, workload_of
from faults.fakes import epoch_of, take_lease
from faults.fault_proxy import BINDER, Rule, hold, hold_response
from faults.rig import Inconclusive, Rig

OPT_OUT = {"equipoise.dev/evict": "false"}
APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"
BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"

HELD = 3.5
"""Seconds for which a request is held after the change: more than a read may be old, with the transit."""

Which = Mapping[str, str]
"""Fields of `Forbidden`: what a change forbids."""

Change = Callable[[Rig, EvictionIntent], AbstractAsyncContextManager[Which]]
"""Changes the cluster for an intent while it is entered."""


async def patch(rig: Rig, path: str, body: Any, *, kind: str = "merge-patch") -> Any:
    return await rig.api.request("PATCH", path, body, content_type=f"application/{kind}+json")


async def annotate(rig: Rig, path: str, annotations: Mapping[str, str | None]) -> None:
    """None removes an annotation."""
    await patch(rig, path, {"metadata": {"annotations": annotations}})


async def pods_of(rig: Rig, workload: str) -> list[Any]:
    """Those that are not terminating."""
    pods = (await rig.api.request("GET", f"{PODS}?labelSelector=app%3D{workload}"))["items"]
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


async def set_ready(rig: Rig, pods: list[str], ready: bool) -> None:
    """As kubelet does after a readiness probe."""
    status = {"status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}}
    present = {pod["metadata"]["name"] for pod in (await rig.api.request("GET", PODS))["items"]}
    await asyncio.gather(
        *(patch(rig, f"{PODS}/{pod}/status", status, kind="strategic-merge-patch") for pod in pods if pod in present)
    )


async def deployment_has(rig: Rig, name: str, **status: int) -> None:
    """Until the status of the Deployment has these values."""
    wanted = {"replicas": 0, "readyReplicas": 0} | status

    async def has() -> bool:
        found = await rig.api.request("GET", f"{APPS}/deployments/{name}")
        return all(found["status"].get(field, 0) == wanted[field] for field in status)

    await rig.until(has, f"{name} has {status}")


def _forbids_pod(path: Callable[[EvictionIntent], str], **which: str) -> Change:
    """The object at this path opts out."""

    @asynccontextmanager
    async def change(rig: Rig, intent: EvictionIntent) -> AsyncIterator[Which]:
        await annotate(rig, path(intent), OPT_OUT)
        fields = {"uid": intent.pod_uid, "workload": workload_of(intent.pod), "namespace": intent.namespace}
        yield {name: fields[name] for name in which or {"uid": ""}}
        await annotate(rig, path(intent), dict.fromkeys(OPT_OUT))
        # The controller copies annotations of a Deployment to its ReplicaSet, and does not remove them.
        selector = f"labelSelector=app%3D{workload_of(intent.pod)}"
        for replica_set in (await rig.api.request("GET", f"{APPS}/replicasets?{selector}"))["items"]:
            await annotate(rig, f"{APPS}/replicasets/{replica_set['metadata']['name']}", dict.fromkeys(OPT_OUT))

    return change


@asynccontextmanager
async def _scaled_to_one(rig: Rig, intent: EvictionIntent) -> AsyncIterator[Which]:
    """The pod of the intent is the one that remains."""
    name = workload_of(intent.pod)
    await annotate(rig, f"{PODS}/{intent.pod}", {"controller.kubernetes.io/pod-deletion-cost": "1000"})
    await patch(rig, f"{APPS}/deployments/{name}", {"spec": {"replicas": 1}})
    await deployment_has(rig, name, replicas=1)
    yield {"workload": name}
    await patch(rig, f"{APPS}/deployments/{name}", {"spec": {"replicas": cluster_setup.REPLICAS}})


@asynccontextmanager
async def _unready(rig: Rig, intent: EvictionIntent) -> AsyncIterator[Which]:
    """Two replicas remain ready, the pod of the intent among them."""
    name = workload_of(intent.pod)
    others = [pod["metadata"]["name"] for pod in await pods_of(rig, name) if pod["metadata"]["name"] != intent.pod]
    await set_ready(rig, others[1:], False)
    await deployment_has(rig, name, readyReplicas=2)
    yield {"workload": name}
    await set_ready(rig, others[1:], True)


@asynccontextmanager
async def _budget(rig: Rig, intent: EvictionIntent) -> AsyncIterator[Which]:
    """A new PodDisruptionBudget allows no disruption."""
    name = workload_of(intent.pod)
    await rig.api.apply([objects.pod_disruption_budget(f"new-{name}", name, max_unavailable=0, namespace=NAMESPACE)])
    yield {"workload": name}
    await rig.api.request("DELETE", f"{BUDGETS}/new-{name}")


@asynccontextmanager
async def _paused(rig: Rig, intent: EvictionIntent) -> AsyncIterator[Which]:
    await pause(rig.kube, OWN, "a fault is injected")
    yield {}
    await resume(rig.kube, OWN, rig.clock)


@asynccontextmanager
async def _ledger_deleted(rig: Rig, intent: EvictionIntent) -> AsyncIterator[Which]:
    path = f"/api/v1/namespaces/{OWN}/configmaps"
    ledger = await rig.api.request("GET", f"{path}/equipoise-ledger")
    await rig.api.request("DELETE", f"{path}/equipoise-ledger")
    yield {}
    metadata = {name: ledger["metadata"][name] for name in ("name", "namespace")}
    await rig.api.request("POST", path, {**ledger, "metadata": metadata})


@asynccontextmanager
async def _lease_taken_over(rig: Rig, intent: EvictionIntent) -> AsyncIterator[Which]:
    """The harness goes on to propose in the name of the earlier leader."""
    epoch = await take_lease(rig.kube, OWN, "another")
    rig.descheduler.epoch_held = False
    yield {}
    await rig.all_settled()
    rig.descheduler.epoch, rig.descheduler.epoch_held = epoch, True


@asynccontextmanager
async def _lease_deleted(rig: Rig, intent: EvictionIntent) -> AsyncIterator[Which]:
    await rig.api.request("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases/{DESCHEDULER_LEASE}")
    rig.descheduler.epoch_held = False
    yield {}
    await rig.all_settled()
    # With a higher number than before: the checks order leaders by it.
    spec = kubernetes.LeaseSpec(
        holder_identity="faults", lease_duration_seconds=1, lease_transitions=intent.epoch.transitions + 1
    )
    metadata = kubernetes.ObjectMeta(name=DESCHEDULER_LEASE, namespace=OWN)
    lease = await rig.kube.create(LEASES, kubernetes.Lease(metadata=metadata, spec=spec))
    rig.descheduler.epoch, rig.descheduler.epoch_held = epoch_of(lease), True


CHANGES: Mapping[str, Change] = {
    "its pod opted out": _forbids_pod(lambda intent: f"{PODS}/{intent.pod}"),
    "its workload opted out": _forbids_pod(lambda intent: f"{APPS}/deployments/{workload_of(intent.pod)}", workload=""),
    "its namespace opted out": _forbids_pod(lambda intent: f"/api/v1/namespaces/{intent.namespace}", namespace=""),
    "its workload was scaled to 1": _scaled_to_one,
    "4 of 6 replicas became unready": _unready,
    "a budget was created": _budget,
    "evictions were paused": _paused,
    "the ledger was deleted": _ledger_deleted,
    "another descheduler took the Lease": _lease_taken_over,
    "the Lease was deleted": _lease_deleted,
}

POINTS: tuple[Mapping[str, Any], ...] = (
    {"method": "GET", "path": "/configmaps/"},
    {"method": "GET", "path": "/configmaps/", "after": 1},
    {"method": "GET", "path": f"/leases/{DESCHEDULER_LEASE}"},
    {"method": "GET", "path": "/pods/"},
    {"method": "GET", "path": f"/namespaces/{NAMESPACE}$"},
    {"method": "GET", "path": "/replicasets/"},
    {"method": "GET", "path": "/deployments/"},
    {"method": "PUT", "path": "/configmaps/"},
)
"""The requests from an intent to its POST. A POST that is late itself cannot be recalled."""

RESERVATION = POINTS[-1]


async def changed_between_steps(rig: Rig, extent: Extent) -> None:
    """A binder's request on the way to an eviction, or its response, is held; the cluster changes so that the eviction
    is forbidden; 3.5 s later the request goes on."""
    await rig.start("binder", 2)
    await rig.evictions(extent.evictions)
    mix = rig.descheduler.mix
    rig.descheduler.mix, rig.descheduler.max_pending = {}, 0
    names = list(CHANGES) * (2 if extent.times > 1 else 1)
    if extent.times == 1:
        names = rig.generator.sample(names, 5)
    for number, name in enumerate(names):
        await rig.all_settled()
        await rig.all_replicas_ready()
        point, hold_it = rig.generator.choice(POINTS), rig.generator.choice((hold, hold_response))
        if number % 2 == 0:
            point, hold_it = RESERVATION, hold_response  # the last wait: everything was read before
        await _hold_and_change(rig, name, rig.proxy.rule(hold_it, agent=BINDER, times=1, **point))
    rig.descheduler.mix, rig.descheduler.max_pending, rig.descheduler.only = mix, 6, ()
    await rig.all_replicas_ready()
    await rig.evictions(extent.evictions)


async def _hold_and_change(rig: Rig, name: str, rule: Rule) -> None:
    rig.descheduler.only = (rig.generator.choice(cluster_setup.MOVABLE),)
    intents: list[EvictionIntent] = []

    async def held() -> bool:
        if not intents or not (rule.taken or rig.recorder.pending()):
            intents[:] = await rig.descheduler.propose() or intents
            await asyncio.sleep(0.1)
        return bool(rule.taken and intents)

    await rig.until(held, f"a request to hold while {name}")
    inconclusive: Inconclusive | None = None
    async with CHANGES[name](rig, intents[-1]) as which:
        try:
            with rig.recorder.forbidding(name, **which):
                over = time.monotonic() + HELD
                await rig.until(lambda: time.monotonic() > over, "the request is held")
                rule.lift()
                await rig.all_settled()
                await rig.descheduler.propose(2)
                await rig.all_settled()
        except Inconclusive as error:
            inconclusive = error  # the change must be undone for the runs that follow
    if inconclusive is not None:
        raise inconclusive


FAULTS = (fault(changed_between_steps, intents=20, evictions=8),)
