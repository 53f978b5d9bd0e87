"""Pods are moved without a gap, and something happens at each stage of the moves (`faults.moves`)."""

import asyncio
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from equipoise.binder.state.surge_move import DETACHED, PLACED, READY, RESERVED
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.contracts.eviction.surge import TEMPLATE_HASH
from equipoise.contracts.kubernetes.objects.metadata import is_ready
from equipoise.testbed.api import ApiError
from faults.catalog.binders import ACK_WAIT
from faults.catalog.deschedulers import changing_load
from faults.catalog.fault import Extent, fault
from faults.cluster_setup import MOVES, OWN
from faults.moves import APPS, BUDGETS, FAILURES, POD_PATH, READY_DELAY, STAGES, AtStage, Change, Moves, moving
from faults.rig import Rig

SHAPES: tuple[tuple[int, Mapping[str, Any] | None], ...] = (
    (1, {"maxUnavailable": 0}),
    (1, {"minAvailable": 1}),
    (1, None),
    (2, {"maxUnavailable": 0}),
    (3, {"minAvailable": "100%"}),
)
"""Replicas, and the budget if there is one. Most of the pods cannot be evicted."""

SHORT_TIMEOUT = 6.0
"""Seconds: surge.readyTimeout where replacements shall not be ready in time."""

TAINT = {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}


async def at_each_stage(moves: Moves, extent: Extent, change: Change, **deployment: Any) -> None:
    """For each stage, a Deployment of which a pod is moved and for which the change is made at that stage.

    `deployment`: arguments of `Moves.deploy`.
    """
    for number in range(extent.times):
        stages = moves.rig.generator.sample(STAGES, len(STAGES))
        apps = {f"{stage}{moves.version}x{number}": stage for stage in stages}
        shapes = moves.rig.generator.sample(SHAPES, len(SHAPES))
        await asyncio.gather(
            *(
                moves.deploy(app, replicas, budget=budget, **deployment)
                for app, (replicas, budget) in zip(apps, shapes, strict=True)
            )
        )
        await asyncio.gather(*(moves.move(app, stage, change) for app, stage in apps.items()))
        await moves.ended()


def _one_of(*changes: Change) -> Change:
    """One of them, chosen for each stage."""

    async def change(moves: Moves, at: AtStage) -> None:
        await moves.rig.generator.choice(changes)(moves, at)

    return change


async def moves_binders_killed(rig: Rig, extent: Extent) -> None:
    """At each stage of a move the binder that has written it gets SIGKILL before it knows; the other one continues."""
    await rig.recreate_consumer(ack_wait=ACK_WAIT)
    async with moving(rig) as moves:
        await at_each_stage(moves, extent, _kill_binder)


async def _kill_binder(moves: Moves, at: AtStage) -> None:
    binder = moves.rig.programs[at.binder]
    pid = binder.pid
    async with moves.one_at_a_time:
        if binder.pid == pid:  # otherwise it was killed for another move meanwhile
            binder.kill()
            await moves.start(at.binder)


async def moves_nats_killed(rig: Rig, extent: Extent) -> None:
    """At each stage of a move nats-server gets SIGKILL, and starts with its storage up to 5 s later."""

    async def kill(moves: Moves, at: AtStage) -> None:
        async with moves.one_at_a_time:
            rig.cluster.kill("nats-server")
            await asyncio.sleep(rig.generator.uniform(0.0, max(extent.nats_down[:1])))
            await asyncio.to_thread(rig.cluster.restart, "nats-server")
            await rig.reconnected()

    async with moving(rig) as moves:
        await at_each_stage(moves, extent, kill)


async def moves_api_server_stopped(rig: Rig, extent: Extent) -> None:
    """At each stage of a move the API server gets SIGKILL and is started again, or is suspended."""

    async def stop(moves: Moves, at: AtStage) -> None:
        async with moves.one_at_a_time:
            if rig.generator.random() < 0.5:
                await asyncio.to_thread(rig.cluster.restart, "kube-apiserver")
                return
            rig.cluster.kill("kube-apiserver", signal.SIGSTOP)
            try:
                await asyncio.sleep(rig.generator.uniform(1.0, extent.stopped))
            finally:
                rig.cluster.kill("kube-apiserver", signal.SIGCONT)

    async with moving(rig) as moves:
        await at_each_stage(moves, extent, stop)


async def moves_deschedulers_killed(rig: Rig, extent: Extent) -> None:
    """Two deschedulers with their own rights propose and approve the moves. At each stage both get SIGKILL: nothing is
    approved any more, while intents still arrive. They are started again, and keep the approvals of open moves only."""
    rig.sections["namespaces"] = {"include": [MOVES]}
    async with moving(rig) as moves:
        other = f"unapproved{moves.version}"
        replicas = {other: 1} | {f"levelled{number}x{moves.version}": 3 for number in range(8)}
        await asyncio.gather(*(moves.deploy(app, count) for app, count in replicas.items()))
        deschedulers = [rig.program(f"descheduler-{number}") for number in range(2)]
        token = await rig.cluster.service_account_token(OWN, "equipoise-descheduler")

        async def kill(moves: Moves, at: AtStage) -> None:
            async with moves.one_at_a_time:
                for descheduler in deschedulers:
                    descheduler.kill()
                intents = await moves.propose(other, approved=False)
                settled = rig.recorder.settled
                await rig.until(lambda: all(intent.id in settled for intent in intents), "the intents are settled")
                await asyncio.gather(*(descheduler.start() for descheduler in deschedulers))

        await rig.purge_outcomes()
        for descheduler in deschedulers:
            descheduler.account = token.parent
        try:
            await asyncio.gather(*(descheduler.start() for descheduler in deschedulers))
            async with changing_load(rig):
                for _ in range(extent.times):
                    for stage in rig.generator.sample(STAGES, len(STAGES)):
                        await moves.reach(stage, kill)
        finally:
            await moves.changes_made()
            rig.stop_programs("descheduler")
            for descheduler in deschedulers:
                descheduler.account = None


async def moves_rolled_out(rig: Rig, extent: Extent) -> None:
    """At each stage of a move a rollout of the Deployment begins, whose pods are ready at once, or only after the
    `readyTimeout` of the move."""
    async with moving(rig, ready_timeout=SHORT_TIMEOUT) as moves:
        await at_each_stage(moves, extent, _roll_out)


async def _roll_out(moves: Moves, at: AtStage) -> None:
    seconds = moves.rig.generator.choice((0.0, 3.0, SHORT_TIMEOUT + 4.0))
    moves.recorder.roll_out(at.app)
    await moves.change_workload(at.app, _template(moves, **{READY_DELAY: f"{seconds:g}s"}))


def _template(moves: Moves, **annotations: str) -> Mapping[str, Any]:
    annotations["version"] = str(moves.rig.clock.now())
    return {"spec": {"template": {"metadata": {"annotations": annotations}}}}


async def moves_scaled(rig: Rig, extent: Extent) -> None:
    """At each stage of a move the replicas are changed as by an autoscaler: more, fewer, or none for some seconds."""
    async with moving(rig) as moves:
        await at_each_stage(moves, extent, _scale)


async def _scale(moves: Moves, at: AtStage) -> None:
    before = (await moves.rig.api.request("GET", f"{APPS}/deployments/{at.app}"))["spec"]["replicas"]
    after = moves.rig.generator.choice((0, max(1, before - 1), before + 1, before + 2))
    if after < before:
        moves.recorder.require(at.app, after)
    await moves.change_workload(at.app, {"spec": {"replicas": after}})
    if not after:
        await asyncio.sleep(moves.rig.generator.uniform(0.0, 4.0))
        after = before
        await moves.change_workload(at.app, {"spec": {"replicas": after}})
    await moves.complete(at.app, after)


async def moves_deleted(rig: Rig, extent: Extent) -> None:
    """At each stage of a move the Deployment is deleted, with its pods and its budget or without them, or paused, and a
    rollout begins when it continues."""
    async with moving(rig) as moves:
        await at_each_stage(moves, extent, _one_of(_delete, _orphan, _pause))


async def _delete(moves: Moves, at: AtStage) -> None:
    moves.recorder.require(at.app, 0)
    how = moves.rig.generator.choice(("Background", "Foreground"))
    await moves.rig.api.request("DELETE", f"{APPS}/deployments/{at.app}?propagationPolicy={how}")
    with suppress(ApiError):  # not every Deployment has a budget, which would keep the pod that is being moved
        await moves.rig.api.request("DELETE", f"{BUDGETS}/{at.app}")


async def _orphan(moves: Moves, at: AtStage) -> None:
    """Its ReplicaSet keeps the pods."""
    await moves.rig.api.request("DELETE", f"{APPS}/deployments/{at.app}?propagationPolicy=Orphan")


async def _pause(moves: Moves, at: AtStage) -> None:
    await moves.change_workload(at.app, {"spec": {"paused": True}})
    await moves.change_workload(at.app, _template(moves))
    await asyncio.sleep(moves.rig.generator.uniform(0.0, 6.0))
    moves.recorder.roll_out(at.app)
    await moves.change_workload(at.app, {"spec": {"paused": False}})


async def moves_edited(rig: Rig, extent: Extent) -> None:
    """At each stage of a move a tenant changes the pod: a finalizer is added, the annotation or the label is edited or
    removed, or the label is restored."""
    async with moving(rig) as moves:
        await at_each_stage(moves, extent, _one_of(*EDITS))


async def _add_finalizer(moves: Moves, at: AtStage) -> None:
    await moves.change_pod(at.pod, {"finalizers": ["example.com/held"]})


def _annotate(value: str | None) -> Change:
    async def change(moves: Moves, at: AtStage) -> None:
        await moves.change_pod(at.pod, {"annotations": {DETACHED_HASH: value}})

    return change


def _label(value: str | None) -> Change:
    async def change(moves: Moves, at: AtStage) -> None:
        await _relabel(moves, at, value)

    return change


async def _restore(moves: Moves, at: AtStage) -> None:
    """The value is that of the other pods of its ReplicaSet."""
    metadata = await _metadata(moves, at)
    await _relabel(moves, at, metadata.get("annotations", {}).get(DETACHED_HASH))


async def _relabel(moves: Moves, at: AtStage, value: str | None) -> None:
    if metadata := await _metadata(moves, at):
        moves.recorder.relabel(at.pod, metadata["uid"], value)
        await moves.change_pod(at.pod, {"labels": {TEMPLATE_HASH: value}})


async def _metadata(moves: Moves, at: AtStage) -> dict[str, Any]:
    """That of the pod; empty if it is gone."""
    with suppress(ApiError):
        metadata: dict[str, Any] = (await moves.rig.api.request("GET", f"{POD_PATH}/{at.pod}"))["metadata"]
        return metadata
    return {}


EDITS: tuple[Change, ...] = (
    _add_finalizer,
    _annotate(None),
    _annotate("edited"),
    _label(None),
    _label("edited"),
    _restore,
)


async def moves_cordoned(rig: Rig, extent: Extent) -> None:
    """At each stage of a move the node of the pod is cordoned, or gets the taint of an autoscaler that removes it."""
    async with moving(rig) as moves:
        await at_each_stage(moves, extent, _cordon)


async def _cordon(moves: Moves, at: AtStage) -> None:
    """Until the move has ended, because no move begins on such a node, and other workloads have pods there."""
    try:
        pod = await moves.rig.api.request("GET", f"{POD_PATH}/{at.pod}")
    except ApiError as error:
        if error.status != 404:
            raise
        return  # evicted
    node = f"/api/v1/nodes/{pod['spec']['nodeName']}"
    spec = moves.rig.generator.choice(({"unschedulable": True}, {"taints": [TAINT]}))
    await moves.rig.api.patch(node, {"spec": spec})
    await moves.has_ended(at.pod)
    await moves.rig.api.patch(node, {"spec": dict.fromkeys(spec)})


async def moves_replacements_fail(rig: Rig, extent: Extent) -> None:
    """Replacements become ready and unready again and again, as in a crash loop, from the stages on at which they
    exist; later none finds a node, because kube-scheduler is killed, until after the `readyTimeout`."""
    async with moving(rig, ready_timeout=SHORT_TIMEOUT) as moves:

        async def fail(moves: Moves, at: AtStage) -> None:
            if at.stage in (DETACHED, PLACED):
                await _crash(moves, at)
            elif at.stage in (RESERVED, READY):
                await _without_scheduler(moves)

        await at_each_stage(moves, extent, fail, minReadySeconds=3)


async def _crash(moves: Moves, at: AtStage) -> None:
    """The newest pod is ready and not ready for a second each, for longer than the move waits for it, while as many
    others are ready as the workload requires."""
    end = moves.rig.clock.now() + 2 * SHORT_TIMEOUT
    while moves.rig.clock.now() < end:
        for ready in (False, True):
            with suppress(*FAILURES):
                await _set_newest_ready(moves, at, ready)
            await asyncio.sleep(1.0)


async def _set_newest_ready(moves: Moves, at: AtStage, ready: bool) -> None:
    *others, newest = sorted(await moves.pods(at.app), key=lambda pod: str(pod.metadata.creation_timestamp))
    enough = sum(is_ready(pod.status.conditions) for pod in others) >= moves.required(at.app)
    if newest.spec.node_name and newest.metadata.name != at.pod and (ready or enough):
        status = {"status": {"conditions": [{"type": "Ready", "status": str(ready)}]}}
        path = f"{POD_PATH}/{newest.metadata.name}/status"
        await moves.rig.api.patch(path, status, kind="strategic-merge-patch")


async def _without_scheduler(moves: Moves) -> None:
    async with moves.one_at_a_time:
        moves.rig.cluster.kill("kube-scheduler")
        await asyncio.sleep(SHORT_TIMEOUT + 4.0)
        await asyncio.to_thread(moves.rig.cluster.restart, "kube-scheduler")


FAULTS = (
    fault(moves_binders_killed, 48, intents=5, evictions=3),
    fault(moves_nats_killed, 49, intents=5, evictions=3),
    fault(moves_api_server_stopped, 50, intents=5, evictions=3),
    fault(moves_deschedulers_killed, 51, intents=8, evictions=2),
    fault(moves_rolled_out, 52, intents=5, evictions=3),
    fault(moves_scaled, 53, intents=5, evictions=3),
    fault(moves_deleted, 54, intents=5, evictions=3),
    fault(moves_edited, 55, intents=5, evictions=3),
    fault(moves_cordoned, 56, intents=5, evictions=2),
    fault(moves_replacements_fail, 57, intents=5, evictions=1),
)
