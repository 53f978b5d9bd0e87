"""The scheduler as a program: connection, health, Lease, and an orderly end."""

import asyncio
import contextlib
import os
import random
import re
import secrets
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import structlog
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.kubeconfig import cluster_connection
from equipoise.cli.scheduler.binding_cycle import BindingCycle, Storage
from equipoise.cli.scheduler.http_extender import extender_client
from equipoise.cli.scheduler.load_feed import LoadFeed
from equipoise.cli.scheduler.load_policy import NAME, WEIGHT, LoadPolicy, scoring_state, with_policy
from equipoise.cli.scheduler.metrics import SchedulerMetrics
from equipoise.cli.scheduler.object_watch import ObjectWatch
from equipoise.cli.scheduler.plugin_loading import load_configuration, load_plugins
from equipoise.cli.scheduler.scheduler_state import SchedulerState
from equipoise.cli.scheduler.scheduling_loop import SchedulingLoop
from equipoise.contracts.kubernetes.objects import Lease, Object, ObjectMeta, PersistentVolume, PersistentVolumeClaim
from equipoise.contracts.messages.lease import LeaseEpoch
from equipoise.runtime.async_tools.cancel import run_with_guard, timeout_after
from equipoise.runtime.bus import Bus, BusError, connect
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.configuration import Configuration, Kubernetes, Logging
from equipoise.runtime.configuration import load_configuration as read_equipoise
from equipoise.runtime.kubernetes.client import LEASES, Kube
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.fence import PROBE, until_fenced
from equipoise.runtime.kubernetes.leader_election import lead
from equipoise.runtime.process.bounded_files import read_bounded_text
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.health import Health, serving_health
from equipoise.runtime.process.logging import configure_logging
from equipoise.runtime.process.main import reduce_gc_frequency
from equipoise.scheduling.cluster_scheduler import ClusterScheduler
from equipoise.scheduling.configuration import SchedulerConfiguration
from equipoise.scheduling.framework.framework import PluginFailed
from equipoise.scheduling.framework.plugin import Plugin
from equipoise.scheduling.framework.plugin_times import PluginTimes
from equipoise.scheduling.framework.queue import QueueSettings
from equipoise.scheduling.plugins.table import Factory
from equipoise.scheduling.preemption.protected_pods import ProtectedPods
from equipoise.scheduling.settings.document import InvalidConfiguration
from equipoise.scorer.settings import ScorerSettings

LEASE = "equipoise-scheduler"
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
    """The worker has ended in order, so that the Lease is released."""


class SchedulerProgramSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one run."""

    configuration: SchedulerConfiguration
    plugins: Mapping[str, Factory] = {}
    load: Configuration[ScorerSettings] | None = None
    """The configuration of the plugin that scores nodes by their load; None: there is none."""

    namespace: str = "kube-system"
    """The namespace of the Lease."""

    lease: str = LEASE


class LiveScheduler:
    """All parts with one connection. Tests pass an API server and a clock in memory."""

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
            loads = scoring_state(settings.load)
            policy = LoadPolicy(loads, clock.now, neutral=settings.load.own.neutral)
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
        """Receives loads. Without the bus, pods are scheduled without their load: it is opened again later."""
        while True:
            try:
                async with bus() as opened:
                    await feed.run(opened)
            except BusError as error:
                self._health.set_problem("bus", str(error))
                log.warning("loads unavailable", error=str(error))
            await self._clock.sleep(BUS_PAUSE_SECONDS)

    async def _receive_loads(self) -> None:
        """Waits up to LOAD_SECONDS for the first loads; then scheduling starts without them."""
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
    """Raises the first error of a task."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


def _log_failure(error: PluginFailed) -> None:
    log.error("plugin failed", plugin=error.plugin, error=str(error))


def run_scheduler(
    configuration: Path | None,
    plugins: tuple[str, ...],
    policy: tuple[str, Path | None] | None,
    connection: Callable[[], Kubernetes],
    *,
    namespace: str,
    listen: str,
) -> None:
    """Schedules pods until SIGTERM or SIGINT. `policy`: its name, and the configuration of Equipoise.

    Raises InvalidInput, ConfigurationError and KubeError.
    """
    registered = load_plugins(plugins)
    load = None
    if policy is not None:
        name, file = policy
        load = with_policy(read_equipoise(file, "scorer", ScorerSettings, os.environ), name)
    text = None if configuration is None else read_bounded_text(configuration)
    settings = SchedulerProgramSettings(
        configuration=scheduler_configuration(text, registered, load=load is not None),
        plugins=registered,
        load=load,
        namespace=namespace,
    )
    configure_logging(Logging(), "scheduler")
    for name in _not_enabled(settings):
        log.warning("no profile enables this plugin", plugin=name)
    reduce_gc_frequency()
    asyncio.run(_run(settings, connection(), listen))


def scheduler_configuration(
    text: str | None, registered: Mapping[str, Factory], *, load: bool
) -> SchedulerConfiguration:
    """`text`: of a KubeSchedulerConfiguration. `load`: it may enable the plugin that scores nodes by their load.

    Raises InvalidInput.
    """
    known = dict(registered)
    if load:
        if NAME in known:
            raise InvalidInput(f"--plugin: {NAME} is the name of the plugin of --policy")
        known[NAME] = _not_built
    return load_configuration(text, known, {NAME: WEIGHT})


def _not_built(arguments: object, handle: object) -> Plugin:
    """LiveScheduler makes the plugin, which needs its clock."""
    raise AssertionError


async def _run(settings: SchedulerProgramSettings, connection: Kubernetes, listen: str) -> None:
    stop, clock, metrics = asyncio.Event(), SystemClock(), CollectorRegistry()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=metrics)
    health = Health(configuration_hash="", metrics=metrics)
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname()) or "host"
    identity = f"{host}-{secrets.token_hex(3)}"
    async with (
        connect_kube(connection, "scheduler", clock) as kube,
        serving_health(listen, health, metrics, version("equipoise")),
    ):
        health.require("kubernetes", lambda: not kube.problem)
        try:
            errors = BusErrors(clock, metrics)
            scheduler = LiveScheduler(
                settings, kube, clock, health, metrics, identity=identity, bus=_bus_of(settings, clock, errors)
            )
        except InvalidConfiguration as error:
            raise InvalidInput(str(error)) from None
        names = [profile.scheduler_name for profile in settings.configuration.profiles]
        log.info("starting", schedulers=names, identity=identity, experimental=True)
        await scheduler.run(stop)
    log.info("stopped")


def _bus_of(
    settings: SchedulerProgramSettings, clock: Clock, errors: BusErrors
) -> Callable[[], AbstractAsyncContextManager[Bus]] | None:
    """A connection to the bus as the scorer, whose messages this program reads."""
    if settings.load is None:
        return None
    nats = settings.load.shared.nats
    return lambda: connect(nats, "scorer", clock=clock, errors=errors)


def _not_enabled(settings: SchedulerProgramSettings) -> list[str]:
    enabled = {
        plugin.name
        for profile in settings.configuration.profiles
        for each in profile.plugins.values()
        for plugin in each.enabled
    }
    return sorted({*settings.plugins, *([NAME] if settings.load is not None else [])} - enabled)


def connection_of(kubeconfig: str | None, context: str | None, environment: Mapping[str, str]) -> Kubernetes:
    return cluster_connection(None, environment, kubeconfig=kubeconfig, context=context)
