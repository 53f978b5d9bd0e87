"""What this replica holds: for each of its shards the order in which it speaks, and who else is there to hold some."""

import asyncio
import math
from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from equipoise.collector.decisions.sharding import fair_share, patience, shard_name, shard_of

ALIVE_SECONDS = 30.0
"""A replica that was not heard for so long is not counted upon: heartbeats come every 10 s."""

KEPT_SECONDS = 300.0
"""A shard that nobody else took, though somebody seemed to have room, is kept for so long: whoever that is may be dead,
or not able to."""


class Display(Protocol):
    """Where leadership is shown."""

    leading: bool | None


class Voice(msgspec.Struct, kw_only=True):
    """One shard while this replica holds it. Readers drop what has a lower epoch or sequence than the last."""

    shard: int
    name: str
    epoch: int
    sequence: int = 0
    cycle: int = 0

    def next(self) -> int:
        self.sequence += 1
        return self.sequence


class Voices:
    """The shards that this replica holds."""

    def __init__(self, *, family: str, shards: int, identity: str, display: Display) -> None:
        self._family = family
        self._shards = shards
        self._identity = identity
        self._display = display
        self._held: dict[int, Voice] = {}
        self._heard: dict[str, float] = {}
        self._offered: set[int] = set()
        """Free shards that are left to others first."""

        self._left_to_us: dict[int, float] = {}
        """When a shard was taken that nobody else wanted."""

        self.speaking = asyncio.Event()
        """Set while any shard is held."""

        self.silent = asyncio.Event()
        """Set while none is."""

        self.silent.set()

    def __iter__(self) -> Iterator[Voice]:
        """One that is lost on the way is left out."""
        for voice in list(self._held.values()):
            if self._held.get(voice.shard) is voice:
                yield voice

    def of(self, name: str) -> Voice | None:
        """Who of ours tells of this node or workload; None: another replica does."""
        return self._held.get(shard_of(name, self._shards))

    def mine(self, voice: Voice, names: Iterable[str]) -> list[str]:
        """Those of the names that this voice tells of."""
        return [name for name in names if shard_of(name, self._shards) == voice.shard]

    def take(self, shard: int, epoch: int, now: float) -> Voice:
        """This replica tells of the shard from now on."""
        voice = Voice(shard=shard, name=shard_name(self._family, shard, self._shards), epoch=epoch)
        self._held[shard] = voice
        if shard in self._offered:
            self._left_to_us[shard] = now
        self._show()
        return voice

    def drop(self, shard: int) -> None:
        """It does not any more."""
        self._held.pop(shard, None)
        self._left_to_us.pop(shard, None)
        self._show()

    def _show(self) -> None:
        self._display.leading = bool(self._held)
        for event, set_now in ((self.speaking, bool(self._held)), (self.silent, not self._held)):
            event.set() if set_now else event.clear()

    # Who else is there

    def hear(self, identity: str, now: float, *, ready: bool) -> None:
        """A collector of our family lives. One that was not there before may take what nobody took.

        One that is not ready, as it has not read the cluster yet or is about to stop, would take nothing. One that lost
        the API server says that it is ready: what it seems to have room for is kept by who took it.
        """
        if not ready:
            return
        if now - self._heard.get(identity, -math.inf) > ALIVE_SECONDS:
            self._left_to_us.clear()
        self._heard[identity] = now

    def replicas(self, now: float) -> int:
        """How many collectors there are to hold our family's shards, this one among them."""
        self._heard = {identity: at for identity, at in self._heard.items() if now - at <= ALIVE_SECONDS}
        return len(self._heard.keys() | {self._identity})

    def patience(self, shard: int, now: float) -> float:
        """Seconds for which we leave this free shard to others."""
        seconds = patience(len(self._held), self._shards, self.replicas(now))
        self._offered.add(shard) if seconds > 0 else self._offered.discard(shard)
        return seconds

    def too_many(self, shard: int, now: float) -> bool:
        """Should this one be given back, because others have fewer? The highest ones go first."""
        kept = {held for held, since in self._left_to_us.items() if now - since < KEPT_SECONDS}
        surplus = len(self._held) - fair_share(self._shards, self.replicas(now)) - len(kept)
        return surplus > 0 and shard in sorted(self._held.keys() - kept)[-surplus:]
