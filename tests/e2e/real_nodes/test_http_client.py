"""The client counts what fails: the tests on real nodes rely on it."""

import asyncio
import json

from e2e.real_nodes.http_client import Client, first_answer


async def asked(answer: bytes) -> Client:
    """A client that has asked a server with this answer once."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
        client = Client("127.0.0.1", server.sockets[0].getsockname()[1])
        await client.ask()
    return client


async def test_an_answer_is_counted_with_its_time() -> None:
    client = await asked(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")

    assert (client.requests, client.failed) == (1, 0)
    assert client.slowest > 0


async def test_an_error_and_an_answer_that_ends_early_have_failed() -> None:
    for answer in (
        b"",
        b"HTTP/1.0 503 Service Unavailable\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\no",
    ):
        client = await asked(answer)
        assert (client.requests, client.failed) == (1, 1), answer


async def test_a_refused_connection_has_failed_and_is_named() -> None:
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
    client = Client("127.0.0.1", port)

    await client.ask()

    report = json.loads(client.report())
    assert (report["requests"], report["failed"]) == (1, 1)
    assert "ConnectionRefusedError" in report["failures"][0]


async def test_the_first_answer_is_waited_for() -> None:
    answers = [b"", b"HTTP/1.0 503 Service Unavailable\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\nok"]

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answers.pop(0))
        writer.close()

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
        await first_answer("127.0.0.1", server.sockets[0].getsockname()[1])
    assert answers == []
