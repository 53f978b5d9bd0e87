"""An HTTP proxy that injects faults, in front of an API server or of Prometheus.

Requests are forwarded unless a rule matches. A rule has conditions, a number of requests and a fault; rules are checked
in the order in which they were added. The proxy uses the certificate of the server, so clients trust it with the same
CA file.
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
from typing import Any, Self
from uuid import uuid4

import aiohttp
from aiohttp import web

from faults.instrumented import SENT

Forward = Callable[[], Awaitable[web.StreamResponse]]
"""Forwards the request and returns the response."""

Fault = Callable[["ProxiedRequest"], Awaitable[web.StreamResponse]]
"""Handles a request that a rule matches."""

EVICTION = r"/eviction(\?|$)"
LEDGER = r"/configmaps/"
WATCH = "watch=true"
"""Paths of requests."""

AUDIT_ID = "Audit-ID"
"""A header by which the API server names a request in its audit log."""

_NAME = web.RequestKey("name", str)

BINDER = "equipoise-binder"
"""Part of the User-Agent of every binder."""

_HOP_BY_HOP = {
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
    """Requests that get a fault, until `lift`."""

    fault: Fault
    method: str = ""
    """Empty: any."""
    path: str = ""
    """Regular expression, found anywhere in path and query."""
    agent: str = ""
    """Part of the User-Agent."""
    token: str = ""
    """Bearer token of the caller."""
    share: float = 1.0
    """Share of the matching requests that get the fault, 0..1."""
    times: int | None = None
    """Number of requests that get the fault; None: all."""
    after: int = 0
    """Number of matching requests that are forwarded first."""
    taken: int = 0
    lifted: asyncio.Event = field(default_factory=asyncio.Event)

    def lift(self) -> None:
        """Match no more requests, and release those that are held."""
        self.lifted.set()

    def matches(self, request: web.Request, generator: random.Random) -> bool:
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
        if generator.random() >= self.share:
            return False
        self.taken += 1
        return True


@dataclass(kw_only=True)
class ProxiedRequest:
    """A request that a rule matched."""

    proxy: "FaultProxy"
    rule: Rule
    request: web.Request
    body: bytes

    async def forward(self) -> web.StreamResponse:
        return await self.proxy.forward(self.request, self.body)

    async def complete(self) -> web.Response:
        """The whole response of the server, which has handled the request then."""
        code, headers, body = await self.proxy.fetch(self.request, self.body)
        return web.Response(status=code, headers=headers, body=body)

    def abort(self) -> web.StreamResponse:
        """Abort the connection of the client."""
        if self.request.transport is not None:
            self.request.transport.abort()
        return web.Response(status=500)


def delay(seconds: float) -> Fault:
    """Delay the request."""

    async def fault(proxied: ProxiedRequest) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await proxied.forward()

    return fault


async def hold(proxied: ProxiedRequest) -> web.StreamResponse:
    """Hold the request until the rule is lifted, then forward it."""
    await proxied.rule.lifted.wait()
    return await proxied.forward()


async def hold_response(proxied: ProxiedRequest) -> web.StreamResponse:
    """Let the server handle the request, and hold the response until the rule is lifted."""
    response = await proxied.complete()
    await proxied.rule.lifted.wait()
    return response


def delay_response(seconds: float) -> Fault:
    """Let the server handle the request, and delay the response."""

    async def fault(proxied: ProxiedRequest) -> web.StreamResponse:
        response = await proxied.complete()
        await asyncio.sleep(seconds)
        return response

    return fault


async def abort_connection(proxied: ProxiedRequest) -> web.StreamResponse:
    """Abort the connection before the request reaches the server."""
    return proxied.abort()


async def lose_response(proxied: ProxiedRequest) -> web.StreamResponse:
    """Let the server handle the request, and abort the connection before the response."""
    await proxied.complete()
    return proxied.abort()


def respond(status: int, body: Mapping[str, Any] | str, headers: Mapping[str, str] | None = None) -> Fault:
    """Respond in place of the server."""

    text = body if isinstance(body, str) else json.dumps(body)
    kind = "text/plain" if isinstance(body, str) else "application/json"

    async def fault(proxied: ProxiedRequest) -> web.StreamResponse:
        return web.Response(status=status, text=text, content_type=kind, headers=dict(headers or {}))

    return fault


def status(code: int, reason: str, message: str, **more: Any) -> dict[str, Any]:
    """A Status object as the API server returns it."""
    return {
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message,
        **more,
    }  # fmt: skip


def no_budget() -> Fault:
    """Refuse an eviction as a PodDisruptionBudget does."""
    cause = {"reason": "DisruptionBudget", "message": "The disruption budget needs 6 healthy pods and has 6 currently"}
    return respond(429, status(429, "TooManyRequests", "Cannot evict pod", details={"causes": [cause]}))


def gone() -> Fault:
    """A watch from a version that is too old: 200, and an error as its first line."""
    line = json.dumps({"type": "ERROR", "object": status(410, "Expired", "too old resource version")})
    return respond(200, line + "\n")


class DropEvents:
    """Forwards a watch without its events of this type."""

    def __init__(self, kind: str) -> None:
        self._beginning = f'{{"type":"{kind}",'.encode()
        self.dropped = 0

    async def __call__(self, proxied: ProxiedRequest) -> web.StreamResponse:
        def keep(line: bytes) -> bool:
            dropped = line.startswith(self._beginning) and not proxied.rule.lifted.is_set()
            self.dropped += dropped
            return not dropped

        return await proxied.proxy.forward(proxied.request, proxied.body, keep=keep)


class CountResponses:
    """Forwards requests, and counts the responses with this status."""

    def __init__(self, status: int) -> None:
        self._status = status
        self.count = 0

    async def __call__(self, proxied: ProxiedRequest) -> web.StreamResponse:
        response = await proxied.forward()
        self.count += response.status == self._status
        return response


def forward_to(url: str) -> Fault:
    """Forward the request to another server."""

    async def fault(proxied: ProxiedRequest) -> web.StreamResponse:
        return await proxied.proxy.forward(proxied.request, proxied.body, to=url)

    return fault


def around(before: Callable[[], None] | None = None, after: Callable[[], None] | None = None) -> Fault:
    """Call a function before the request is forwarded, or before the response is returned."""

    async def fault(proxied: ProxiedRequest) -> web.StreamResponse:
        if before is not None:
            before()
        if after is None:
            return await proxied.forward()
        response = await proxied.complete()
        after()
        return response

    return fault


def rewrite(
    query: Callable[[dict[str, str]], dict[str, str]] | None = None, body: Callable[[Any], Any] | None = None
) -> Fault:
    """Change the query of the request, or the JSON of the response."""

    async def fault(proxied: ProxiedRequest) -> web.StreamResponse:
        changed = None if query is None else query(dict(proxied.request.query))
        code, headers, text = await proxied.proxy.fetch(proxied.request, proxied.body, query=changed)
        if body is not None and code == 200:
            text = json.dumps(body(json.loads(text))).encode()
        return web.Response(status=code, headers=headers, body=text)

    return fault


class FaultProxy:
    """Listens on the loopback interface inside its `async with`."""

    def __init__(
        self,
        upstream: str,
        port: int,
        *,
        ca_file: Path | None = None,
        cert_file: Path | None = None,
        key_file: Path | None = None,
        tls: ssl.SSLContext | None = None,
        seed: int = 0,
        received: Callable[[str, float | None], None] | None = None,
    ) -> None:
        """Certificate and key are those of the upstream; without them the proxy serves plain HTTP.

        `tls`: for connections to the upstream, instead of one that trusts `ca_file`. `received` is called for each
        eviction request and each change of a pod when it arrives here, before any rule delays it: with its `Audit-ID`,
        and with the Unix time in seconds at which it was sent, if it has the header `X-Sent`.
        """
        self._received = received
        self._upstream = upstream.rstrip("/")
        self._port = port
        self._tls = tls or (ssl.create_default_context(cafile=str(ca_file)) if ca_file else None)
        self._files = (cert_file, key_file)
        self._random = random.Random(seed)
        self._rules: list[Rule] = []
        self._open: dict[int, web.Request] = {}
        self._half_open: list[tuple[str, str, asyncio.Event]] = []
        self.url = f"{'https' if cert_file else 'http'}://127.0.0.1:{port}"

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, ssl=True if self._tls is None else self._tls)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False
        )
        application = web.Application(client_max_size=64 << 20)
        application.router.add_route("*", "/{path:.*}", self._handle)
        # A canceled client request must be canceled at the server too.
        self._runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await self._listen()
        return self

    async def _listen(self) -> None:
        certificate, key = self._files
        server = None
        if certificate is not None:
            server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            server.load_cert_chain(certificate, key)
        self._site = web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=server)
        await self._site.start()

    async def present(self, cert_file: Path, key_file: Path) -> tuple[Path | None, Path | None]:
        """Use another certificate, and abort all connections. Returns the files used before."""
        before, self._files = self._files, (cert_file, key_file)
        await self._site.stop()
        for connection in self._runner.server.connections if self._runner.server else ():
            if connection.transport is not None:
                connection.transport.abort()
        await self._listen()
        return before

    async def __aexit__(self, *_: object) -> None:
        self.clear()
        await self._runner.cleanup()
        await self._session.close()

    def rule(self, fault: Fault, **which: Any) -> Rule:
        """Add a rule with this fault. `which` are the fields of `Rule`."""
        rule = Rule(fault=fault, **which)
        self._rules.append(rule)
        return rule

    def clear(self) -> None:
        """Lift every rule, and abort connections that were half open."""
        for rule in self._rules:
            rule.lift()
        self._rules.clear()
        for _, _, over in self._half_open:
            over.set()
        self._half_open.clear()

    def half_open(self, path: str, *, token: str = "") -> None:
        """Make connections of matching requests half open: no more data, no end, until `clear`."""
        self._half_open.append((path, token, asyncio.Event()))

    def abort(self, path: str) -> int:
        """Abort the connections of matching requests in flight; returns their number."""
        broken = [request for request in self._open.values() if re.search(path, request.path_qs)]
        for request in broken:
            if request.transport is not None:
                request.transport.abort()
        return len(broken)

    def reseed(self, seed: int) -> None:
        self._random = random.Random(seed)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        evicts = request.method == "POST" and re.search(EVICTION, request.path_qs)
        if self._received is not None and (evicts or (request.method == "PATCH" and "/pods/" in request.path_qs)):
            request[_NAME] = str(uuid4())
            sent = request.headers.get(SENT)
            self._received(request[_NAME], None if sent is None else float(sent))
        rule = next((rule for rule in self._rules if rule.matches(request, self._random)), None)
        self._open[id(request)] = request
        try:
            if rule is None:
                return await self.forward(request, body)
            return await rule.fault(ProxiedRequest(proxy=self, rule=rule, request=request, body=body))
        except (aiohttp.ClientError, ConnectionError):
            # The server aborted the connection: do the same to the client.
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=502)
        finally:
            del self._open[id(request)]

    async def fetch(
        self, request: web.Request, body: bytes, *, query: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """The complete response of the server: status, headers, body."""
        async with self._send(request, body, query) as response:
            return response.status, _end_to_end(response.headers), await response.read()

    async def forward(
        self, request: web.Request, body: bytes, *, to: str = "", keep: Callable[[bytes], bool] | None = None
    ) -> web.StreamResponse:
        """Forward the request and stream the response.

        `to`: another server; `keep`: whether a line of the response is forwarded.
        """
        async with self._send(request, body, None, to=to) as upstream:
            response = web.StreamResponse(status=upstream.status, headers=_end_to_end(upstream.headers))
            await response.prepare(request)
            rest = b""
            async for chunk in upstream.content.iter_any():
                for path, token, over in list(self._half_open):
                    if re.search(path, request.path_qs) and token in request.headers.get("Authorization", ""):
                        await over.wait()
                        raise ConnectionError("was half open")
                if keep is None:
                    await response.write(chunk)
                    continue
                *lines, rest = (rest + chunk).split(b"\n")
                await response.write(b"".join(line + b"\n" for line in lines if keep(line)))
            await response.write(rest)
            with contextlib.suppress(ConnectionError):
                await response.write_eof()
            return response

    def _send(self, request: web.Request, body: bytes, query: Mapping[str, str] | None, *, to: str = "") -> Any:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        headers["Accept-Encoding"] = "identity"  # responses may be rewritten
        if _NAME in request:
            headers[AUDIT_ID] = request[_NAME]
        url = (to or self._upstream) + (request.path_qs if query is None else request.path)
        return self._session.request(
            request.method, url, params=query, headers=headers, data=body or None, allow_redirects=False
        )


def _end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}
