"""Writes events beside the bindings, so that no binding waits for an event."""

import asyncio

import structlog

from equipoise.contracts.kubernetes.objects.cluster import Event
from equipoise.runtime.kubernetes.client import EVENTS, Kube, KubeError

WRITERS = 2
"""Events that are written at the same time: few, so that they do not delay bindings."""

MAX_WAITING = 10_000
"""The most events that wait, about ten megabytes. Further events are dropped (kube-scheduler keeps 1,000)."""

log = structlog.get_logger()


class EventRecorder:
    """Writes events in the background. An event that cannot be written is dropped, because no program depends on it."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._waiting: asyncio.Queue[Event] = asyncio.Queue(MAX_WAITING)

    def record(self, event: Event) -> None:
        try:
            self._waiting.put_nowait(event)
        except asyncio.QueueFull:
            log.warning("event dropped", pod=event.regarding.name, reason=event.reason, waiting=MAX_WAITING)

    async def run(self) -> None:
        """Never returns."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(self._write())

    async def written(self) -> None:
        """Returns when no event waits any more."""
        await self._waiting.join()

    async def _write(self) -> None:
        while True:
            event = await self._waiting.get()
            try:
                await self._kube.create(EVENTS, event)
            except KubeError as error:
                log.debug("event not created", pod=event.regarding.name, error=str(error))
            finally:
                self._waiting.task_done()
