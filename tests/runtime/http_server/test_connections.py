"""Which connection is closed for a new one, or after a time."""

import asyncio
from typing import Any

from equipoise.contracts.connection_limits import ConnectionLimits, ConnectionPool
from equipoise.runtime.http_server.connections import LimitedConnections


def test_below_the_limits_no_connection_is_displaced() -> None:
    """Each is in the pool until it is removed."""
    pool = ConnectionPool[str](total=3, per_address=2)

    assert [pool.add("a1", "a"), pool.add("a2", "a"), pool.add("b1", "b")] == [None, None, None]
    pool.remove("a1")
    pool.remove("a1")

    assert (len(pool), "a1" in pool, "a2" in pool) == (2, False, True)
    assert pool.add("a3", "a") is None


def test_an_address_above_its_limit_displaces_its_own_oldest_connection() -> None:
    """The other addresses keep theirs."""
    pool = ConnectionPool[str](total=9, per_address=2)
    for connection in ("b1", "a1", "a2"):
        pool.add(connection, connection[0])

    assert [pool.add("a3", "a"), pool.add("a4", "a")] == ["a1", "a2"]
    assert len(pool) == 3


def test_a_used_connection_is_displaced_last() -> None:
    """Not the oldest one, but the one that has not been used for the longest time."""
    pool = ConnectionPool[str](total=9, per_address=2)
    pool.add("a1", "a")
    pool.add("a2", "a")
    pool.renew("a1")
    pool.renew("unknown")

    assert pool.add("a3", "a") == "a2"


def test_above_the_total_the_address_with_the_most_loses_one() -> None:
    """The only connection of another address remains, however long it has waited."""
    pool = ConnectionPool[str](total=3, per_address=3)
    for connection in ("b1", "a1", "a2"):
        pool.add(connection, connection[0])

    assert pool.add("c1", "c") == "a1"
    assert pool.add("d1", "d") == "b1"  # one each: the one that has waited longest


class Recorded(asyncio.Transport):
    """A connection of a client whose address is known."""

    def __init__(self) -> None:
        self.aborted = asyncio.Event()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", 1) if name == "peername" else default

    def abort(self) -> None:
        self.aborted.set()


async def opened(limits: ConnectionLimits) -> tuple[Any, Recorded]:
    transport = Recorded()
    connection = LimitedConnections(asyncio.Protocol, limits)()
    connection.connection_made(transport)
    return connection, transport


async def test_a_client_that_does_not_read_its_response_is_closed() -> None:
    """Its request was complete: only the buffer of the response is full."""
    connection, transport = await opened(ConnectionLimits(request_seconds=600, response_seconds=0.01))
    connection.data_received(b"GET /metrics HTTP/1.1\r\n\r\n")
    connection.pause_writing()

    async with asyncio.timeout(60):
        await transport.aborted.wait()


async def test_a_complete_request_has_no_deadline_any_more() -> None:
    """It may arrive in parts, and the next one has a deadline again. A client that reads again has none either."""
    connection, transport = await opened(ConnectionLimits(request_seconds=0.05, response_seconds=0.05))
    for part in (b"GET / HTTP/1.1\r", b"\n", b"\r", b"\n"):
        connection.data_received(part)
    connection.pause_writing()
    connection.resume_writing()
    await asyncio.sleep(0.2)
    assert not transport.aborted.is_set()
    connection.data_received(b"GET /")

    async with asyncio.timeout(60):
        await transport.aborted.wait()
