"""What the checks look at, and as whom."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from equipoise.annotator.settings import AnnotatorSettings
from equipoise.binder.settings import BinderSettings
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.sources import MetricSource, open_source
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects import Node
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.runtime.configuration import Shared
from equipoise.runtime.kubernetes.client import NODES, Kube, KubeError
from equipoise.runtime.process.clock import Clock
from equipoise.scorer.settings import ScorerSettings


class Configured(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration."""

    shared: Shared = Shared()
    collector: CollectorSettings = CollectorSettings()
    annotator: AnnotatorSettings = AnnotatorSettings()
    scorer: ScorerSettings = ScorerSettings()
    descheduler: DeschedulerSettings = DeschedulerSettings()
    binder: BinderSettings = BinderSettings()


@dataclass(kw_only=True)
class Surroundings:
    """Handed to every check. What several of them need is asked for once."""

    configured: Configured
    clock: Clock
    kube: Kube | KubeError
    """An error: why there is no way to the API server."""

    _nodes: list[Node] | KubeError | None = field(default=None, init=False)
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    @asynccontextmanager
    async def open_source(
        self, settings: CollectorSettings | None = None, load: LoadSettings | None = None
    ) -> AsyncIterator[MetricSource]:
        """Where usage is measured, as configured or as told. Raises ConfigurationError, KubeError.

        One that must be polled is polled meanwhile: it answers nothing before its first poll.
        """
        settings, load = settings or self.configured.collector, load or self.configured.shared.load
        # Only one source asks the API server: without one the others can be looked at all the same.
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
        """Raises KubeError."""
        if isinstance(self.kube, KubeError):
            raise self.kube
        return self.kube

    async def nodes(self) -> list[Node]:
        """Raises KubeError."""
        async with self._asking:
            if self._nodes is None:
                try:
                    self._nodes = await self.api().list(NODES)
                except KubeError as error:
                    self._nodes = error
        if isinstance(self._nodes, KubeError):
            raise self._nodes
        return self._nodes

    @property
    def bus_user(self) -> str:
        """Whose inbox is ours."""
        return self.configured.shared.nats.user or "tap"
