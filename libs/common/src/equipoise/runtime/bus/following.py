"""Follows channels through the subscriptions of a bus. All implementations of the bus share it."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic

from equipoise.contracts.bounds import MAX_AHEAD
from equipoise.contracts.bus.channels import Channel, M
from equipoise.contracts.bus.streams import stream_of
from equipoise.contracts.messages.message import Message
from equipoise.runtime.bus import Delivery, Handler, OnMessage, OnMessages, T
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.process.clock import Clock


class ChannelFollower(ABC):
    """The part of a bus that decides which received messages are used."""

    errors: BusErrors
    _clock: Clock

    @abstractmethod
    async def subscribe(self, pattern: str, kind: type[T], handler: Handler[T]) -> None: ...

    @abstractmethod
    async def subscribe_latest(self, pattern: str, kind: type[T], handler: Handler[T]) -> None: ...

    async def follow(
        self,
        channel: Channel[M],
        on_message: OnMessage[M],
        *,
        on_replayed: OnMessage[M] | None = None,
        keep_future: bool = False,
    ) -> None:
        async def on_delivery(delivery: Delivery[M]) -> None:
            message, now = delivery.message, self._clock.now()
            use = on_replayed if on_replayed is not None and delivery.replayed else on_message
            if not (keep_future or _is_of_its_time(message, now)) or use(message, now) is False:
                self.errors.count_outdated(type(channel.example[1]).__name__)

        await self._subscribe_to(channel, on_delivery)

    async def follow_many(self, channel: Channel[M], on_messages: OnMessages[M]) -> None:
        received = _ReceivedMessages(channel, on_messages, self.errors, self._clock)

        async def on_delivery(delivery: Delivery[M]) -> None:
            received.add(delivery)

        await self._subscribe_to(channel, on_delivery)

    async def _subscribe_to(self, channel: Channel[M], on_delivery: Handler[M]) -> None:
        stream = stream_of(channel.pattern)
        subscribe = self.subscribe if stream is None or stream.work_queue else self.subscribe_latest
        await subscribe(channel.pattern, channel.message, on_delivery)


class _ReceivedMessages(Generic[M]):
    """The messages of a channel that were received since other tasks ran."""

    def __init__(self, channel: Channel[M], on_messages: OnMessages[M], errors: BusErrors, clock: Clock) -> None:
        self._kind = type(channel.example[1]).__name__
        self._on_messages = on_messages
        self._errors = errors
        self._clock = clock
        self._waiting: list[Delivery[M]] = []

    def add(self, delivery: Delivery[M]) -> None:
        if not _is_of_its_time(delivery.message, self._clock.now()):
            self._errors.count_outdated(self._kind)
            return
        if not self._waiting:
            # Called when the subscription lets other tasks run: until then, further messages are added.
            asyncio.get_running_loop().call_soon(self._use_waiting)
        self._waiting.append(delivery)

    def _use_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._use(waiting)

    def _use(self, deliveries: Sequence[Delivery[M]]) -> None:
        try:
            used = self._on_messages([delivery.message for delivery in deliveries], self._clock.now())
        except Exception as error:
            if len(deliveries) == 1:
                self._errors.add_unreadable("handler", deliveries[0].subject, error)
                return
            for delivery in deliveries:  # one message that cannot be handled must not lose the others
                self._use([delivery])
            return
        for is_used in used:
            if not is_used:
                self._errors.count_outdated(self._kind)


def _is_of_its_time(message: object, now: float) -> bool:
    measured_at = message.measured_at if isinstance(message, Message) else None
    return measured_at is None or measured_at <= now + MAX_AHEAD
