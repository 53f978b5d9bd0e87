"""An HTTP proxy that makes trouble on purpose, in front of an API server or of Prometheus.

Every request goes through unless a rule takes it. A rule names the requests it is about, how many of them it takes and
what becomes of those; rules are asked in the order in which they were made. The proxy shows the server's own
certificate, so that clients trust it by the same file.
"""

import asyncio
import contextlib
import json
import random
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web

Forward = Callable[[], Awaitable[web.StreamResponse]]
"""Sends the request on and its answer back."""

Trouble = Callable[["Passing"], Awaitable[web.StreamResponse]]
"""What becomes of a request that a rule takes."""

_HOP = {
    "accept-encoding",
    "connection",
    "keep-alive",
    "transfer-encoding",
    "content-length",
    "host",
    "te",
    "trailer",
    "upgrade",
}


@dataclass(kw_only=True)
class Rule:
    """Requests that are in for trouble. Ended by `lift`."""

    trouble: Trouble
    method: str = ""
    """Empty: any."""
    path: str = ""
    """Regular expression, found anywhere in path and query."""
    agent: str = ""
    """Part of the User-Agent."""
    token: str = ""
    """Bearer token of who asks."""
    share: float = 1.0
    """Of the requests meant, 0..1."""
    times: int | None = None
    """So many, then no more."""
    after: int = 0
    """So many are let through first."""
    taken: int = 0
    lifted: asyncio.Event = field(default_factory=asyncio.Event)

    def lift(self) -> None:
        """Takes no more requests, and lets go those it holds."""
        self.lifted.set()

    def takes(self, request: web.Request, chance: random.Random) -> bool:
        if self.lifted.is_set() or (self.times is not None and self.taken >= self.times):
            return False
        meant = (
            (not self.method or request.method == self.method)
            and self.agent in request.headers.get("User-Agent", "")
            and self.token in request.headers.get("Authorization", "")
            and re.search(self.path, request.path_qs) is not None
        )
        if not meant:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        if chance.random() >= self.share:
            return False
        self.taken += 1
        return True


@dataclass(kw_only=True)
class Passing:
    """A request on its way through."""

    proxy: "FaultProxy"
    rule: Rule
    request: web.Request
    body: bytes

    async def forward(self) -> web.StreamResponse:
        return await self.proxy.forward(self.request, self.body)

    def hang_up(self) -> web.StreamResponse:
        """The client sees its connection break."""
        if self.request.transport is not None:
            self.request.transport.abort()
        return web.Response(status=500)


def delay(seconds: float) -> Trouble:
    """The request waits before it goes on."""

    async def trouble(passing: Passing) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await passing.forward()

    return trouble


def hold() -> Trouble:
    """The request waits until the rule is lifted, and then goes on."""

    async def trouble(passing: Passing) -> web.StreamResponse:
        await passing.rule.lifted.wait()
        return await passing.forward()

    return trouble


def refuse() -> Trouble:
    """The connection breaks; the server never hears of it."""

    async def trouble(passing: Passing) -> web.StreamResponse:
        return passing.hang_up()

    return trouble


def lose_answer() -> Trouble:
    """The server does what it was asked, and the connection breaks before its answer."""

    async def trouble(passing: Passing) -> web.StreamResponse:
        await passing.proxy.ask(passing.request, passing.body)
        return passing.hang_up()

    return trouble


def answer(status: int, body: Mapping[str, Any] | str, headers: Mapping[str, str] | None = None) -> Trouble:
    """Says this in the server's place."""

    text = body if isinstance(body, str) else json.dumps(body)
    kind = "text/plain" if isinstance(body, str) else "application/json"

    async def trouble(passing: Passing) -> web.StreamResponse:
        return web.Response(status=status, text=text, content_type=kind, headers=dict(headers or {}))

    return trouble


def status(code: int, reason: str, message: str, **more: Any) -> dict[str, Any]:
    """A Status as the API server says it."""
    return {
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message,
        **more,
    }  # fmt: skip


def gone() -> Trouble:
    """A watch from a version that is too old: 200, and an error as its first line."""
    line = json.dumps({"type": "ERROR", "object": status(410, "Expired", "too old resource version")})
    return answer(200, line + "\n")


def around(before: Callable[[], None] | None = None, after: Callable[[], None] | None = None) -> Trouble:
    """Calls something between the client's request and the server, or between the server's answer and the client."""

    async def trouble(passing: Passing) -> web.StreamResponse:
        if before is not None:
            before()
        if after is None:
            return await passing.forward()
        code, headers, body = await passing.proxy.ask(passing.request, passing.body)
        after()
        return web.Response(status=code, headers=headers, body=body)

    return trouble


def rewrite(
    query: Callable[[dict[str, str]], dict[str, str]] | None = None, body: Callable[[Any], Any] | None = None
) -> Trouble:
    """Changes the query on its way, and the JSON of the answer on its way back."""

    async def trouble(passing: Passing) -> web.StreamResponse:
        asked = None if query is None else query(dict(passing.request.query))
        code, headers, text = await passing.proxy.ask(passing.request, passing.body, query=asked)
        if body is not None and code == 200:
            text = json.dumps(body(json.loads(text))).encode()
        return web.Response(status=code, headers=headers, body=text)

    return trouble


class FaultProxy:
    """Listens on the loopback while it is entered."""

    def __init__(
        self,
        upstream: str,
        port: int,
        *,
        ca_file: Path | None = None,
        cert_file: Path | None = None,
        key_file: Path | None = None,
        seed: int = 0,
    ) -> None:
        """Certificate and key are the upstream's own; without them it speaks plain HTTP."""
        self._upstream = upstream.rstrip("/")
        self._port = port
        self._ca_file = ca_file
        self._files = (cert_file, key_file)
        self._chance = random.Random(seed)
        self._rules: list[Rule] = []
        self._open: dict[int, web.Request] = {}
        self._silences: list[tuple[str, asyncio.Event]] = []
        self.url = f"{'https' if cert_file else 'http'}://127.0.0.1:{port}"

    async def __aenter__(self) -> Self:
        context = ssl.create_default_context(cafile=str(self._ca_file)) if self._ca_file else None
        connector = aiohttp.TCPConnector(limit=0, ssl=True if context is None else context)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False
        )
        application = web.Application(client_max_size=64 << 20)
        application.router.add_route("*", "/{path:.*}", self._handle)
        # A client that gives up must be seen to do so by the server.
        self._runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        certificate, key = self._files
        server = None
        if certificate is not None:
            server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            server.load_cert_chain(certificate, key)
        await web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=server).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()
        await self._runner.cleanup()
        await self._session.close()

    def rule(self, trouble: Trouble, **which: Any) -> Rule:
        """Makes trouble for some requests from now on. `which` are the fields of `Rule`."""
        rule = Rule(trouble=trouble, **which)
        self._rules.append(rule)
        return rule

    def heal(self) -> None:
        """Lifts every rule; connections that had fallen silent break."""
        for rule in self._rules:
            rule.lift()
        self._rules.clear()
        for _, over in self._silences:
            over.set()
        self._silences.clear()

    def silence(self, path: str) -> None:
        """Half open: nothing more comes of such answers, and their connections stay, until `heal`."""
        self._silences.append((path, asyncio.Event()))

    def break_off(self, path: str) -> int:
        """Breaks the connections of such requests under way; how many there were."""
        broken = [request for request in self._open.values() if re.search(path, request.path_qs)]
        for request in broken:
            if request.transport is not None:
                request.transport.abort()
        return len(broken)

    def reseed(self, seed: int) -> None:
        self._chance = random.Random(seed)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        rule = next((rule for rule in self._rules if rule.takes(request, self._chance)), None)
        self._open[id(request)] = request
        try:
            if rule is None:
                return await self.forward(request, body)
            return await rule.trouble(Passing(proxy=self, rule=rule, request=request, body=body))
        except (aiohttp.ClientError, ConnectionError):
            # The server broke off, so the client is to see the same.
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=502)
        finally:
            del self._open[id(request)]

    async def ask(
        self, request: web.Request, body: bytes, *, query: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """The server's whole answer: status, headers, body."""
        async with self._send(request, body, query) as response:
            return response.status, _passed_on(response.headers), await response.read()

    async def forward(self, request: web.Request, body: bytes) -> web.StreamResponse:
        """Streams the answer back."""
        async with self._send(request, body, None) as upstream:
            response = web.StreamResponse(status=upstream.status, headers=_passed_on(upstream.headers))
            await response.prepare(request)
            async for chunk in upstream.content.iter_any():
                for path, over in list(self._silences):
                    if re.search(path, request.path_qs):
                        await over.wait()
                        raise ConnectionError("was half open")
                await response.write(chunk)
            with contextlib.suppress(ConnectionError):
                await response.write_eof()
            return response

    def _send(self, request: web.Request, body: bytes, query: Mapping[str, str] | None) -> Any:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        headers["Accept-Encoding"] = "identity"  # what is rewritten must be read
        url = self._upstream + (request.path_qs if query is None else request.path)
        return self._session.request(
            request.method, url, params=query, headers=headers, data=body or None, allow_redirects=False
        )


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP}
