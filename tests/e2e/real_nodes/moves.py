"""Moves without a gap of a server that answers HTTP all the time, by the installed chart on real nodes.

`python -m e2e.real_nodes.moves MOVES` with tests/ in PYTHONPATH, as root. Its last line is a JSON document.

While no descheduler runs, this program proposes moves as it does: with its Lease, approvals and user of NATS. Then the
descheduler proposes two moves itself, because of what the nodes use.
"""

import asyncio
import base64
import json
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from binder.approvals import approve
from deployment.base import NAMESPACE
from e2e.real_nodes import manifests
from e2e.real_nodes.installation import (
    Installation,
    installed,
    machine_load,
    new_cluster,
    note,
    other,
    print_result,
)
from e2e.real_nodes.manifests import SHOP, WEB

from equipoise.binder.shell.ledger_store import KEY, NAME
from equipoise.binder.state.ledger_json import decode
from equipoise.cli.bus.access import forwarded
from equipoise.cli.options import BusOptions
from equipoise.contracts.bus import channels, subjects
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.bus import Bus, connect
from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.kubernetes.leader_election import DESCHEDULER_LEASE
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.objects import Manifest, namespace
from equipoise.testbed.processes.command_lines import SCHEDULER

USER = "descheduler"
PROPOSAL_SECONDS = 600.0
"""How long the first move may take: before it, the usage of the nodes must be known."""

MOVE_SECONDS = 300.0
LIFETIME = 170.0
POLL_SECONDS = 0.1

PODS = f"/api/v1/namespaces/{SHOP}/pods"
WEB_PODS = f"{PODS}?labelSelector=app%3D{WEB}"
BINDERS = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io%2Fcomponent%3Dbinder"
ENDPOINTS = (
    f"/apis/discovery.k8s.io/v1/namespaces/{SHOP}/endpointslices?labelSelector=kubernetes.io/service-name%3D{WEB}"
)
LEDGER = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{DESCHEDULER_LEASE}"

Meanwhile = Callable[[Manifest], Awaitable[None]]
"""What happens during a move, after its pod is detached."""


@dataclass
class Watched:
    """What the API server has shown of the server."""

    fewest: int = 1
    """The lowest number of ready endpoints."""

    seen: dict[str, float] = field(default_factory=dict)
    """The time at which each pod was first seen."""

    ready: dict[str, float] = field(default_factory=dict)
    """The time at which each pod was first seen ready."""

    async def watch(self, installation: Installation) -> None:
        """Watches until cancelled."""
        while True:
            for pod in (await installation.api.request("GET", WEB_PODS))["items"]:
                name, now = pod["metadata"]["name"], time.monotonic()
                self.seen.setdefault(name, now)
                if is_ready(pod):
                    self.ready.setdefault(name, now)
            slices = (await installation.api.request("GET", ENDPOINTS))["items"]
            endpoints = [each for items in slices for each in items.get("endpoints") or ()]
            self.fewest = min(self.fewest, sum(bool(each["conditions"].get("ready")) for each in endpoints))
            await asyncio.sleep(POLL_SECONDS)

    def seconds_until_ready(self) -> list[float]:
        """For each pod but the first."""
        return [round(self.ready[name] - seen, 1) for name, seen in list(self.seen.items())[1:] if name in self.ready]


@dataclass(kw_only=True)
class Moves:
    """The moves of the server."""

    installation: Installation
    bus: Bus
    outcomes: asyncio.Queue[EvictionOutcome] = field(default_factory=asyncio.Queue)
    watched: Watched = field(default_factory=Watched)
    refused: list[str] = field(default_factory=list)
    """The outcomes of intents that were not carried out."""

    async def pod(self) -> Manifest:
        """The pod of the server, when there is only one and it is ready."""

        def complete(pods: Manifest) -> bool:
            return len(pods["items"]) == 1 and is_ready(pods["items"][0])

        pods = await self.installation.api.wait(WEB_PODS, complete, timeout=MOVE_SECONDS, what="the server is complete")
        pod: Manifest = pods["items"][0]
        return pod

    async def lead(self) -> LeaseEpoch:
        """Takes the Lease of the descheduler, which does not run."""
        lease = await self.installation.api.request("GET", LEASE)
        transitions = lease["spec"].get("leaseTransitions", 0) + 1
        now = datetime.fromtimestamp(SystemClock().now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": USER, "leaseTransitions": transitions, "acquireTime": now, "renewTime": now}
        await self.installation.api.patch(LEASE, {"spec": spec})
        return LeaseEpoch(lease_uid=lease["metadata"]["uid"], transitions=transitions, holder=USER)

    async def move(self, epoch: LeaseEpoch, meanwhile: Meanwhile | None = None) -> None:
        """Proposes the move of the pod until it is carried out."""
        api, pod = self.installation.api, await self.pod()
        name, uid, node = pod["metadata"]["name"], pod["metadata"]["uid"], pod["spec"]["nodeName"]
        began = time.monotonic()
        await approve(self.installation.real.cluster, uid)
        while True:
            intent = an_intent(name, uid, node, epoch)
            await self.bus.publish(subjects.eviction_intent(SHOP, name), intent, message_id=intent.id)
            settled = asyncio.create_task(self.outcome(name, intent.id))
            detached = asyncio.create_task(
                api.wait(f"{PODS}/{name}", is_detached, timeout=PROPOSAL_SECONDS, what=f"{name} is detached")
            )
            await asyncio.wait((settled, detached), return_when=asyncio.FIRST_COMPLETED)
            if meanwhile is not None and detached.done():
                await meanwhile(pod)
            outcome = await settled
            detached.cancel()
            await asyncio.gather(detached, return_exceptions=True)
            if outcome.outcome == Outcome.EVICTED:
                break
            self.refused.append(f"{outcome.outcome}: {outcome.detail}")
            note(f"not moved: {self.refused[-1]}")
            if time.monotonic() - began > PROPOSAL_SECONDS:
                raise SystemExit(f"no move within {PROPOSAL_SECONDS:g} s: {outcome.detail}")
            await asyncio.sleep(5)
        if not outcome.without_gap:
            raise SystemExit(f"not without a gap: {outcome.detail}")
        after = await self.pod()
        note(f"{name} moved from {node} to {after['spec']['nodeName']} in {time.monotonic() - began:.1f} s")

    async def outcome(self, pod: str, intent: str = "") -> EvictionOutcome:
        """The next outcome for the pod, of this intent if one is given. After a reconnect, NATS repeats those of
        others."""
        async with asyncio.timeout(PROPOSAL_SECONDS):
            while True:
                outcome = await self.outcomes.get()
                if outcome.pod == pod and intent in ("", outcome.intent_id):
                    return outcome

    async def move_by_load(self) -> None:
        """Heats the node of the server until the descheduler moves it."""
        pod = await self.pod()
        name, node, began = pod["metadata"]["name"], pod["spec"]["nodeName"], time.monotonic()
        await self.installation.api.apply([manifests.ballast(node)])
        try:
            while (outcome := await self.outcome(name)).outcome != Outcome.EVICTED:
                self.refused.append(f"{outcome.outcome}: {outcome.detail}")
                note(f"not moved: {self.refused[-1]}")
        except TimeoutError:
            raise SystemExit(f"{name} was not moved:\n{await self.installation.equipoise('plan')}") from None
        assert outcome.without_gap, outcome
        after = await self.pod()
        note(f"{name} moved from hot {node} to {after['spec']['nodeName']} after {time.monotonic() - began:.0f} s")

    async def stages(self) -> list[str]:
        """The stages of the open moves, as the ledger has them."""
        ledger = decode((await self.installation.api.request("GET", LEDGER))["data"][KEY])
        return [move.stage for move in ledger.surge_moves]

    async def while_the_kubelet_restarts(self, pod: Manifest) -> None:
        await self.installation.real.restart_kubelet(pod["spec"]["nodeName"])

    async def while_the_binders_are_deleted(self, _: Manifest) -> None:
        """Without kube-scheduler, the replacement has no node, and the move remains in the stage `detached`."""
        async with asyncio.timeout(MOVE_SECONDS):
            while await self.stages() != ["detached"]:  # noqa: ASYNC110  polls a real component
                await asyncio.sleep(POLL_SECONDS)
        binders = (await self.installation.api.request("GET", BINDERS))["items"]
        assert binders
        for binder in binders:
            path = f"/api/v1/namespaces/{NAMESPACE}/pods/{binder['metadata']['name']}"
            await self.installation.api.request("DELETE", f"{path}?gracePeriodSeconds=0")
        assert await self.stages() == ["detached"]
        await asyncio.to_thread(self.installation.real.cluster.restart, SCHEDULER)

    async def clients(self) -> dict[str, Any]:
        """What the clients have seen, together."""
        reports = [await self._report(node) for node in ("n1", "n2")]
        return {
            "requests": sum(each["requests"] for each in reports),
            "failed": sum(each["failed"] for each in reports),
            "slowest": max(each["slowest"] for each in reports),
            "failures": [failure for each in reports for failure in each["failures"]],
        }

    async def _report(self, node: str) -> Any:
        """The newest report of the client on a node that was begun after this call."""
        path = f"{PODS}/{manifests.client_name(node)}/log?tailLines=1"
        before = await self.installation.api.request("GET", path)
        log = await self.installation.api.wait(path, lambda text: text not in ("", before), what=f"a report of {node}")
        return json.loads(log)

    async def left_over(self) -> list[str]:
        """The pods that a move has left: detached ones, and what the ledger still has."""
        pods = (await self.installation.api.request("GET", PODS))["items"]
        detached = [pod["metadata"]["name"] for pod in pods if is_detached(pod)]
        return detached + await self.stages()


def an_intent(pod: str, uid: str, node: str, epoch: LeaseEpoch) -> EvictionIntent:
    now = SystemClock().now()
    return EvictionIntent(
        id=uuid.uuid4().hex,
        pod_uid=uid,
        namespace=SHOP,
        pod=pod,
        node=node,
        workload=Workload(kind="Deployment", group="apps", namespace=SHOP, name=WEB),
        strategy="low_node_load",
        reason="a test of moves",
        sampled_at=now - 1,
        decided_at=now,
        expires_at=now + LIFETIME,
        expected_reduction=Resources(cpu=manifests.BURN_MILLI / 1000, memory=64.0 * 2**20),
        target=other(node),
        epoch=epoch,
    )


def is_detached(pod: Manifest) -> bool:
    metadata = pod["metadata"]
    return DETACHED_HASH in metadata.get("annotations", {}) and not metadata.get("ownerReferences")


def is_ready(pod: Manifest) -> bool:
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


@asynccontextmanager
async def moving(installation: Installation) -> AsyncIterator[Moves]:
    """The server with its clients, and a connection to NATS, while the block runs."""
    api, real = installation.api, installation.real
    await api.apply([namespace(SHOP), *manifests.server()])
    address = (await api.request("GET", f"/api/v1/namespaces/{SHOP}/services/{WEB}"))["spec"]["clusterIP"]
    secret = await api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/equipoise-nats")
    password = real.directory / "password"
    password.write_bytes(base64.b64decode(secret["data"][USER]))
    options = BusOptions(command="test", url=None, user=USER, password_file=str(password), ca_file=None)
    connection = Kubernetes(kubeconfig=str(real.cluster.kubeconfig), namespace=NAMESPACE)
    async with forwarded(options, connection) as server, connect(server, USER) as bus:
        moves = Moves(installation=installation, bus=bus)
        await moves.pod()
        await api.apply([manifests.client(node, address) for node in ("n1", "n2")])
        clients = f"{PODS}?labelSelector=app%3Dclient"
        await api.wait(clients, lambda pods: all(map(is_ready, pods["items"])), what="the clients run")
        await bus.follow(channels.EVICTION_OUTCOMES, lambda message, _: moves.outcomes.put_nowait(message))
        first = await moves.clients()
        assert first["failed"] == 0, first
        watching = asyncio.create_task(moves.watched.watch(installation))
        try:
            yield moves
            if watching.done():
                watching.result()
        finally:
            watching.cancel()


async def run(moves: Moves, number: int) -> dict[str, Any]:
    """All moves, and the figures."""
    installation, begun, load = moves.installation, time.monotonic(), machine_load()
    await installation.scale("equipoise-descheduler", 0)
    epoch = await moves.lead()
    for _ in range(number):
        await moves.move(epoch)
    seconds = time.monotonic() - begun
    note(f"{number} moves: {await moves.clients()}")
    await moves.move(epoch, moves.while_the_kubelet_restarts)
    kubelet = await moves.clients()
    note(f"with a restart of the kubelet: {kubelet}")
    installation.real.cluster.end(SCHEDULER)
    await moves.move(epoch, moves.while_the_binders_are_deleted)
    binder = await moves.clients()
    note(f"with new binders: {binder}")
    await installation.scale("equipoise-descheduler", 2)
    for _ in range(2):
        await moves.move_by_load()
    clients, ready = await moves.clients(), sorted(moves.watched.seconds_until_ready())
    left = await moves.left_over()
    fewest = moves.watched.fewest
    last = (await moves.pod())["metadata"]["name"]
    await installation.api.request("DELETE", f"{PODS}/{last}?gracePeriodSeconds=0")
    await moves.pod()
    return {
        "moves": len(ready),
        "seconds_of_proposed_moves": round(seconds),
        **clients,
        "failed_with_kubelet_restart": kubelet["failed"],
        "failed_with_new_binders": binder["failed"],
        "ready_seconds": {"median": ready[len(ready) // 2], "slowest": ready[-1]},
        "fewest_endpoints": fewest,
        "refused": moves.refused,
        "left_over": left,
        "failed_without_grace": (await moves.clients())["failed"],
        "machine_load": [load, machine_load()],
    }


async def main(number: int) -> None:
    real = new_cluster()
    async with installed(real) as installation, moving(installation) as moves:
        print_result(await run(moves, number))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
