"""Computes placement hints regularly, and publishes them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from equipoise.contracts.bus.subjects import placement_hint
from equipoise.contracts.messages.health import Heartbeat
from equipoise.contracts.messages.message import Message
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.runtime.process.clock import Clock
from equipoise.scorer.decisions.placement_hints.settings import HintSettings
from equipoise.scorer.shell.metrics import ScorerMetrics
from equipoise.scorer.state.placement_hints.hint_table import HintTable
from equipoise.scorer.state.placement_hints.publication import HintPublication
from equipoise.scorer.state.scorer_replicas import ScorerReplicas
from equipoise.scorer.state.scoring_state import ScoringState


class HintPublisher:
    """Publishes the hints of the namespaces of this replica. Each namespace belongs to one replica."""

    def __init__(
        self, scoring: ScoringState, settings: HintSettings, clock: Clock, metrics: ScorerMetrics, identity: str
    ) -> None:
        self._interval = settings.interval
        self._clock = clock
        self._metrics = metrics
        self._table = HintTable(scoring, settings)
        self._publication = HintPublication()
        self._replicas = ScorerReplicas(identity)
        self._evicted = asyncio.Event()

    def on_heartbeat(self, heartbeat: Heartbeat, _: float) -> None:
        """Receive a heartbeat of a scorer."""
        self._replicas.on_heartbeat(heartbeat, self._clock.monotonic())

    def on_placement(self, message: NodePlacement, placed: Sequence[PlacedPod]) -> None:
        """`placed`: the pods that are new on the node."""
        now = self._clock.now()
        self._table.on_placement(message, placed, now)
        evicted = self._table.evicted_workloads(now)
        if any(pod.workload in evicted for pod in placed):
            self._evicted.set()  # the replacement is placed, so the hint for the next pod changes

    def on_eviction(self) -> None:
        """Publish soon, because the replacement of an intended or carried out eviction is created within seconds."""
        self._evicted.set()

    async def run(self, publish: Callable[[str, Message], Awaitable[bool]]) -> None:
        """Publish until canceled. `publish` returns False if it failed."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._update_regularly(publish))
            tasks.create_task(self._publish_after_evictions(publish))

    async def _update_regularly(self, publish: Callable[[str, Message], Awaitable[bool]]) -> None:
        while True:
            # The first update waits too, so that the heartbeats of the other replicas are received before it.
            await self._clock.sleep(self._interval)
            started = self._clock.monotonic()
            for _ in self._table.update(self._clock.now()):
                await asyncio.sleep(0)  # so that requests are served in between
            self._metrics.hint_update.observe(self._clock.monotonic() - started)
            await self._publish(publish)

    async def _publish_after_evictions(self, publish: Callable[[str, Message], Awaitable[bool]]) -> None:
        while True:
            await self._evicted.wait()
            self._evicted.clear()
            await self._publish(publish)

    async def _publish(self, publish: Callable[[str, Message], Awaitable[bool]]) -> None:
        now = self._clock.now()
        hints = self._table.hints(now)
        self._metrics.hinted_workloads.set(len(hints))
        replacing = {workload.namespace for workload in self._table.evicted_workloads(now)}
        is_own = partial(self._replicas.owns, now=self._clock.monotonic())
        for message in self._publication.due(hints, is_own, now, replacing):
            await asyncio.sleep(0)
            if message is None:
                continue
            published = await publish(placement_hint(message.namespace), message)
            if published:
                self._publication.on_published(message)
            self._metrics.hint_messages.labels("published" if published else "dropped").inc()
