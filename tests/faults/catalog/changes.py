"""The cluster changes while an intent is processed: what is forbidden now was allowed when the binder read it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from equipoise.binder.shell.ledger_store import pause, resume
from equipoise.contracts.kubernetes.objects.cluster import Lease, LeaseSpec
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.messages.eviction import EvictionIntent
from equipoise.runtime.kubernetes.client import LEASES
from equipoise.runtime.kubernetes.leader_election import DESCHEDULER_LEASE
from equipoise.testbed import objects
from equipoise.testbed.api import ApiError
from faults import cluster_setup
from faults.catalog.deschedulers import descheduling
from faults.catalog.fault import Extent, fault
from faults.cluster_setup import APPS, NAMESPACE, OWN, PODS, workload_of
from faults.fakes import epoch_of, take_lease
from faults.fault_proxy import BINDER, EVICTION, Rule, delay, hold, hold_response
from faults.history import Forbidden
from faults.rig import Inconclusive, Rig

OPT_OUT = {"equipoise.dev/evict": "false"}
BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"

HELD = 3.5
"""Seconds for which a request is held after the change: more than a read may be old, with the transit."""

Which = Mapping[str, str]
"""Fields of `Forbidden`: what a change forbids."""

Change = Callable[[Rig, EvictionIntent], AbstractAsyncContextManager[Which]]
"""Changes the cluster for an intent while it is entered."""


async def annotate(rig: Rig, path: str, annotations: Mapping[str, str | None]) -> None:
    """None removes an annotation."""
    await rig.api.patch(path, {"metadata": {"annotations": annotations}})


async def pods_of(rig: Rig, workload: str) -> list[Any]:
    """Those that are not terminating."""
    pods = (await rig.api.request("GET", f"{PODS}?labelSelector=app%3D{workload}"))["items"]
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


async def set_ready(rig: Rig, pods: list[str], ready: bool) -> None:
    """As kubelet does after a readiness probe."""
    status = {"status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}}
    present = {pod["metadata"]["name"] for pod in (await rig.api.request("GET", PODS))["items"]}
    await asyncio.gather(
        *(rig.api.patch(f"{PODS}/{pod}/status", status, kind="strategic-merge-patch") for pod in pods if pod in present)
    )


async def deployment_has(rig: Rig, name: str, **status: int) -> None:
    """Until the status of the Deployment has these values."""

    async def has() -> bool:
        found = await rig.api.request("GET", f"{APPS}/deployments/{name}")
        return all(found["status"].get(field, 0) == value for field, value in status.items())

    await rig.until(has, f"{name} has {status}")


def _opts_out(path: Callable[[EvictionIntent], str], field: str) -> Change:
    """The object at this path; `field` of `Forbidden`."""

    @asynccontextmanager
    async def change(rig: Rig, intent: EvictionIntent) -> AsyncIterator[Which]:
        await annotate(rig, path(intent), OPT_OUT)
        fields = {"uid": intent.pod_uid, "workload": workload_of(intent.pod), "namespace": intent.namespace}
        yield {field: fields[field]}
        await annotate(rig, path(intent), dict.fromkeys(OPT_OUT))
        await rig.until(lambda: _removed_from_replica_sets(rig, workload_of(intent.pod)), "nothing is opted out")

    return change


async def _removed_from_replica_sets(rig: Rig, workload: str) -> bool:
    """The controller copies the annotations of a Deployment to its ReplicaSets, and does not remove them there."""
    found = (await rig.api.request("GET", f"{APPS}/replicasets?labelSelector=app%3D{workload}"))["items"]
    opted_out = [item["metadata"]["name"] for item in found if OPT_OUT.keys() & item["metadata"]["annotations"].keys()]
    for name in opted_out:
        await annotate(rig, f"{APPS}/replicasets/{name}", dict.fromkeys(OPT_OUT))
    await asyncio.sleep(0.3)  # the controller may copy them once more
    return not opted_out


@asynccontextmanager
async def _scaled_to_one(rig: Rig, intent: EvictionIntent) -> AsyncIterator[Which]:
    """The pod of the intent is the one that remains."""
    name = workload_of(intent.pod)
    await annotate(rig, f"{PODS}/{intent.pod}", {"controller.kubernetes.io/pod-deletion-cost": "1000"})
    await rig.api.patch(f"{APPS}/deployments/{name}", {"spec": {"replicas": 1}})
    await deployment_has(rig, name, replicas=1)
    yield {"workload": name}
    await rig.api.patch(f"{APPS}/deployments/{name}", {"spec": {"replicas": cluster_setup.REPLICAS}})


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
    spec = LeaseSpec(holder_identity="faults", lease_duration_seconds=1, lease_transitions=intent.epoch.transitions + 1)
    metadata = ObjectMeta(name=DESCHEDULER_LEASE, namespace=OWN)
    lease = await rig.kube.create(LEASES, Lease(metadata=metadata, spec=spec))
    rig.descheduler.epoch, rig.descheduler.epoch_held = epoch_of(lease), True


def _configures(change: Mapping[str, Any], **which: str) -> Change:
    """Every binder uses another configuration; `which` are fields of `Forbidden`."""

    @asynccontextmanager
    async def configured(rig: Rig, intent: EvictionIntent) -> AsyncIterator[Which]:
        binders = [program for name, program in rig.programs.items() if name.startswith("binder-") and program.runs]
        before = {binder: (await binder.configuration_hash(), binder.configuration.read_text()) for binder in binders}

        async def used(wanted: bool) -> bool:
            reports = [await binder.readiness() for binder in binders]
            return all(
                report is not None and report["ready"] and (report["configuration"] == before[binder][0]) is wanted
                for binder, report in zip(binders, reports, strict=True)
            )

        for binder in binders:
            binder.configuration.write_text(binder.changed_configuration(change))
        await rig.until(lambda: used(False), "the binders use the changed configuration")
        yield which
        for binder, (_, text) in before.items():
            binder.configuration.write_text(text)
        await rig.until(lambda: used(True), "the binders use the configuration from before")

    return configured


CHANGES: Mapping[str, Change] = {
    "its pod opted out": _opts_out(lambda intent: f"{PODS}/{intent.pod}", "uid"),
    "its workload opted out": _opts_out(lambda intent: f"{APPS}/deployments/{workload_of(intent.pod)}", "workload"),
    "its namespace opted out": _opts_out(lambda intent: f"/api/v1/namespaces/{intent.namespace}", "namespace"),
    "its workload was scaled to 1": _scaled_to_one,
    "4 of 6 replicas became unready": _unready,
    "a budget was created": _budget,
    "evictions were paused": _paused,
    "the ledger was deleted": _ledger_deleted,
    "another descheduler took the Lease": _lease_taken_over,
    "the Lease was deleted": _lease_deleted,
    "the configuration allows no eviction of a workload": _configures(
        {"binder.limits": {**cluster_setup.LIMITS, "evictionsPerWorkload": {"max": 0, "window": "4s"}}}
    ),
    "the configuration excludes its namespace": _configures(
        {"namespaces": {"exclude": [NAMESPACE]}}, namespace=NAMESPACE
    ),
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
                await asyncio.sleep(HELD)
                rule.lift()
                await rig.all_settled()
                await rig.descheduler.propose(2)
                await rig.all_settled()
        except Inconclusive as error:
            inconclusive = error  # the change must be undone for the runs that follow
    if inconclusive is not None:
        raise inconclusive


async def budgets_changed(rig: Rig, extent: Extent) -> None:
    """While intents are pending and POSTs are slow, PodDisruptionBudgets are created, tightened to 0 and removed, and
    replicas under a budget become unready."""
    await rig.start("binder", 2)
    await rig.evictions(extent.evictions)
    rig.proxy.rule(delay(0.5), method="POST", path=EVICTION, share=0.5)
    for _ in range(extent.times):
        await rig.all_replicas_ready()
        tightened, unready, *others = rig.generator.sample(cluster_setup.MOVABLE, 4)
        rig.descheduler.only, rig.descheduler.max_pending = (tightened, unready, *others), 8
        await _allow(rig, (tightened, unready), 2)
        await rig.outcomes(4)
        await _allow(rig, (tightened,), 0)
        with rig.recorder.forbidding("its budget became 0", workload=tightened):
            affected = [pod["metadata"]["name"] for pod in (await pods_of(rig, unready))[:2]]
            await set_ready(rig, affected, False)
            await rig.until(lambda name=unready: _exhausted(rig, name), "the budget allows no disruption")
            with rig.recorder.forbidding("two replicas under a budget of two became unready", workload=unready):
                await asyncio.sleep(2 * HELD)
                await rig.outcomes(6)
            await set_ready(rig, affected, True)
        for name in (tightened, unready):
            await rig.api.request("DELETE", f"{BUDGETS}/changing-{name}")
        rig.descheduler.only, rig.descheduler.max_pending = (), 6
        await rig.evictions(extent.evictions)


async def _allow(rig: Rig, workloads: tuple[str, ...], unavailable: int) -> None:
    await rig.api.apply(
        [
            objects.pod_disruption_budget(f"changing-{name}", name, max_unavailable=unavailable, namespace=NAMESPACE)
            for name in workloads
        ]
    )


async def _exhausted(rig: Rig, workload: str) -> bool:
    status = (await rig.api.request("GET", f"{BUDGETS}/changing-{workload}"))["status"]
    return bool(status["disruptionsAllowed"] == 0 and status["currentHealthy"] < status["expectedPods"] - 1)


CLOSING = "closing"
"""A namespace that is deleted with its Deployment, `iris`, whose pods take some seconds to end."""


async def rollouts(rig: Rig, extent: Extent) -> None:
    """A Deployment is rolled out, another one scaled to 0, and the namespace of a third deleted, while a descheduler
    plans and intents for their pods are pending."""
    async with descheduling(rig):
        await rig.evictions(2)
        await rig.propose_as_leader()
        for _ in range(extent.times):
            await rig.evictions(extent.evictions)
            rolled, scaled, *others = rig.generator.sample(cluster_setup.MOVABLE, 4)
            await _create_closing(rig)
            rig.descheduler.only, rig.descheduler.max_pending = (rolled, scaled, *others), 8
            await rig.outcomes(2)
            await asyncio.gather(_roll_out(rig, rolled), _scale_to_zero(rig, scaled), _close(rig))
            rig.descheduler.only, rig.descheduler.max_pending = (), 6
        await rig.evictions(extent.evictions)


async def _roll_out(rig: Rig, name: str) -> None:
    path = f"{APPS}/deployments/{name}"
    delay_of_new_pods = {"pod-ready.stage.kwok.x-k8s.io/delay": "3s", "rolled-out": str(rig.clock.now())}
    await rig.api.patch(path, {"spec": {"template": {"metadata": {"annotations": delay_of_new_pods}}}})

    begin = end = rig.clock.now()

    async def all_are_new() -> bool:
        nonlocal end
        now = rig.clock.now()
        deployment = await rig.api.request("GET", path)
        status = deployment["status"]
        processed = status["observedGeneration"] >= deployment["metadata"]["generation"]
        if not processed or status["replicas"] > status.get("updatedReplicas", 0):
            end = now
            return False
        return True

    await rig.until(all_are_new, f"{name} is rolled out")
    rig.recorder.forbidden.append(Forbidden(begin=begin, end=end, why="its rollout began", workload=name))
    await rig.all_replicas_ready()
    template = {"metadata": {"annotations": dict.fromkeys(delay_of_new_pods)}}
    await rig.api.patch(path, {"spec": {"template": template}})
    await rig.until(lambda: _done(rig, name), f"{name} is rolled out")


async def _done(rig: Rig, name: str) -> bool:
    deployment = await rig.api.request("GET", f"{APPS}/deployments/{name}")
    status, replicas = deployment["status"], deployment["spec"]["replicas"]
    counts = [status.get(field, 0) for field in ("replicas", "updatedReplicas", "readyReplicas")]
    return status["observedGeneration"] >= deployment["metadata"]["generation"] and counts == [replicas] * 3


async def _scale_to_zero(rig: Rig, name: str) -> None:
    path = f"{APPS}/deployments/{name}"
    await rig.api.patch(path, {"spec": {"replicas": 0}})
    with rig.recorder.forbidding("its workload was scaled to 0", workload=name):
        await asyncio.sleep(2 * HELD)
    await rig.api.patch(path, {"spec": {"replicas": cluster_setup.REPLICAS}})


async def _create_closing(rig: Rig) -> None:
    template = objects.pod_template("iris", annotations={"pod-delete.stage.kwok.x-k8s.io/delay": "5s"})
    deployment = objects.deployment("iris", template, replicas=cluster_setup.REPLICAS, namespace=CLOSING)
    await rig.api.apply([objects.namespace(CLOSING), deployment])
    path = f"/apis/apps/v1/namespaces/{CLOSING}/deployments/iris"
    await rig.api.wait(path, lambda found: found["status"].get("readyReplicas") == cluster_setup.REPLICAS)
    await rig.collector.update()


async def _close(rig: Rig) -> None:
    """Its pods are proposed when its deletion has begun."""
    path = f"/api/v1/namespaces/{CLOSING}"
    only = rig.descheduler.only
    await rig.api.request("DELETE", path)
    with rig.recorder.forbidding("its namespace was deleted", namespace=CLOSING):
        rig.descheduler.only = (*only, "iris")
        await rig.until(lambda: _absent(rig, path), "the namespace is deleted")
    rig.descheduler.only = only


async def _absent(rig: Rig, path: str) -> bool:
    try:
        await rig.api.request("GET", path)
    except ApiError as error:
        return error.status == 404
    return False


FAULTS = (
    fault(changed_between_steps, intents=20, evictions=8),
    fault(budgets_changed, 28, intents=20, evictions=8),
    fault(rollouts, 31, intents=20, evictions=8),
)
