"""The collector: asks for usage, watches placement, tells both.

Watches run on every replica, so that a standby knows when pods started and ended; only the leader asks the source and
speaks. What could not be said is said again once the bus takes it.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
import structlog
from prometheus_client import CollectorRegistry

from equipoise.collector.measuring import Measuring
from equipoise.collector.past import Past, ToldPlacement
from equipoise.collector.placement import Fleet
from equipoise.collector.pods import trimmed, trimmed_owner
from equipoise.collector.settings import WHOLE, CollectorSettings
from equipoise.collector.sources import MetricSource
from equipoise.collector.telemetry import Telemetry
from equipoise.contracts import subjects
from equipoise.contracts.messages import LeaseEpoch, NodePlacement
from equipoise.contracts.objects import Node, OwnerReference, Pod, WorkloadObject
from equipoise.contracts.settings import LoadSettings, Window
from equipoise.contracts.workload import Workload
from equipoise.runtime.bus import Bus, BusError, Delivery
from equipoise.runtime.clock import Clock
from equipoise.runtime.kube import JOBS, NODES, PODS, REPLICA_SETS, Kube
from equipoise.runtime.lease import lead
from equipoise.runtime.reflector import Reflector

SYNC_TIMEOUT = 10.0
"""Seconds between reminders that a first list is still missing."""

LOOK_PERIOD = 1.0
"""Seconds between looks at the bus and at the watches, and before what could not be said is said again."""

SLOT_MARGIN = 0.02
"""Share of a slot to wait after its end, so that its last samples have arrived."""

log = structlog.get_logger()


class Health(Protocol):
    """Where the collector shows how it fares."""

    leading: bool | None

    def problem(self, key: str, text: str | None) -> None: ...

    def warmed_up(self) -> None: ...


class Collector:
    """`run` until cancelled. Says nothing while another replica leads."""

    def __init__(
        self,
        *,
        settings: CollectorSettings,
        load: LoadSettings,
        namespace: str,
        identity: str,
        source: MetricSource,
        kube: Kube,
        bus: Bus,
        clock: Clock,
        health: Health,
        metrics: CollectorRegistry,
    ) -> None:
        """`namespace` is Equipoise's own, where its Lease lives."""
        self._settings = settings
        self._load = load
        self._namespace = namespace
        self._identity = identity
        self._source = source
        self._kube = kube
        self._bus = bus
        self._clock = clock
        self._health = health
        self._telemetry = Telemetry(metrics)
        self._fleet = Fleet(
            windows=[window.length for window in load.windows],
            start_limit=load.start_limit,
            memory=settings.profile.day * 25 / 24,
            owner_of=self._owner_of,
            selector=settings.node_selector,
        )
        self._measuring = Measuring(settings=settings, load=load, source=source, fleet=self._fleet, clock=clock)
        self._nodes = Reflector(kube, NODES, clock=clock, on_change=self.on_node)
        self._pods = Reflector(kube, PODS, clock=clock, on_change=self.on_pod, trim=trimmed)
        self._owners = {
            ("apps", "ReplicaSet"): Reflector(kube, REPLICA_SETS, clock=clock, trim=trimmed_owner),
            ("batch", "Job"): Reflector(kube, JOBS, clock=clock, trim=trimmed_owner),
        }
        self._news = asyncio.Event()
        self._past = Past()
        self._told: dict[str, NodePlacement] = {}
        self._epoch = 0
        self._sequence = 0
        self._cycle = 0

    async def attach(self) -> None:
        """Subscribe. Returns when it is known what other collectors have told of placement."""
        await self._bus.follow(f"{subjects.PREFIX}.placement.node.*", ToldPlacement, self.on_node_placement)

    async def run(self) -> None:
        """Watches, and speaks while it leads; until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for reflector in self._reflectors.values():
                    tasks.create_task(reflector.run())
                tasks.create_task(self._look_at_watches())
                tasks.create_task(self._speak())
        finally:
            self._source.close()

    @property
    def _lease_name(self) -> str:
        shard = self._settings.shard
        return "equipoise-collector" if shard == WHOLE else f"equipoise-collector-{shard}"

    @property
    def _reflectors(self) -> dict[str, Reflector[Any]]:
        return {
            "nodes": self._nodes,
            "pods": self._pods,
            "replicasets": self._owners["apps", "ReplicaSet"],
            "jobs": self._owners["batch", "Job"],
        }

    async def on_node_placement(self, delivery: Delivery[ToldPlacement]) -> None:
        self._past.on_placement(delivery.message)

    def on_node(self, before: Node | None, after: Node | None) -> None:
        """A watched node changed."""
        self._fleet.on_node(before, after)
        self._news.set()

    def on_pod(self, before: Pod | None, after: Pod | None) -> None:
        """A watched pod changed."""
        self._fleet.on_pod(before, after, self._clock.now())
        self._news.set()

    def _owner_of(self, workload: Workload) -> OwnerReference | None:
        known: WorkloadObject = self._owners[workload.group, workload.kind].objects[workload.namespace, workload.name]
        return known.metadata.controller

    async def _look_at_watches(self) -> None:
        while True:
            await self._clock.sleep(LOOK_PERIOD)
            for plural, reflector in self._reflectors.items():
                self._health.problem(f"watch {plural}", reflector.problem and f"{plural}: {reflector.problem}")

    async def _speak(self) -> None:
        # Owners only refine a pod's workload: a cluster that does not let us read them must not keep us silent.
        for plural in ("nodes", "pods"):
            while not await self._synced(self._reflectors[plural]):
                pass
        for reflector in self._owners.values():
            await self._synced(reflector)
        self._health.warmed_up()
        if not self._settings.leader_election:
            await self._lead(LeaseEpoch(lease_uid="", transitions=0, holder=self._identity))
            return
        await lead(
            self._kube,
            self._clock,
            namespace=self._namespace,
            name=self._lease_name,
            identity=self._identity,
            worker=self._lead,
            health=self._health,
        )

    async def _synced(self, reflector: Reflector[Any]) -> bool:
        try:
            await reflector.synced(SYNC_TIMEOUT)
        except TimeoutError as error:
            log.warning("waiting for the first list", reason=str(error))
            return False
        return True

    async def _lead(self, _: LeaseEpoch) -> None:
        # All replicas go by the API server's clock, so that the next leader's epoch is higher than ours.
        self._epoch = self._past.next_epoch(self._kube.server_time(self._clock.now()))
        self._sequence = self._cycle = 0
        self._tell_all_placements()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tell_news())
            tasks.create_task(self._tell_again())
            tasks.create_task(self._look_at_bus())
            for window in self._load.windows:
                tasks.create_task(self._measure(window))
            if self._settings.profile.enabled:
                tasks.create_task(self._measure_days())

    # Placement

    def _tell_all_placements(self) -> None:
        for told in self._past.phantoms({name for _, name in self._nodes.objects}):
            if self._fleet.mine(told.labels):
                self._fleet.remove(told.node, told.uid)
        self._told.clear()
        self._fleet.news.update(self._fleet.nodes, self._fleet.removed)
        self._news.set()

    async def _tell_news(self) -> None:
        while True:
            await self._news.wait()
            await self._clock.sleep(self._settings.placement_gathering)
            self._news.clear()
            names = frozenset(self._fleet.news)
            self._fleet.news.clear()
            changed = {
                name: placement
                for name in names
                if (placement := self._fleet.placement(name)) is not None and placement != self._told.get(name)
            }
            if not changed:
                continue
            sequence = self._next()
            said = await self._say(
                [
                    (
                        subjects.node_placement(name),
                        msgspec.structs.replace(placement, epoch=self._epoch, sequence=sequence),
                    )
                    for name, placement in changed.items()
                ]
            )
            if said:
                self._told.update(changed)
                self._telemetry.placements.inc(len(changed))
            else:
                # Which ones were kept is not known: all of them once more.
                self._fleet.news.update(changed)
                await self._clock.sleep(LOOK_PERIOD)
                self._news.set()

    async def _tell_again(self) -> None:
        while True:
            await self._clock.sleep(self._settings.placement_period)
            self._fleet.forget(self._clock.now())
            self._tell_all_placements()

    async def _look_at_bus(self) -> None:
        connected = True
        while True:
            await self._clock.sleep(LOOK_PERIOD)
            came_back, connected = self._bus.connected and not connected, self._bus.connected
            if came_back:
                # A server that lost its streams has only what we say now.
                log.info("bus is back, saying everything again")
                self._tell_all_placements()
                await self._tell_utilization(workloads=True)

    # Utilization

    async def _measure(self, window: Window) -> None:
        """Rounds of one window, one after the other: a slow source makes values older, never rounds more."""
        while True:
            begun = self._clock.monotonic()
            whole = await self._measuring.round(window)
            took = self._clock.monotonic() - begun
            self._telemetry.rounds.labels(window.name, "ok" if whole else "failed").inc()
            self._telemetry.round_seconds.labels(window.name).observe(took)
            self._health.problem(self._settings.source, self._measuring.problem or None)
            self._health.problem("clock", self._measuring.clock_warning)
            await self._tell_utilization(workloads=window.length <= self._settings.pods_limit)
            # A long window must not wait for half an hour because the source was away for a moment.
            period = window.refresh_period if whole else min(window.refresh_period, self._load.shortest.refresh_period)
            spread = self._settings.jitter * random.uniform(-1.0, 1.0)
            await self._clock.sleep(max(period * (1.0 + spread) - took, period / 10))

    async def _measure_days(self) -> None:
        """The slots of each workload's day: those of the past day first, newest first, then each as it ends."""
        length, pause = self._measuring.slot_length, self._settings.profile.pause
        while True:
            slot = self._measuring.next_slot()
            if slot is not None:
                self._health.problem("profile", await self._measuring.measure_slot(slot) or None)
                await self._clock.sleep(pause)
                continue
            now = self._measuring.source_now()
            await self._clock.sleep(length * (now // length + 1 + SLOT_MARGIN) - now)

    async def _tell_utilization(self, *, workloads: bool) -> None:
        sequence = self._next()
        said: list[tuple[str, msgspec.Struct]] = [
            (subjects.node_utilization(message.node), message)
            for message in self._measuring.node_messages(epoch=self._epoch, sequence=sequence)
        ]
        if workloads:
            said += [
                (subjects.workload_utilization(message.workload), message)
                for message in self._measuring.workload_messages(epoch=self._epoch, sequence=sequence)
            ]
        self._cycle += 1
        cycle = msgspec.structs.replace(self._measuring.cycle(self._cycle), epoch=self._epoch, sequence=sequence)
        self._telemetry.on_cycle(cycle)
        self._health.problem("nodes", self._measuring.unknown_nodes or None)
        # The cycle ends the round: it must not arrive before what it counts.
        await self._say(said)
        await self._say([(subjects.utilization_cycle(self._settings.shard), cycle)])

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence

    async def _say(self, messages: Sequence[tuple[str, msgspec.Struct]]) -> bool:
        """Was everything kept? What was not is said again with the next round, or by `_tell_news`."""
        try:
            return await self._bus.publish_many(messages) == len(messages)
        except BusError as error:
            log.debug("not said", messages=len(messages), reason=str(error))
            return False
