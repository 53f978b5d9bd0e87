"""The heartbeats of the services on a bus."""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress

from equipoise.cli.effective.reading import is_of_its_service
from equipoise.contracts.bus.subjects import PREFIX
from equipoise.contracts.messages.health import HEARTBEAT_PERIOD, Heartbeat
from equipoise.runtime.bus import BusUnavailable, Delivery, connect
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import Clock

LISTEN_SECONDS = HEARTBEAT_PERIOD + 1.0
"""The seconds within which every running process publishes a heartbeat."""

CONNECT_SECONDS = 5.0


async def read_heartbeats(
    server: Nats,
    clock: Clock,
    enough: Callable[[Collection[Heartbeat]], bool],
    *,
    user: str = "tap",
    listen: float = LISTEN_SECONDS,
) -> list[Heartbeat]:
    """The last heartbeat of each process. Raises BusError.

    Ends after `listen` seconds, or as soon as `enough` is true for the heartbeats received so far.
    """
    latest: dict[tuple[str, str], Heartbeat] = {}
    complete = asyncio.Event()

    async def on_heartbeat(delivery: Delivery[Heartbeat]) -> None:
        if not is_of_its_service(delivery.message, delivery.subject):
            return
        latest[delivery.message.service, delivery.message.id] = delivery.message
        if enough(latest.values()):
            complete.set()

    errors = BusErrors(clock)
    try:
        async with (
            asyncio.timeout(CONNECT_SECONDS) as limit,
            connect(server, user, clock=clock, errors=errors, ends_when_refused=True) as bus,
        ):
            limit.reschedule(None)
            await bus.subscribe(f"{PREFIX}.health.*.*", Heartbeat, on_heartbeat)
            with suppress(TimeoutError):
                async with asyncio.timeout(listen):
                    await complete.wait()
    except TimeoutError:
        why = "".join(f" ({problem})" for problem in errors.problems)
        check = "check --user, --password-file and --nats-ca"
        raise BusUnavailable(f"no connection to {server.shown_url}: {check}{why}") from None
    return list(latest.values())
