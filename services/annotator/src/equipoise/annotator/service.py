"""The annotator's shell: hears what is measured, writes what is worth it, says what it wrote.

Every write is a compare-and-swap: on what was just read, later on our own last value, which need not be read again.
A replica that was halted between deciding and writing cannot put an older value over one that another has written
since, and what stands on an object need not be written again because a replica is new.
"""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec
import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from equipoise.annotator.dead_band import Write, Written, decide, rest_after
from equipoise.annotator.hot_values import HotValues, Placement
from equipoise.annotator.seat import Membership
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.annotator.shares import owner, pause
from equipoise.annotator.skews import Skews
from equipoise.annotator.standing import Basis, basis, standing
from equipoise.annotator.targets import Target, alive, target_of, value_of
from equipoise.annotator.waiting import Waiting
from equipoise.contracts.annotations import NodeLoad, WorkloadUsage, means, written
from equipoise.contracts.crane import crane_annotations
from equipoise.contracts.messages.annotation import AnnotationWritten
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization
from equipoise.contracts.objects import ObjectMeta
from equipoise.contracts.settings import LoadSettings
from equipoise.contracts.subjects import PREFIX
from equipoise.runtime.bus import Bus, BusError, Delivery
from equipoise.runtime.clock import Clock
from equipoise.runtime.guarded import guarded, too_late
from equipoise.runtime.health import Health
from equipoise.runtime.kube import NODES, WORKLOAD_RESOURCES, Conflict, Kube, KubeError, NotFound, Resource
from equipoise.runtime.turns import in_turns

log = structlog.get_logger()

WRITE_LIMIT = 10.0
"""Seconds that reading or writing one object may take."""

WRITERS = 32
"""Writes under way at once: one that is slow does not hold up the others."""

ATTEMPTS = 3
"""How often in a row an object is tried because somebody else wrote to it in between, each in a turn of its own."""

RETRY_PERIOD = 5.0
"""Seconds of rest when the API server is away, unless it asks for more."""

_AT_ONCE = 100
"""Objects that are considered in one go."""

_RESOURCES: Mapping[tuple[str, str], Resource[Any]] = {("", "Node"): NODES, **WORKLOAD_RESOURCES}


@dataclass(kw_only=True)
class _Known:
    """What was last heard of an object, and what stands on it."""

    target: Target
    utilization: NodeUtilization | WorkloadUtilization
    last: Written | None = None
    basis: Basis | None = None
    """What a write goes by; None: the object must be read first."""

    not_before: float = 0.0
    """Not written again before then (Unix seconds): it was refused, or others write to it all the time."""

    rest: float = 0.0
    """For how long (seconds) it was left alone when it was refused last; 0 once it was written."""

    conflicts: int = 0
    """How often in a row somebody wrote to it between our reading and writing."""

    busy: bool = False
    """Being written right now; what is heard meanwhile waits for the next message."""


class _Decision(msgspec.Struct, frozen=True, kw_only=True):
    """That an object is to be written now."""

    write: Write
    value: NodeLoad | WorkloadUsage
    after: Written
    """What will then be known as written."""


class Annotator:
    """One replica; each object is written by exactly one of those that are alive."""

    def __init__(
        self,
        *,
        settings: AnnotatorSettings,
        load: LoadSettings,
        namespace: str,
        identity: str,
        bus: Bus,
        kube: Kube,
        clock: Clock,
        health: Health,
        metrics: CollectorRegistry,
    ) -> None:
        self._settings = settings
        self._load = load
        self._identity = identity
        self._bus = bus
        self._kube = kube
        self._clock = clock
        self._health = health
        self._membership = Membership(
            kube=kube, clock=clock, settings=settings.seat, namespace=namespace, identity=identity
        )
        self._known: dict[str, _Known] = {}
        self._hot_values = HotValues()
        self._skews = Skews()
        self._waiting = Waiting()
        self._pacing = asyncio.Lock()
        self._next_at = -math.inf
        """When the next write may begin (monotonic)."""

        self._writes = Counter(
            "equipoise_annotations", "Annotations written or refused.", ["kind", "result"], registry=metrics
        )
        Gauge("equipoise_annotations_waiting", "Objects that wait for a write.", registry=metrics).set_function(
            lambda: float(len(self._waiting))
        )
        Gauge("equipoise_annotator_members", "Replicas that share the objects.", registry=metrics).set_function(
            lambda: float(len(self._membership.members))
        )

    async def attach(self) -> None:
        if self._settings.crane:
            await self._bus.follow(f"{PREFIX}.placement.node.*", Placement, self.on_node_placement)
        # Before the values that it may forbid to write.
        await self._bus.follow(f"{PREFIX}.utilization.cycle.*", UtilizationCycle, self.on_utilization_cycle)
        await self._bus.follow(f"{PREFIX}.utilization.node.*", NodeUtilization, self.on_node_utilization)
        await self._bus.follow(
            f"{PREFIX}.utilization.workload.*.*.*", WorkloadUtilization, self.on_workload_utilization
        )

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._stay_member(), name="stay member")
                for number in range(WRITERS):
                    tasks.create_task(self._write_for_ever(), name=f"write {number}")
        finally:
            await self._membership.release()

    async def on_node_placement(self, delivery: Delivery[Placement]) -> None:
        self._hot_values.on_placement(delivery.message, self._clock.now())

    async def on_utilization_cycle(self, delivery: Delivery[UtilizationCycle]) -> None:
        self._skews.on_cycle(delivery.message, self._clock.now())

    async def on_node_utilization(self, delivery: Delivery[NodeUtilization]) -> None:
        self._hear(delivery.message)

    async def on_workload_utilization(self, delivery: Delivery[WorkloadUtilization]) -> None:
        self._hear(delivery.message)

    def _hear(self, utilization: NodeUtilization | WorkloadUtilization) -> None:
        target = target_of(utilization, self._settings)
        if (target.group, target.kind) not in _RESOURCES:
            return
        known = self._known.get(target.key)
        if known is None or known.target.uid != target.uid:
            self._known[target.key] = _Known(target=target, utilization=utilization)
        elif (utilization.epoch, utilization.sequence) > (known.utilization.epoch, known.utilization.sequence):
            known.utilization = utilization
        else:
            return
        self._consider(target.key)

    def _consider(self, key: str) -> None:
        known = self._known.get(key)
        if known is None or known.busy:
            return
        if owner(key, self._membership.members) != self._identity:
            known.last = known.basis = None  # whoever writes it now knows better
            self._waiting.put(key, None)
        else:
            decision = self._decide(known)
            self._waiting.put(key, decision.write if decision is not None else None)

    async def _consider_all(self) -> None:
        """Objects have changed hands. Messages are heard in between: there may be thousands."""
        async for keys in in_turns(self._known, _AT_ONCE):
            for key in keys:
                self._consider(key)

    def _decide(self, known: _Known) -> _Decision | None:
        """Whether to write now, and what."""
        now, target = self._clock.now(), known.target
        value = None if now < known.not_before else value_of(self._alive(known, now))
        if value is None:
            return None
        found, sampled_at = means(value), value.sampled_at.timestamp()
        write = decide(
            target.key, known.last, found, sampled_at=sampled_at, now=now, band=target.band, scale=target.scale
        )
        if write is None:
            return None
        return _Decision(write=write, value=value, after=Written(at=now, sampled_at=sampled_at, means=found))

    def _annotations(self, known: _Known, value: NodeLoad | WorkloadUsage) -> dict[str, str]:
        now, annotations = self._clock.now(), written(value)
        utilization = self._alive(known, now) if self._settings.crane else None
        if isinstance(utilization, NodeUtilization):
            annotations |= crane_annotations(utilization, self._hot_values.of(utilization.node, now), now)
        return annotations

    def _alive(self, known: _Known, now: float) -> NodeUtilization | WorkloadUtilization:
        return alive(known.utilization, self._load, now, self._skews.largest(now))

    async def _stay_member(self) -> NoReturn:
        while True:
            before = self._membership.members
            problem = await self._membership.renew()
            self._health.problem("seat", problem)
            members = self._membership.members
            if members:
                self._health.warmed_up()
            self._forget()
            if members != before:
                log.info("members", members=sorted(members))
                await self._consider_all()
            await self._clock.sleep(self._settings.seat.renew_period if problem is None else RETRY_PERIOD)

    def _forget(self) -> None:
        """What was not measured for two periods is gone from the cluster."""
        now = self._clock.now()
        for key, known in list(self._known.items()):
            if now - known.utilization.sampled_at > 2 * known.target.band.period:
                del self._known[key]
                self._waiting.put(key, None)

    async def _write_for_ever(self) -> NoReturn:
        while True:
            key = await self._next()
            known = self._known.get(key)
            if known is None or known.busy or owner(key, self._membership.members) != self._identity:
                continue
            known.busy = True
            try:
                rest = await self._keep_true(known)
            finally:
                known.busy = False
            if rest:
                self._next_at = max(self._next_at, self._clock.monotonic() + rest)

    async def _next(self) -> str:
        """The object whose turn it is, at the moment at which this replica may write again."""
        async with self._pacing:
            while (left := self._next_at - self._clock.monotonic()) > 0:
                await self._clock.sleep(left)
            key = await self._waiting.take()
            rest = pause(self._settings.writes_per_second, len(self._membership.members))
            self._next_at = self._clock.monotonic() + rest
            return key

    async def _keep_true(self, known: _Known) -> float:
        """Write what an object should say; returns how long (seconds) to leave the API server alone."""
        target, write = known.target, Write(why="not read yet")
        try:
            on = known.basis or await self._read(known)
            decision = self._decide(known)
            if decision is None:
                return 0.0
            write, annotations = decision.write, self._annotations(known, decision.value)
            await self._annotate(target, on, annotations)
        except Conflict:
            return self._overtaken(known, write)
        except (NotFound, _AnotherObject):
            return self._gone(known)
        except (KubeError, TimeoutError) as error:
            return self._refused(known, write, error)
        known.last, known.basis = decision.after, basis(on.uid, annotations)
        known.rest, known.conflicts = 0.0, 0
        await self._say(target, annotations, write.why)
        return 0.0

    async def _read(self, known: _Known) -> Basis:
        target = known.target
        reading = self._kube.get(_RESOURCES[target.group, target.kind], target.name, target.namespace)
        found = await guarded(reading, too_late(self._clock, WRITE_LIMIT))
        self._health.problem("api server", None)
        metadata: ObjectMeta = found.metadata
        if target.uid and metadata.uid != target.uid:
            raise _AnotherObject
        self._compare(known, metadata)
        known.basis = None if known.last is None else basis(metadata.uid, metadata.annotations)
        return Basis(uid=metadata.uid, version=metadata.resource_version)

    def _compare(self, known: _Known, found: ObjectMeta) -> None:
        """What stands there counts, whoever wrote it."""
        last, there = known.last, standing(known.target, found.annotations, self._clock.now())
        if there is None or last is None or there.sampled_at > last.sampled_at:
            known.last = there

    async def _annotate(self, target: Target, on: Basis, annotations: dict[str, str]) -> None:
        patching = self._kube.annotate(
            _RESOURCES[target.group, target.kind],
            target.name,
            annotations,
            namespace=target.namespace,
            uid=on.uid,
            version=on.version,
            standing=on.text,
        )
        await guarded(patching, too_late(self._clock, WRITE_LIMIT))
        self._health.problem("api server", None)
        self._health.problem(f"annotate {target.kind}", None)
        self._writes.labels(target.kind, "written").inc()

    async def _say(self, target: Target, annotations: dict[str, str], why: str) -> None:
        message = AnnotationWritten(object=target.text, annotations=annotations, why=why, written_at=self._clock.now())
        try:
            await self._bus.publish(target.subject, message)
        except BusError as error:
            log.warning("write not said", object=target.text, error=str(error))

    def _overtaken(self, known: _Known, write: Write) -> float:
        """Somebody wrote in between: another replica, and after reading a heartbeat, too. It is read again, in turn."""
        known.basis = None
        known.conflicts += 1
        if known.conflicts < ATTEMPTS:
            self._waiting.put(known.target.key, write)
            return 0.0
        known.conflicts = 0
        known.not_before = self._clock.now() + RETRY_PERIOD
        self._writes.labels(known.target.kind, "conflict").inc()
        return 0.0

    def _gone(self, known: _Known) -> float:
        """Gone, or another object of the same name: its own measurements will come under its own UID."""
        self._writes.labels(known.target.kind, "gone").inc()
        if self._known.get(known.target.key) is known:
            del self._known[known.target.key]
        return 0.0

    def _refused(self, known: _Known, write: Write, error: KubeError | TimeoutError) -> float:
        target = known.target
        if isinstance(error, KubeError) and 400 <= error.status < 500 and error.status != 429:
            self._writes.labels(target.kind, "refused").inc()
            self._health.problem(f"annotate {target.kind}", f"{target.text} cannot be annotated: {error}")
            known.rest = rest_after(known.rest, target.band)
            known.not_before = self._clock.now() + known.rest
            return 0.0
        self._writes.labels(target.kind, "failed").inc()
        self._health.problem("api server", f"the API server does not take annotations: {error}")
        self._waiting.put(target.key, write)
        return max(RETRY_PERIOD, getattr(error, "retry_after", None) or 0.0)


class _AnotherObject(Exception):
    """The object of this name is not the one that was measured."""
