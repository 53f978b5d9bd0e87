"""A scheduler on the API server in memory, whose clock the test moves."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from scheduling.pods import a_node, a_pod

from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.runtime.bus import Bus
from equipoise.runtime.kubernetes.client import NODES, PODS
from equipoise.runtime.process.health import Health
from equipoise.scheduler.service import LiveScheduler
from equipoise.scheduler.settings import (
    SCHEDULER_NAME,
    LoadScoring,
    SchedulerProgramSettings,
    scheduler_configuration,
)
from equipoise.scheduling.plugins.table import Factory
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.faults import Call
from equipoise.testbed.memory.kube import MemoryKube


def held_up(kube: MemoryKube, verb: str, **fields: str) -> asyncio.Event:
    """Delays the calls with this verb, and with these fields of Call, until the event is set."""
    answered = asyncio.Event()

    async def delay(call: Call) -> None:
        if call.verb == verb and all(getattr(call, name) == value for name, value in fields.items()):
            await answered.wait()

    kube.on_call = delay
    return answered


@dataclass
class Live:
    """A running scheduler, and what a test does around it."""

    kube: MemoryKube
    clock: ManualClock
    health: Health
    metrics: CollectorRegistry
    scheduler: LiveScheduler
    stop: asyncio.Event
    running: asyncio.Task[None]

    def add_node(self, name: str = "node-1", **fields: Any) -> None:
        self.kube.put(NODES, a_node(name, **fields))

    def add_pod(self, name: str, cpu: str = "1", **fields: Any) -> None:
        self.kube.put(PODS, pending(name, cpu, **fields))

    def pod(self, name: str) -> Pod:
        return next(each for each in self.kube.stored(PODS) if each.metadata.name == name)

    def node_of(self, name: str) -> str:
        return self.pod(name).spec.node_name

    def condition(self, name: str, kind: str = "PodScheduled") -> tuple[str, str, str]:
        """Status, reason and message."""
        found = next(each for each in self.pod(name).status.conditions if each.type == kind)
        return found.status, found.reason, getattr(found, "message", "")

    def reasons(self, name: str) -> list[str]:
        """Of the events about this pod, oldest first."""
        return [event.reason for event in self.kube.events if event.regarding.name == name]

    def calls(self, verb: str) -> list[str]:
        return [call.name for call in self.kube.calls if call.verb == verb and call.resource == "pods"]

    def metric(self, line: str) -> str:
        """Its value."""
        text = generate_latest(self.metrics).decode()
        return next((each.removeprefix(line).strip() for each in text.splitlines() if each.startswith(line)), "")

    async def settle(self) -> None:
        await self.clock.advance(0)


def pending(name: str, cpu: str = "1", *, scheduler: str = SCHEDULER_NAME, **fields: Any) -> Pod:
    """One that waits for this scheduler."""
    pod = a_pod(name, {"cpu": cpu}, scheduler_name=scheduler, **fields).pod
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase="Pending"))


@asynccontextmanager
async def live_scheduler(
    kube: MemoryKube | None = None,
    clock: ManualClock | None = None,
    plugins: Mapping[str, Factory] | None = None,
    *,
    identity: str = "one",
    load: LoadScoring | None = None,
    bus: Callable[[], AbstractAsyncContextManager[Bus]] | None = None,
    configuration: str | None = None,
) -> AsyncIterator[Live]:
    """Leading, with everything listed. With a `load`, nodes are scored by it."""
    clock = clock or ManualClock()
    kube = kube or MemoryKube(clock)
    registered = plugins or {}
    metrics, stop = CollectorRegistry(), asyncio.Event()
    health = Health(configuration_hash="", metrics=metrics)
    read = scheduler_configuration(configuration, registered, load=load is not None)
    settings = SchedulerProgramSettings(configuration=read, plugins=registered, load=load)
    scheduler = LiveScheduler(settings, kube, clock, health, metrics, identity=identity, ties=random.Random(1), bus=bus)
    running = asyncio.create_task(scheduler.run(stop))
    live = Live(kube, clock, health, metrics, scheduler, stop, running)
    await live.settle()
    try:
        yield live
    finally:
        running.cancel()
        await asyncio.wait([running])
    if not running.cancelled() and (error := running.exception()) is not None:
        raise error
