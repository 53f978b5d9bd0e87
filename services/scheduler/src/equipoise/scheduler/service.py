"""The scheduler as a program: connection, health, Lease, and an orderly end."""

import asyncio
import contextlib
import random
import re
import secrets
import signal
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from equipoise.contracts.kubernetes.objects.cluster import Lease
from equipoise.contracts.kubernetes.objects.metadata import Object, ObjectMeta
from equipoise.contracts.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.runtime.async_tools.cancel import run_with_guard, timeout_after
from equipoise.runtime.bus import Bus, BusError, connect
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.configuration import Kubernetes, Logging, Nats
from equipoise.runtime.kubernetes.client import LEASES, Kube
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.fence import PROBE, until_fenced
from equipoise.runtime.kubernetes.leader_election import lead
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.health import Health, serving_health
from equipoise.runtime.process.logging import configure_logging
from equipoise.runtime.process.main import run_in_event_loop
from equipoise.scheduler.decisions.load_policy import NAME, LoadPolicy
from equipoise.scheduler.settings import SchedulerProgramSettings
from equipoise.scheduler.shell.binding_cycle import BindingCycle, Storage
from equipoise.scheduler.shell.http_extender import extender_client
from equipoise.scheduler.shell.load_feed import LoadFeed
from equipoise.scheduler.shell.metrics import SchedulerMetrics
from equipoise.scheduler.shell.object_watch import ObjectWatch
from equipoise.scheduler.shell.scheduling_loop import SchedulingLoop
from equipoise.scheduler.state.scheduler_state import SchedulerState
from equipoise.scheduling.cluster_scheduler import ClusterScheduler
from equipoise.scheduling.framework.plugin import MAX_SCORE
from equipoise.scheduling.framework.plugin_calls import PluginFailed
from equipoise.scheduling.framework.plugin_times import PluginTimes
from equipoise.scheduling.framework.queue import QueueSettings
from equipoise.scheduling.preemption.protected_pods import ProtectedPods
from equipoise.scorer.state.scoring_state import ScoringState

FENCE = "equipoise-python-scheduler-fence"
MANIFEST = "k8s/scheduler/equipoise-scheduler.yaml"

STOP_SECONDS = 24.0
"""Seconds in which bindings are completed at the end; Kubernetes kills after 30."""

LOAD_SECONDS = 10.0
"""Seconds in which the last values of all nodes are received at the start."""

BUS_PAUSE_SECONDS = 30.0
"""Seconds after which the bus is opened again when it refused the credentials."""

log = structlog.get_logger()


class Stopped(Exception):
    """The worker has ended in order. It ends `lead`, which releases the Lease."""


class LiveScheduler:
    """The scheduler with one connection to the API server. Tests pass an API server and a clock in memory."""

    def __init__(
        self,
        settings: SchedulerProgramSettings,
        kube: Kube,
        clock: Clock,
        health: Health,
        metrics: CollectorRegistry,
        *,
        identity: str,
        ties: random.Random | None = None,
        bus: Callable[[], AbstractAsyncContextManager[Bus]] | None = None,
    ) -> None:
        """`bus` is opened if the settings have a `load`. Raises InvalidConfiguration."""
        self._settings = settings
        self._kube = kube
        self._clock = clock
        self._health = health
        health.include_unreadable(kube.unreadable)
        self._identity = identity
        times = PluginTimes(clock.monotonic)
        plugins = dict(settings.plugins)
        self._bus = bus
        self._feed: LoadFeed | None = None
        if settings.load is not None:
            scorer = settings.load.scorer
            loads = ScoringState(settings.load.load, scorer, max_score=MAX_SCORE)
            policy = LoadPolicy(loads, clock.now, neutral=scorer.neutral)
            plugins[NAME] = lambda arguments, handle: policy
            self._feed = LoadFeed(loads, clock, health)
        self._protected = ProtectedPods(settings.namespace)
        cluster = ClusterScheduler(
            ties or random.Random(),
            settings.configuration,
            plugins,
            measure=times.measure,
            may_preempt=self._protected.may_preempt,
        )
        queue = QueueSettings(
            initial_backoff=settings.configuration.initial_backoff, max_backoff=settings.configuration.max_backoff
        )
        self.state = SchedulerState(cluster, queue, failure=_log_failure)
        self._claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        self._volumes: dict[tuple[str, str], PersistentVolume] = {}
        self._storage = Storage(self._claims, self._volumes)
        self._watch = ObjectWatch(kube, clock, self._apply)
        extenders = self._extenders = [extender_client(extender) for extender in settings.configuration.extenders]
        self.loop = SchedulingLoop(
            kube,
            clock,
            self.state,
            BindingCycle(kube, clock, self._storage, extenders),
            SchedulerMetrics(metrics),
            times,
            instance=identity,
            extenders=extenders,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Schedules pods until `stop`: then bindings are completed and the Lease is released."""
        leading = asyncio.create_task(self._lead(), name="leader")
        watching = asyncio.create_task(self._watch.run(self._health), name="watches")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        tasks: set[asyncio.Task[Any]] = {leading, watching, stopping}
        if self._feed is not None and self._bus is not None:
            tasks.add(asyncio.create_task(self._follow_loads(self._feed, self._bus), name="loads"))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            self._health.stop()
            if not stop.is_set():
                return  # the error of a task is raised below
            log.info("stopping", in_flight=self.state.in_flight)
            self.loop.stop()
            if self._health.leading:
                await asyncio.wait({leading}, timeout=STOP_SECONDS)
        finally:
            try:
                await _end(tasks)
            finally:
                for extender in self._extenders:
                    extender.close()

    async def _follow_loads(self, feed: LoadFeed, bus: Callable[[], AbstractAsyncContextManager[Bus]]) -> None:
        """Receives loads. Without the bus, pods are scheduled without loads, and the bus is opened again later."""
        while True:
            try:
                async with bus() as opened:
                    await feed.run(opened)
            except BusError as error:
                self._health.set_problem("bus", str(error))
                log.warning("loads unavailable", error=str(error))
            await self._clock.sleep(BUS_PAUSE_SECONDS)

    async def _receive_loads(self) -> None:
        """Waits for the first loads, but at most LOAD_SECONDS: then scheduling starts without them."""
        if self._feed is not None and self._bus is not None:
            with contextlib.suppress(TimeoutError):
                await run_with_guard(self._feed.received.wait(), timeout_after(self._clock, LOAD_SECONDS))

    async def _lead(self) -> None:
        async def work(epoch: LeaseEpoch) -> None:
            probe = Lease(metadata=ObjectMeta(name=PROBE, namespace=self._settings.namespace))
            await until_fenced(self._kube, FENCE, LEASES, probe, self._clock, self._health, manifest=MANIFEST)
            await self._watch.synced.wait()
            await self._receive_loads()
            await self.loop.run()
            raise Stopped

        try:
            await lead(
                self._kube,
                self._clock,
                namespace=self._settings.namespace,
                name=self._settings.lease,
                identity=self._identity,
                worker=work,
                health=self._health,
            )
        except Stopped:
            return

    def _apply(self, before: Object | None, after: Object | None) -> None:
        self._protected.apply(before, after)
        match after or before:
            case PersistentVolumeClaim() as claim:
                _keep(self._claims, claim, present=after is not None)
                self._storage.changed()
            case PersistentVolume() as volume:
                _keep(self._volumes, volume, present=after is not None)
        self.loop.apply(before, after)


def _keep(objects: dict[tuple[str, str], Any], value: Object, *, present: bool) -> None:
    key = (value.metadata.namespace, value.metadata.name)
    if present:
        objects[key] = value
    else:
        objects.pop(key, None)


async def _end(tasks: set[asyncio.Task[Any]]) -> None:
    """Cancels the tasks, and waits for them. Raises the first error of a task."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


def _log_failure(error: PluginFailed) -> None:
    log.error("plugin failed", plugin=error.plugin, error=str(error))


def run_scheduler(
    settings: SchedulerProgramSettings, connection: Kubernetes, nats: Nats | None, *, listen: str
) -> None:
    """Schedules pods until SIGTERM or SIGINT.

    `nats`: where loads are received. `listen`: the address of the health server.
    Raises InvalidConfiguration, ConfigurationError and KubeError.
    """
    configure_logging(Logging(), "scheduler")
    for name in settings.not_enabled():
        log.warning("no profile enables this plugin", plugin=name)
    run_in_event_loop(_run(settings, connection, nats, listen))


async def _run(settings: SchedulerProgramSettings, connection: Kubernetes, nats: Nats | None, listen: str) -> None:
    stop, clock, metrics = asyncio.Event(), SystemClock(), CollectorRegistry()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=metrics)
    health = Health(configuration_hash="", metrics=metrics)
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname()) or "host"
    identity = f"{host}-{secrets.token_hex(3)}"
    errors = BusErrors(clock, metrics)
    async with (
        connect_kube(connection, "scheduler", clock) as kube,
        serving_health(listen, health, metrics, version("equipoise-scheduler")),
    ):
        health.require("kubernetes", lambda: not kube.problem)
        scheduler = LiveScheduler(
            settings,
            kube,
            clock,
            health,
            metrics,
            identity=identity,
            # With the NATS user of the scorer, which may receive the messages that this program needs.
            bus=None if nats is None else lambda: connect(nats, "scorer", clock=clock, errors=errors),
        )
        names = [profile.scheduler_name for profile in settings.configuration.profiles]
        log.info("starting", schedulers=names, identity=identity, experimental=True)
        await scheduler.run(stop)
    log.info("stopped")
