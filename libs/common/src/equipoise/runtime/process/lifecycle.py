"""Runs a service with one configuration: health, connections, and an orderly end."""

import asyncio
import re
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from importlib.metadata import version as distribution_version
from typing import Generic, Protocol, TypeVar, runtime_checkable

import structlog
from prometheus_client import CollectorRegistry, Histogram, Info

from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.bus.subjects import health as health_subject
from equipoise.contracts.clock_skew import skew_problem
from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.messages.health import HEARTBEAT_PERIOD, Heartbeat
from equipoise.runtime.bus import Bus, BusError
from equipoise.runtime.configuration import Configuration, ConfigurationError
from equipoise.runtime.kubernetes.client import LEASES, Kube, KubeError
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.configuration_publisher import ConfigurationPublisher
from equipoise.runtime.process.health import Health, serving_health

S = TypeVar("S", bound=Section)

RETRY_PERIOD = 3.0
"""Seconds between two attempts to reach a server that is away."""

LAG_PERIOD = 0.5
"""Seconds between two measurements of how late the event loop is."""

log = structlog.get_logger()


@runtime_checkable
class WithHealth(Protocol):
    """What the section of every service has."""

    @property
    def health(self) -> str:
        """Address of /healthz, /readyz, /metrics and /version."""
        ...


@dataclass(frozen=True, kw_only=True)
class Runtime(Generic[S]):
    """What a service uses while it runs."""

    configuration: Configuration[S]
    clock: Clock
    health: Health
    metrics: CollectorRegistry
    identity: str
    """This replica: host name and a random part, so that a restarted process is another one."""

    message_bus: Bus | None = None
    api_server: Kube | None = None

    @property
    def own(self) -> S:
        return self.configuration.own

    @property
    def bus(self) -> Bus:
        if self.message_bus is None:
            raise RuntimeError("this program was started without a bus")
        return self.message_bus

    @property
    def kube(self) -> Kube:
        if self.api_server is None:
            raise RuntimeError("this service was started without a connection to the API server")
        return self.api_server


Start = Callable[[Runtime[S]], Awaitable[None]]
"""Attaches the service and runs it until it is cancelled."""


class Process(Generic[S]):
    """One service with its connections; tests pass a bus, an API server and a clock in memory."""

    def __init__(
        self,
        *,
        service: ServiceName,
        configuration: Configuration[S],
        clock: Clock,
        metrics: CollectorRegistry,
        bus: Callable[[], AbstractAsyncContextManager[Bus]] | None,
        kube: Callable[[], AbstractAsyncContextManager[Kube]] | None,
        bus_problems: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`bus`: None for a program that uses none. `bus_problems`: why it is not open yet."""
        self.health = Health(configuration_hash=configuration.hash, metrics=metrics)
        host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname()) or "host"
        self.identity = f"{host}-{secrets.token_hex(3)}"
        self._service = service
        self._configuration = configuration
        self._clock = clock
        self._metrics = metrics
        self._bus = bus
        self._kube = kube
        self._bus_problems = bus_problems
        self._version = distribution_version("equipoise-common")
        self._publisher = ConfigurationPublisher(
            service, self.identity, self._version, configuration, self.health, clock
        )
        self._lag = Histogram(
            "equipoise_event_loop_lag_seconds",
            "How late the event loop woke a sleeper.",
            buckets=(0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 1, 5),
            registry=metrics,
        )
        Info("equipoise_build", "What runs here.", registry=metrics).info(
            {"service": service, "version": self._version}
        )

    async def run(self, start: Start[S], stop: asyncio.Event) -> int:
        """Runs until `stop` is set (0) or the service fails (1). Raises ConfigurationError when it could never work."""
        log.info("starting", version=self._version, identity=self.identity, configuration=self._configuration.hash)
        own: object = self._configuration.own
        assert isinstance(own, WithHealth), f"{type(own).__name__} needs a field `health`"
        async with serving_health(own.health, self.health, self._metrics, self._version):
            work = asyncio.create_task(self._work(start), name=self._service)
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait([work, stopping], return_when=asyncio.FIRST_COMPLETED)
            self.health.stop()
            if not work.done():
                log.info("stopping")
                work.cancel()
            stopping.cancel()
            await asyncio.wait([work])
        return self._verdict(work)

    def _verdict(self, work: asyncio.Task[None]) -> int:
        if work.cancelled():
            log.info("stopped")
            return 0
        errors = list(_errors_in(work.exception()))
        if invalid := next((error for error in errors if isinstance(error, ConfigurationError)), None):
            raise invalid
        log.error("failed", error=f"{type(errors[0]).__name__}: {errors[0]}", exc_info=work.exception())
        return 1

    async def _work(self, start: Start[S]) -> None:
        async with AsyncExitStack() as stack:
            kube = await self._reach_api_server(stack)
            bus = await self._reach_bus(stack)
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                # `asyncio.wait_for` of Python 3.11, which the NATS client uses, can lose a cancellation.
                raise asyncio.CancelledError
            runtime = Runtime(
                configuration=self._configuration,
                message_bus=bus,
                clock=self._clock,
                health=self.health,
                metrics=self._metrics,
                identity=self.identity,
                api_server=kube,
            )
            async with asyncio.TaskGroup() as tasks:
                if bus is not None:
                    tasks.create_task(self._beat(bus, kube), name="heartbeat")
                    tasks.create_task(self._publisher.run(bus), name="configuration")
                tasks.create_task(self._measure_lag(), name="loop lag")
                await start(runtime)
                raise RuntimeError(f"{self._service} ended by itself")

    async def _reach_bus(self, stack: AsyncExitStack) -> Bus | None:
        if self._bus is None:
            return None
        if unencrypted := self._configuration.shared.nats.unencrypted:
            self.health.set_problem("nats_unencrypted", f"{unencrypted}: use tls:// in nats.url, and nats.tls.caFile")
        bus: Bus | None = None
        self.health.require("nats", lambda: bus is not None and bus.connected)
        self.health.include_problems(lambda: self._bus_problems() if bus is None else bus.problems)
        bus = await stack.enter_async_context(self._bus())
        self.health.include_unreadable(bus.unreadable)
        return bus

    async def _reach_api_server(self, stack: AsyncExitStack) -> Kube | None:
        """Wait until it responds at all; the service itself reports what is rejected."""
        if self._kube is None:
            return None
        reached = False
        kube: Kube | None = None
        self.health.require("kubernetes", lambda: reached and kube is not None and not kube.problem)
        self.health.include_problems(lambda: [kube.problem] if kube is not None and kube.problem else [])
        while True:
            try:
                if kube is None:
                    kube = await stack.enter_async_context(self._kube())
                    self.health.include_unreadable(kube.unreadable)
                await kube.get(LEASES, f"equipoise-{self._service}", self._configuration.shared.kubernetes.namespace)
            except KubeError as error:
                if kube is None or error.status == 0 or error.status >= 500:
                    self.health.set_problem("kubernetes", str(error))
                    await self._clock.sleep(RETRY_PERIOD)
                    continue
            self.health.set_problem("kubernetes", None)
            reached = True
            return kube

    async def _beat(self, bus: Bus, kube: Kube | None) -> None:
        subject = health_subject(self._service, self.identity)
        while True:
            self._compare_clocks(kube)
            report = self.health.report()
            heartbeat = Heartbeat(
                service=self._service,
                id=self.identity,
                version=self._version,
                ready=report.ready,
                leading=report.leading,
                problems=report.problems,
                evictions=self.health.evictions,
                surge_pods=list(self.health.surge_pods),
                campaign=self.health.campaign,
                campaign_permits=self.health.campaign_permits,
                shard=self.health.shard,
                at=self._clock.now(),
            )
            try:
                await bus.publish(subject, heartbeat)
            except BusError as error:
                log.debug("heartbeat not published", error=str(error))  # the bus reports its own problems
            await self._clock.sleep(HEARTBEAT_PERIOD)

    def _compare_clocks(self, kube: Kube | None) -> None:
        """Reports a clock that differs from the API server's: services compare each other's times and those of the API
        server."""
        if kube is not None:
            now, most = self._clock.now(), self._configuration.shared.load.freshness.skew_unknown
            self.health.set_problem("clock", skew_problem(*kube.server_time_bounds(now), now, most) or None)

    async def _measure_lag(self) -> None:
        while True:
            begun = self._clock.monotonic()
            await self._clock.sleep(LAG_PERIOD)
            self._lag.observe(max(0.0, self._clock.monotonic() - begun - LAG_PERIOD))


def _errors_in(error: BaseException | None) -> Iterator[BaseException]:
    """The errors in groups of tasks; a group itself does not describe them."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _errors_in(inner)
    elif error is not None:
        yield error
