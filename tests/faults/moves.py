"""Deployments behind Services, whose pods binders move without a gap with the rights of k8s/base and k8s/surge.

In most faults the harness is the descheduler: it approves evictions and publishes the intents. A change is made at a
stage of a move when the binder has written it to the ledger, before the binder receives the response.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import msgspec
from aiohttp import web
from deployment.base import ACCOUNT_KINDS, ROOT, base_documents
from deployment.kustomize import read_kustomization

from equipoise.binder.shell.ledger_store import KEY, NAME, LedgerStore, create_ledger
from equipoise.binder.state.ledger import LedgerClosed
from equipoise.binder.state.ledger_json import decode
from equipoise.binder.state.surge_move import DETACHED, PLACED, READY, RESERVED, SurgeMove
from equipoise.contracts.eviction.approval import APPROVAL_ROLE, approval_rules
from equipoise.contracts.kubernetes.objects.metadata import is_ready
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.messages.eviction import EvictionIntent
from equipoise.runtime.kubernetes.client import PODS, KubeError
from equipoise.testbed import objects
from equipoise.testbed.api import ApiError
from faults import cluster_setup
from faults.cluster_setup import MAX_MOVES, MOVES, NODES, OWN, workload_of
from faults.fault_proxy import BINDER, EVICTION, LEDGER, ProxiedRequest
from faults.history_of_moves import LeftOvers
from faults.rig import Rig

EVICTED = "evicted"
"""The API server has evicted the pod, and the ledger still has the move."""

STAGES = (RESERVED, DETACHED, PLACED, READY, EVICTED)

ACCOUNT = "equipoise-binder"
BINDERS = ("binder-0", "binder-1")
LIMITS = cluster_setup.LIMITS | {
    "unusualRate": {"max": "unlimited", "window": "10s"},
    "preemptions": {"max": 1, "window": "10s"},
    "migrationTimeout": "10s",
}
"""A pod whose move has failed is not moved again for the longest of these times, so they are short, and a run begins
with a new ledger, which does not remember those of other runs."""

RECOVERY = 90.0
"""Seconds after the end of a fault in which every move must have ended."""

HELD = 0.3
"""Seconds for which the response to the write of a stage waits for the change at most."""

BUDGETS = f"/apis/policy/v1/namespaces/{MOVES}/poddisruptionbudgets"
APPS = f"/apis/apps/v1/namespaces/{MOVES}"
POD_PATH = f"/api/v1/namespaces/{MOVES}/pods"
READY_AFTER = 4.0
"""Seconds after which a pod is ready. Of one that is ready sooner, no binder sees that it is placed."""

READY_DELAY = "pod-ready.stage.kwok.x-k8s.io/delay"
"""The annotation that makes a fake kubelet wait before a pod is ready."""

FAILURES = (ApiError, KubeError, aiohttp.ClientError, TimeoutError)
"""What requests of the harness raise while the API server does not respond, or the object is gone."""


class AtStage(msgspec.Struct, frozen=True, kw_only=True):
    """A move in the stage at which a change is made."""

    app: str
    stage: str
    namespace: str
    pod: str
    binder: str
    """The name of the program that has written the stage."""


Change = Callable[["Moves", AtStage], Awaitable[None]]


class Moves:
    """Created by `moving`."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.recorder = rig.recorder.moves
        self.one_at_a_time = asyncio.Lock()
        """For changes that concern the whole cluster."""

        self.version = int(rig.clock.now())
        self._approving = asyncio.Lock()
        self._approved: dict[str, None] = {}
        self._changes: dict[tuple[str, str], Change] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._failures: list[BaseException] = []

    async def start(self, binder: str) -> None:
        await self.rig.program(binder).start(limits=LIMITS)

    # Workloads

    async def deploy(
        self,
        app: str,
        replicas: int,
        *,
        budget: Mapping[str, Any] | None = None,
        spec: Mapping[str, Any] | None = None,
        **deployment: Any,
    ) -> None:
        """Until the Service has its endpoints. `spec`: of the pods; `deployment`: further fields of its spec."""
        annotations = {READY_DELAY: f"{READY_AFTER:g}s"}
        manifest = objects.deployment(
            app, objects.pod_template(app, annotations=annotations, spec=spec), replicas=replicas, namespace=MOVES
        )
        manifest["spec"] |= {
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            **deployment,
        }
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": app, "namespace": MOVES},
            "spec": {"selector": {"app": app}, "ports": [{"port": 80}]},
        }
        documents = [manifest, service]
        if budget is not None:
            document = objects.pod_disruption_budget(app, app, namespace=MOVES)
            document["spec"] = {"selector": {"matchLabels": {"app": app}}, **budget}
            documents.append(document)
        await self.rig.api.apply(documents)
        await self.complete(app, replicas)

    async def complete(self, app: str, replicas: int) -> None:
        """Until the workload has this many ready endpoints, which are required from then on."""
        path = f"/apis/discovery.k8s.io/v1/namespaces/{MOVES}/endpointslices"

        async def has() -> bool:
            with suppress(*FAILURES):
                query = f"labelSelector=kubernetes.io/service-name%3D{app}"
                slices = (await self.rig.api.request("GET", f"{path}?{query}"))["items"]
                endpoints = [each for one in slices for each in one.get("endpoints") or ()]
                status = (await self.rig.api.request("GET", f"{APPS}/deployments/{app}"))["status"]
                ready = sum(bool(each["conditions"].get("ready")) for each in endpoints)
                return ready >= replicas and status.get("availableReplicas", 0) >= replicas
            return False

        await self.rig.until(has, f"{app} has {replicas} ready endpoints")
        self.recorder.require(app, replicas)

    def required(self, app: str) -> int:
        """The number of ready endpoints that the workload must have now."""
        return next(each.replicas for each in reversed(self.recorder.required) if each.workload == app)

    async def pods(self, app: str = "") -> list[Pod]:
        """The pods that do not terminate. Raises KubeError."""
        found = await self.rig.kube.list(PODS, MOVES, f"app={app}" if app else "")
        return [pod for pod in found if pod.metadata.deletion_timestamp is None]

    async def change_workload(self, app: str, body: Any) -> None:
        await self.rig.api.patch(f"{APPS}/deployments/{app}", body)

    async def change_pod(self, pod: str, metadata: Mapping[str, Any]) -> None:
        """Nothing happens if the pod is gone."""
        try:
            await self.rig.api.patch(f"{POD_PATH}/{pod}", {"metadata": metadata})
        except ApiError as error:
            if error.status != 404:
                raise

    # Moves

    async def move(self, app: str, stage: str = "", change: Change | None = None) -> None:
        """Moves a pod, and makes the change at this stage of the move; until the move has its outcome.

        A move that does not begin, or ends before the stage, is followed by another one.
        """
        reached = asyncio.Event()

        async def at_stage(moves: Moves, at: AtStage) -> None:
            reached.set()
            if change is not None:
                await change(moves, at)

        self._changes[app, stage or EVICTED] = at_stage
        last: list[EvictionIntent] = []

        async def is_reached() -> bool:
            if not reached.is_set() and (not last or last[-1].id in self.rig.recorder.settled):
                with suppress(*FAILURES):
                    last.extend(await self.propose(app))
                await asyncio.sleep(1.0)
            return reached.is_set()

        await self.rig.until(is_reached, f"a move of {app} is {stage or EVICTED}", seconds=2 * RECOVERY)

    async def reach(self, stage: str, change: Change) -> None:
        """Makes the change for the first pod, of any Deployment, whose move reaches this stage; until it does."""
        reached = asyncio.Event()

        async def at_stage(moves: Moves, at: AtStage) -> None:
            reached.set()
            await change(moves, at)

        self._changes["", stage] = at_stage
        await self.rig.until(reached.is_set, f"a move is {stage}", seconds=2 * RECOVERY)

    async def propose(self, app: str, *, approved: bool = True) -> list[EvictionIntent]:
        """Publishes an intent for a pod. Empty if there is none, or the stream has one.

        Raises what is in `FAILURES`.
        """
        pods = [
            pod
            for pod in await self.pods(app)
            if is_ready(pod.status.conditions) and pod.metadata.controller is not None and pod.spec.node_name
        ]
        if not pods:
            return []
        pod = self.rig.generator.choice(pods)
        if approved:
            await self.approve(pod.metadata.uid)
        intent = self.rig.descheduler.intent_for(pod, await self.rig.lease_epoch())
        return [intent] if await self.rig.descheduler.publish(intent) else []

    async def approve(self, uid: str) -> None:
        """Until the API server applies it. Approvals of moves that have ended remain: a descheduler may be slow."""
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{OWN}/roles/{APPROVAL_ROLE}"
        async with self._approving:  # an earlier list must not replace a later one
            self._approved[uid] = None
            rules = msgspec.to_builtins(approval_rules(list(self._approved)))
            self.recorder.approve(self._approved)
            await self.rig.api.patch(path, {"rules": rules})
        attributes = {
            "group": "equipoise.dev",
            "resource": "evictions",
            "name": uid,
            "verb": "approve",
            "namespace": OWN,
        }
        spec = {"user": f"system:serviceaccount:{OWN}:{ACCOUNT}", "resourceAttributes": attributes}

        async def applied() -> bool:
            path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
            return bool((await self.rig.api.request("POST", path, {"spec": spec}))["status"]["allowed"])

        await self.rig.until(applied, "an approval is applied")

    async def changes_made(self) -> None:
        """Until nothing that was begun at a stage is under way any more. Raises what has failed."""
        while self._running:
            await asyncio.wait(self._running)
        if self._failures:
            raise self._failures.pop()

    async def ended(self) -> None:
        """Until all changes are made and no move is open, at most for the time of the recovery; records what is left.

        A pod without a controller that a move in the ledger still has counts, too: it must have ended by then.
        """
        await self.changes_made()
        begin = self.rig.clock.now()
        left: list[str] = []
        while True:
            with suppress(*FAILURES):
                left = await self._left()
                if not left:
                    break
            if self.rig.clock.now() > begin + RECOVERY:
                break
            await asyncio.sleep(0.2)
        now = self.rig.clock.now()
        self.recorder.left_overs.append(LeftOvers(at=now, seconds=now - begin, pods=tuple(left)))

    async def has_ended(self, pod: str) -> None:
        """Until the ledger has no move of the pod, at most for the time of the recovery."""

        async def ended() -> bool:
            await asyncio.sleep(0.2)
            with suppress(*FAILURES):
                return pod not in await self._open()
            return False

        await self.rig.until(ended, f"the move of {pod} has ended", seconds=RECOVERY)

    async def _open(self) -> dict[str, SurgeMove]:
        """The moves in the ledger by the name of their pod."""
        stored = await LedgerStore(self.rig.kube, OWN).read()
        return {} if isinstance(stored, LedgerClosed) else {each.intent.pod: each for each in stored.ledger.surge_moves}

    async def _left(self) -> list[str]:
        moves = await self._open()
        ownerless = {pod.metadata.name for pod in await self.pods() if pod.metadata.controller is None}
        return [
            f"{pod} (move in stage {moves[pod].stage})" if pod in moves else pod
            for pod in sorted(ownerless | moves.keys())
        ]

    # Stages

    async def on_ledger(self, proxied: ProxiedRequest) -> web.StreamResponse:
        """Makes the changes for the stages that a write of the ledger has, before its response is returned."""
        response = await proxied.complete()
        if response.status == 200:
            ledger = decode(json.loads(proxied.body)["data"][KEY])
            for move in ledger.surge_moves:
                await self._at(move.workload.name, move.stage, move.intent.pod, proxied)
        return response

    async def on_eviction(self, proxied: ProxiedRequest) -> web.StreamResponse:
        response = await proxied.complete()
        if 200 <= response.status < 300:
            pod = proxied.request.path.split("/")[-2]
            await self._at(workload_of(pod), EVICTED, pod, proxied)
        return response

    async def _at(self, app: str, stage: str, pod: str, proxied: ProxiedRequest) -> None:
        change = self._changes.pop((app, stage), None) or self._changes.pop(("", stage), None)
        if change is None:
            return
        token = proxied.request.headers.get("Authorization", "").removeprefix("Bearer ")
        binder = next(name for name in BINDERS if self.rig.tokens[name] == token)
        at = AtStage(app=app, stage=stage, namespace=MOVES, pod=pod, binder=binder)
        # It goes on when the binder has closed the connection, or has its response.
        task = asyncio.ensure_future(change(self, at))
        self._running.add(task)
        task.add_done_callback(self._done)
        await asyncio.wait({task}, timeout=HELD)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._failures.append(failure)


@asynccontextmanager
async def moving(rig: Rig, *, ready_timeout: float = 15.0) -> AsyncIterator[Moves]:
    """Two binders move the pods that the harness proposes. At the end all moves have ended, and all is removed."""
    moves = Moves(rig)
    rig.descheduler.max_pending, rig.descheduler.mix = 0, {}
    accounts = [document for document in base_documents() if document["kind"] in ACCOUNT_KINDS]
    await rig.api.apply([*accounts, *read_kustomization(ROOT / "k8s" / "surge")])
    rig.sections["surge"] = {"mode": "always", "readyTimeout": f"{ready_timeout:g}s", "maxMoves": MAX_MOVES}
    await rig.api.request("DELETE", f"/api/v1/namespaces/{OWN}/configmaps/{NAME}")
    await create_ledger(rig.kube, OWN, rig.clock)
    for name in BINDERS:
        await rig.write_kubeconfig(name, account=ACCOUNT)
    try:
        await asyncio.gather(*map(moves.start, BINDERS))
        rig.proxy.rule(moves.on_ledger, method="PUT", path=LEDGER, agent=BINDER)
        rig.proxy.rule(moves.on_eviction, method="POST", path=EVICTION, agent=BINDER)
        try:
            yield moves
        finally:
            await moves.ended()
        await rig.all_settled()
    finally:
        await _remove_all(moves)
        for name in BINDERS:
            await rig.write_kubeconfig(name)


async def _remove_all(moves: Moves) -> None:
    """So that the next run finds the cluster as before."""
    rig = moves.rig
    for app in {each.workload for each in moves.recorder.required}:
        moves.recorder.require(app, 0)
    for node in NODES:
        await rig.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None, "taints": None}})
    for path in (f"{APPS}/deployments", f"{APPS}/replicasets", BUDGETS):
        await rig.api.request("DELETE", path)
    for service in (await rig.api.request("GET", f"/api/v1/namespaces/{MOVES}/services"))["items"]:
        await rig.api.request("DELETE", f"/api/v1/namespaces/{MOVES}/services/{service['metadata']['name']}")

    async def removed() -> bool:
        for pod in (await rig.api.request("GET", POD_PATH))["items"]:
            metadata = pod["metadata"]
            if metadata.get("finalizers"):
                await moves.change_pod(metadata["name"], {"finalizers": None})
            if not metadata.get("ownerReferences"):
                with suppress(ApiError):
                    await rig.api.request("DELETE", f"{POD_PATH}/{metadata['name']}")
        await asyncio.sleep(0.2)
        return not (await rig.api.request("GET", POD_PATH))["items"]

    await rig.until(removed, "the pods that were moved are removed")
