"""What the checks have access to (the configuration, the API server, the source of metrics), and what they find."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from equipoise.cli.effective.running import Settings
from equipoise.cli.service_settings import AllSettings
from equipoise.collector.decisions.query import SourceError
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.sources import MetricSource, open_source
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.messages.health import EffectiveConfiguration, Heartbeat
from equipoise.runtime.configuration import Nats
from equipoise.runtime.kubernetes.client import NODES, Kube, KubeError
from equipoise.runtime.process.clock import Clock

State = Literal["ok", "warning", "error", "unknown"]
"""unknown: the check could not run, or has no clear result."""


UPGRADE = "(with Helm: upgrade the release)"
"""Appended to the name of a file that the user should apply."""


class Finding(msgspec.Struct, frozen=True):
    state: State
    subject: str
    message: str
    fix: str = ""
    """Empty if there is nothing to fix."""

    check: str = ""
    """The name of the check in CHECKS."""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """All findings, in the order of CHECKS."""

    healthy: bool
    """No finding is an error; warnings and unknown results do not count."""

    findings: list[Finding]


@dataclass(kw_only=True)
class Environment:
    """The environment is passed to every check. Its nodes are listed only once."""

    settings: AllSettings
    clock: Clock
    kube: Kube | KubeError
    """The error if there is no connection to the API server."""

    services_nats: Nats | None = None
    """The section `nats` of the configuration file. `settings` may have the address of a port-forward instead."""

    effective: list[EffectiveConfiguration] | str = "not read"
    """What service processes publish of their configuration, or why it is not known."""

    file: Settings | None = None
    """The sections of the configuration file; None without one."""

    nats_problem: str = ""
    """Why NATS cannot be reached, through the API server or at its address."""

    prometheus_problem: str = ""
    """Why Prometheus is unknown, or cannot be reached through the API server."""

    prometheus_was_found: bool = False
    """Whether this command found Prometheus by itself: no configuration names it."""

    unused_credentials: tuple[str, ...] = ()
    """The settings with files and credentials of the collectors for Prometheus, which this command does not have."""

    unconfirmed_url: str = ""
    """Why the source of metrics is not queried: its URL is known only from the bus."""

    heartbeats: list[Heartbeat] | None = None
    """The last heartbeat of each process; None until `service_heartbeats` has read them."""

    awaiting_heartbeats: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    _nodes: list[Node] | KubeError | None = field(default=None, init=False)
    _listing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    @asynccontextmanager
    async def open_source(
        self, settings: CollectorSettings | None = None, load: LoadSettings | None = None
    ) -> AsyncIterator[MetricSource]:
        """The source of metrics, as configured or with these settings. Raises ConfigurationError and KubeError, and
        SourceError if it must not be queried.

        A source that polls is polled while it is open: it has no values before its first poll.
        """
        if self.prometheus_problem:
            raise SourceError("Prometheus cannot be reached, see the check prometheus")
        if self.unconfirmed_url:
            raise SourceError(self.unconfirmed_url)
        settings, load = settings or self.settings.collector, load or self.settings.shared.load
        # Only metrics-server is reached through the API server: other sources can be checked without it.
        kube: Any = self.api() if settings.source == "metrics-server" else self.kube
        source = open_source(settings, load, self.clock, kube)
        polling = asyncio.create_task(source.run(), name="poll the source")
        try:
            yield source
        finally:
            polling.cancel()
            with suppress(asyncio.CancelledError):
                await polling
            source.close()

    def api(self) -> Kube:
        """The client of the API server. Raises KubeError if there is no connection."""
        if isinstance(self.kube, KubeError):
            raise self.kube
        return self.kube

    async def nodes(self) -> list[Node]:
        """All nodes of the cluster. Raises KubeError."""
        async with self._listing:
            if self._nodes is None:
                try:
                    self._nodes = await self.api().list(NODES)
                except KubeError as error:
                    self._nodes = error
        if isinstance(self._nodes, KubeError):
            raise self._nodes
        return self._nodes

    @property
    def nats_user(self) -> str:
        """The user whose inbox prefix is used."""
        return self.settings.shared.nats.user or "tap"
