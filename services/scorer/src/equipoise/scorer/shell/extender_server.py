"""The HTTP server for kube-scheduler: /prioritize and /filter.

No request may stop the scorer or delay scheduling: an invalid request gets a JSON error, a late request gets a neutral
response, and requests above the limit are refused, so that kube-scheduler continues without scores. No part of a body
is logged, because bodies contain env values of pods.
"""

import asyncio
import socket
import ssl
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

import structlog
from aiohttp import web

from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.numeric import Rows
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.http_server.server_certificates import Certificates
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health, split_address
from equipoise.scorer.decisions.extender_protocol import (
    InvalidRequest,
    parse_request,
    write_error,
    write_filter_result,
    write_priorities,
)
from equipoise.scorer.decisions.filtering import FilteredNodes
from equipoise.scorer.decisions.neutral_scores import ExtenderScores
from equipoise.scorer.settings import ExtenderSettings
from equipoise.scorer.shell.connections import Acceptor, check_file_limit, listening_socket
from equipoise.scorer.shell.metrics import ScorerMetrics

log = structlog.get_logger()

_DRAIN_SECONDS = 2.0
"""How long the remainder of a too large body is read and discarded, so that the sender receives the response."""

_STOP_SECONDS = 2.0
"""How long the server waits for pending responses when it stops."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ExtenderHandler(Protocol):
    """Computes the responses. No method raises for a valid request."""

    def rows(self, names: Sequence[str]) -> Rows:
        """The row of each node in the node table; −1 for an unknown node."""
        ...

    def prioritize(
        self, pod: PodDemand, names: Sequence[str], *, rows: Rows | None = None, late: bool = False
    ) -> ExtenderScores:
        """`rows`: those of the names, if they are known already."""
        ...

    def filter(self, pod: PodDemand, names: Sequence[str], *, late: bool = False) -> FilteredNodes: ...

    def on_request(self, *, node_objects: bool) -> None:
        """kube-scheduler sent a request with node objects (nodeCacheCapable: false), or with names."""
        ...


@dataclass
class ExtenderServer:
    """Parses requests, passes them to the handler, and writes responses."""

    handler: ExtenderHandler
    settings: ExtenderSettings
    clock: Clock
    metrics: ScorerMetrics
    _pending: int = 0
    _certificates: Certificates | None = None
    _acceptor: Acceptor | None = None
    _listener: socket.socket | None = None

    @asynccontextmanager
    async def serve(self, listen: str) -> AsyncIterator[int]:
        """Listen at "host:port"; yields the port. On exit the port is closed before anything else.

        A refused connection costs kube-scheduler nothing; a port that accepts and never responds costs nearly all of
        its throughput. Raises ConfigurationError if the address is not available or a TLS file is invalid.
        """
        host, port = split_address(listen)
        check_file_limit(self.settings.max_connections)
        tls: ssl.SSLContext | None = None
        if self.settings.tls is not None:
            self._certificates = Certificates(self.settings.tls, "scorer.extender.tls")
            tls = self._certificates.context
            self._show_certificate_end()
        application = web.Application(client_max_size=self.settings.max_body_bytes, middlewares=[self._guard])
        application.router.add_post("/prioritize", self._respond)
        application.router.add_post("/filter", self._respond)
        runner = web.AppRunner(
            application,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=self.settings.keep_alive_timeout,
            lingering_time=_DRAIN_SECONDS,
            shutdown_timeout=_STOP_SECONDS,
        )
        await runner.setup()
        try:
            assert runner.server is not None
            self._acceptor = Acceptor(runner.server, self, self.settings, tls, self.metrics)
            try:
                self._listener = listening_socket(host, port)
            except OSError as error:
                raise ConfigurationError(
                    f"scorer.listen: cannot listen on {listen}: {error.strerror or error}"
                ) from error
            try:
                yield self._listener.getsockname()[1]
            finally:
                self._listener.close()
                self._acceptor.close_direct()
        finally:
            await runner.cleanup()

    async def accept(self) -> None:
        """Accept connections, until cancelled, while `serve` listens."""
        assert self._acceptor is not None
        assert self._listener is not None
        await self._acceptor.accept(self._listener)

    async def reload_certificates(self, health: Health) -> None:
        """Load changed TLS files, until cancelled; returns at once without TLS.

        Invalid files are reported, and the last valid ones remain in use.
        """
        if self._certificates is not None:
            await self._certificates.follow(self.clock, health, self._show_certificate_end)

    def _show_certificate_end(self) -> None:
        assert self._certificates is not None
        self.metrics.certificate_end.set(self._certificates.end)

    # Requests in the usual form come from DirectRequests, all others from aiohttp.

    def begin(self) -> bool:
        """See `direct_requests.Responder`."""
        if self._pending >= self.settings.concurrency:
            return False
        self._pending += 1
        return True

    def end(self) -> None:
        """See `direct_requests.Responder`."""
        self._pending -= 1

    def monotonic(self) -> float:
        return self.clock.monotonic()

    def respond(self, verb: str, body: bytes, waited: float) -> tuple[int, bytes]:
        """Status and body of the response. Every failure becomes a JSON error."""
        try:
            response = self._response(verb, body, late=waited > self.settings.deadline)
        except InvalidRequest as error:
            return self._refusal(verb, 400, str(error))
        except Exception as error:  # an error of the scorer must not become an error of scheduling
            return self._failure(verb, error)
        self.metrics.requests.labels(verb, "ok").inc()
        return 200, response

    def refuse_late(self, verb: str) -> tuple[int, bytes]:
        """See `direct_requests.Responder`."""
        return self._refusal(verb, 503, f"the body was not received within {self.settings.deadline:g} s")

    def _response(self, verb: str, body: bytes, *, late: bool) -> bytes:
        received = self.clock.monotonic()
        args = parse_request(body, self.handler.rows)
        if verb == "prioritize":
            scores = self.handler.prioritize(args.pod, args.names, rows=args.rows, late=late).scores
            response = write_priorities(args.names, scores, plain=args.plain)
        elif self.settings.filter:
            response = write_filter_result(args, self.handler.filter(args.pod, args.names, late=late))
        else:
            response = write_filter_result(args, FilteredNodes(nodes=args.names))
        self.handler.on_request(node_objects=args.objects is not None)
        self.metrics.request_duration.labels(verb).observe(self.clock.monotonic() - received)
        return response

    async def _respond(self, request: web.Request) -> web.Response:
        begun = self.clock.monotonic()
        request_body = await self._body(request)
        status, body = self.respond(request.path[1:], request_body, self.clock.monotonic() - begun)
        if status == HTTPStatus.OK:
            assert self._acceptor is not None
            self._acceptor.on_response(request.protocol)
        return _json(status, body)

    async def _body(self, request: web.Request) -> bytes:
        limit, length = self.settings.max_body_bytes, request.content_length or 0
        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise web.HTTPUnsupportedMediaType(text="Content-Encoding is not supported: send plain JSON")
        if length > limit:
            raise web.HTTPRequestEntityTooLarge(limit, length)
        async with asyncio.timeout(self.settings.deadline):
            return await request.read()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Every failure becomes a JSON error."""
        verb = request.path.strip("/") if request.path in ("/prioritize", "/filter") else "other"
        assert self._acceptor is not None
        self._acceptor.on_request(request.protocol)
        if not self.begin():
            return self._refuse(verb, 503, "too many concurrent requests")
        try:
            return await handler(request)
        except TimeoutError:
            return _json(*self.refuse_late(verb))
        except web.HTTPException as error:
            return self._refuse(verb, error.status, error.text or error.reason)
        except ConnectionError:
            raise
        except Exception as error:
            return _json(*self._failure(verb, error))
        finally:
            self.end()

    def _refuse(self, verb: str, status: int, why: str) -> web.Response:
        return _json(*self._refusal(verb, status, why))

    def _failure(self, verb: str, error: Exception) -> tuple[int, bytes]:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        # The text of the error is not logged because it may quote a body.
        log.error("request failed", verb=verb, error=type(error).__name__, at=f"{frame.name}:{frame.lineno}")
        return self._refusal(verb, 500, f"the scorer failed: {type(error).__name__}")

    def _refusal(self, verb: str, status: int, why: str) -> tuple[int, bytes]:
        self.metrics.requests.labels(verb, str(status)).inc()
        return status, write_error(why)


def _json(status: int, body: bytes) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
