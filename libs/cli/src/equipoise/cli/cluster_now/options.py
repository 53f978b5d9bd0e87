"""The options of the commands that read the cluster once, and the connection that they give."""

import asyncio
import os
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property, partial

import click
import msgspec

from equipoise.cli.bus.access import up_of
from equipoise.cli.cluster_access.kubeconfig import ClusterName, cluster_name
from equipoise.cli.cluster_now.reading import ClusterSources, connected
from equipoise.cli.effective.installed import installed_settings, with_installed
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.options import ClusterOptions
from equipoise.cli.progress import Activity, shown_activity
from equipoise.cli.prometheus.access import reached_prometheus
from equipoise.cli.prometheus.profiles import configured_profile
from equipoise.cli.service_settings import AllSettings, all_settings, read_file
from equipoise.cli.terminal import VisibleConsole, duration
from equipoise.cli.up.services_settings import settings_beside
from equipoise.runtime.configuration import Kubernetes, Logging
from equipoise.runtime.kubernetes.client import Kube, KubeError
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging

LONGEST_READING = 600.0
"""Seconds that one reading of the cluster may take."""


@dataclass(frozen=True, kw_only=True)
class NowOptions:
    """--prometheus, --config, --kubeconfig and --context."""

    prometheus_url: str | None
    cluster: ClusterOptions

    @cached_property
    def kubernetes(self) -> Kubernetes:
        return self.cluster.connection()

    @property
    def cluster_name(self) -> ClusterName:
        return cluster_name(self.kubernetes, os.environ)

    @property
    def words(self) -> list[str]:
        """The options, as they would be given to another command."""
        given = {
            "--prometheus": self.prometheus_url,
            "--config": self.cluster.configuration,
            "--kubeconfig": self.cluster.kubeconfig,
            "--context": self.cluster.context,
            "--namespace": self.cluster.namespace,
        }
        return [shlex.quote(str(word)) for name, value in given.items() if value for word in (name, value)]

    def settings(self) -> tuple[AllSettings, str | None]:
        """The settings, and the configured profile (None: no profile is configured). Raises ConfigurationError and
        InvalidInput."""
        document = read_file(self.cluster.configuration)
        settings = all_settings(document, os.environ)
        collector = settings.collector
        profile = configured_profile(document, os.environ)
        if self.prometheus_url is not None:
            prometheus = msgspec.structs.replace(collector.prometheus, url=self.prometheus_url)
            collector = msgspec.structs.replace(collector, prometheus=prometheus)
        shared = msgspec.structs.replace(settings.shared, kubernetes=self.kubernetes)
        return msgspec.structs.replace(settings, shared=shared, collector=collector), profile


def _as_it_runs(options: NowOptions, settings: AllSettings) -> tuple[AllSettings, str | None]:
    """The settings of the services of `equipoise up`, and the profile of its collector; None without one.

    From the file that these services read, not from the bus.
    """
    running = up_of(settings.shared.kubernetes) if settings.shared.kubernetes.kubeconfig else None
    found = None if running is None else settings_beside(running, settings)
    if found is None:
        return settings, None
    if options.prometheus_url is not None:  # another Prometheus has other metrics
        return msgspec.structs.replace(found, collector=settings.collector), None
    click.echo(f"Prometheus {found.collector.prometheus.url}, as in the configuration of {running}", err=True)
    return found, found.collector.prometheus.profile


async def _as_installed(options: NowOptions, settings: AllSettings, kube: Kube) -> tuple[AllSettings, str | None]:
    """The settings of the ConfigMaps that collectors in the cluster read, as far as this user may read them.

    Without that permission, the command keeps its own settings: it requires only the permission to list nodes and pods.
    """
    try:
        found = with_installed(settings, await installed_settings(kube, settings.shared.kubernetes.namespace))
    except KubeError:
        found = None
    if found is None:
        return settings, None
    if options.prometheus_url is not None:  # another Prometheus has other metrics
        return msgspec.structs.replace(found.settings, collector=settings.collector), None
    if found.profile is not None:
        click.echo(f"Prometheus {found.settings.collector.prometheus.url}, as in {found.where}", err=True)
    return found.settings, found.profile


@asynccontextmanager
async def reading(options: NowOptions, profile: str | None = None) -> AsyncIterator[ClusterSources]:
    """An open connection, for one or several readings. Shows on a terminal what is being read.

    `profile`: one that was detected before. Raises CommandFailed, InvalidInput, ConfigurationError and KubeError.
    """
    # What fails is in the result: client libraries need not log it too.
    configure_logging(Logging(level="error"), options.cluster.command)
    settings, configured = options.settings()
    clock, console = SystemClock(), VisibleConsole(stderr=True)
    note = partial(console.print, soft_wrap=True)
    async with (
        shown_activity("connecting", console) as activity,
        limited_reading(activity),
        connect_kube(settings.shared.kubernetes, options.cluster.command, clock) as kube,
    ):
        in_pod = not settings.shared.kubernetes.kubeconfig
        if options.cluster.configuration is None and configured is None:
            settings, configured = _as_it_runs(options, settings)
            if configured is None:
                settings, configured = await _as_installed(options, settings, kube)
        reaching = reached_prometheus(settings.collector.prometheus, kube, in_pod=in_pod, note=note)
        async with reaching as prometheus:
            collector = msgspec.structs.replace(settings.collector, source="prometheus", prometheus=prometheus)
            settings = msgspec.structs.replace(settings, collector=collector)
            opened = connected(kube, settings, clock, activity, profile=profile or configured)
            async with opened as sources:
                yield sources


@asynccontextmanager
async def limited_reading(activity: Activity, seconds: float = LONGEST_READING) -> AsyncIterator[None]:
    """Ends a reading that takes too long. Raises CommandFailed."""
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise CommandFailed(
            f"the cluster was not read within {duration(seconds)}; unfinished: {activity.text} (queries answered "
            f"before: {activity.answered_before}). `equipoise doctor prometheus` shows how long the simplest query "
            "takes: check the CPU and memory of Prometheus, and what else queries it"
        ) from None
