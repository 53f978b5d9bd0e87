"""Acquires and releases shards: one Lease each, shared fairly among the replicas of this collector."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

import structlog

from equipoise.collector.decisions.sharding import lease_name
from equipoise.collector.settings import WHOLE_CLUSTER, CollectorSettings
from equipoise.collector.state.owned_shards import OwnedShard, OwnedShards
from equipoise.collector.state.previous_messages import PreviousMessages
from equipoise.contracts.bounds import EPOCH_AHEAD
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.runtime.bus import Bus
from equipoise.runtime.kubernetes.client import Kube
from equipoise.runtime.kubernetes.leader_election import lead
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health

CHECK_PERIOD = 1.0
"""Seconds between checks of the bus and of whether a shard should be released."""

BUS_TIMEOUT = 10.0
"""Seconds without the bus after which our shards go to replicas that were recently seen on it."""

log = structlog.get_logger()


class _NoDisplay:
    """Ignores who holds a single Lease, because health shows whether this replica holds any shard."""

    leading: bool | None = None


@dataclass(kw_only=True)
class ShardOwnership:
    """The shards that this replica holds, and when it acquires or releases one."""

    settings: CollectorSettings
    namespace: str
    identity: str
    kube: Kube
    bus: Bus
    clock: Clock
    health: Health
    previous: PreviousMessages
    on_acquired: Callable[[], None]
    active: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while a shard is held."""

    inactive: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no shard is held."""

    _acquired: set[int] = field(default_factory=set)
    _disconnected: bool = False
    """Whether this replica lost the bus while others had it: it then releases its shards to them."""

    _reconnected_at: float = -math.inf

    def __post_init__(self) -> None:
        self.owned = OwnedShards(family=self.settings.shard, shards=self.settings.shards, identity=self.identity)
        self._connected_at = self.clock.monotonic()
        self.inactive.set()

    async def run(self) -> None:
        """Hold a fair share of the shards, or all of them at once without leader election."""
        if not self.settings.leader_election:
            for shard in range(self.settings.shards):
                self._acquire(shard)
            return
        self.health.leading = False
        async with asyncio.TaskGroup() as tasks:
            for shard in range(self.settings.shards):
                tasks.create_task(self._hold(shard))

    async def watch_bus(self) -> NoReturn:
        while True:
            self._check_bus()
            await self.clock.sleep(CHECK_PERIOD)

    def _check_bus(self) -> None:
        now = self.clock.monotonic()
        if self.bus.connected:
            if self._disconnected:
                self._reconnected_at = now
            self._connected_at, self._disconnected = now, False
        elif now - self._connected_at >= BUS_TIMEOUT and self.owned.replicas(now) > 1:
            self._disconnected = True

    async def _hold(self, shard: int) -> None:
        async def worker(_: LeaseEpoch) -> None:
            self._acquire(shard)
            try:
                while not self._disconnected and not self.owned.should_release(shard, self.clock.monotonic()):
                    await self.clock.sleep(CHECK_PERIOD)
                log.info("releasing a shard", shard=shard, disconnected=self._disconnected)
            finally:
                self.release(shard)

        await lead(
            self.kube,
            self.clock,
            namespace=self.namespace,
            name=lease_name(self.settings.shard, WHOLE_CLUSTER, shard, self.settings.shards),
            identity=self.identity,
            worker=worker,
            health=_NoDisplay(),
            acquire_delay=lambda: self._acquire_delay(shard),
        )

    def _acquire_delay(self, shard: int) -> float:
        """Seconds to wait before this replica acquires a free shard."""
        self._check_bus()  # others release our share at our first heartbeat, and acquire it again soon
        if self._disconnected:
            return math.inf
        now = self.clock.monotonic()
        delay = self.owned.acquire_delay(shard, now)
        # Others may have lost the bus too: they get the same time, counted from the reconnect.
        return math.inf if now < self._reconnected_at + delay else delay

    def _acquire(self, shard: int) -> None:
        owned = self.owned.acquire(shard, self._next_epoch(), self.clock.monotonic())
        self._acquired.add(shard)
        log.info("shard acquired", shard=owned.name, epoch=owned.epoch)
        self._update()
        self.on_acquired()

    def release(self, shard: int) -> None:
        self.owned.release(shard)
        self._update()

    def _update(self) -> None:
        self.health.leading = bool(self.owned)
        for event, is_set in ((self.active, bool(self.owned)), (self.inactive, not self.owned)):
            event.set() if is_set else event.clear()

    def take_acquired(self) -> list[OwnedShard]:
        """The shards acquired since the last call."""
        acquired = [owned for owned in self.owned if owned.shard in self._acquired]
        self._acquired.clear()
        return acquired

    def raise_epochs(self) -> None:
        """Chooses a new epoch for each shard with a node that another collector has published with a higher epoch.

        During a rolling update, a collector with another number of shards may do so. Subscribers would then drop our
        messages.
        """
        outdated = {
            owned.shard: owned
            for name, placement in self.previous.nodes.items()
            if (owned := self.owned.owner_of(name)) and placement.epoch > owned.epoch
        }
        for owned in outdated.values():
            owned.epoch = self._next_epoch()
            log.info("epoch raised above another collector's", shard=owned.name, epoch=owned.epoch)

    def _next_epoch(self) -> int:
        """All replicas use the API server's clock, so that the next holder's epoch is higher than ours."""
        now = self.clock.now()
        return self.previous.next_epoch(min(self.kube.server_time(now), now + EPOCH_AHEAD / 2))
