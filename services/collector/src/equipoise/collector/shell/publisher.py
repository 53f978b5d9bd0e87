"""Publishes placements when they change, and utilization at the end of each round."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import msgspec
import structlog

from equipoise.collector.decisions.sharding import is_obsolete
from equipoise.collector.decisions.validation.usage import UnknownUsage
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.shell.measurement import Measurement
from equipoise.collector.shell.metrics import CollectorMetrics
from equipoise.collector.state.owned_shards import OwnedShard, OwnedShards
from equipoise.collector.state.placement import ClusterPlacement
from equipoise.collector.state.previous_messages import PreviousMessages
from equipoise.collector.state.publish_tracker import PublishTracker
from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import UtilizationCycle
from equipoise.runtime.async_tools.batching import NODES_PER_BATCH, WORKLOADS_PER_BATCH, in_batches
from equipoise.runtime.bus import Bus, BusError
from equipoise.runtime.process.clock import Clock

log = structlog.get_logger()


async def publish(bus: Bus, messages: Sequence[tuple[str, msgspec.Struct]]) -> bool:
    """Publishes messages; True if the bus kept all of them. If not, the next round or a retry publishes them again."""
    try:
        return await bus.publish_many(messages) == len(messages)
    except BusError as error:
        log.debug("not published", messages=len(messages), reason=str(error))
        return False


@dataclass(kw_only=True)
class PlacementPublisher:
    """Publishes the placement of each changed node of our shards, one message per node and batch period."""

    settings: CollectorSettings
    placement: ClusterPlacement
    previous: PreviousMessages
    shards: OwnedShards
    bus: Bus
    clock: Clock
    metrics: CollectorMetrics
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.tracker = PublishTracker(self.settings.placement_resync_period)

    def notify(self) -> None:
        """Wakes the publisher: the placement of a node may have changed."""
        self._changed.set()

    def publish_all(self, present: Collection[str]) -> None:
        """Publish every node again, and those that were deleted while no collector watched.

        `present`: the names of all nodes in the cluster.
        """
        for published in self.previous.missing_nodes(present):
            if self.placement.selects(published.labels) and self.shards.owner_of(published.node):
                self.placement.remove(published.node, published.uid, published.created_at)
        self.tracker.reset()
        self.placement.changed.update(self.placement.nodes, self.placement.removed)
        self.notify()

    def retry(self, now: float) -> None:
        """Publish again what the bus did not keep and is due by now."""
        if due := self.tracker.due(now):
            self.placement.changed.update(due)
            self.notify()

    async def run(self) -> NoReturn:
        while True:
            await self._changed.wait()
            await self.clock.sleep(self.settings.placement_batch_period)
            self._changed.clear()
            names = frozenset(self.placement.changed)
            self.placement.changed.clear()
            changed = await self._differing(names)
            self.tracker.cancel_retries(names - changed.keys())
            if not changed:
                continue
            messages = [
                (subjects.node_placement(name), msgspec.structs.replace(changed[name], **order))
                for owned in self.shards
                for order in [owned.next_order()]  # the same for all messages of the shard
                for name in self.shards.select(owned, changed)
            ]
            if await publish(self.bus, messages):
                self.tracker.on_published(changed)
                self.metrics.placements_published.inc(len(changed))
            else:
                self.tracker.on_failed(changed, self.clock.monotonic())

    async def _differing(self, names: Iterable[str]) -> dict[str, NodePlacement]:
        """The placements of our shards that differ from those last published."""
        changed: dict[str, NodePlacement] = {}
        async for batch in in_batches(names, NODES_PER_BATCH):
            for name in batch:
                placement = self.placement.placement(name) if self.shards.owner_of(name) else None
                if placement is not None and self.tracker.differs(name, placement):
                    changed[name] = placement
        return changed


@dataclass(kw_only=True)
class UtilizationPublisher:
    """Publishes what is known of the nodes and workloads of our shards, and the end of the round."""

    settings: CollectorSettings
    measurement: Measurement
    previous: PreviousMessages
    shards: OwnedShards
    bus: Bus
    max_age: float
    """Seconds after which a shard without a new cycle is no longer in use."""

    async def publish(
        self, shards: Iterable[OwnedShard], *, workloads: bool
    ) -> tuple[list[UtilizationCycle], dict[str, UnknownUsage]]:
        """Publishes the utilization and the end of the round of each of these shards. Returns their cycles, and why
        nodes have no data."""
        cycles: list[UtilizationCycle] = []
        unknown: dict[str, UnknownUsage] = {}
        for owned in shards:
            names, order = self.shards.select(owned, self.measurement.placement.nodes), owned.next_order()
            async for batch in in_batches(names, NODES_PER_BATCH):
                nodes = self.measurement.node_messages(batch, **order)
                await publish(self.bus, [(subjects.node_utilization(message.node), message) for message in nodes])
            store = self.measurement.workload_store
            async for measured in in_batches(store.measured if workloads else (), WORKLOADS_PER_BATCH):
                ours = [workload for workload in measured if self.shards.select(owned, [str(workload)])]
                usages = store.messages(ours, self.measurement.source_now(), **order)
                await publish(self.bus, [(subjects.workload_utilization(usage.workload), usage) for usage in usages])
            owned.cycle += 1
            cycle, missing = await self.measurement.cycle(names, shard=owned.name, number=owned.cycle)
            cycles.append(cycle)
            unknown |= missing
            # The cycle ends the round: it must arrive after what it counts.
            message = msgspec.structs.replace(cycle, **order)
            await publish(self.bus, [(subjects.utilization_cycle(owned.name), message)])
        await self._end_obsolete_shards()
        return cycles, unknown

    async def _end_obsolete_shards(self) -> None:
        """Ends the shards of an earlier number of shards: subscribers would otherwise wait for data of their nodes."""
        for cycle in list(self.previous.cycles.values()):
            epochs = {owned.shard: owned.epoch for owned in self.shards}  # a shard may be released meanwhile
            if 0 not in epochs:
                return
            now = self.measurement.source_now()
            # During a rolling update the new number of shards may be in use already: those are not obsolete.
            earlier = cycle.epoch < min(epochs.values()) or now - cycle.queried_at > self.max_age
            if cycle.expected and earlier and is_obsolete(cycle.shard, self.settings.shard, self.settings.shards):
                ended = UtilizationCycle(
                    shard=cycle.shard, cycle=cycle.cycle + 1, expected=0, fresh=0, queried_at=now,
                    epoch=max(self.previous.cycle_epochs[cycle.shard] + 1, *epochs.values()),
                )  # fmt: skip
                await publish(self.bus, [(subjects.utilization_cycle(cycle.shard), ended)])
