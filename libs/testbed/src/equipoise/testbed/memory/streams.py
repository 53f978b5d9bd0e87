"""A JetStream stream in memory: as much of it as the services can tell from the real one."""

import msgspec

from equipoise.contracts.bus.streams import Stream
from equipoise.contracts.bus.subjects import matches
from equipoise.runtime.bus import AlreadyQueued, Receipt
from equipoise.runtime.bus.codec import MAX_DELIVERIES
from equipoise.runtime.bus.headers import MESSAGE_ID, Headers

DUPLICATE_WINDOW = 120.0
"""Seconds for which a message id is remembered, the default of JetStream."""


class Kept(msgspec.Struct, kw_only=True):
    """A message in a stream, and how far a work queue is with it."""

    sequence: int
    subject: str
    payload: bytes
    headers: Headers
    stored_at: float
    due_at: float
    deliveries: int = 0
    taken: bool = False


class MemoryStream:
    """Keeps the last message of every subject. Nobody reads older ones through the bus, so they are not kept."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._sequence = 0
        self._kept: dict[str, Kept] = {}
        self._ids: dict[str, tuple[int, float]] = {}

    def store(self, subject: str, payload: bytes, headers: Headers, now: float) -> Receipt:
        """Keep a message. Raises Refused when a work queue still holds one of this subject."""
        self._forget(now)
        message_id = headers.get(MESSAGE_ID)
        if message_id in self._ids:
            return Receipt(sequence=self._ids[message_id][0], duplicate=True)
        if self.stream.work_queue and subject in self._kept:
            raise AlreadyQueued(f"{self.stream.name} still holds a message of {subject}")
        self._sequence += 1
        self._kept.pop(subject, None)
        self._kept[subject] = Kept(
            sequence=self._sequence, subject=subject, payload=payload, headers=headers, stored_at=now, due_at=now
        )
        if message_id is not None:
            self._ids[message_id] = (self._sequence, now)
        return Receipt(sequence=self._sequence)

    def last(self, pattern: str, now: float) -> list[Kept]:
        """The last message of every subject that matches, oldest first."""
        self._forget(now)
        return [kept for kept in self._kept.values() if matches(pattern, kept.subject)]

    def take(self, now: float) -> Kept | None:
        """The next message that a worker should try, and count the try."""
        self._forget(now)
        for kept in self._kept.values():
            if not kept.taken and kept.due_at <= now:
                kept.taken = True
                kept.deliveries += 1
                return kept
        return None

    def settle(self, kept: Kept) -> None:
        """Acknowledged: remove it."""
        if self._kept.get(kept.subject) is kept:
            del self._kept[kept.subject]

    def again(self, kept: Kept, due_at: float) -> bool:
        """Offer it again at `due_at`; False when it was delivered too often and is removed instead."""
        kept.taken = False
        kept.due_at = due_at
        if kept.deliveries >= MAX_DELIVERIES:
            self.settle(kept)
            return False
        return True

    def _forget(self, now: float) -> None:
        """Drop what is too old. Both tables are in the order of their times."""
        if self.stream.max_age is not None:
            while self._kept and (oldest := next(iter(self._kept.values()))).stored_at <= now - self.stream.max_age:
                del self._kept[oldest.subject]
        while self._ids and self._ids[first := next(iter(self._ids))][1] <= now - DUPLICATE_WINDOW:
            del self._ids[first]
