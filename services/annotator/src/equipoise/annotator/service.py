"""The annotator: subscribes to utilization, decides what to write, PATCHes annotations, publishes what it wrote.

Every write is a compare-and-swap. The precondition is the value that Equipoise wrote last, which a replica reads once;
if the object has none, the precondition is the resource version that was just read. So a replica that was suspended
between deciding and writing cannot overwrite a newer value of another replica, and a new replica need not write
existing values again.

Reads have a rate and a queue of their own: most objects that a replica takes over need no write, and no write waits
until all of them are read. Each read is one GET. A LIST would need one more permission for every kind of workload,
would return the whole cluster, and objects without our value would still have to be read once more before their write.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NoReturn

import msgspec
import structlog
from prometheus_client import Counter, Gauge

from equipoise.annotator.decisions.annotation_target import (
    Annotated,
    AnnotationTarget,
    is_newer,
    target_of,
    time_of,
    value_of,
    with_current_windows,
)
from equipoise.annotator.decisions.existing_value import Precondition, existing_value, value_precondition
from equipoise.annotator.decisions.write_decision import DueWrite, WrittenValue, decide, retry_backoff
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.annotator.shell.deletion_cost_writer import DeletionCostWriter
from equipoise.annotator.shell.hint_writer import HintWriter
from equipoise.annotator.shell.membership import Membership
from equipoise.annotator.shell.object_client import RESOURCES, ObjectClient
from equipoise.annotator.shell.taint_writer import TaintWriter
from equipoise.annotator.shell.webhook_guard import WebhookGuard
from equipoise.annotator.shell.work_queue import ObjectQueue
from equipoise.annotator.state.crane_hot_values import HotValues, PlacedTimes
from equipoise.annotator.state.scale_down_outlook import PodsOfNode
from equipoise.contracts.bounds import MAX_AHEAD
from equipoise.contracts.bus import channels
from equipoise.contracts.configuration.moves import deletion_costs
from equipoise.contracts.hashing import owner, request_interval
from equipoise.contracts.kubernetes.annotations import AnnotationValue, as_annotations, means
from equipoise.contracts.kubernetes.crane import crane_annotations
from equipoise.contracts.kubernetes.objects.cluster import Lease
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.load.collection_cycles import CollectionCycles
from equipoise.contracts.messages.annotation import AnnotationWritten
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.contracts.recent import is_recent
from equipoise.runtime.async_tools.batching import NODES_PER_BATCH, in_batches
from equipoise.runtime.async_tools.rate_limiter import RateLimiter
from equipoise.runtime.bus import BusError
from equipoise.runtime.kubernetes.client import LEASES, Conflict, KubeError, NotFound
from equipoise.runtime.kubernetes.fence import PROBE, until_fenced
from equipoise.runtime.kubernetes.installation import InstallationCheck
from equipoise.runtime.kubernetes.paced_requests import RETRY_PERIOD
from equipoise.runtime.process.lifecycle import Runtime

log = structlog.get_logger()

_FENCE = "equipoise-annotator-fence"
"""The admission policy without which a ServiceAccount writes nothing."""

READERS = WRITERS = 8
"""Number of tasks that read, and of tasks that write: a slow request does not block others. More tasks would let more
requests start before an urgent one."""

MAX_CONFLICTS = 3
"""Conflicts in a row after which an object is in backoff."""


@dataclass(kw_only=True)
class _Object:
    """The last message about an object, and its existing value."""

    target: AnnotationTarget
    message: Annotated
    last: WrittenValue | None = None
    precondition: Precondition | None = None
    """The precondition of the next write; None: the object must be read first."""

    not_before: float = 0.0
    """The end of the backoff (Unix seconds)."""

    backoff: float = 0.0
    """The last backoff in seconds; 0 after a write."""

    conflicts: int = 0
    """Conflicts in a row."""

    busy: bool = False
    """Being read or written; considered again after that."""


class _Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Write this value now."""

    write: DueWrite
    value: AnnotationValue
    written: WrittenValue
    """The object's existing value after the write."""


class Annotator:
    """One replica; each object is written by exactly one of the live ones."""

    def __init__(self, runtime: Runtime[AnnotatorSettings]) -> None:
        self._settings = settings = runtime.own
        self._load = runtime.configuration.shared.load
        self._writes_hints = runtime.configuration.shared.placement.hints
        self._identity = runtime.identity
        self._bus = runtime.bus
        self._clock = clock = runtime.clock
        self._health = runtime.health
        self._membership = Membership(
            kube=runtime.kube,
            clock=clock,
            settings=settings.membership,
            namespace=runtime.configuration.shared.kubernetes.namespace,
            identity=runtime.identity,
        )
        self._installation = InstallationCheck(runtime.kube, self._membership.namespace, clock, runtime.health)
        self._objects: dict[str, _Object] = {}
        self._hot_values = HotValues()
        self._cycles = CollectionCycles()
        self._unread, self._unwritten = ObjectQueue(), ObjectQueue()
        text = "Writes of annotations and of placement hints, by result."
        results = Counter("equipoise_annotator_writes", text, ["kind", "result"], registry=runtime.metrics)
        self._client = ObjectClient(
            kube=runtime.kube,
            clock=clock,
            health=runtime.health,
            reads=RateLimiter(clock, lambda: self._interval(settings.reads_per_second)),
            writes=RateLimiter(clock, lambda: self._interval(settings.writes_per_second)),
            results=results,
        )
        self._taints = TaintWriter(runtime, is_ours=self._owns, client=self._client)
        self._hints = HintWriter(runtime, is_ours=self._owns, interval=self._interval, results=results)
        self._deletion_costs: DeletionCostWriter | None = None
        costs = deletion_costs(runtime.configuration.shared.moves.level, settings.deletion_costs)
        if costs != "none":
            self._deletion_costs = DeletionCostWriter(
                runtime, costs, is_ours=self._owns, cycles=self._cycles, client=self._client
            )
        self._guard: WebhookGuard | None = None
        if self._writes_hints and settings.hints.admission == "webhook":
            self._guard = WebhookGuard(runtime, is_ours=self._owns, hinted=lambda: self._hints.hinted_namespaces)
        for name, text, value in (
            ("writes_pending", "Objects that wait to be written.", lambda: float(len(self._unwritten))),
            ("objects_unread", "Objects that wait to be read.", lambda: float(len(self._unread))),
            ("members", "Replicas that share the objects.", lambda: float(len(self._membership.members))),
        ):
            Gauge(f"equipoise_annotator_{name}", text, registry=runtime.metrics).set_function(value)

    def _interval(self, per_second: float) -> float:
        return request_interval(per_second, len(self._membership.members))

    # Subscribe

    async def attach(self) -> None:
        follow = self._bus.follow
        await follow(channels.EMPTYING, self._taints.on_emptying)
        if self._settings.crane:
            await follow(channels.NODE_PLACEMENTS.reading(PlacedTimes), self._hot_values.on_placement)
        # Before the values, because a skew may forbid to write them.
        await follow(channels.UTILIZATION_CYCLES, self._cycles.on_cycle)
        await follow(channels.NODE_UTILIZATIONS, self._on_message)
        await follow(channels.WORKLOAD_UTILIZATIONS, self._on_message)
        if self._settings.reclaimed.enabled:
            await follow(channels.RECLAIMED_NODES, self._on_message)
        if self._deletion_costs is not None:
            await follow(channels.NODE_PLACEMENTS.reading(PodsOfNode), self._deletion_costs.on_placement)
        if self._writes_hints:
            await follow(channels.NAMESPACE_HINTS, self._hints.on_hints)

    def _on_message(self, message: Annotated, now: float) -> bool:
        settings = self._settings
        nodes = settings.nodes if isinstance(message, ReclaimedNode) else settings.node_threshold
        target = target_of(message, nodes=nodes, workloads=settings.workloads)
        if (target.group, target.kind) not in RESOURCES:
            return True
        known = self._objects.get(target.key)
        if known is not None and not is_newer(message, known.message, now):
            return False
        if known is None or known.target.uid != target.uid:
            self._objects[target.key] = _Object(target=target, message=message)
        else:
            known.message = message
        if self._deletion_costs is not None:
            self._deletion_costs.on_message(message)
        self._consider(target.key)
        return True

    # Decide

    def _consider(self, key: str) -> None:
        """Queue an object for its write, or first for its read, if a write is due."""
        known = self._objects.get(key)
        if known is None:
            return
        if not self._is_ours(known):
            known.last = known.precondition = None  # another replica writes it now
            self._queue(key, None)
        elif not known.busy:
            decision = None
            with self._health.unreadable.guard("annotations", key):
                decision = self._decide(known)
            self._queue(key, decision.write if decision else None, is_read=known.precondition is not None)

    def _queue(self, key: str, write: DueWrite | None, *, is_read: bool = False) -> None:
        self._unread.put(key, None if is_read else write)
        self._unwritten.put(key, write if is_read else None)

    def _is_ours(self, known: _Object) -> bool:
        """Whether this replica writes the object. False also if another object has its name now, or another
        installation writes."""
        key = known.target.key
        return self._owns(key) and self._objects.get(key) is known

    def _owns(self, key: str) -> bool:
        return owner(key, self._membership.members) == self._identity and not self._installation.problem

    def _decide(self, known: _Object) -> _Decision | None:
        """Whether to write now, and what."""
        now, target = self._clock.now(), known.target
        if self._clock.monotonic() < known.not_before:
            return None
        if known.last is not None and known.last.at > now + MAX_AHEAD:
            known.last = None  # written while this clock was ahead: no later value would be newer
        value = value_of(known.message, self._load, now, self._cycles.skew(now))
        if value is None:
            return None
        found, sampled_at = means(value), value.sampled_at.timestamp()
        write = decide(
            target.key,
            known.last,
            found,
            sampled_at=sampled_at,
            now=now,
            threshold=target.threshold,
            scale=target.scale,
        )
        if write is None:
            return None
        return _Decision(write=write, value=value, written=WrittenValue(at=now, sampled_at=sampled_at, means=found))

    # Read, write, publish

    async def run(self) -> None:
        probe = Lease(metadata=ObjectMeta(name=PROBE, namespace=self._membership.namespace))
        await until_fenced(self._client.kube, _FENCE, LEASES, probe, self._clock, self._health)
        await self._installation.check()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._installation.run(), name="check for other installations")
                tasks.create_task(self._renew_membership(), name="membership")
                tasks.create_task(self._taints.run(), name="taints")
                if self._deletion_costs is not None:
                    tasks.create_task(self._deletion_costs.run(), name="deletion costs")
                if self._writes_hints:
                    tasks.create_task(self._hints.run(), name="placement hints")
                    if self._guard is not None:
                        tasks.create_task(self._guard.run(), name="webhook of hints")
                for number in range(READERS):
                    tasks.create_task(self._work(self._unread, self._read), name=f"read {number}")
                for number in range(WRITERS):
                    tasks.create_task(self._work(self._unwritten, self._write), name=f"write {number}")
        finally:
            await self._membership.release()

    async def _renew_membership(self) -> NoReturn:
        settings = self._settings.membership
        while True:
            before = self._membership.members
            problem = await self._membership.renew()
            self._health.set_problem("membership", problem)
            if problem is None:
                self._health.warmed_up()
            members = self._membership.members
            self._prune()
            if members != before:
                log.info("members changed", members=sorted(members))
                async for keys in in_batches(self._objects, NODES_PER_BATCH):
                    for key in keys:
                        self._consider(key)
            await self._clock.sleep(settings.renew_period if problem is None else RETRY_PERIOD)

    def _prune(self) -> None:
        """Delete objects that were not measured for two refresh periods."""
        now = self._clock.now()
        for key, known in list(self._objects.items()):
            if not is_recent(time_of(known.message), now, 2 * known.target.threshold.refresh_period):
                del self._objects[key]
                self._queue(key, None)
                if self._deletion_costs is not None:
                    self._deletion_costs.forget(known.message)

    async def _work(self, queue: ObjectQueue, work: Callable[[_Object], Awaitable[None]]) -> NoReturn:
        while True:
            key = await queue.take()
            if (known := self._objects.get(key)) is None:
                continue
            known.busy = True
            try:
                await work(known)
            except Conflict as error:
                self._on_conflict(known, error)
            except (NotFound, _AnotherObject):
                self._on_gone(known)
            except (KubeError, TimeoutError) as error:
                self._on_error(known, error)
            except Exception as error:  # whatever it is, the other objects are annotated
                log.warning("unexpected error", object=str(key), exc_info=True)
                self._health.unreadable.add("annotations", str(key), f"{type(error).__name__}: {error}")
                self._on_gone(known)
            finally:
                known.busy = False
            self._consider(key)

    async def _read(self, known: _Object) -> None:
        target = known.target
        if not await self._client.reads.acquire(lambda: self._is_ours(known) or None):
            return
        sent_at = self._clock.monotonic()
        found = await self._client.get(target)
        if target.uid and found.uid != target.uid:
            raise _AnotherObject
        # The existing value counts, whichever replica wrote it.
        existing = existing_value(target, found.annotations, self._clock.now())
        if existing is None or known.last is None or existing.sampled_at > known.last.sampled_at:
            known.last = existing
        by_value = None if known.last is None else value_precondition(target, found.uid, found.annotations)
        by_version = Precondition(uid=found.uid, version=found.resource_version, read_at=sent_at)
        known.precondition = by_value or by_version

    async def _write(self, known: _Object) -> None:
        """Write an object if that is still due when the rate allows it."""
        if known.precondition is None or not known.precondition.is_current(self._clock.monotonic()):
            await self._read(known)
        decision = await self._client.writes.acquire(
            lambda: self._decide(known) if known.precondition is not None and self._is_ours(known) else None
        )
        precondition = known.precondition
        if decision is None or precondition is None:
            return
        annotations = self._annotations(known, decision.value)
        await self._client.annotate(known.target, precondition, annotations)
        known.last = decision.written
        known.precondition = value_precondition(known.target, precondition.uid, annotations)
        known.backoff, known.conflicts = 0.0, 0
        await self._publish(known.target, annotations, decision.write.why)

    def _annotations(self, known: _Object, value: AnnotationValue) -> dict[str, str]:
        now, annotations = self._clock.now(), as_annotations(value)
        if self._settings.crane and isinstance(known.message, NodeUtilization):
            utilization = with_current_windows(known.message, self._load, now, self._cycles.skew(now))
            annotations |= crane_annotations(utilization, self._hot_values.of(utilization.node, now), now)
        return annotations

    async def _publish(self, target: AnnotationTarget, annotations: dict[str, str], why: str) -> None:
        message = AnnotationWritten(
            object=target.display_name, annotations=annotations, why=why, written_at=self._clock.now()
        )
        try:
            await self._bus.publish(target.subject, message)
        except BusError as error:
            log.warning("write not published", object=target.display_name, error=str(error))

    def _on_conflict(self, known: _Object, error: Conflict) -> None:
        """Reads the object again: another replica wrote the value, or a kubelet wrote the node after it was read.

        After several conflicts it counts as refused: the server reports a patch that a policy refuses as a conflict.
        """
        known.precondition = None
        known.conflicts += 1
        if known.conflicts == MAX_CONFLICTS:
            known.conflicts = 0
            self._on_error(known, error)

    def _on_gone(self, known: _Object) -> None:
        """Forgets an object that was deleted. If another object has its name now, messages with the UID of that one
        will follow."""
        self._client.results.labels(known.target.kind, "gone").inc()
        if self._objects.get(known.target.key) is known:
            del self._objects[known.target.key]

    def _on_error(self, known: _Object, error: KubeError | TimeoutError) -> None:
        if self._client.on_error(known.target, error):
            threshold = known.target.threshold
            known.backoff = retry_backoff(known.backoff, threshold.min_interval, threshold.refresh_period)
            known.not_before = self._clock.monotonic() + known.backoff


class _AnotherObject(Exception):
    """The object of this name is not the one that was measured."""
