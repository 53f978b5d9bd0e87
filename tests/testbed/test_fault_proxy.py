"""The proxy passes everything on, except for the trouble it is told to make."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from equipoise.testbed.fault_proxy import (
    FaultProxy,
    around,
    delay,
    gone,
    hold,
    lose_response,
    refuse,
    respond,
    rewrite,
    status,
)


class Upstream:
    """Counts what reaches it; `/stream` sends a line whenever it is told to."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []
        self.lines: asyncio.Queue[str] = asyncio.Queue()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.method, request.path_qs, await request.text()))
        if request.path != "/stream":
            return web.json_response({"said": request.query.get("say", "hello")}, headers={"X-Own": "1"})
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
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", upstream.handle)
    async with TestServer(application) as server, FaultProxy(str(server.make_url("/")), unused_port()) as made:
        yield made


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[aiohttp.ClientSession]:
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(proxy.url, timeout=timeout, headers={"User-Agent": "equipoise-binder/1"}) as made:
        yield made


async def said(client: aiohttp.ClientSession, path: str = "/a", method: str = "GET") -> tuple[int, Any]:
    async with client.request(method, path) as response:
        return response.status, json.loads(await response.text())


async def test_passes_requests_and_answers_on(proxy: FaultProxy, client: Any, upstream: Upstream) -> None:
    """Method, query, body, status and headers arrive on either side."""
    async with client.post("/a?say=hi", data="body") as response:
        assert (200, "1", {"said": "hi"}) == (response.status, response.headers["X-Own"], await response.json())
    assert upstream.seen == [("POST", "/a?say=hi", "body")]


async def test_a_rule_takes_what_it_names(proxy: FaultProxy, client: Any, upstream: Upstream) -> None:
    """By method, path and agent; so many after so many; and none once it is lifted."""
    rule = proxy.rule(
        respond(503, status(503, "ServiceUnavailable", "no")),
        method="POST",
        path="/eviction$",
        agent="binder",
        after=1,
        times=1,
    )
    asked = [
        ("/eviction", "GET"),
        ("/other", "POST"),
        ("/eviction", "POST"),
        ("/eviction", "POST"),
        ("/eviction", "POST"),
    ]
    assert [200, 200, 200, 503, 200] == [(await said(client, *what))[0] for what in asked]
    assert rule.taken == 1
    assert len(upstream.seen) == 4
    lasting = proxy.rule(respond(429, "Too many requests", {"Retry-After": "1"}))
    async with client.get("/a") as response:
        assert (429, "1", "Too many requests") == (
            response.status,
            response.headers["Retry-After"],
            await response.text(),
        )
    lasting.lift()
    assert (await said(client))[0] == 200


async def test_another_agent_and_another_token_are_let_through(proxy: FaultProxy, client: Any) -> None:
    """A rule about one client leaves the others alone."""
    proxy.rule(refuse(), agent="descheduler")
    proxy.rule(refuse(), token="another")
    assert (await said(client))[0] == 200


async def test_a_refused_request_never_arrives(proxy: FaultProxy, client: Any, upstream: Upstream) -> None:
    """The client sees its connection break."""
    proxy.rule(refuse())
    with pytest.raises(aiohttp.ClientError):
        await said(client, method="POST")
    assert upstream.seen == []


async def test_a_lost_answer_was_carried_out(proxy: FaultProxy, client: Any, upstream: Upstream) -> None:
    """The server did it, and the client cannot know."""
    proxy.rule(lose_response(), times=1)
    with pytest.raises(aiohttp.ClientError):
        await said(client, method="POST")
    assert len(upstream.seen) == 1


async def test_what_is_held_goes_on_when_the_rule_is_lifted(proxy: FaultProxy, client: Any, upstream: Upstream) -> None:
    """Nothing arrives before."""
    rule = proxy.rule(hold())
    asking = asyncio.create_task(said(client))
    while not rule.taken:  # noqa: ASYNC110  the rule counts, it does not tell
        await asyncio.sleep(0.01)
    assert upstream.seen == []
    rule.lift()
    assert (await asking)[0] == 200


async def test_who_gives_up_is_not_carried_out_later(proxy: FaultProxy, client: Any, upstream: Upstream) -> None:
    """A request whose client has gone is dropped, as a network would."""
    rule = proxy.rule(hold())
    with pytest.raises(TimeoutError):
        async with client.get("/a", timeout=aiohttp.ClientTimeout(total=0.2)):
            pass
    rule.lift()
    assert (await said(client, "/b"))[0] == 200
    assert [path for _, path, _ in upstream.seen] == ["/b"]


async def test_delays(proxy: FaultProxy, client: Any) -> None:
    """The answer comes later by as much."""
    proxy.rule(delay(0.2))
    began = asyncio.get_running_loop().time()
    await said(client)
    assert asyncio.get_running_loop().time() - began >= 0.2


async def test_calls_around_a_request(proxy: FaultProxy, client: Any, upstream: Upstream) -> None:
    """Before it has reached the server, and after it was answered there."""
    seen: list[tuple[str, int]] = []
    proxy.rule(around(before=lambda: seen.append(("before", len(upstream.seen)))), times=1)
    proxy.rule(around(after=lambda: seen.append(("after", len(upstream.seen)))), times=1)
    for _ in range(2):
        assert (await said(client))[0] == 200
    assert seen == [("before", 0), ("after", 2)]


async def test_rewrites(proxy: FaultProxy, client: Any) -> None:
    """The query on its way there, the body on its way back."""
    proxy.rule(rewrite(query=lambda query: query | {"say": "then"}, body=lambda body: body | {"more": 1}))
    assert await said(client, "/a?say=now") == (200, {"said": "then", "more": 1})


async def test_a_watch_is_told_that_its_past_is_gone(proxy: FaultProxy, client: Any) -> None:
    """As the API server says it: 200, and an error as the first line."""
    proxy.rule(gone(), path="watch=true")
    code, body = await said(client, "/pods?watch=true")
    assert (200, "ERROR", 410) == (code, body["type"], body["object"]["code"])


async def test_half_open_streams_say_nothing_and_stay(proxy: FaultProxy, client: Any, upstream: Upstream) -> None:
    """What the server says from then on is swallowed, until healing breaks the connection."""
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


async def test_breaks_off_what_is_under_way(proxy: FaultProxy, client: Any, upstream: Upstream) -> None:
    """Streams of the named path end for their clients."""
    async with client.get("/stream") as response:
        upstream.lines.put_nowait("one\n")
        assert await response.content.readline() == b"one\n"
        assert proxy.abort("/other") == 0
        assert proxy.abort("/stream") == 1
        with pytest.raises(aiohttp.ClientError):
            await response.content.readline()
    upstream.lines.put_nowait("")
