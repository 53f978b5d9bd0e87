"""Follows channels through the subscriptions of a bus. All implementations of the bus share it."""

from abc import ABC, abstractmethod

from equipoise.contracts.bounds import MAX_AHEAD
from equipoise.contracts.bus.channels import Channel, M
from equipoise.contracts.bus.streams import stream_of
from equipoise.contracts.messages.message import Message
from equipoise.runtime.bus import Delivery, Handler, OnMessage, T
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

        stream = stream_of(channel.pattern)
        subscribe = self.subscribe if stream is None or stream.work_queue else self.subscribe_latest
        await subscribe(channel.pattern, channel.message, on_delivery)


def _is_of_its_time(message: object, now: float) -> bool:
    measured_at = message.measured_at if isinstance(message, Message) else None
    return measured_at is None or measured_at <= now + MAX_AHEAD
