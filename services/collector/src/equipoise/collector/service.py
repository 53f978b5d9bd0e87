"""The collector: watches the cluster, queries the metric source, publishes placement and utilization.

Every replica watches, so that each has the times at which pods started and ended. Nodes and workloads are divided into
shards. A replica publishes the shards whose Leases it holds, and queries the source while it holds any. If there are
several shards, it measures only the nodes of its own, and receives the usage of other pods from their collectors.
"""

import asyncio
import math
import random
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

import structlog
from prometheus_client import CollectorRegistry

from equipoise.collector.settings import CollectorSettings
from equipoise.collector.shell.further_measurement import FurtherMeasurement
from equipoise.collector.shell.measurement import Measurement
from equipoise.collector.shell.metrics import CollectorMetrics
from equipoise.collector.shell.placement_watch import PlacementWatch
from equipoise.collector.shell.profile_learning import ProfileLearning, restore_profiles
from equipoise.collector.shell.publisher import PlacementPublisher, UtilizationPublisher
from equipoise.collector.shell.shard_ownership import CHECK_PERIOD, ShardOwnership
from equipoise.collector.sources import MetricSource, PromqlSource
from equipoise.collector.state.other_shards import PublishedPods
from equipoise.collector.state.owned_shards import OwnedShard
from equipoise.collector.state.placement import ClusterPlacement
from equipoise.collector.state.previous_messages import PreviousMessages, PublishedPlacement
from equipoise.collector.state.utilization import unknown_summary
from equipoise.contracts.bus import channels
from equipoise.contracts.configuration.settings import LoadSettings, Window
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.messages.health import Heartbeat
from equipoise.runtime.async_tools.batching import NODES_PER_BATCH, in_batches
from equipoise.runtime.async_tools.cancel import run_with_guard, timeout_after
from equipoise.runtime.bus import Bus
from equipoise.runtime.kubernetes.client import Kube
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health

log = structlog.get_logger()


@dataclass(kw_only=True)
class Collector:
    """`attach`, then `run` until cancelled."""

    settings: CollectorSettings
    load: LoadSettings
    namespace: str
    """The namespace of Equipoise, where its Leases are."""

    identity: str
    source: MetricSource
    kube: Kube
    bus: Bus
    clock: Clock
    health: Health
    metrics: CollectorRegistry
    promql: PromqlSource | None = None
    """The source of further resources; None if there are none."""

    discovery: str = ""
    """Why the installation chose the source of metrics, or found none; empty if that is not stored."""

    def __post_init__(self) -> None:
        if self.discovery and not self.settings.names_source:
            self.health.set_problem("no source", self.discovery)
        self.health.shard = self.settings.shard
        self._metrics = CollectorMetrics(self.metrics)
        self._watch = PlacementWatch(self.kube, self.clock, self.health, on_node=self.on_node, on_pod=self.on_pod)
        self._placement = ClusterPlacement(
            windows=[window.length for window in self.load.windows],
            start_timeout=self.load.pod_start_timeout,
            owner_retention=self.settings.profile.day * 25 / 24,
            owner_of=self._watch.owner_of,
            selector=self.settings.node_selector,
        )
        self._measurement = Measurement(
            settings=self.settings, load=self.load, source=self.source, placement=self._placement, clock=self.clock,
            known_nodes=self._watch.node_names, owns=self._owns if self._divided else None,
        )  # fmt: skip
        self._further = FurtherMeasurement(
            load=self.load, source=self.promql, placement=self._placement, usage=self._measurement.further,
            now=self._measurement.source_now, owns=self._owns if self._divided else None,
            cluster_nodes=self._measurement.cluster_nodes,
        )  # fmt: skip
        self._profiles = ProfileLearning(
            settings=self.settings, load=self.load, measurement=self._measurement, clock=self.clock
        )
        self._previous = PreviousMessages()
        self._shards = ShardOwnership(
            settings=self.settings, namespace=self.namespace, identity=self.identity, kube=self.kube, bus=self.bus,
            clock=self.clock, health=self.health, previous=self._previous, on_acquired=self._publish_all_placements,
        )  # fmt: skip
        self._placement_publisher = PlacementPublisher(
            settings=self.settings, placement=self._placement, previous=self._previous, shards=self._shards.owned,
            bus=self.bus, clock=self.clock, metrics=self._metrics,
        )  # fmt: skip
        self._utilization_publisher = UtilizationPublisher(
            settings=self.settings, measurement=self._measurement, previous=self._previous, shards=self._shards.owned,
            bus=self.bus, max_age=self.load.freshness.score,
        )  # fmt: skip
        self._measured_at = -math.inf
        """The time at which a round of the shortest window ended last (monotonic)."""

        rounds = [window.name for window in self.load.windows]
        if self.promql is not None:
            rounds += map(_further_round, self.load.windows)
        self._begun = {name: list[OwnedShard]() for name in rounds}
        """The shards that this replica held when the last round of each window began."""

        self._measured: list[OwnedShard] = []
        """The same, of the last round of the shortest window that has ended."""

        self._hurry = {name: asyncio.Event() for name in rounds}
        """Set when the nodes of a shard wait for the next round of a window."""

    # Subscribe and watch

    async def attach(self) -> None:
        """Returns when the latest messages were received."""
        previous = self._previous
        placements = channels.NODE_PLACEMENTS.reading(PublishedPlacement)
        await self.bus.follow(placements, lambda message, _: previous.on_placement(message))
        cycles = channels.UTILIZATION_CYCLES
        await self.bus.follow(cycles, lambda message, _: previous.on_cycle(message), keep_future=True)
        await self.bus.follow(channels.HEARTBEATS.of("collector"), self.on_heartbeat)
        if self._divided:
            utilizations = channels.NODE_UTILIZATIONS.reading(PublishedPods)
            await self.bus.follow(utilizations, self._measurement.other_shards.on_utilization)

    def on_heartbeat(self, heartbeat: Heartbeat, _: float) -> None:
        if heartbeat.shard == self.settings.shard:
            self._shards.owned.on_heartbeat(heartbeat.id, self.clock.monotonic(), ready=heartbeat.ready)

    def on_node(self, before: Node | None, after: Node | None) -> None:
        self._placement.on_node(before, after)
        self._placement_publisher.notify()

    def on_pod(self, before: Pod | None, after: Pod | None) -> None:
        self._placement.on_pod(before, after, self.clock.now())
        self._placement_publisher.notify()

    @property
    def _divided(self) -> bool:
        """Whether this replica measures only the nodes of its shards."""
        return self.settings.shards > 1

    def _owns(self, node: str) -> bool:
        return self._shards.owned.owner_of(node) is not None

    # Run

    async def run(self) -> None:
        """Watches on every replica; measures and publishes while it holds a shard."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch.run())
                tasks.create_task(self.source.run())
                tasks.create_task(self._shards.watch_bus())
                tasks.create_task(self._prune())
                tasks.create_task(self._work_once_synced())
        finally:
            self.source.close()
            if self.promql is not None:
                self.promql.close()

    async def _prune(self) -> NoReturn:
        """Prunes the placement, on standbys too, because they watch as well."""
        while True:
            await self.clock.sleep(self.settings.placement_resync_period)
            self._placement.prune(self.clock.now())
            async for nodes in in_batches(self._placement.nodes_with_gone_pods, NODES_PER_BATCH):
                for node in nodes:
                    self._placement.prune_gone(node, self.clock.now())

    async def _work_once_synced(self) -> None:
        await self._watch.synced()
        self.health.warmed_up()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._work_while_active())
            tasks.create_task(self._shards.run())

    async def _work_while_active(self) -> NoReturn:
        while True:
            await self._shards.active.wait()
            await run_with_guard(self._shards.inactive.wait(), self._work())
            self._metrics.on_cycle([])

    async def _work(self) -> NoReturn:
        self._publish_all_placements()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._placement_publisher.run())
            tasks.create_task(self._resync_placements())
            tasks.create_task(self._check_bus_and_shards())
            for window in self.load.windows:
                tasks.create_task(self._measure(window))
                if self.promql is not None:
                    tasks.create_task(self._measure_further(window))
            if self.settings.profile.enabled:
                tasks.create_task(self._profiles.run(self.health))
                tasks.create_task(restore_profiles(self.kube, self.clock, self._profiles, self.health))
        raise AssertionError("none of these ends")

    # Measure and publish

    async def _measure(self, window: Window) -> NoReturn:
        """Rounds of one window, one after the other: a slow source makes values older, but gets no more queries."""
        shortest = window == self.load.shortest
        while True:
            begin = self.clock.monotonic()
            self._begun[window.name] = shards = list(self._shards.owned)
            complete = False
            with self.health.unreadable.guard("measurements", f"the window {window.name}"):
                complete = await self._measurement.round(window)
            duration = self.clock.monotonic() - begin
            if complete and shortest:
                self._measured_at = self.clock.monotonic()
            if shortest:
                self._measured = shards
            self._metrics.rounds.labels(window.name, "ok" if complete else "failed").inc()
            self._metrics.round_duration.labels(window.name).observe(duration)
            self.health.set_problem(self.settings.source, self._measurement.problem or None)
            self.health.set_problem("clock", self._measurement.clock_warning)
            self.health.set_problem("pods", self._measurement.pods_problem or None)
            undivided = filter(None, (self._measurement.undivided, self._further.undivided))
            self.health.set_problem("shards", "; ".join(undivided) or None)
            self._metrics.on_pressure(self._measurement.pressure.store.waiting(self._measurement.source_now()))
            self.health.set_problem("pressure", self._measurement.pressure.warning or None)
            with self.health.unreadable.guard("measurements", f"the publication of the window {window.name}"):
                await self._publish_utilization(workloads=shortest)
            # After a failure a long window is measured again soon, not after half an hour.
            period = window.refresh_period
            if not complete:
                period = min(period, self.load.shortest.refresh_period)
            spread = self.settings.jitter * random.uniform(-1.0, 1.0)
            await self._pause(max(period * (1.0 + spread) - duration, period / 10), self._hurry[window.name])

    async def _pause(self, seconds: float, hurry: asyncio.Event) -> None:
        """Returns after these seconds, or earlier if the event is set."""
        with suppress(TimeoutError):
            await run_with_guard(hurry.wait(), timeout_after(self.clock, seconds))
        hurry.clear()

    async def _measure_further(self, window: Window) -> NoReturn:
        """Rounds of the further resources in one window, apart from those of cpu and memory, which they never delay.
        What they measure is published with the next round of the shortest window."""
        while True:
            begin = self.clock.monotonic()
            self._begun[_further_round(window)] = list(self._shards.owned)
            with self.health.unreadable.guard("measurements", f"further resources in the window {window.name}"):
                await self._further.round(window)
            self.health.set_problem("resources", self._further.problem or None)
            duration = self.clock.monotonic() - begin
            spread = self.settings.jitter * random.uniform(-1.0, 1.0)
            period = max(window.refresh_period * (1.0 + spread) - duration, window.refresh_period / 10)
            await self._pause(period, self._hurry[_further_round(window)])

    async def _publish_utilization(self, *, workloads: bool, shards: Iterable[OwnedShard] | None = None) -> None:
        """Publishes the utilization of all our shards that are measured, or of these."""
        published = self._measured_shards() if shards is None else shards
        cycles, unknown = await self._utilization_publisher.publish(published, workloads=workloads)
        if shards is None:
            self._metrics.on_cycle(cycles)
            self.health.set_problem("nodes", unknown_summary(unknown) or None)

    def _measured_shards(self) -> Iterator[OwnedShard]:
        """Our shards without those whose nodes are not measured yet: a cycle without values would read as a cluster
        without coverage."""
        return (owned for owned in self._shards.owned if not self._divided or owned in self._measured)

    def _measure_acquired_shards(self) -> None:
        """Begins the next round of each window in which the nodes of one of our shards were not measured."""
        for name, begun in self._begun.items():
            if any(owned not in begun for owned in self._shards.owned):
                self._hurry[name].set()

    def _publish_all_placements(self) -> None:
        self._placement_publisher.publish_all(self._watch.node_names())

    async def _resync_placements(self) -> NoReturn:
        while True:
            await self.clock.sleep(self.settings.placement_resync_period)
            self._shards.raise_epochs()
            self._publish_all_placements()

    async def _check_bus_and_shards(self) -> NoReturn:
        """Publish at once for a shard that was just acquired, and everything when the bus is back."""
        connected = True
        while True:
            await self.clock.sleep(CHECK_PERIOD)
            now = self.clock.monotonic()
            self._placement_publisher.retry(now)
            acquired = self._shards.take_acquired()
            if self._divided:
                self._measure_acquired_shards()
            elif acquired and now - self._measured_at <= self.load.lifetime(self.load.shortest):
                await self._publish_utilization(workloads=True, shards=acquired)
            was_connected, connected = connected, self.bus.connected
            if connected and not was_connected:
                # A server that lost its streams has only what is published from now on.
                log.info("bus reconnected: publishing everything")
                self._publish_all_placements()
                await self._publish_utilization(workloads=True)


def _further_round(window: Window) -> str:
    """The name of the rounds of the further resources in one window, which differs from that of the window."""
    return f"further resources in {window.name}"
