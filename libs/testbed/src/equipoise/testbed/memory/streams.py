"""A JetStream stream in memory, as far as services can observe it."""

import msgspec

from equipoise.contracts.bus.streams import Stream
from equipoise.contracts.bus.subjects import matches
from equipoise.runtime.bus import AlreadyQueued, Receipt
from equipoise.runtime.bus.codec import MAX_DELIVERIES
from equipoise.runtime.bus.headers import MESSAGE_ID, Headers

DUPLICATE_WINDOW = 120.0
"""Seconds for which a message id is stored, the default of JetStream."""


class StoredMessage(msgspec.Struct, kw_only=True):
    """A message in a stream, with its state in a work queue."""

    sequence: int
    subject: str
    payload: bytes
    headers: Headers
    stored_at: float
    due_at: float
    deliveries: int = 0
    taken: bool = False


class MemoryStream:
    """Stores the last message of every subject. Older ones cannot be read through the bus."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._sequence = 0
        self._messages: dict[str, StoredMessage] = {}
        self._ids: dict[str, tuple[int, float]] = {}

    def store(self, subject: str, payload: bytes, headers: Headers, now: float) -> Receipt:
        """Store a message. Raises AlreadyQueued when a work queue still holds one of this subject."""
        self._expire(now)
        message_id = headers.get(MESSAGE_ID)
        if message_id in self._ids:
            return Receipt(sequence=self._ids[message_id][0], duplicate=True)
        if self.stream.work_queue and subject in self._messages:
            raise AlreadyQueued(f"{self.stream.name} still holds a message of {subject}")
        self._sequence += 1
        self._messages.pop(subject, None)
        self._messages[subject] = StoredMessage(
            sequence=self._sequence, subject=subject, payload=payload, headers=headers, stored_at=now, due_at=now
        )
        if message_id is not None:
            self._ids[message_id] = (self._sequence, now)
        return Receipt(sequence=self._sequence)

    def last(self, pattern: str, now: float) -> list[StoredMessage]:
        """The last message of every subject that matches, oldest first."""
        self._expire(now)
        return [message for message in self._messages.values() if matches(pattern, message.subject)]

    def take(self, now: float) -> StoredMessage | None:
        """The next message for a worker; counts the delivery."""
        self._expire(now)
        for message in self._messages.values():
            if not message.taken and message.due_at <= now:
                message.taken = True
                message.deliveries += 1
                return message
        return None

    def acknowledge(self, message: StoredMessage) -> None:
        """Remove it: it is processed."""
        if self._messages.get(message.subject) is message:
            del self._messages[message.subject]

    def redeliver(self, message: StoredMessage, due_at: float) -> bool:
        """Deliver it again at `due_at`; False when it was delivered too often and is removed instead."""
        message.taken = False
        message.due_at = due_at
        if message.deliveries >= MAX_DELIVERIES:
            self.acknowledge(message)
            return False
        return True

    def _expire(self, now: float) -> None:
        """Remove what is too old. Both tables are in the order of their times."""
        if self.stream.max_age is not None:
            while (
                self._messages
                and (oldest := next(iter(self._messages.values()))).stored_at <= now - self.stream.max_age
            ):
                del self._messages[oldest.subject]
        while self._ids and self._ids[first := next(iter(self._ids))][1] <= now - DUPLICATE_WINDOW:
            del self._ids[first]
