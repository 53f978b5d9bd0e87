"""Why a connection failed: what the clients of this project raise, as people read it."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator

import aiohttp
import pytest
from bus_worlds import free_port

from equipoise.runtime.process.failure_reason import failure_reason

REFUSED = "connection refused"


@pytest.fixture
async def plain() -> AsyncIterator[int]:
    """The port of a server without TLS that closes each connection."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"what?")
        writer.close()

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def of_aiohttp(url: str) -> str:
    with pytest.raises(aiohttp.ClientError) as error:
        async with aiohttp.ClientSession() as session:
            await session.get(url)
    return failure_reason(error.value)


async def of_streams(host: str, port: int, **options: ssl.SSLContext) -> str:
    try:
        await asyncio.open_connection(host, port, **options)
    except OSError as error:
        return failure_reason(error)
    raise AssertionError("it is connected")


async def test_a_refused_connection() -> None:
    """Of any client."""
    port = free_port()
    assert REFUSED == await of_streams("127.0.0.1", port)
    assert REFUSED == await of_aiohttp(f"http://127.0.0.1:{port}")


async def test_a_name_that_is_unknown() -> None:
    """`.invalid` never exists."""
    unknown = "the name of the host cannot be resolved"
    assert unknown == await of_streams("nats.invalid", 4222)
    assert unknown == await of_aiohttp("http://api.invalid")


async def test_a_server_without_tls(plain: int) -> None:
    """Its first bytes are no handshake."""
    reason = await of_streams("127.0.0.1", plain, ssl=ssl.create_default_context())
    assert reason.startswith("TLS failed: ")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError(), "no response in time"),
        (
            socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
            "the name of the host cannot be resolved: the DNS does not respond, or fails",
        ),
        (aiohttp.ServerDisconnectedError(), "Server disconnected"),
        (EOFError(), "the connection was lost"),
        (FileNotFoundError(2, "No such file or directory", "/token"), "no such file or directory"),
        (ValueError("two\n lines"), "two lines"),
    ],
)
def test_an_error_without_a_text_of_its_own(error: Exception, reason: str) -> None:
    """Is in words too."""
    assert reason == failure_reason(error)


def test_the_text_of_a_secret_is_not_shown() -> None:
    """An error of the decoding quotes it."""
    with pytest.raises(UnicodeDecodeError) as error:
        b"password\xff".decode()
    assert "the text is not UTF-8" == failure_reason(error.value)


async def test_a_time_limit_is_no_lost_connection() -> None:
    """Python names the cancelled wait as its cause."""
    with pytest.raises(TimeoutError) as raised:
        await asyncio.wait_for(asyncio.Event().wait(), 0.001)

    assert failure_reason(raised.value) == "no response in time"
