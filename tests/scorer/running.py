"""A scorer on an in-memory bus, with a real port."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from builders import a_node_utilization, a_placement
from prometheus_client import CollectorRegistry
from scorer.clusters import a_cycle

from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.settings import LoadSettings, Thresholds
from equipoise.runtime.process.health import Health
from equipoise.scorer.service import Scorer
from equipoise.scorer.settings import ExtenderSettings, ScorerSettings
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock

CORES = {"node-a": 2.0, "node-b": 6.0, "node-c": 9.0}


class Running:
    """A running scorer, and the objects it was created with."""

    def __init__(
        self, scorer: Scorer, bus: MemoryBus, clock: ManualClock, health: Health, metrics: CollectorRegistry
    ) -> None:
        self.scorer = scorer
        self.bus = bus
        self.clock = clock
        self.health = health
        self.metrics = metrics
        self.task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        return self.scorer.port.result()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


async def begin_running(
    settings: ScorerSettings,
    bus: MemoryBus,
    clock: ManualClock,
    health: Health,
    metrics: CollectorRegistry,
    *,
    hints: bool = False,
) -> Running:
    """Starts a scorer with the default load and thresholds; the caller stops it."""
    scorer = Scorer(
        settings=settings,
        load=LoadSettings(),
        thresholds=Thresholds(),
        bus=bus,
        clock=clock,
        health=health,
        metrics=metrics,
        hints=hints,
    )
    running = Running(scorer, bus, clock, health, metrics)
    await scorer.attach()
    running.task = asyncio.create_task(scorer.run())
    return running


Start = Callable[..., Awaitable[Running]]


def settings_for(**extender: object) -> ScorerSettings:
    """A scorer on a free port; the deadline is long, so that a busy machine does not decide a test."""
    return ScorerSettings(listen="127.0.0.1:0", extender=ExtenderSettings(**({"deadline": 5.0} | extender)))  # type: ignore[arg-type]


async def fill(running: Running, cores: dict[str, float] = CORES) -> None:
    """Publish the placement and the utilization of these nodes."""
    for node, cpu in cores.items():
        await running.bus.publish(subjects.node_placement(node), a_placement(node))
        await running.bus.publish(subjects.node_utilization(node), a_node_utilization(node, cpu))
    await running.bus.publish(subjects.utilization_cycle("0"), a_cycle(len(cores)))
    await running.bus.settled()
