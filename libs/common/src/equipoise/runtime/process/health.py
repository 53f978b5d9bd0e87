"""The health of a process (readiness, data problems, leadership), and its HTTP server."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec
import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from equipoise.contracts.connection_limits import ConnectionLimits
from equipoise.contracts.plain_text import plain_text
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.http_server.connections import listen
from equipoise.runtime.http_server.rendered_metrics import RenderedMetrics
from equipoise.runtime.process.unreadable import UnreadableThings

log = structlog.get_logger()

_NUMBER = re.compile(r"\d+(\.\d+)?")

_SHUTDOWN_SECONDS = 2.0
"""Seconds that a running request may still take when the server stops."""


PROBLEM_LIMIT = 2_000
"""The maximum number of characters of a problem. It may quote text of tenants or other programs, and every heartbeat
contains it."""


LIMITS = ConnectionLimits()


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """The body of /readyz."""

    ready: bool
    waiting_for: list[str]
    """The reasons why the process is not ready; empty if it is."""

    connections: dict[str, bool]
    problems: list[str]
    """Data problems. They never make a process unready, because a restart would not solve them."""

    leading: bool | None
    configuration: str
    """Hash of the configuration."""


class Health:
    """The health of a process, which is ready when it is connected and has warmed up once. All methods are cheap,
    because they are called every few seconds."""

    def __init__(self, *, configuration_hash: str, metrics: CollectorRegistry) -> None:
        self.leading: bool | None = None
        """Whether this replica leads; None for a service without a leader."""

        self.evictions = ""
        """The mode of a binder: `real`, `dry run`, or the reason why it evicts nothing."""

        self.surge_pods: tuple[str, ...] = ()
        """The UIDs of the pods that a binder found being moved without a gap."""

        self.campaign = ""
        """The running campaign, as a binder found it; empty without one."""

        self.campaign_permits = False
        """Whether that campaign permits moves now."""

        self.shard = ""
        """The part of the cluster that a collector measures together with collectors of the same name."""

        self.unreadable = UnreadableThings()
        """Messages and series that this service cannot read. For objects of the API server, see `unreadable` of its
        client."""

        self._unreadable = [self.unreadable]
        self._configuration_hash = configuration_hash
        self._connections: dict[str, Callable[[], bool]] = {}
        self._sources: list[Callable[[], Sequence[str]]] = []
        self._problems: dict[str, str] = {}
        self._warm = False
        self._stopping = False
        self._problem_gauge = Gauge(
            "equipoise_problem", "1 for each problem that /readyz reports.", ["key"], registry=metrics
        )
        ready = Gauge("equipoise_ready", "1 when /readyz returns 200.", registry=metrics)
        ready.set_function(lambda: float(not self._waiting_for()))  # called in another thread, so it only reads
        leading = Gauge("equipoise_leader", "1 while this replica leads.", registry=metrics)
        leading.set_function(lambda: float(bool(self.leading)))
        metrics.register(_UnreadableCollector(self._unreadable))

    def set_problem(self, key: str, text: str | None) -> None:
        """Sets a data problem, or removes it if `text` is None. It is logged when it begins, changes and ends.

        A text that differs only in numbers is not logged as a change, or a growing age would be logged every few
        seconds. `key` is the kind of the problem, not the object, because it is the label of a metric.
        """
        previous = self._problems.get(key)
        text = None if text is None else plain_text(text, PROBLEM_LIMIT)
        if text is None:
            if previous is not None:
                del self._problems[key]
                self._problem_gauge.remove(key)
                log.info("problem resolved", key=key, was=previous)
            return
        self._problems[key] = text
        self._problem_gauge.labels(key).set(1)
        if previous is None or _NUMBER.sub("", text) != _NUMBER.sub("", previous):
            log.warning("problem", key=key, text=text)

    def warmed_up(self) -> None:
        """Records that the service can do its work from now on."""
        if not self._warm:
            self._warm = True
            log.info("warmed up")

    def require(self, name: str, connected: Callable[[], bool]) -> None:
        """Adds a connection without which the service is not ready."""
        self._connections[name] = connected

    def include_problems(self, problems: Callable[[], Sequence[str]]) -> None:
        """Adds the problems of another component, which stores and logs them, such as the bus."""
        self._sources.append(problems)

    def include_unreadable(self, unreadable: UnreadableThings) -> None:
        """Adds what another component cannot read, such as the client of the API server."""
        if not any(included is unreadable for included in self._unreadable):
            self._unreadable.append(unreadable)

    def stop(self) -> None:
        """Makes the process unready until it ends, so that clients send no requests."""
        self._stopping = True

    @property
    def connections(self) -> Mapping[str, bool]:
        return {name: connected() for name, connected in list(self._connections.items())}

    @property
    def problems(self) -> list[str]:
        included = (text for source in self._sources for text in source())
        unreadable = (text for source in self._unreadable for text in source.problems)
        return [*self._problems.values(), *included, *unreadable]

    def report(self) -> Readiness:
        waiting = self._waiting_for()
        return Readiness(
            ready=not waiting,
            waiting_for=waiting,
            connections=dict(self.connections),
            problems=self.problems,
            leading=self.leading,
            configuration=self._configuration_hash,
        )

    def _waiting_for(self) -> list[str]:
        waiting = [name for name, connected in self.connections.items() if not connected]
        if not self._warm:
            waiting.append("warm-up")
        if self._stopping:
            waiting.append("stopping")
        return waiting


class _UnreadableCollector(Collector):
    """The metric with the number of unreadable things by source. It only reads, because another thread calls it."""

    def __init__(self, unreadable: Sequence[UnreadableThings]) -> None:
        self._unreadable = unreadable

    def describe(self) -> list[GaugeMetricFamily]:
        return [_unreadable_family()]

    def collect(self) -> Iterator[Metric]:
        counts: Counter[str] = Counter()
        for unreadable in self._unreadable:
            counts.update(unreadable.counts())
        family = _unreadable_family()
        for source, count in counts.items():
            family.add_metric([source], count)
        yield family


def _unreadable_family() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "equipoise_unreadable",
        "What cannot be read at present, by source: objects of the API server, messages, series. /readyz names it.",
        labels=["source"],
    )


@asynccontextmanager
async def serving_health(
    address: str, health: Health, metrics: CollectorRegistry, version: str, limits: ConnectionLimits = LIMITS
) -> AsyncIterator[str]:
    """Serves the health of the process while the block runs. Yields the address in use, `host:port`.

    Raises ConfigurationError if the address is invalid or already in use.
    """
    host, port = split_address(address)
    rendered = RenderedMetrics(metrics, asyncio.get_running_loop().time)

    async def on_healthz(_request: web.Request) -> web.Response:
        """Always returns 200: a response shows that the event loop runs."""
        return web.Response(text="ok\n")

    async def on_readyz(_request: web.Request) -> web.Response:
        report = health.report()
        body = msgspec.json.encode(report)
        return web.Response(body=body, status=200 if report.ready else 503, content_type="application/json")

    async def on_metrics(_request: web.Request) -> web.Response:
        return web.Response(body=await rendered.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def on_version(_request: web.Request) -> web.Response:
        return web.json_response({"version": version})

    application = web.Application(client_max_size=1024)
    application.router.add_get("/healthz", on_healthz)
    application.router.add_get("/readyz", on_readyz)
    application.router.add_get("/metrics", on_metrics)
    application.router.add_get("/version", on_version)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        try:
            server = await listen(runner, host, port, limits)
        except OSError as error:
            raise ConfigurationError(f"health: {address} cannot be listened on: {error.strerror or error}") from error
        bound_host, bound_port = server.sockets[0].getsockname()[:2]
        log.info("health", address=f"{bound_host}:{bound_port}")
        try:
            yield f"{bound_host}:{bound_port}"
        finally:
            server.close()
    finally:
        await runner.cleanup()


def split_address(address: str) -> tuple[str, int]:
    """The host and port of `127.0.0.1:8081`, `[::1]:8081` or `:8081` (every interface). Raises ConfigurationError."""
    host, colon, port = address.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > 65_535 or (":" in host and host[0] != "["):
        raise ConfigurationError(f"{address!r} is no address to listen on (examples: 127.0.0.1:8081, [::]:8081, :8081)")
    return host.removeprefix("[").removesuffix("]"), int(port)
