"""A bus and an API server that stop a binder at a chosen request."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from equipoise.runtime.bus import Receipt
from equipoise.runtime.kubernetes.client import EvictionResult, Resource
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.kube import MemoryKube

A = TypeVar("A")


class Steps:
    """Counts the points before and after each request; stops at the chosen one until `go` is set."""

    def __init__(self, stop_at: int) -> None:
        self._stop_at = stop_at
        self.taken = 0
        self.armed = False
        self.stopped_at: str = ""
        self.go = asyncio.Event()

    async def around(self, what: str, request: Callable[[], Awaitable[A]]) -> A:
        await self._step(f"before {what}")
        result = await request()
        await self._step(f"after {what}")
        return result

    async def _step(self, where: str) -> None:
        if not self.armed:
            return
        self.taken += 1
        if self.taken == self._stop_at:
            self.stopped_at = where
            await self.go.wait()


class SteppingKube:
    """`Kube` of one binder that stops at a step."""

    def __init__(self, kube: MemoryKube, steps: Steps) -> None:
        self._kube = kube
        self._steps = steps

    async def get(self, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        return await self._steps.around(f"get {resource.plural}", lambda: self._kube.get(resource, name, namespace))

    async def find_scalable(self, group: str, kind: str) -> Any:
        return await self._steps.around("discover", lambda: self._kube.find_scalable(group, kind))

    async def create(self, resource: Resource[Any], value: Any) -> Any:
        return await self._steps.around(f"create {resource.plural}", lambda: self._kube.create(resource, value))

    async def replace(self, resource: Resource[Any], value: Any) -> Any:
        return await self._steps.around(f"replace {resource.plural}", lambda: self._kube.replace(resource, value))

    async def list(self, resource: Resource[Any], *where: Any, **how: Any) -> Any:
        return await self._steps.around(f"list {resource.plural}", lambda: self._kube.list(resource, *where, **how))

    async def relabel(self, resource: Resource[Any], name: str, *changes: Any, **how: Any) -> Any:
        return await self._steps.around("relabel", lambda: self._kube.relabel(resource, name, *changes, **how))

    async def evict(self, namespace: str, name: str, **how: Any) -> EvictionResult:
        return await self._steps.around("evict", lambda: self._kube.evict(namespace, name, **how))

    def server_time(self, now: float) -> float:
        return self._kube.server_time(now)

    def server_time_bounds(self, now: float) -> tuple[float, float]:
        return self._kube.server_time_bounds(now)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kube, name)


class SteppingBus:
    """`Bus` of one binder that stops at a step."""

    def __init__(self, bus: MemoryBus, steps: Steps) -> None:
        self._bus = bus
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def publish(self, subject: str, message: msgspec.Struct, *, message_id: str | None = None) -> Receipt:
        return await self._steps.around("publish", lambda: self._bus.publish(subject, message, message_id=message_id))
