"""What a process logs while there is no NATS server."""

import asyncio
import socket
from pathlib import Path
from typing import Any

from bus_worlds import PATIENCE, NatsWorld, free_port
from structlog.testing import capture_logs

from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.bus.nats.connection import NatsConnection
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import SystemClock


def attempts_of(link: NatsConnection) -> asyncio.Semaphore:
    """A semaphore that is released after each failed attempt to connect: to wait for attempts, not for time."""
    attempts, on_error = asyncio.Semaphore(0), link._on_error

    async def counted(error: Exception) -> None:
        await on_error(error)
        attempts.release()

    link._on_error = counted  # type: ignore[method-assign]
    return attempts


async def test_the_same_reason_is_logged_once() -> None:
    """A process may wait for days. It tries again all the time."""
    url = f"nats://127.0.0.1:{free_port()}"
    link = NatsConnection(Nats(url=url), "tap", BusErrors(SystemClock()), reconnect_pause=0.01)
    attempts = attempts_of(link)
    with capture_logs() as logs:
        opening = asyncio.create_task(link.open())
        for _ in range(3):
            await attempts.acquire()
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        await link.close()
    assert [each["event"] for each in logs].count("waiting for the bus") == 1


async def test_a_dns_that_does_not_respond_is_named() -> None:
    """The cluster has just started: there was no connection that could be lost. The name is requested only once."""
    asked: list[str] = []

    async def silent(host: str, port: int) -> None:
        asked.append(host)
        await asyncio.Event().wait()

    errors = BusErrors(SystemClock())
    link = NatsConnection(Nats(url="nats://nats:4222"), "tap", errors, reconnect_pause=0.01, resolve=silent)
    attempts = attempts_of(link)
    with capture_logs() as logs:
        opening = asyncio.create_task(link.open())
        for _ in range(2):
            await attempts.acquire()
        problems = list(errors.problems)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        await link.close()

    reason = "the name nats was not resolved within 2 s: the DNS does not respond"
    assert [each["error"] for each in logs if each["event"] == "waiting for the bus"] == [reason]
    assert [reason in text for text in problems] == [True]
    assert asked == ["nats"]


async def test_a_name_that_becomes_known_later_is_named_until_then(tmp_path: Path) -> None:
    """The DNS of the cluster starts later, or the Service of NATS is created later. Then the process connects."""
    world, known = NatsWorld(tmp_path), asyncio.Event()
    await world.start()

    async def resolve(host: str, port: int) -> list[Any]:
        if not known.is_set():
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    errors, url = BusErrors(SystemClock()), f"nats://nats.test:{world.port}"
    link = NatsConnection(Nats(url=url), "tap", errors, reconnect_pause=0.01, resolve=resolve)
    attempts = attempts_of(link)
    try:
        with capture_logs() as logs:
            opening = asyncio.create_task(link.open())
            for _ in range(2):
                await attempts.acquire()
            problems = list(errors.problems)
            known.set()
            async with asyncio.timeout(PATIENCE):
                await opening
        assert link.connected
    finally:
        await link.close()
        await world.stop()

    waiting = [each for each in logs if each["event"] == "waiting for the bus"]
    assert [(each["url"], each["error"]) for each in waiting] == [(url, "the name of the host cannot be resolved")]
    assert problems == [f"not connected to the bus at {url}: the name of the host cannot be resolved"]
    assert errors.problems == []
