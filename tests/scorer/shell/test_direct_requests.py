"""Requests in the form of kube-scheduler are answered without aiohttp, and aiohttp answers all others.

aiohttp names itself in the header Server of its responses.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from scorer.extender_bodies import NOT_JSON, a_body
from scorer.running import Running, Start, fill, settings_for

HEADERS = {
    "Host": "equipoise-scorer:8888",
    "User-Agent": "Go-http-client/1.1",
    "Content-Type": "application/json",
    "Accept-Encoding": "gzip",
}
"""As sent by kube-scheduler."""

BODY = json.dumps(a_body(NodeNames=["node-a", "node-b", "node-c"])).encode()
DIRECT, AIOHTTP = False, True


def a_request(
    body: bytes = BODY, *, line: str = "POST /prioritize HTTP/1.1", end: str = "\r\n", **headers: str | None
) -> bytes:
    """`headers` are added; None removes one."""
    fields = HEADERS | {"Content-Length": str(len(body))}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}  # type: ignore[dict-item]
    lines = [line, *(f"{name}: {value}" for name, value in fields.items() if value is not None)]
    return end.join([*lines, "", ""]).encode() + body


class Client:
    """One connection, whose responses are read in order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def response(self) -> tuple[int, bool, Any]:
        """Status, whether it is of aiohttp, and the document."""
        async with asyncio.timeout(60):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            status, _, rest = head.partition("\r\n")
            fields = dict(line.split(": ") for line in rest.strip().split("\r\n"))
            body = await self.reader.readexactly(int(fields["Content-Length"]))
        assert fields["Content-Type"].partition(";")[0] == "application/json"
        assert fields["Date"].endswith(" GMT")
        return int(status.split()[1]), "Server" in fields, json.loads(body)

    async def ask(self, *parts: bytes) -> tuple[int, bool, Any]:
        """Each part arrives alone."""
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()
            await asyncio.sleep(0.001)  # a part that arrives together with another one is no error
        return await self.response()


Connect = Callable[[Running], Awaitable[Client]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    clients: list[Client] = []

    async def connect(running: Running) -> Client:
        clients.append(Client(*await asyncio.open_connection("127.0.0.1", running.port)))
        return clients[-1]

    yield connect
    for client in clients:
        client.writer.close()
        with suppress(ConnectionError):
            await client.writer.wait_closed()


@pytest.fixture
async def running(start: Start) -> Running:
    running = await start(settings_for(max_body_bytes=2**20, concurrency=2))
    await fill(running)
    return running


async def test_requests_of_kube_scheduler_are_answered_directly(running: Running, connect: Connect) -> None:
    """One after the other on one connection, to prioritize and to filter."""
    client = await connect(running)

    answers = [await client.ask(a_request(line=f"POST /{verb} HTTP/1.1")) for verb in ("prioritize", "filter") * 2]

    assert [(status, of) for status, of, _ in answers] == [(200, DIRECT)] * 4
    assert [each["Host"] for each in answers[2][2]] == ["node-a", "node-b", "node-c"]
    assert answers[3][2]["NodeNames"] == ["node-a", "node-b", "node-c"]
    counted = {
        verb: running.metrics.get_sample_value("equipoise_scorer_requests_total", {"verb": verb, "result": "ok"})
        for verb in ("prioritize", "filter")
    }
    assert counted == {"prioritize": 2, "filter": 2}


OTHER_FORMS = {
    "a header that is not expected": a_request(Traceparent="00-1-1-01"),
    "a header in two lines": a_request(Accept="text/html", accept="application/json"),
    "version 1.0": a_request(line="POST /prioritize HTTP/1.0", Connection="keep-alive"),
    "chunked": a_request(
        b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY), Content_Length=None, Transfer_Encoding="chunked"
    ),
    "a query": a_request(line="POST /prioritize?a=b HTTP/1.1"),
    "two": a_request() + a_request(),
}


@pytest.mark.parametrize("sent", OTHER_FORMS.values(), ids=OTHER_FORMS)
async def test_a_request_in_another_form_gets_the_same_scores_from_aiohttp(
    running: Running, connect: Connect, sent: bytes
) -> None:
    """Also after requests in the usual form, which aiohttp answers too from then on."""
    client = await connect(running)

    before = await client.ask(a_request())
    other = await client.ask(sent)
    if sent.count(BODY) == 2:
        await client.response()
    after = await client.ask(a_request())

    assert [answer[:2] for answer in (before, other, after)] == [(200, DIRECT), (200, AIOHTTP), (200, AIOHTTP)]
    assert [each["Host"] for each in other[2]] == [each["Host"] for each in before[2]]


REFUSED = {
    "another path": (404, a_request(line="POST /bind HTTP/1.1")),
    "another method": (405, a_request(b"", line="GET /prioritize HTTP/1.1")),
    "two lengths": (400, a_request(content_length="7")),
    "a negative length": (400, a_request(Content_Length="-7")),
    "no host": (400, a_request(Host=None)),
    "no length": (400, a_request(b"", Content_Length=None)),
    "compressed": (415, a_request(Content_Encoding="gzip")),
    "too large": (413, a_request(b" " * (2**20 + 1))),
}


@pytest.mark.parametrize(("status", "sent"), REFUSED.values(), ids=REFUSED)
async def test_a_request_that_is_refused_is_refused_by_aiohttp(
    running: Running, connect: Connect, status: int, sent: bytes
) -> None:
    """Whose checks count for everything unusual."""
    client = await connect(running)
    client.writer.write(sent)

    async with asyncio.timeout(60):
        line = await client.reader.readline()

    assert int(line.split()[1]) == status


async def test_invalid_bodies_get_a_json_error(running: Running, connect: Connect) -> None:
    """The connection is used for the next request."""
    client = await connect(running)

    refused = [await client.ask(a_request(body)) for body in NOT_JSON.values()]
    accepted = await client.ask(a_request())

    assert {(status, of, *body) for status, of, body in refused} == {(400, DIRECT, "Error")}
    assert accepted[:2] == (200, DIRECT)


@pytest.mark.parametrize("size", [7, 300, len(BODY)])
async def test_a_body_may_arrive_in_parts(running: Running, connect: Connect, size: int) -> None:
    """After the head; a head in two parts is left to aiohttp."""
    head, body = a_request()[: -len(BODY)], BODY
    parts = [body[begin : begin + size] for begin in range(0, len(body), size)]
    client = await connect(running)

    whole = await client.ask(a_request())
    in_parts = await client.ask(head + parts[0], *parts[1:])
    split_head = await client.ask(head[:20], head[20:] + body)

    assert [each[:2] for each in (whole, in_parts, split_head)] == [(200, DIRECT), (200, DIRECT), (200, AIOHTTP)]
    assert in_parts[2] == whole[2]


async def test_requests_above_the_limit_are_refused(running: Running, connect: Connect) -> None:
    """Two wait for their bodies. When one of them is given up, there is room again."""
    waiting = [await connect(running) for _ in range(2)]
    for client in waiting:
        client.writer.write(a_request()[:-1])
        await client.writer.drain()

    async with asyncio.timeout(60):
        while (refused := await (await connect(running)).ask(a_request()))[0] != 503:
            pass
        waiting[0].writer.close()
        while (await (await connect(running)).ask(a_request()))[0] != 200:
            pass

    assert refused[1] == AIOHTTP
    assert (await waiting[1].ask(a_request()[-1:]))[0] == 200


async def test_a_body_that_is_not_sent_times_out(start: Start, connect: Connect) -> None:
    """With 503 after the deadline, and the connection is closed."""
    running = await start(settings_for(deadline=0.05))
    client = await connect(running)

    status, of, _ = await client.ask(a_request()[:-1])

    assert (status, of) == (503, DIRECT)
    async with asyncio.timeout(60):
        assert await client.reader.read() == b""


@pytest.mark.parametrize(("seconds", "different"), [(4.9, True), (5.1, False)])
async def test_a_late_body_gets_neutral_scores(start: Start, connect: Connect, seconds: float, different: bool) -> None:
    """After the deadline (here 5 s) every host gets the same score."""
    running = await start(settings_for(concurrency=1))
    await fill(running)
    client = await connect(running)
    client.writer.write(a_request()[:-1])
    while (await (await connect(running)).ask(a_request()))[0] != 503:
        pass  # the head was not received yet
    await running.clock.advance(seconds)

    status, of, scores = await client.ask(a_request()[-1:])

    assert (status, of) == (200, DIRECT)
    assert (len({each["Score"] for each in scores}) > 1) == different


async def start_with_short_keep_alive(start: Start) -> Running:
    """One second, which the configuration does not accept."""
    settings = settings_for()
    extender = msgspec.structs.replace(settings.extender, keep_alive_timeout=1.0)
    return await start(msgspec.structs.replace(settings, extender=extender))


async def test_an_unused_connection_is_closed(start: Start, connect: Connect) -> None:
    """After the keep-alive timeout. One on which a body is received is not."""
    running = await start_with_short_keep_alive(start)
    used, unused = await connect(running), await connect(running)

    answered = await unused.ask(a_request())
    used.writer.write(a_request()[:-1])
    async with asyncio.timeout(60):
        assert await unused.reader.read() == b""

    assert answered[:2] == (200, DIRECT)
    assert (await used.ask(a_request()[-1:]))[:2] == (200, DIRECT)


async def test_a_connection_in_use_stays_open(start: Start, connect: Connect) -> None:
    """For longer than the keep-alive timeout, which each response begins anew."""
    client = await connect(await start_with_short_keep_alive(start))
    loop = asyncio.get_running_loop()
    end = loop.time() + 1.5

    while loop.time() < end:
        assert (await client.ask(a_request()))[:2] == (200, DIRECT)


async def test_a_stopping_scorer_closes_connections(running: Running, connect: Connect) -> None:
    """Those without a request, and those of aiohttp."""
    clients = [await connect(running) for _ in range(2)]
    await clients[0].ask(a_request())
    await clients[1].ask(a_request(Traceparent="00-1-1-01"))

    await running.stop()

    async with asyncio.timeout(60):
        assert [await client.reader.read() for client in clients] == [b"", b""]


async def test_a_client_that_reads_nothing_gets_its_responses_in_order_later(running: Running) -> None:
    """Meanwhile aiohttp has the connection and waits: responses do not pile up in memory."""
    names = [f"node-{'x' * 200}-{number}" for number in range(4_000)]
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", running.port))
    connection.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=connection, limit=2**20)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    client = Client(reader, writer)

    def answered() -> float:
        labels = {"verb": "prioritize", "result": "ok"}
        return running.metrics.get_sample_value("equipoise_scorer_requests_total", labels) or 0.0

    sent = 0
    while answered() == sent < 40:
        writer.write(a_request(json.dumps(a_body(NodeNames=[f"first-{sent}", *names])).encode()))
        sent += 1
        for _ in range(200):  # the server has its turns; then it answers nothing more
            await asyncio.sleep(0)
    assert sent < 40
    writer.transport.resume_reading()  # type: ignore[attr-defined]
    answers = [await client.response() for _ in range(sent)]
    writer.close()
    await writer.wait_closed()

    assert [body[0]["Host"] for _, _, body in answers] == [f"first-{number}" for number in range(sent)]
    assert (answers[0][:2], answers[-1][:2]) == ((200, DIRECT), (200, AIOHTTP))
