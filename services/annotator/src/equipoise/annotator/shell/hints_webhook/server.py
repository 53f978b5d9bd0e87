"""The HTTP server of the webhook: admission reviews in, JSON patches out.

No pod is refused: a response either permits it, or is an error, after which the API server creates the pod as it is
(`failurePolicy: Ignore`).
"""

import asyncio
import base64
import math
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from equipoise.annotator.decisions.hint_admission import NewPod, admit
from equipoise.annotator.settings import HintsWebhookSettings
from equipoise.contracts.connection_limits import ConnectionLimits
from equipoise.contracts.hints.hints_object import HintsObject
from equipoise.contracts.hints.webhook import PODS_PATH, PROBE_KEY, PROBE_PATH, TIMEOUT_SECONDS
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.http_server.connections import listen
from equipoise.runtime.http_server.server_certificates import Certificates
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health, split_address

log = structlog.get_logger()

_SETTING = "annotator.hints.webhook"

_LIMITS = ConnectionLimits(total=256, per_address=256, handshake_seconds=TIMEOUT_SECONDS, request_seconds=math.inf)
"""An API server opens a connection for each pod created at the same time. Several API servers may share an address."""

_KEEP_ALIVE_SECONDS = 120.0
"""The seconds for which an idle connection stays open. The API server closes it after 90 s, before the webhook does."""

_STOP_SECONDS = 2.0
"""The time that pending requests have when the server stops."""

PROBE_HINTS = HintsObject(
    metadata=ObjectMeta(resource_version="probe"),
    until=datetime(9999, 1, 1, tzinfo=UTC),
    nodes="probe",
    distinct_hints=("1:0",),
    workloads={PROBE_KEY: 0},
)
"""The hints for requests that only test the webhook."""


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    uid: str
    object: NewPod
    namespace: str = ""


class _Review(msgspec.Struct, frozen=True, kw_only=True):
    request: _Request


class _Response(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    uid: str
    allowed: bool
    patch_type: str = ""
    patch: str = ""


class _ResponseReview(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    response: _Response
    api_version: str = "admission.k8s.io/v1"
    kind: str = "AdmissionReview"


_read = msgspec.json.Decoder(_Review).decode

REVIEW_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def review(body: bytes, hints: Callable[[str], HintsObject | None]) -> tuple[str, bytes]:
    """The result for the pod of an AdmissionReview (v1), as a label of the metric, and the body of the response.

    `hints` returns the hints of a namespace. Raises REVIEW_ERRORS for any other document.
    """
    request = _read(body).request
    admission = admit(request.object, hints(request.namespace))
    patch = base64.b64encode(msgspec.json.encode(admission.patch)).decode() if admission.patch else ""
    response = _Response(uid=request.uid, allowed=True, patch_type="JSONPatch" if patch else "", patch=patch)
    return admission.result, msgspec.json.encode(_ResponseReview(response=response))


@dataclass(kw_only=True)
class WebhookServer:
    """Serves the reviews, within limits."""

    hints: Callable[[str], HintsObject | None]
    """The hints of a namespace."""

    settings: HintsWebhookSettings
    clock: Clock
    metrics: CollectorRegistry

    def __post_init__(self) -> None:
        self._pending = 0
        self._certificates: Certificates | None = None
        self._requests = Counter(
            "equipoise_hints_webhook_requests",
            "Requests of the API server: hinted, why a pod got no hint, or why the request was not read.",
            ["result"],
            registry=self.metrics,
        )
        self._duration = Histogram(
            "equipoise_hints_webhook_request_duration_seconds",
            "Time from the head of a request to its response.",
            buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 1),
            registry=self.metrics,
        )
        self._certificate_end = Gauge(
            "equipoise_hints_webhook_certificate_expiry_timestamp_seconds",
            "When the certificate of the webhook expires; 0 if unknown.",
            registry=self.metrics,
        )

    @asynccontextmanager
    async def serve(self, address: str) -> AsyncIterator[int]:
        """Listen at "host:port"; gives the port. Raises ConfigurationError for an address or files that cannot be used.

        On exit the port is closed first: a refused connection costs the API server nothing.
        """
        host, port = split_address(address)
        self._certificates = Certificates(self.settings.tls, f"{_SETTING}.tls")
        self._show_certificate_end()
        application = web.Application(client_max_size=self.settings.max_body_bytes)
        application.router.add_post(PODS_PATH, self._responder(self.hints))
        application.router.add_post(PROBE_PATH, self._responder(lambda _: PROBE_HINTS))
        runner = web.AppRunner(
            application,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            shutdown_timeout=_STOP_SECONDS,
        )
        await runner.setup()
        try:
            try:
                server = await listen(runner, host, port, _LIMITS, self._certificates.context)
            except OSError as error:
                why = error.strerror or error
                raise ConfigurationError(f"{_SETTING}.listen: cannot listen on {address}: {why}") from error
            try:
                yield server.sockets[0].getsockname()[1]
            finally:
                server.close()
        finally:
            await runner.cleanup()

    async def reload_certificates(self, health: Health) -> None:
        """Load changed certificates, until canceled, while `serve` listens."""
        assert self._certificates is not None
        await self._certificates.follow(self.clock, health, self._show_certificate_end)

    def _show_certificate_end(self) -> None:
        assert self._certificates is not None
        self._certificate_end.set(self._certificates.end)

    def _responder(
        self, hints: Callable[[str], HintsObject | None]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def respond(request: web.Request) -> web.Response:
            begun = self.clock.monotonic()
            if self._pending >= self.settings.concurrency:
                return self._error(503, "busy", "too many pods at once")
            self._pending += 1
            try:
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    body = await request.read()
                result, response = review(body, hints)
            except TimeoutError:
                return self._error(408, "late", f"the request was not received within {TIMEOUT_SECONDS} s")
            except web.HTTPRequestEntityTooLarge:
                limit = self.settings.max_body_bytes
                return self._error(413, "too_large", f"the request has more than {limit} bytes")
            except REVIEW_ERRORS as error:
                return self._error(400, "unreadable", f"no AdmissionReview (v1) of a pod: {error}")
            except ConnectionError:
                raise
            except Exception as error:  # after any error, the pod is created without a hint
                frame = traceback.extract_tb(error.__traceback__)[-1]
                kind = type(error).__name__  # not the text of the error, which may quote a pod
                log.error("request failed", error=kind, at=f"{frame.name}:{frame.lineno}")  # noqa: TRY400  a traceback may quote a pod
                return self._error(500, "failed", f"the webhook failed: {kind}")
            finally:
                self._pending -= 1
            self._requests.labels(result if hints is self.hints else "probe").inc()
            self._duration.observe(self.clock.monotonic() - begun)
            return web.Response(body=response, content_type="application/json")

        return respond

    def _error(self, status: int, result: str, why: str) -> web.Response:
        self._requests.labels(result).inc()
        return web.Response(status=status, text=why)
