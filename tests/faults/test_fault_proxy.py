"""The proxy forwards everything, except where a rule matches."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from equipoise.runtime.process.clock import SystemClock
from faults.catalog.scheduling import Authority
from faults.fault_proxy import (
    AUDIT_ID,
    CountResponses,
    DropEvents,
    FaultProxy,
    abort_connection,
    around,
    delay,
    forward_to,
    gone,
    hold,
    hold_response,
    lose_response,
    respond,
    rewrite,
    status,
)
from faults.instrumented import SENT


class Upstream:
    """Records the requests that it receives. `/stream` sends the lines of a queue."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str, str]] = []
        self.names: list[str | None] = []
        self.handled = asyncio.Event()
        self.lines: asyncio.Queue[str] = asyncio.Queue()

    def server(self) -> TestServer:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self.handle)
        return TestServer(application)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.received.append((request.method, request.path_qs, await request.text()))
        self.names.append(request.headers.get(AUDIT_ID))
        self.handled.set()
        if request.path != "/stream":
            return web.json_response({"text": request.query.get("text", "hello")}, headers={"X-Own": "1"})
        response = web.StreamResponse()
        await response.prepare(request)
        while line := await self.lines.get():
            await response.write(line.encode())
        return response


@pytest.fixture
def upstream() -> Upstream:
    return Upstream()


@pytest.fixture
async def proxy(upstream: Upstream) -> AsyncIterator[FaultProxy]:
    async with upstream.server() as server, FaultProxy(str(server.make_url("/")), unused_port()) as made:
        yield made


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[aiohttp.ClientSession]:
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(proxy.url, timeout=timeout, headers={"User-Agent": "equipoise-binder/1"}) as made:
        yield made


async def response_of(client: aiohttp.ClientSession, path: str = "/a", method: str = "GET") -> tuple[int, Any]:
    async with client.request(method, path) as response:
        return response.status, json.loads(await response.text())


async def test_requests_and_responses_are_forwarded(proxy: FaultProxy, client: Any, upstream: Upstream) -> None:
    """With method, query, body, status and headers."""
    async with client.post("/a?text=hi", data="body") as response:
        assert (200, "1", {"text": "hi"}) == (response.status, response.headers["X-Own"], await response.json())
    assert upstream.received == [("POST", "/a?text=hi", "body")]


async def test_eviction_requests_are_named_when_they_arrive(upstream: Upstream) -> None:
    """Before a rule delays them, with the time at which they were sent; the name is in the server's audit log."""
    received: list[tuple[str, float | None]] = []
    async with upstream.server() as server:
        proxy = FaultProxy(str(server.make_url("/")), unused_port(), received=lambda *found: received.append(found))
        async with proxy, aiohttp.ClientSession(proxy.url) as client:
            rule = proxy.rule(hold)
            response = asyncio.create_task(response_of(client, "/pods/a/eviction", "POST"))
            async with asyncio.timeout(60):
                while not rule.taken:  # noqa: ASYNC110  the proxy signals nothing
                    await asyncio.sleep(0.01)
            assert received
            assert not upstream.handled.is_set()
            rule.lift()
            await response
            await response_of(client, "/pods/a/eviction")
            async with client.post("/pods/a/eviction", headers={SENT: "12.5"}):
                pass
    assert upstream.names == [received[0][0], None, received[1][0]]
    assert [sent for _, sent in received] == [None, 12.5]


async def test_a_held_response_is_that_of_the_time_of_the_request(
    proxy: FaultProxy, client: Any, upstream: Upstream
) -> None:
    """The server has handled the request; the client gets the response when the rule is lifted."""
    rule = proxy.rule(hold_response)
    response = asyncio.create_task(response_of(client))
    async with asyncio.timeout(60):
        await upstream.handled.wait()
    assert not response.done()
    rule.lift()
    assert await response == (200, {"text": "hello"})


async def test_events_of_a_type_are_dropped_until_the_rule_is_lifted(
    proxy: FaultProxy, client: Any, upstream: Upstream
) -> None:
    """Whole lines, also when a chunk ends within one."""
    drop = DropEvents("DELETED")
    rule = proxy.rule(drop, path="/stream")
    async with client.get("/stream") as response:
        for part in ('{"type":"DELETED","object":{}}\n{"type":"ADD', 'ED","object":{}}\n'):
            upstream.lines.put_nowait(part)
        assert await response.content.readline() == b'{"type":"ADDED","object":{}}\n'
        rule.lift()
        upstream.lines.put_nowait('{"type":"DELETED","object":{}}\n')
        assert await response.content.readline() == b'{"type":"DELETED","object":{}}\n'
    assert drop.dropped == 1


async def test_requests_are_forwarded_to_another_server(proxy: FaultProxy, client: Any, upstream: Upstream) -> None:
    other = Upstream()
    async with other.server() as server:
        proxy.rule(forward_to(str(server.make_url("")).rstrip("/")), path="/a", times=1)
        assert (await response_of(client, "/a?text=x"))[1] == {"text": "x"}
        assert (await response_of(client, "/a"))[0] == 200
    assert other.received == [("GET", "/a?text=x", "")]
    assert len(upstream.received) == 1


async def test_responses_are_counted_by_status(proxy: FaultProxy, client: Any) -> None:
    found, throttled = CountResponses(200), CountResponses(429)
    proxy.rule(found, path="/a")
    proxy.rule(throttled, path="/b")
    await response_of(client, "/a")
    await response_of(client, "/b")
    assert (found.count, throttled.count) == (1, 0)


async def test_a_rule_applies_to_matching_requests(proxy: FaultProxy, client: Any, upstream: Upstream) -> None:
    """By method, path and agent; after `after` requests, `times` times, until it is lifted."""
    rule = proxy.rule(
        respond(503, status(503, "ServiceUnavailable", "no")),
        method="POST",
        path="/eviction$",
        agent="binder",
        after=1,
        times=1,
    )
    requests = [
        ("/eviction", "GET"),
        ("/other", "POST"),
        ("/eviction", "POST"),
        ("/eviction", "POST"),
        ("/eviction", "POST"),
    ]
    assert [200, 200, 200, 503, 200] == [(await response_of(client, *request))[0] for request in requests]
    assert rule.taken == 1
    assert len(upstream.received) == 4
    unlimited = proxy.rule(respond(429, "Too many requests", {"Retry-After": "1"}))
    async with client.get("/a") as response:
        assert (429, "1", "Too many requests") == (
            response.status,
            response.headers["Retry-After"],
            await response.text(),
        )
    unlimited.lift()
    assert (await response_of(client))[0] == 200


async def test_a_rule_for_one_client_does_not_apply_to_others(proxy: FaultProxy, client: Any) -> None:
    """By agent and by token."""
    proxy.rule(abort_connection, agent="descheduler")
    proxy.rule(abort_connection, token="another")
    assert (await response_of(client))[0] == 200


async def test_a_refused_request_is_not_forwarded(proxy: FaultProxy, client: Any, upstream: Upstream) -> None:
    """The connection of the client is closed."""
    proxy.rule(abort_connection)
    with pytest.raises(aiohttp.ClientError):
        await response_of(client, method="POST")
    assert upstream.received == []


async def test_a_request_with_a_lost_response_is_forwarded(proxy: FaultProxy, client: Any, upstream: Upstream) -> None:
    """The connection of the client is closed."""
    proxy.rule(lose_response, times=1)
    with pytest.raises(aiohttp.ClientError):
        await response_of(client, method="POST")
    assert len(upstream.received) == 1


async def test_held_requests_are_forwarded_when_the_rule_is_lifted(
    proxy: FaultProxy, client: Any, upstream: Upstream
) -> None:
    """Not before."""
    rule = proxy.rule(hold)
    pending = asyncio.create_task(response_of(client))
    while not rule.taken:  # noqa: ASYNC110  the rule has a counter, no event
        await asyncio.sleep(0.01)
    assert upstream.received == []
    rule.lift()
    assert (await pending)[0] == 200


async def test_a_held_request_is_dropped_when_its_client_disconnects(
    proxy: FaultProxy, client: Any, upstream: Upstream
) -> None:
    """As in a network."""
    rule = proxy.rule(hold)
    with pytest.raises(TimeoutError):
        async with client.get("/a", timeout=aiohttp.ClientTimeout(total=0.2)):
            pass
    rule.lift()
    assert (await response_of(client, "/b"))[0] == 200
    assert [path for _, path, _ in upstream.received] == ["/b"]


async def test_responses_are_delayed(proxy: FaultProxy, client: Any) -> None:
    proxy.rule(delay(0.2))
    started = asyncio.get_running_loop().time()
    await response_of(client)
    assert asyncio.get_running_loop().time() - started >= 0.2


async def test_functions_are_called_before_and_after_a_request(
    proxy: FaultProxy, client: Any, upstream: Upstream
) -> None:
    """Before the server receives it, and after the server responded."""
    calls: list[tuple[str, int]] = []
    proxy.rule(around(before=lambda: calls.append(("before", len(upstream.received)))), times=1)
    proxy.rule(around(after=lambda: calls.append(("after", len(upstream.received)))), times=1)
    for _ in range(2):
        assert (await response_of(client))[0] == 200
    assert calls == [("before", 0), ("after", 2)]


async def test_queries_and_response_bodies_are_rewritten(proxy: FaultProxy, client: Any) -> None:
    proxy.rule(rewrite(query=lambda query: query | {"text": "then"}, body=lambda body: body | {"more": 1}))
    assert await response_of(client, "/a?text=now") == (200, {"text": "then", "more": 1})


async def test_a_watch_expires_with_status_410(proxy: FaultProxy, client: Any) -> None:
    """As from the API server: code 200 with an error event as the first line."""
    proxy.rule(gone(), path="watch=true")
    code, body = await response_of(client, "/pods?watch=true")
    assert (200, "ERROR", 410) == (code, body["type"], body["object"]["code"])


async def test_half_open_streams_stay_open_without_data(proxy: FaultProxy, client: Any, upstream: Upstream) -> None:
    """Further data are dropped, until `clear` closes the connection."""
    async with client.get("/stream") as response:
        upstream.lines.put_nowait("one\n")
        assert await response.content.readline() == b"one\n"
        proxy.half_open("/stream")
        upstream.lines.put_nowait("two\n")
        reading = asyncio.create_task(response.content.readline())
        done, _ = await asyncio.wait([reading], timeout=0.2)
        assert not done
        proxy.clear()
        with pytest.raises(aiohttp.ClientError):
            await reading
    upstream.lines.put_nowait("")


async def test_open_streams_are_aborted_by_path(proxy: FaultProxy, client: Any, upstream: Upstream) -> None:
    async with client.get("/stream") as response:
        upstream.lines.put_nowait("one\n")
        assert await response.content.readline() == b"one\n"
        assert proxy.abort("/other") == 0
        assert proxy.abort("/stream") == 1
        with pytest.raises(aiohttp.ClientError):
            await response.content.readline()
    upstream.lines.put_nowait("")


async def test_another_certificate(upstream: Upstream, tmp_path: Path) -> None:
    """Clients that trust only the old CA cannot connect any more, also those that were connected."""
    now = SystemClock().now()
    old, new = (Authority(tmp_path / name, now) for name in ("old", "new"))
    port = unused_port()
    async with upstream.server() as server:
        url = str(server.make_url("/"))
        proxy = FaultProxy(url, port, cert_file=old.cert_file, key_file=old.key_file)
        async with proxy, aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as client:
            async with client.get(proxy.url, ssl=old.without_certificate) as response:
                assert response.status == 200
            before = await proxy.present(new.cert_file, new.key_file)
            assert before == (old.cert_file, old.key_file)
            with pytest.raises(aiohttp.ClientError):
                await client.get(proxy.url, ssl=old.without_certificate)
            async with client.get(proxy.url, ssl=new.without_certificate) as response:
                assert response.status == 200
