"""The collector: asks for usage, watches placement, tells both.

Watches run on every replica, so that each knows when pods started and ended. Nodes and workloads are divided into
shards; who holds the Lease of one tells of it, and who holds any asks the source. What could not be said is said again
once the bus takes it.
"""

import asyncio
import math
import random
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, Protocol

import msgspec
import structlog
from prometheus_client import CollectorRegistry

from equipoise.collector.decisions.publish_tracker import Announced
from equipoise.collector.decisions.sample_validation import Doubt
from equipoise.collector.decisions.sharding import dissolved, lease_name
from equipoise.collector.decisions.utilization import summed_up
from equipoise.collector.settings import WHOLE, CollectorSettings
from equipoise.collector.shell.batching import NODES_AT_ONCE, WORKLOADS_AT_ONCE
from equipoise.collector.shell.measurement import Measuring
from equipoise.collector.shell.metrics import Telemetry
from equipoise.collector.shell.profile_restore import recollect
from equipoise.collector.shell.shard_ownership import Voice, Voices
from equipoise.collector.sources import MetricSource
from equipoise.collector.state.placement import Fleet
from equipoise.collector.state.pod_times import trimmed, trimmed_owner
from equipoise.collector.state.previous_messages import Past, ToldPlacement
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.settings import LoadSettings, Window
from equipoise.contracts.kubernetes.objects import Node, OwnerReference, Pod, WorkloadObject
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.health import Heartbeat
from equipoise.contracts.messages.lease import LeaseEpoch
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import UtilizationCycle
from equipoise.runtime.async_tools.batching import in_turns
from equipoise.runtime.async_tools.cancel import guarded
from equipoise.runtime.bus import Bus, BusError, Delivery
from equipoise.runtime.kubernetes.client import JOBS, NODES, PODS, REPLICA_SETS, Kube
from equipoise.runtime.kubernetes.leader_election import lead
from equipoise.runtime.kubernetes.reflector import Reflector
from equipoise.runtime.process.clock import Clock

SYNC_TIMEOUT = 10.0
"""Seconds between reminders that a first list is still missing."""

LOOK_PERIOD = 1.0
"""Seconds between looks at the bus and at the watches, and before what could not be said is said again."""

MUTE_LIMIT = 10.0
"""Seconds without the bus after which our shards go to replicas that were heard on it lately."""

SLOT_MARGIN = 0.02
"""Share of a slot to wait after its end, so that its last samples have arrived."""

log = structlog.get_logger()


class Health(Protocol):
    """Where the collector shows how it fares."""

    leading: bool | None
    part: str

    def problem(self, key: str, text: str | None) -> None: ...

    def warmed_up(self) -> None: ...


class _Unshown:
    """Each Lease is held or not; what is shown is whether we hold any."""

    leading: bool | None = None


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
        health.part = settings.shard
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
        self._announced = Announced(settings.placement_period)
        self._connected_at = clock.monotonic()
        self._cut_off = False
        """This replica cannot speak, and others could when it last heard: its shards would be silent for as long."""

        self._back_at = -math.inf
        """When it last could speak again (monotonic)."""

        self._new: set[int] = set()
        """Shards that were taken and not told of yet."""

        self._measured_at = -math.inf
        """When a round of the shortest window ended last (monotonic)."""

        self._voices = Voices(family=settings.shard, shards=settings.shards, identity=identity, display=health)

    async def attach(self) -> None:
        """Subscribe. Returns when it is known what other collectors have told."""
        prefix = subjects.PREFIX
        await self._bus.follow(f"{prefix}.placement.node.*", ToldPlacement, self.on_node_placement)
        await self._bus.follow(f"{prefix}.utilization.cycle.*", UtilizationCycle, self.on_utilization_cycle)
        await self._bus.listen(f"{prefix}.health.collector.*", Heartbeat, self.on_heartbeat)

    async def run(self) -> None:
        """Watches, and speaks while it leads; until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for reflector in self._reflectors.values():
                    tasks.create_task(reflector.run())
                tasks.create_task(self._source.run())
                tasks.create_task(self._look_at_watches())
                tasks.create_task(self._forget_for_ever())
                tasks.create_task(self._speak())
        finally:
            self._source.close()

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

    async def on_utilization_cycle(self, delivery: Delivery[UtilizationCycle]) -> None:
        self._past.on_cycle(delivery.message)

    async def on_heartbeat(self, delivery: Delivery[Heartbeat]) -> None:
        if delivery.message.shard == self._settings.shard:
            self._voices.hear(delivery.message.id, self._clock.monotonic(), ready=delivery.message.ready)

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
            self._look_at_line(self._clock.monotonic())
            await self._clock.sleep(LOOK_PERIOD)
            for plural, reflector in self._reflectors.items():
                self._health.problem(f"watch {plural}", reflector.problem and f"{plural}: {reflector.problem}")

    async def _forget_for_ever(self) -> NoReturn:
        """On standbys too: they watch as long."""
        while True:
            await self._clock.sleep(self._settings.placement_period)
            self._fleet.forget(self._clock.now())
            async for nodes in in_turns(self._fleet.left_from, NODES_AT_ONCE):
                for node in nodes:
                    self._fleet.forget_gone(node, self._clock.now())

    def _look_at_line(self, now: float) -> None:
        if self._bus.connected:
            if self._cut_off:
                self._back_at = now
            self._connected_at, self._cut_off = now, False
        elif now - self._connected_at >= MUTE_LIMIT and self._voices.replicas(now) > 1:
            self._cut_off = True

    async def _speak(self) -> None:
        # Owners only refine a pod's workload: a cluster that does not let us read them must not keep us silent.
        for plural in ("nodes", "pods"):
            while not await self._synced(self._reflectors[plural]):
                pass
        for reflector in self._owners.values():
            await self._synced(reflector)
        self._health.warmed_up()
        if self._settings.leader_election:
            self._health.leading = False
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._work_for_ever())
            for shard in range(self._settings.shards):
                tasks.create_task(self._hold(shard))

    async def _hold(self, shard: int) -> None:
        """Tell of this shard whenever we hold its Lease."""
        if not self._settings.leader_election:
            self._take(shard)
            return

        async def worker(_: LeaseEpoch) -> None:
            self._take(shard)
            try:
                while not self._cut_off and not self._voices.too_many(shard, self._clock.monotonic()):
                    await self._clock.sleep(LOOK_PERIOD)
                log.info("giving a shard to others", shard=shard, cut_off=self._cut_off)
            finally:
                self._voices.drop(shard)

        await lead(
            self._kube,
            self._clock,
            namespace=self._namespace,
            name=lease_name(self._settings.shard, WHOLE, shard, self._settings.shards),
            identity=self._identity,
            worker=worker,
            health=_Unshown(),
            patience=lambda: self._patience(shard),
        )

    def _patience(self, shard: int) -> float:
        """Seconds for which this free shard is left to others."""
        if self._cut_off:
            return math.inf
        now = self._clock.monotonic()
        left = self._voices.patience(shard, now)
        # Others may have been cut off too: what lay free meanwhile is free to them from now on.
        return math.inf if now < self._back_at + left else left

    async def _synced(self, reflector: Reflector[Any]) -> bool:
        try:
            await reflector.synced(SYNC_TIMEOUT)
        except TimeoutError as error:
            log.warning("waiting for the first list", reason=str(error))
            return False
        return True

    def _take(self, shard: int) -> None:
        # All replicas go by the API server's clock, so that the next holder's epoch is higher than ours.
        epoch = self._past.next_epoch(self._kube.server_time(self._clock.now()))
        voice = self._voices.take(shard, epoch, self._clock.monotonic())
        log.info("telling of a shard", shard=voice.name, epoch=voice.epoch)
        self._tell_all_placements()
        self._new.add(shard)

    async def _work_for_ever(self) -> NoReturn:
        while True:
            await self._voices.speaking.wait()
            await guarded(self._voices.silent.wait(), self._work())
            self._telemetry.on_cycle([])

    async def _work(self) -> NoReturn:
        self._tell_all_placements()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tell_news())
            tasks.create_task(self._tell_again())
            tasks.create_task(self._look_around())
            for window in self._load.windows:
                tasks.create_task(self._measure(window))
            if self._settings.profile.enabled:
                tasks.create_task(self._measure_days())
                tasks.create_task(recollect(self._kube, self._clock, self._measuring.days, self._health))
        raise AssertionError("none of these ends")

    # Placement

    def _tell_all_placements(self) -> None:
        for told in self._past.phantoms({name for _, name in self._nodes.objects}):
            if self._fleet.mine(told.labels) and self._voices.of(told.node):
                self._fleet.remove(told.node, told.uid)
        self._announced.forget()
        self._fleet.news.update(self._fleet.nodes, self._fleet.removed)
        self._news.set()

    async def _tell_news(self) -> None:
        while True:
            await self._news.wait()
            await self._clock.sleep(self._settings.placement_gathering)
            self._news.clear()
            names = frozenset(self._fleet.news)
            self._fleet.news.clear()
            changed: dict[str, NodePlacement] = {}
            async for some in in_turns(names, NODES_AT_ONCE):
                changed |= {
                    name: placement
                    for name in some
                    if self._voices.of(name) is not None
                    and (placement := self._fleet.placement(name)) is not None
                    and self._announced.is_news(name, placement)
                }
            self._announced.is_settled(names - changed.keys())
            if not changed:
                continue
            said = await self._say(
                [
                    (subjects.node_placement(name), msgspec.structs.replace(changed[name], **order))
                    for voice in self._voices
                    for order in [{"epoch": voice.epoch, "sequence": voice.next()}]
                    for name in self._voices.mine(voice, changed)
                ]
            )
            if said:
                self._announced.was_kept(changed)
                self._telemetry.placements.inc(len(changed))
            else:
                self._announced.may_be_lost(changed, self._clock.monotonic())

    async def _tell_again(self) -> None:
        while True:
            await self._clock.sleep(self._settings.placement_period)
            self._speak_up()
            self._tell_all_placements()

    def _speak_up(self) -> None:
        """Readers drop what we say of a node that a replica of another division has told of since we began."""
        drowned = [
            voice for name, epoch in self._past.told() if (voice := self._voices.of(name)) and epoch > voice.epoch
        ]
        for voice in {voice.shard: voice for voice in drowned}.values():
            voice.epoch = self._past.next_epoch(self._kube.server_time(self._clock.now()))
            log.info("speaking up", shard=voice.name, epoch=voice.epoch)

    async def _look_around(self) -> None:
        """Is the bus back, is anything to be said again?

        And a shard that was taken need not wait for a round where all was measured of late.
        """
        connected = True
        while True:
            await self._clock.sleep(LOOK_PERIOD)
            now = self._clock.monotonic()
            if due := self._announced.due(now):
                self._fleet.news.update(due)
                self._news.set()
            taken = [voice for voice in self._voices if voice.shard in self._new]
            self._new.clear()
            if taken and now - self._measured_at <= self._load.life(self._load.shortest):
                await self._tell_utilization(taken, workloads=True)
            came_back, connected = self._bus.connected and not connected, self._bus.connected
            if came_back:
                # A server that lost its streams has only what we say now.
                log.info("bus is back, saying everything again")
                self._tell_all_placements()
                await self._tell_utilization(self._voices, workloads=True)

    # Utilization

    async def _measure(self, window: Window) -> None:
        """Rounds of one window, one after the other: a slow source makes values older, never rounds more."""
        while True:
            begun = self._clock.monotonic()
            whole = await self._measuring.round(window)
            took = self._clock.monotonic() - begun
            if whole and window == self._load.shortest:
                self._measured_at = self._clock.monotonic()
            self._telemetry.rounds.labels(window.name, "ok" if whole else "failed").inc()
            self._telemetry.round_seconds.labels(window.name).observe(took)
            self._health.problem(self._settings.source, self._measuring.problem or None)
            self._health.problem("clock", self._measuring.clock_warning)
            self._health.problem("pods", self._measuring.no_pods or None)
            await self._tell_utilization(self._voices, workloads=window == self._load.shortest)
            # A long window must not wait for half an hour because the source was away for a moment.
            period = window.refresh_period if whole else min(window.refresh_period, self._load.shortest.refresh_period)
            spread = self._settings.jitter * random.uniform(-1.0, 1.0)
            await self._clock.sleep(max(period * (1.0 + spread) - took, period / 10))

    async def _measure_days(self) -> None:
        """The slots of each workload's day: those of the past day first, newest first, then each as it ends."""
        length, pause = self._measuring.days.slot_length, float(self._settings.profile.pause)
        while True:
            slot = self._measuring.days.next_slot()
            if slot is not None:
                problem = await self._measuring.days.measure(slot)
                self._health.problem("profile", problem or None)
                pause = min(2 * pause, length) if problem else float(self._settings.profile.pause)
                await self._clock.sleep(pause)
                continue
            now = self._measuring.source_now()
            await self._clock.sleep(length * (now // length + 1 + SLOT_MARGIN) - now)

    async def _tell_utilization(self, voices: Iterable[Voice], *, workloads: bool) -> None:
        """The end of a round of each of these shards."""
        told: list[UtilizationCycle] = []
        unknown: dict[str, Doubt] = {}
        for voice in voices:
            names = self._voices.mine(voice, self._fleet.nodes)
            order = {"epoch": voice.epoch, "sequence": voice.next()}
            async for some in in_turns(names, NODES_AT_ONCE):
                nodes = self._measuring.node_messages(some, **order)
                await self._say([(subjects.node_utilization(message.node), message) for message in nodes])
            async for seen in in_turns(self._measuring.workloads if workloads else (), WORKLOADS_AT_ONCE):
                mine = [workload for workload in seen if self._voices.mine(voice, [str(workload)])]
                usages = self._measuring.workload_messages(mine, **order)
                await self._say([(subjects.workload_utilization(message.workload), message) for message in usages])
            voice.cycle += 1
            cycle, doubts = await self._measuring.cycle(names, shard=voice.name, number=voice.cycle)
            told.append(cycle)
            unknown |= doubts
            # The cycle ends the round: it must not arrive before what it counts.
            await self._say([(subjects.utilization_cycle(voice.name), msgspec.structs.replace(cycle, **order))])
        if voices is self._voices:
            self._telemetry.on_cycle(told)
            self._health.problem("nodes", summed_up(unknown) or None)
        await self._dissolve()

    async def _dissolve(self) -> None:
        """Shards of an earlier division expect no nodes any more: readers would wait for their word."""
        for cycle in self._past.cycles():
            epochs = {voice.shard: voice.epoch for voice in self._voices}  # one may be lost on the way
            if 0 not in epochs:
                return
            now = self._measuring.source_now()
            # In a rolling update a replica of the next division may speak already: its shards are no earlier ones.
            earlier = cycle.epoch < min(epochs.values()) or now - cycle.queried_at > self._load.freshness.score
            if cycle.expected and earlier and dissolved(cycle.shard, self._settings.shard, self._settings.shards):
                nothing = UtilizationCycle(
                    shard=cycle.shard, cycle=cycle.cycle + 1, expected=0, fresh=0, queried_at=now,
                    epoch=max(self._past.loudest(cycle.shard) + 1, *epochs.values()),
                )  # fmt: skip
                await self._say([(subjects.utilization_cycle(cycle.shard), nothing)])

    async def _say(self, messages: Sequence[tuple[str, msgspec.Struct]]) -> bool:
        """Was everything kept? What was not is said again with the next round, or by `_tell_news`."""
        try:
            return await self._bus.publish_many(messages) == len(messages)
        except BusError as error:
            log.debug("not said", messages=len(messages), reason=str(error))
            return False
