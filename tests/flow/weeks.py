"""Weeks of running, in compressed time: every day all nodes, pods and workloads have new names."""

import gc
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
from descheduler.cluster import a_node_object
from flow.loop import Loop
from flow.state_size import StateSize, state_size

from equipoise.annotator.service import Annotator
from equipoise.binder.service import Binder
from equipoise.collector.service import Collector
from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings, Window
from equipoise.contracts.kubernetes.objects.metadata import Object, ObjectMeta
from equipoise.descheduler.service import Descheduler
from equipoise.runtime.configuration import Shared
from equipoise.runtime.kubernetes.client import DEPLOYMENTS, NODES, PODS, REPLICA_SETS, Change, Resource
from equipoise.runtime.kubernetes.reflector import Interner
from equipoise.scorer.service import Scorer
from equipoise.testbed.memory.bus import MemoryStream
from equipoise.testbed.memory.kube import MemoryKube

T = TypeVar("T", bound=Object)

DAY = 86_400.0

SERVICES: dict[ServiceName, type] = {
    "collector": Collector,
    "annotator": Annotator,
    "scorer": Scorer,
    "descheduler": Descheduler,
    "binder": Binder,
}


class DaySize(msgspec.Struct, frozen=True, kw_only=True):
    """At the end of a day."""

    services: dict[ServiceName, StateSize]
    streams: dict[str, tuple[int, int]]
    """Messages, and bytes of their subjects and payloads."""


SHORT = 30.0
"""Seconds in which everything is measured and scored."""

LONG = 360.0
"""Seconds within which a pod is evicted, too."""

_MINUTE = Duration(60)
_LOAD = LoadSettings(
    windows=(
        Window(name="5m", length=Duration(300), refresh_period=_MINUTE),
        Window(name="15m", length=Duration(900), refresh_period=_MINUTE),
    )
)
"""Fewer rounds than by default."""


class DecodingKube(MemoryKube):
    """Each watch has objects of its own, as if it had decoded them: services share no parts of objects."""

    async def watch(self, resource: Resource[T], **selection: Any) -> AsyncGenerator[Change[T], None]:
        async with aclosing(super().watch(resource, **selection)) as changes:
            async for change in changes:
                yield msgspec.structs.replace(change, object=_decoded(change.object))


def _decoded(value: T | None) -> T | None:
    return None if value is None else msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=type(value))


class Weeks(Loop):
    """One node of each day is hot. Minutes of each day pass in steps of ten seconds; the clock jumps over the rest."""

    def __init__(self, *, nodes: int = 40, workloads: int = 20) -> None:
        self._nodes = nodes
        self._workloads = workloads
        self.day = 100  # names have the same length on each day
        super().__init__(DecodingKube)
        self.shared = Shared(load=_LOAD)

    def _populate(self) -> None:
        """The nodes, workloads and pods of this day: two pods on each node, nine more on the first."""
        nodes = [f"node-{self.day}-{number}" for number in range(self._nodes)]
        for name in nodes:
            node = a_node_object(name, self.clock.now())
            metadata = msgspec.structs.replace(node.metadata, labels={**node.metadata.labels, "day": f"{self.day}"})
            self.kube.put(NODES, msgspec.structs.replace(node, metadata=metadata))
        places = [*nodes, *nodes, *nodes[:1] * 6]
        for number in range(self._workloads):
            mine = places[number :: self._workloads]
            self._put_workload(f"app-{self.day}-{number}", replicas=len(mine))
            for pod, name in enumerate(mine):
                self.place(f"app-{self.day}-{number}", f"app-{self.day}-{number}-{pod}", name)

    async def pass_day(self, active: float) -> None:
        """Everything is replaced; a pod may be evicted, and is replaced; the rest of the day passes at once."""
        old: list[tuple[Resource[Any], ObjectMeta]] = [
            (kind, each.metadata) for kind in (PODS, REPLICA_SETS, DEPLOYMENTS, NODES) for each in self._all(kind)
        ]
        self.day += 1
        self._populate()
        for kind, metadata in old:
            self.kube.remove(kind, metadata.name, metadata.namespace)
        evicted = len(self.evicted())
        for _ in range(round(active / 10)):
            await self.pass_time(10)
            for name in self.evicted()[evicted:]:
                self.place(name.rpartition("-")[0], f"{name}-new", f"node-{self.day}-{self._nodes - 1}")
            evicted = len(self.evicted())
        await self.clock.jump(DAY - active)
        self.kube.expire()  # as etcd does; its history would keep the parts of deleted objects in memory
        await self.pass_time(30)

    def _all(self, kind: Any) -> list[Any]:
        return self.kube.stored(kind)

    def size(self) -> DaySize:
        gc.collect()
        for each in [each for each in gc.get_objects() if isinstance(each, Interner)]:
            each._forget_unused()  # it would at some later time, so that sizes could not be compared
        found = [each for each in gc.get_objects() if isinstance(each, tuple(SERVICES.values()))]
        mine = [each for each in found if _clock_of(each) is self.clock]
        services = {
            name: state_size(*(each for each in mine if type(each) is kind), self.registries[name], self.health[name])
            for name, kind in SERVICES.items()
        }
        return DaySize(services=services, streams=dict(map(self._stream_size, self.bus._streams)))

    def _stream_size(self, stream: MemoryStream) -> tuple[str, tuple[int, int]]:
        stored = stream.last(">", self.clock.now())
        size = sum(len(each.subject) + len(each.payload) for each in stored)
        return stream.stream.name, (len(stored), size)


def _clock_of(service: Any) -> object:
    return vars(service).get("clock", vars(service).get("_clock"))
