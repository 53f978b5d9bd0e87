"""A fake collector and a fake descheduler, which produce traffic of every kind."""

import asyncio
import random
from collections.abc import Iterable, Mapping

import msgspec

from equipoise.contracts.bus import subjects
from equipoise.contracts.kubernetes.objects.cluster import Lease, LeaseSpec
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WindowUsage
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.bus import AlreadyQueued, Bus, BusError
from equipoise.runtime.kubernetes.client import LEASES, NODES, PODS, Conflict, Kube, KubeError, NotFound
from equipoise.runtime.kubernetes.leader_election import DESCHEDULER_LEASE
from equipoise.runtime.process.clock import Clock
from faults.cluster_setup import CORES, MEMORY, MOVABLE, NAMESPACE, PINNED, STATEFUL, TWICE, workload_of
from faults.history import HARNESS
from faults.recording import Recorder

GIB = 2.0**30
PERIOD = 0.5
"""Seconds between two reads of the cluster."""


class FakeCollector:
    """Publishes the real placement and invented usage. `hot`: the nodes whose pods have a high usage."""

    def __init__(self, kube: Kube, bus: Bus, clock: Clock) -> None:
        self._kube = kube
        self.bus = bus
        self._clock = clock
        self._epoch = round(clock.now() * 1000)
        self._sequence = 0
        self.hot: frozenset[str] = frozenset()
        self.publishing = True
        self.pods: list[Pod] = []
        """All pods that have a node, at the last read."""

        self.read_at = 0.0
        self._first_read: dict[str, float] = {}
        """By UID of a pod."""

        self._published: dict[str, NodeUtilization] = {}
        self._frozen_at: float | None = None

    def freeze(self) -> None:
        """Until `unfreeze`, publish the same usage with the current time; only placements change."""
        self._frozen_at = self._clock.now()

    def unfreeze(self) -> None:
        self._frozen_at = None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.update()
                if self.publishing:
                    await self._publish()
            except (KubeError, BusError):
                pass  # faults break both on purpose
            await asyncio.sleep(PERIOD)

    def take_over(self) -> None:
        """Starts a new epoch after another collector has published."""
        self._epoch = round(self._clock.now() * 1000)

    async def update(self) -> None:
        read_at = self._clock.now()
        self.pods = [pod for pod in await self._kube.list(PODS) if pod.spec.node_name]
        self.read_at = read_at
        self._first_read = {pod.metadata.uid: self._first_read.get(pod.metadata.uid, read_at) for pod in self.pods}

    async def _publish(self) -> None:
        now = self._clock.now()
        nodes = await self._kube.list(NODES)
        self._sequence += 1
        messages: list[tuple[str, msgspec.Struct]] = []
        for node in nodes:
            pods = [pod for pod in self.pods if pod.spec.node_name == node.metadata.name]
            messages.append(
                (subjects.node_utilization(node.metadata.name), self._utilization(node.metadata, pods, now))
            )
            messages.append((subjects.node_placement(node.metadata.name), self._placement(node, pods, now)))
        cycle = UtilizationCycle(
            shard="all",
            cycle=self._sequence,
            expected=len(nodes),
            fresh=len(nodes),
            queried_at=now,
            epoch=self._epoch,
            sequence=self._sequence,
        )
        await self.bus.publish_many([*messages, (subjects.utilization_cycle("all"), cycle)])

    def _utilization(self, node: ObjectMeta, pods: Iterable[Pod], now: float) -> NodeUtilization:
        if self._frozen_at is None:
            self._published[node.name] = self._measured(node, pods, now)
        same = self._published[node.name]
        windows = {name: msgspec.structs.replace(window, sampled_at=now) for name, window in same.windows.items()}
        return msgspec.structs.replace(
            same, sampled_at=now, queried_at=now, windows=windows, epoch=self._epoch, sequence=self._sequence
        )

    def _measured(self, node: ObjectMeta, pods: Iterable[Pod], now: float) -> NodeUtilization:
        each = Resources(cpu=0.9 if node.name in self.hot else 0.15, memory=GIB)
        usage = {pod.metadata.uid: each for pod in pods}
        mean = Resources(cpu=0.1 + sum(used.cpu or 0.0 for used in usage.values()), memory=GIB * (1 + len(usage)))
        return NodeUtilization(
            node=node.name,
            uid=node.uid,
            base=Resources(cpu=CORES, memory=MEMORY),
            sampled_at=now,
            queried_at=now,
            windows={"5m": WindowUsage(sampled_at=now, mean=mean)},
            pods=usage,
            epoch=self._epoch,
            sequence=self._sequence,
        )

    def _placement(self, found: Node, pods: Iterable[Pod], now: float) -> NodePlacement:
        node = found.metadata
        condition = next((each for each in found.status.conditions if each.type == "Ready"), None)
        ready = condition is not None and condition.status == "True"
        since = None if condition is None else condition.last_transition_time
        return NodePlacement(
            node=node.name,
            uid=node.uid,
            labels=dict(node.labels),
            taints=list(found.spec.taints),
            cordoned=found.spec.unschedulable,
            ready=ready,
            ready_since=now - 3_600 if since is None else since.timestamp(),
            created_at=now - 3_600,
            allocatable=Resources(cpu=CORES, memory=MEMORY),
            capacity=Resources(cpu=CORES, memory=MEMORY),
            pods=[
                PlacedPod(
                    uid=pod.metadata.uid,
                    namespace=pod.metadata.namespace,
                    name=pod.metadata.name,
                    workload=workload(pod),
                    placed_at=self._placed_at(pod, now),
                    running_since=self._placed_at(pod, now),
                    terminating=pod.metadata.deletion_timestamp is not None,
                    requests=Resources(cpu=0.1, memory=GIB / 8),
                )
                for pod in pods
            ],
            epoch=self._epoch,
            sequence=self._sequence,
        )

    def _placed_at(self, pod: Pod, now: float) -> float:
        """Before every window, so that the load needs no correction, unless the load is frozen since before."""
        first = self._first_read.get(pod.metadata.uid, now)
        return first if self._frozen_at is not None and first > self._frozen_at else now - 3_600


def workload(pod: Pod) -> Workload:
    name = workload_of(pod.metadata.name)
    kind = "StatefulSet" if name == STATEFUL else "DaemonSet" if name == "agent" else "Deployment"
    return Workload(kind=kind, group="apps", namespace=pod.metadata.namespace, name=name)


class FakeDescheduler:
    """Proposes any running pod, and sometimes one that must never be evicted.

    `mix`: shares of intents that are invalid on purpose: another pod's UID, an old sample, an expired lifetime.
    """

    def __init__(
        self, collector: FakeCollector, bus: Bus, clock: Clock, recorder: Recorder, generator: random.Random, name: str
    ) -> None:
        self._collector = collector
        self._bus = bus
        self._clock = clock
        self._recorder = recorder
        self._generator = generator
        self._name = name
        self._count = 0
        self.epoch: LeaseEpoch | None = None
        """Epoch of the intents; None: nothing is published."""

        self.epoch_held = True
        self.lifetime = 12.0
        self.max_pending = 6
        self.only: tuple[str, ...] = ()
        """Workloads; empty: all."""

        self.mix: Mapping[str, float] = {
            "uid": 0.04,
            "stale": 0.04,
            "expired": 0.04,
            "protected": 0.06,
            "blocked": 0.06,
        }

    async def run(self) -> None:
        """Until cancelled; keeps a few intents pending."""
        while True:
            connected = self.epoch is not None and self._bus.connected
            if connected and len(self._recorder.pending()) < self.max_pending:
                await self.propose()
            await asyncio.sleep(0.03)

    async def propose(self, count: int = 1) -> list[EvictionIntent]:
        """Publishes this many intents; returns those that the stream accepted."""
        published = []
        for _ in range(count):
            intent = self._intent()
            if intent is not None and await self.publish(intent):
                published.append(intent)
        return published

    async def publish_late(self, count: int, *, up_to: float) -> None:
        """Publishes this many intents in random order: half were decided within this many seconds, half within ten."""
        held = [intent for _ in range(count) if (intent := self._intent()) is not None]
        for number, intent in enumerate(held):
            late = self._generator.uniform(0.0, up_to if number % 2 else 10.0)
            lifetime = self._generator.choice((self.lifetime, 120.0, 840.0))
            held[number] = msgspec.structs.replace(
                intent,
                sampled_at=intent.sampled_at - late,
                decided_at=intent.decided_at - late,
                expires_at=intent.decided_at - late + lifetime,
            )
        self._generator.shuffle(held)
        for intent in held:
            await self.publish(intent)

    async def publish(self, intent: EvictionIntent) -> bool:
        self._recorder.record_intent(intent, epoch_held=self.epoch_held)
        subject = subjects.eviction_intent(intent.namespace, intent.pod)
        try:
            await self._bus.publish(subject, intent, message_id=intent.id)
        except AlreadyQueued:
            self._recorder.remove_intent(intent.id)
            return False
        except BusError:
            self._recorder.expect_no_outcome(intent.id)
            return False
        except asyncio.CancelledError:
            self._recorder.expect_no_outcome(intent.id)
            raise
        return True

    def _intent(self) -> EvictionIntent | None:
        generator = self._generator
        kind = generator.choices(("plain", *self.mix), (1.0 - sum(self.mix.values()), *self.mix.values()), k=1)[0]
        pods = [pod for pod in self._collector.pods if self._eligible(pod, kind)]
        if not pods or self.epoch is None:
            return None
        return self.intent_for(generator.choice(pods), self.epoch, kind)

    def intent_for(self, pod: Pod, epoch: LeaseEpoch, kind: str = "plain") -> EvictionIntent:
        """An intent for a running pod. `kind`: of `mix`, or `plain`."""
        now = self._clock.now()
        self._count += 1
        decided_at = now - self.lifetime - 2 if kind == "expired" else now
        target = self._generator.choice([name for name in self._targets() if name != pod.spec.node_name])
        return EvictionIntent(
            id=f"{self._name}.{self._count}",
            pod_uid="00000000-0000-0000-0000-000000000000" if kind == "uid" else pod.metadata.uid,
            namespace=pod.metadata.namespace,
            pod=pod.metadata.name,
            node=pod.spec.node_name,
            workload=workload(pod),
            strategy=HARNESS,
            reason=f"fault injection ({kind})",
            sampled_at=now - 60 if kind == "stale" else min(self._collector.read_at, decided_at),
            decided_at=decided_at,
            expires_at=decided_at + self.lifetime,
            expected_reduction=Resources(cpu=0.15, memory=GIB),
            target=target,
            epoch=epoch,
        )

    def _targets(self) -> list[str]:
        return sorted({pod.spec.node_name for pod in self._collector.pods})

    def _eligible(self, pod: Pod, kind: str) -> bool:
        if pod.metadata.deletion_timestamp is not None or pod.status.phase != "Running":
            return False
        name = workload_of(pod.metadata.name)
        if self.only:
            return name in self.only
        if kind == "protected":
            return name not in (*MOVABLE, STATEFUL, PINNED, TWICE)
        if kind == "blocked":
            return name in (PINNED, TWICE)
        return pod.metadata.namespace == NAMESPACE and name in (*MOVABLE, STATEFUL)


async def take_lease(kube: Kube, namespace: str, holder: str) -> LeaseEpoch:
    """Takes the descheduler's Lease as the next leader, and does not renew it."""
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=1)
    while True:
        try:
            lease = await kube.get(LEASES, DESCHEDULER_LEASE, namespace)
            spec = msgspec.structs.replace(spec, lease_transitions=lease.spec.lease_transitions + 1)
            return epoch_of(await kube.replace(LEASES, msgspec.structs.replace(lease, spec=spec)))
        except NotFound:
            metadata = ObjectMeta(name=DESCHEDULER_LEASE, namespace=namespace)
            return epoch_of(await kube.create(LEASES, Lease(metadata=metadata, spec=spec)))
        except Conflict:
            continue  # the last renewal of a descheduler that has just been killed


def epoch_of(lease: Lease) -> LeaseEpoch:
    return LeaseEpoch(
        lease_uid=lease.metadata.uid,
        transitions=lease.spec.lease_transitions,
        holder=lease.spec.holder_identity,
    )
