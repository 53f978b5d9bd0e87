"""The shards that this replica holds, and when it acquires or releases one."""

import math
from collections.abc import Iterable, Iterator

import msgspec

from equipoise.collector.decisions.sharding import shard_name, shard_of
from equipoise.contracts.messages.health import HEARTBEAT_LIFETIME

ACQUIRE_DELAY = 5.0
"""Seconds. Longer than a waiting replica's period between two reads of a Lease (at most 4.4), so that the others see a
free one first; short enough that, with a lease duration of 15, a lost shard is taken over within 30."""

KEEP_SECONDS = 300.0
"""The time for which a shard beyond our share is kept if no other replica acquired it: the others may be unable to."""


class OwnedShard(msgspec.Struct, kw_only=True):
    """A shard while this replica holds it. Subscribers drop messages of a lower (epoch, sequence)."""

    shard: int
    name: str
    epoch: int
    sequence: int = 0
    cycle: int = 0

    def next_order(self) -> dict[str, int]:
        """Epoch and sequence of the next message."""
        self.sequence += 1
        return {"epoch": self.epoch, "sequence": self.sequence}


class OwnedShards:
    """The shards that this replica holds, and the other replicas that could hold some. Times are monotonic seconds."""

    def __init__(self, *, family: str, shards: int, identity: str) -> None:
        self._family = family
        self._shards = shards
        self._identity = identity
        self._held: dict[int, OwnedShard] = {}
        self._heartbeats: dict[str, float] = {}
        self._offered: set[int] = set()
        """Free shards that others may acquire first."""

        self._kept_since: dict[int, float] = {}
        """The time at which this replica acquired a shard that it had offered to others, by shard."""

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[OwnedShard]:
        """The shards that are held. A shard that is released during the iteration is left out."""
        for owned in list(self._held.values()):
            if self._held.get(owned.shard) is owned:
                yield owned

    def owner_of(self, name: str) -> OwnedShard | None:
        """The shard of this node or workload; None when another replica holds it."""
        return self._held.get(shard_of(name, self._shards))

    def select(self, owned: OwnedShard, names: Iterable[str]) -> list[str]:
        """The names that belong to this shard."""
        return [name for name in names if shard_of(name, self._shards) == owned.shard]

    def acquire(self, shard: int, epoch: int, now: float) -> OwnedShard:
        owned = OwnedShard(shard=shard, name=shard_name(self._family, shard, self._shards), epoch=epoch)
        self._held[shard] = owned
        if shard in self._offered:
            self._kept_since[shard] = now
        return owned

    def release(self, shard: int) -> None:
        self._held.pop(shard, None)
        self._kept_since.pop(shard, None)

    def on_heartbeat(self, identity: str, now: float, *, ready: bool) -> None:
        """Records that a collector of our family is alive. Shards that were kept because nobody acquired them
        are offered again when a new collector appears.

        A collector that has never been ready has not listed the cluster, and acquires nothing. One that is no longer
        ready has lost the API server, and acquires its share when it is back; until then its shards stay with the
        replicas that acquired them.
        """
        if not ready and identity not in self._heartbeats:
            return
        if now - self._heartbeats.get(identity, -math.inf) > HEARTBEAT_LIFETIME:
            self._kept_since.clear()
        self._heartbeats[identity] = now

    def replicas(self, now: float) -> int:
        """How many collectors of our family are alive, this one included."""
        self._heartbeats = {name: at for name, at in self._heartbeats.items() if now - at <= HEARTBEAT_LIFETIME}
        return len(self._heartbeats.keys() | {self._identity})

    def acquire_delay(self, shard: int, now: float) -> float:
        """Seconds to wait before we acquire this free shard."""
        if not self._held or len(self._held) < self._shards // self.replicas(now):
            self._offered.discard(shard)
            return 0.0
        self._offered.add(shard)
        return ACQUIRE_DELAY

    def should_release(self, shard: int, now: float) -> bool:
        """True when others hold fewer shards than we do. The highest shards are released first."""
        kept = {held for held, since in self._kept_since.items() if now - since < KEEP_SECONDS}
        fair_share = math.ceil(self._shards / self.replicas(now))
        surplus = len(self._held) - fair_share - len(kept)
        return surplus > 0 and shard in sorted(self._held.keys() - kept)[-surplus:]
