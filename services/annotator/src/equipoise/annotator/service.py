"""The annotator's shell: hears what is measured, writes what is worth it, says what it wrote.

Every write is a compare-and-swap: on our value that stands there, which needs reading once, or on an object without one
that was just read. A replica that was halted between deciding and writing cannot put an older value over one that
another has written since, and what stands on an object need not be written again because a replica is new.

Reads have a pace and a queue of their own: most of what a replica takes over needs no write, and no change waits until
all of it is looked at. They are single reads: to list would need one more right on every kind of workload, and brings
the whole fleet in one go, whoever has it; what has no value of ours would be read again before its write all the same.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec
import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from equipoise.annotator.decisions.annotation_target import Target, alive, target_of, value_of
from equipoise.annotator.decisions.crane_hot_values import HotValues, Placement
from equipoise.annotator.decisions.existing_value import Basis, basis, standing
from equipoise.annotator.decisions.hashing import owner, pause
from equipoise.annotator.decisions.write_decision import Write, Written, decide, rest_after
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.annotator.shell.membership import Membership
from equipoise.annotator.shell.rate_limiter import Pacing
from equipoise.annotator.shell.work_queue import Waiting
from equipoise.annotator.state.clock_skew import Skews
from equipoise.contracts.bus.subjects import PREFIX
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.annotations import NodeLoad, WorkloadUsage, as_annotations, means
from equipoise.contracts.kubernetes.crane import crane_annotations
from equipoise.contracts.kubernetes.objects import ObjectMeta
from equipoise.contracts.messages.annotation import AnnotationWritten
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization
from equipoise.runtime.async_tools.batching import in_batches
from equipoise.runtime.async_tools.cancel import run_with_guard, timeout_after
from equipoise.runtime.bus import Bus, BusError, Delivery
from equipoise.runtime.kubernetes.client import NODES, WORKLOAD_RESOURCES, Conflict, Kube, KubeError, NotFound, Resource
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health

log = structlog.get_logger()

WRITE_LIMIT = 10.0
"""Seconds that reading or writing one object may take."""

READERS = WRITERS = 8
"""Under way or waiting for their turn at once: one that is slow does not hold up the others, and a change waits for no
more of those that were taken before it."""

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
    """What a write goes by; None: the object waits for being read, not for its write."""

    not_before: float = 0.0
    """Left alone until then (Unix seconds): it was refused, or others write to it all the time."""

    rest: float = 0.0
    """For how long (seconds) it was left alone when it was refused last; 0 once it was written."""

    conflicts: int = 0
    """How often in a row somebody wrote to it between our reading and writing."""

    busy: bool = False
    """Being read or written right now, or next; considered again after that."""


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
        self._unread, self._unwritten = Waiting(), Waiting()
        self._reading = Pacing(clock, lambda: pause(settings.reads_per_second, len(self._membership.members)))
        self._writing = Pacing(clock, lambda: pause(settings.writes_per_second, len(self._membership.members)))
        self._writes = Counter(
            "equipoise_annotations", "Annotations written or refused.", ["kind", "result"], registry=metrics
        )
        Gauge("equipoise_annotations_waiting", "Objects that wait for a write.", registry=metrics).set_function(
            lambda: float(len(self._unwritten))
        )
        Gauge("equipoise_annotations_unread", "Objects that wait for being read.", registry=metrics).set_function(
            lambda: float(len(self._unread))
        )
        Gauge("equipoise_annotator_members", "Replicas that share the objects.", registry=metrics).set_function(
            lambda: float(len(self._membership.members))
        )

    async def attach(self) -> None:
        if self._settings.crane:
            await self._bus.subscribe_latest(f"{PREFIX}.placement.node.*", Placement, self.on_node_placement)
        # Before the values that it may forbid to write.
        await self._bus.subscribe_latest(f"{PREFIX}.utilization.cycle.*", UtilizationCycle, self.on_utilization_cycle)
        await self._bus.subscribe_latest(f"{PREFIX}.utilization.node.*", NodeUtilization, self.on_node_utilization)
        await self._bus.subscribe_latest(
            f"{PREFIX}.utilization.workload.*.*.*", WorkloadUtilization, self.on_workload_utilization
        )

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._stay_member(), name="stay member")
                for number in range(READERS):
                    tasks.create_task(self._read_for_ever(), name=f"read {number}")
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
        target = target_of(utilization, nodes=self._settings.node_band, workloads=self._settings.workloads)
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
        if known is None:
            return
        if not self._is_ours(known):
            known.last = known.basis = None  # whoever writes it now knows better
            self._let_wait(key, None)
        elif not known.busy:
            decision = self._decide(known)
            self._let_wait(key, decision.write if decision is not None else None, read=known.basis is not None)

    def _let_wait(self, key: str, write: Write | None, *, read: bool = False) -> None:
        """For its write if it was read, else for that. None: for nothing any more."""
        self._unread.put(key, None if read else write)
        self._unwritten.put(key, write if read else None)

    def _is_ours(self, known: _Known) -> bool:
        """And still the object of that name."""
        key = known.target.key
        return self._known.get(key) is known and owner(key, self._membership.members) == self._identity

    async def _consider_all(self) -> None:
        """Objects have changed hands. Messages are heard in between: there may be thousands."""
        async for keys in in_batches(self._known, _AT_ONCE):
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
        now, annotations = self._clock.now(), as_annotations(value)
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
            self._health.set_problem("seat", problem)
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
                self._let_wait(key, None)

    async def _read_for_ever(self) -> NoReturn:
        while True:
            await self._work_on(await self._unread.take(), self._read)

    async def _write_for_ever(self) -> NoReturn:
        while True:
            await self._work_on(await self._unwritten.take(), self._write)

    async def _work_on(self, key: str, work: Callable[[_Known], Awaitable[None]]) -> None:
        """Afterwards it is considered anew: what it needs next, or again."""
        known = self._known.get(key)
        if known is None:
            return
        known.busy = True
        try:
            await work(known)
        except Conflict as error:
            self._overtaken(known, error)
        except (NotFound, _AnotherObject):
            self._gone(known)
        except (KubeError, TimeoutError) as error:
            self._refused(known, error)
        finally:
            known.busy = False
        self._consider(key)

    async def _write(self, known: _Known) -> None:
        """Write what an object should say, if it is to be written when its turn has come."""
        if known.basis is None or not known.basis.lasts(self._clock.monotonic()):
            await self._read(known)
        decision = await self._writing.turn(
            lambda: self._decide(known) if known.basis is not None and self._is_ours(known) else None
        )
        on = known.basis
        if decision is None or on is None:
            return
        annotations = self._annotations(known, decision.value)
        await self._annotate(known.target, on, annotations)
        known.last, known.basis = decision.after, basis(on.uid, annotations)
        known.rest, known.conflicts = 0.0, 0
        await self._say(known.target, annotations, decision.write.why)

    async def _read(self, known: _Known) -> None:
        target = known.target
        if not await self._reading.turn(lambda: self._is_ours(known) or None):
            return
        sent = self._clock.monotonic()
        reading = self._kube.get(_RESOURCES[target.group, target.kind], target.name, target.namespace)
        found = await run_with_guard(reading, timeout_after(self._clock, WRITE_LIMIT))
        self._health.set_problem("api server", None)
        metadata: ObjectMeta = found.metadata
        if target.uid and metadata.uid != target.uid:
            raise _AnotherObject
        self._compare(known, metadata)
        on = None if known.last is None else basis(metadata.uid, metadata.annotations)
        known.basis = on or Basis(uid=metadata.uid, version=metadata.resource_version, read_at=sent)

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
            expected=on.text,
        )
        await run_with_guard(patching, timeout_after(self._clock, WRITE_LIMIT))
        self._health.set_problem("api server", None)
        self._health.set_problem(f"annotate {target.kind}", None)
        self._writes.labels(target.kind, "written").inc()

    async def _say(self, target: Target, annotations: dict[str, str], why: str) -> None:
        message = AnnotationWritten(object=target.text, annotations=annotations, why=why, written_at=self._clock.now())
        try:
            await self._bus.publish(target.subject, message)
        except BusError as error:
            log.warning("write not said", object=target.text, error=str(error))

    def _overtaken(self, known: _Known, error: Conflict) -> None:
        """Somebody wrote in between: another replica, and after reading a heartbeat, too. It is read again, in turn.

        Again and again: a policy may refuse what we write, which the server says of a patch like it says a conflict.
        """
        known.basis = None
        known.conflicts += 1
        if known.conflicts == ATTEMPTS:
            known.conflicts = 0
            self._refused(known, error)

    def _gone(self, known: _Known) -> None:
        """Gone, or another object of the same name: its own measurements will come under its own UID."""
        self._writes.labels(known.target.kind, "gone").inc()
        if self._known.get(known.target.key) is known:
            del self._known[known.target.key]

    def _refused(self, known: _Known, error: KubeError | TimeoutError) -> None:
        """It may be the object, it may be the server, and without an answer in time nobody knows which."""
        target, refused = known.target, isinstance(error, KubeError) and _of_one_object(error.status)
        if refused or isinstance(error, TimeoutError):
            known.rest = rest_after(known.rest, target.band)
            known.not_before = self._clock.now() + known.rest
        if refused:
            self._writes.labels(target.kind, "refused").inc()
            self._health.set_problem(f"annotate {target.kind}", f"{target.text} cannot be annotated: {error}")
            return
        self._writes.labels(target.kind, "failed").inc()
        self._health.set_problem("api server", f"the API server does not take annotations: {error}")
        for pacing in (self._reading, self._writing):
            pacing.rest(max(RETRY_PERIOD, getattr(error, "retry_after", None) or 0.0))


def _of_one_object(status: int) -> bool:
    """Whether others may meet another answer: 500 is also what one webhook that is down makes of what it watches."""
    return 400 <= status <= 500 and status not in (401, 429)


class _AnotherObject(Exception):
    """The object of this name is not the one that was measured."""
