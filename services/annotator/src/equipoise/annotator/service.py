"""The annotator's shell: hears what is measured, writes what is worth it, says what it wrote."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from equipoise.annotator.dead_band import Write, Written, decide
from equipoise.annotator.seat import Membership
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.annotator.shares import owner, pause
from equipoise.annotator.targets import Target, target_of, value_of
from equipoise.contracts.annotations import means, written
from equipoise.contracts.messages import AnnotationWritten, NodeUtilization, WorkloadUtilization
from equipoise.contracts.settings import LoadSettings
from equipoise.contracts.subjects import PREFIX
from equipoise.runtime.bus import Bus, BusError, Delivery
from equipoise.runtime.clock import Clock
from equipoise.runtime.guarded import guarded, too_late
from equipoise.runtime.health import Health
from equipoise.runtime.kube import NODES, WORKLOAD_RESOURCES, Conflict, Kube, KubeError, NotFound, Resource

log = structlog.get_logger()

WRITE_LIMIT = 10.0
"""Seconds that one write may take."""

RETRY_PERIOD = 5.0
"""Seconds of rest when the API server is away, unless it asks for more."""

_AT_ONCE = 100
"""Objects that are considered in one go."""

_RESOURCES: Mapping[tuple[str, str], Resource[Any]] = {("", "Node"): NODES, **WORKLOAD_RESOURCES}


@dataclass(kw_only=True)
class _Known:
    """What was last heard of an object, and last written on it."""

    target: Target
    utilization: NodeUtilization | WorkloadUtilization
    last: Written | None = None
    not_before: float = 0.0
    """Refused: not tried again before then (Unix seconds)."""


@dataclass(kw_only=True)
class _Queue:
    """Objects that wait for their write; changes before what is only due, else first come first served."""

    urgent: dict[str, None] = field(default_factory=dict)
    due: dict[str, None] = field(default_factory=dict)
    filled: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, key: str, write: Write | None) -> None:
        """None: it need not wait any more."""
        if write is None:
            self.urgent.pop(key, None)
            self.due.pop(key, None)
        elif write.urgent:
            self.due.pop(key, None)
            self.urgent.setdefault(key)
            self.filled.set()
        elif key not in self.urgent:
            self.due.setdefault(key)
            self.filled.set()

    async def take(self) -> str:
        while True:
            for waiting in (self.urgent, self.due):
                for key in waiting:
                    del waiting[key]
                    return key
            self.filled.clear()
            await self.filled.wait()

    def __len__(self) -> int:
        return len(self.urgent) + len(self.due)


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
        self._queue = _Queue()
        self._writes = Counter(
            "equipoise_annotations", "Annotations written or refused.", ["kind", "result"], registry=metrics
        )
        Gauge("equipoise_annotations_waiting", "Objects that wait for a write.", registry=metrics).set_function(
            lambda: float(len(self._queue))
        )
        Gauge("equipoise_annotator_members", "Replicas that share the objects.", registry=metrics).set_function(
            lambda: float(len(self._membership.members))
        )

    async def attach(self) -> None:
        await self._bus.follow(f"{PREFIX}.utilization.node.*", NodeUtilization, self.on_node_utilization)
        await self._bus.follow(
            f"{PREFIX}.utilization.workload.*.*.*", WorkloadUtilization, self.on_workload_utilization
        )

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._stay_member(), name="stay member")
                tasks.create_task(self._write_for_ever(), name="write")
        finally:
            await self._membership.release()

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
        known = self._known[key]
        if owner(key, self._membership.members) != self._identity:
            known.last = None  # whoever writes it now knows better
            self._queue.put(key, None)
        else:
            self._queue.put(key, self._decide(known)[0])

    async def _consider_all(self) -> None:
        """Objects have changed hands. Messages are heard in between: there may be thousands."""
        for number, key in enumerate(list(self._known)):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            if key in self._known:
                self._consider(key)

    def _decide(self, known: _Known) -> tuple[Write | None, dict[str, str], Written | None]:
        """Whether to write now, what, and what will then be known as written."""
        now = self._clock.now()
        value = None if now < known.not_before else value_of(known.utilization, self._load, now)
        if value is None:
            return None, {}, None
        values, sampled_at = means(value), known.utilization.sampled_at
        target = known.target
        write = decide(
            target.key,
            known.last,
            values,
            sampled_at=sampled_at,
            now=now,
            band=target.band,
            scale=target.scale,
        )
        return write, written(value), Written(at=now, sampled_at=sampled_at, means=values)

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
                self._queue.put(key, None)

    async def _write_for_ever(self) -> NoReturn:
        while True:
            key = await self._queue.take()
            known = self._known.get(key)
            if known is None or owner(key, self._membership.members) != self._identity:
                continue
            write, annotations, after = self._decide(known)
            if write is None or after is None:
                continue
            rest = await self._write(known, write, annotations, after)
            members = len(self._membership.members)
            await self._clock.sleep(rest or pause(self._settings.writes_per_second, members))

    async def _write(self, known: _Known, write: Write, annotations: dict[str, str], after: Written) -> float:
        """Carry out one write; returns how long (seconds) to leave the API server alone, 0 when all is well."""
        target = known.target
        patching = self._kube.annotate(
            _RESOURCES[target.group, target.kind],
            target.name,
            annotations,
            namespace=target.namespace,
            uid=target.uid,
        )
        try:
            await guarded(patching, too_late(self._clock, WRITE_LIMIT))
        except (KubeError, TimeoutError) as error:
            return self._refused(known, write, error)
        self._health.problem("api server", None)
        self._health.problem(f"annotate {target.kind}", None)
        self._writes.labels(target.kind, "written").inc()
        known.last = after
        message = AnnotationWritten(
            object=target.text, annotations=annotations, why=write.why, written_at=self._clock.now()
        )
        try:
            await self._bus.publish(target.subject, message)
        except BusError as error:
            log.warning("write not said", object=target.text, error=str(error))
        return 0.0

    def _refused(self, known: _Known, write: Write, error: KubeError | TimeoutError) -> float:
        target = known.target
        match error:
            case NotFound() | Conflict():
                # Gone, or another object of the same name: its own measurements will come under its own UID.
                self._writes.labels(target.kind, "gone").inc()
                self._known.pop(target.key, None)
                return 0.0
            case KubeError(status=status) if 400 <= status < 500 and status != 429:
                self._writes.labels(target.kind, "refused").inc()
                self._health.problem(f"annotate {target.kind}", f"{target.text} cannot be annotated: {error}")
                known.not_before = self._clock.now() + target.band.period
                return 0.0
        self._writes.labels(target.kind, "failed").inc()
        self._health.problem("api server", f"the API server does not take annotations: {error}")
        self._queue.put(target.key, write)
        return max(RETRY_PERIOD, getattr(error, "retry_after", None) or 0.0)
