"""The HTTP door for kube-scheduler: /prioritize and /filter.

Nothing that comes in may stop a scorer or hold up scheduling: whatever is no question gets a JSON error, whatever is
late or in excess is turned away, and kube-scheduler goes on without us. Bodies hold env values of pods: no part of
one is ever logged.
"""

import asyncio
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import structlog
from aiohttp import web

from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.score import Filtering
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.health_server import split_address
from equipoise.runtime.process.reload import PERIOD
from equipoise.scorer.decisions.extender_protocol import (
    Malformed,
    read_question,
    write_error,
    write_filtering,
    write_priorities,
)
from equipoise.scorer.decisions.score_integers import Answer
from equipoise.scorer.settings import ExtenderSettings
from equipoise.scorer.shell.metrics import ScorerMetrics
from equipoise.scorer.shell.tls import Certificates

log = structlog.get_logger()

_DRAIN_SECONDS = 2.0
"""How long a body that is too large is read on and thrown away, so that its sender sees the answer."""

_STOP_SECONDS = 2.0
"""How long answers under way are waited for when the door closes."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Scoring(Protocol):
    """Who answers. Neither method raises for anything that can be asked."""

    def prioritize(self, pod: PodDemand, names: Sequence[str], *, late: bool = False) -> Answer: ...

    def filter(self, pod: PodDemand, names: Sequence[str], *, late: bool = False) -> Filtering: ...

    def on_asked(self, *, whole_nodes: bool) -> None:
        """How kube-scheduler asks: with whole nodes (nodeCacheCapable: false) or with their names."""
        ...


class Extender:
    """Reads questions, has them answered, writes answers."""

    def __init__(self, scoring: Scoring, settings: ExtenderSettings, clock: Clock, metrics: ScorerMetrics) -> None:
        self._scoring = scoring
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._under_way = 0
        self._certificates: Certificates | None = None

    @asynccontextmanager
    async def serve(self, listen: str) -> AsyncIterator[int]:
        """Open the door at "host:port"; yields the port. On leaving the port is closed before anything else.

        A refused port costs kube-scheduler nothing, one that is open and silent costs it nearly all throughput.
        Raises ConfigurationError when the address cannot be had or a TLS file cannot be used.
        """
        host, port = split_address(listen)
        if self._settings.tls is not None:
            self._certificates = Certificates(self._settings.tls)
        tls = None if self._certificates is None else self._certificates.context
        runner = web.AppRunner(
            self._application(),
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=self._settings.keep_alive,
            lingering_time=_DRAIN_SECONDS,
            shutdown_timeout=_STOP_SECONDS,
        )
        await runner.setup()
        try:
            try:
                await web.TCPSite(runner, host or None, port, ssl_context=tls).start()
            except OSError as error:
                raise ConfigurationError(f"scorer.listen: {listen} cannot be had: {error.strerror or error}") from error
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()

    async def follow_certificates(self, health: Health) -> None:
        """Take up changed TLS files while this serves, until cancelled; ends at once without TLS.

        Those that cannot be used are told of, and everything goes on with what was loaded last.
        """
        good = True
        while self._certificates is not None:
            await self._clock.sleep(PERIOD)
            if good and not self._certificates.changed():
                continue
            try:
                self._certificates.reload()
            except ConfigurationError as error:
                good = False
                health.set_problem("certificates", f"the changed certificates are not used, the old ones are: {error}")
            else:
                good = True
                health.set_problem("certificates", None)
                log.info("certificates exchanged")

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=self._settings.body_limit, middlewares=[self._guard])
        application.router.add_post("/prioritize", self.on_prioritize)
        application.router.add_post("/filter", self.on_filter)
        return application

    async def on_prioritize(self, request: web.Request) -> web.Response:
        begun = self._clock.monotonic()
        question = read_question(await self._body(request))
        read = self._clock.monotonic()
        answer = self._scoring.prioritize(question.pod, question.names, late=self._is_late(begun))
        self._scoring.on_asked(whole_nodes=question.objects is not None)
        body = write_priorities(question.names, answer.scores)
        self._metrics.seconds.labels("prioritize").observe(self._clock.monotonic() - read)
        return _json(body)

    async def on_filter(self, request: web.Request) -> web.Response:
        begun = self._clock.monotonic()
        question = read_question(await self._body(request))
        read = self._clock.monotonic()
        if self._settings.filter:
            filtering = self._scoring.filter(question.pod, question.names, late=self._is_late(begun))
        else:
            filtering = Filtering(nodes=question.names)
        self._scoring.on_asked(whole_nodes=question.objects is not None)
        body = write_filtering(question, filtering)
        self._metrics.seconds.labels("filter").observe(self._clock.monotonic() - read)
        return _json(body)

    async def _body(self, request: web.Request) -> bytes:
        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise web.HTTPUnsupportedMediaType(text="Content-Encoding is not understood: send plain JSON")
        if (request.content_length or 0) > self._settings.body_limit:
            raise web.HTTPRequestEntityTooLarge(self._settings.body_limit, request.content_length or 0)
        async with asyncio.timeout(self._settings.deadline):
            return await request.read()

    def _is_late(self, begun: float) -> bool:
        return self._clock.monotonic() - begun > self._settings.deadline

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Every way to fail, as a JSON error."""
        verb = request.path.strip("/") if request.path in ("/prioritize", "/filter") else "other"
        if self._under_way >= self._settings.concurrency:
            return self._refuse(verb, 503, "too many questions at once")
        self._under_way += 1
        try:
            response = await handler(request)
        except Malformed as error:
            return self._refuse(verb, 400, str(error))
        except TimeoutError:
            return self._refuse(verb, 503, f"the body did not come within {self._settings.deadline:g} s")
        except web.HTTPException as error:
            return self._refuse(verb, error.status, error.text or error.reason)
        except ConnectionError:
            raise
        except Exception as error:  # a fault of ours must not become one of scheduling
            frame = traceback.extract_tb(error.__traceback__)[-1]
            log.error("question failed", verb=verb, error=type(error).__name__, at=f"{frame.name}:{frame.lineno}")  # noqa: TRY400  its text may quote a body
            return self._refuse(verb, 500, f"the scorer failed: {type(error).__name__}")
        else:
            self._metrics.questions.labels(verb, "answered").inc()
            return response
        finally:
            self._under_way -= 1

    def _refuse(self, verb: str, status: int, why: str) -> web.Response:
        self._metrics.questions.labels(verb, str(status)).inc()
        return _json(write_error(why), status)


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
