"""Takes pod after pod from the queue, and carries out what was decided while the next one is tried."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from operator import itemgetter
from typing import Any, TypeVar

import structlog

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.runtime.async_tools.cancel import run_with_guard, timeout_after
from equipoise.runtime.kubernetes.client import PODS, Conflict, Kube, KubeError, NotFound
from equipoise.runtime.kubernetes.unreadable_objects import object_name
from equipoise.runtime.process.clock import Clock
from equipoise.scheduler.decisions import pod_events
from equipoise.scheduler.shell.binding_cycle import BindingCycle, NotBound, post_bind
from equipoise.scheduler.shell.event_recorder import EventRecorder
from equipoise.scheduler.shell.http_extender import ExtenderClient
from equipoise.scheduler.shell.metrics import SchedulerMetrics
from equipoise.scheduler.state.attempt import Attempt, Result, one_node_refused
from equipoise.scheduler.state.scheduler_state import SchedulerState
from equipoise.scheduling.framework.plugin_times import PluginTimes
from equipoise.scheduling.framework.queue import QueuedPod
from equipoise.scheduling.framework.status import failed
from equipoise.scheduling.framework.waiting_pods import WaitingPod
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.plugins.default_preemption import DefaultPreemption
from equipoise.scheduling.scheduler import Decision

BINDINGS = 64
"""Pods whose binding, or whose failure, is written at the same time. The client has 100 connections."""

LONG_DECISION_SECONDS = 0.1
"""The duration of a decision above which the next one is made in a thread, while the event loop renews the Lease."""

REPEAT_SECONDS = 300.0
"""The same FailedScheduling of a pod is reported again after this many seconds."""

GAUGE_SECONDS = 1.0

T = TypeVar("T")

log = structlog.get_logger()


class SchedulingLoop:
    """One task decides. `apply` wakes it after every change."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        state: SchedulerState,
        cycle: BindingCycle,
        metrics: SchedulerMetrics,
        times: PluginTimes,
        *,
        instance: str,
        extenders: Sequence[ExtenderClient] = (),
        name: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        """`instance`: this replica, in events. `name`: makes the name of an event unique."""
        self._kube = kube
        self._clock = clock
        self._state = state
        self._cycle = cycle
        self._events = EventRecorder(kube)
        self._metrics = metrics
        self._times = times
        self._instance = instance
        self._extenders = [each for each in extenders if each.settings.filter_verb or each.settings.prioritize_verb]
        self._undisturbed = asyncio.Lock()
        """Held during a decision in a thread, while the state must not change."""

        self._deferred: list[tuple[Object | None, Object | None]] | None = None
        """Changes that were reported during such a decision; None: there is none."""

        self._decision_seconds = 0.0
        """Duration of the last decision."""

        self._name = name
        self._slots = asyncio.Semaphore(BINDINGS)
        self._changed = asyncio.Event()
        self._stopping = False
        self._ending = asyncio.Event()
        self._reported: dict[str, tuple[str, float]] = {}
        """The last FailedScheduling by uid of the pod, and when it was reported (monotonic)."""

        self._gauged_at = -GAUGE_SECONDS
        self._running = False

    def apply(self, before: Object | None, after: Object | None) -> None:
        """Applies a change that the API server reports; if a decision is under way, after it."""
        if self._deferred is not None:
            self._deferred.append((before, after))
            return
        try:
            self._state.apply(before, after, self._clock.monotonic())
        finally:
            self._changed.set()
            self._report_unreadable(after)

    def _apply_deferred(self, before: Object | None, after: Object | None) -> None:
        """Applies a change that was deferred. If that fails, the object is listed as unreadable, as the reflector does
        for changes that are applied at once."""
        value = after or before
        assert value is not None
        try:
            self.apply(before, after)
        except Exception as error:
            meta, source = value.metadata, f"{value.kind.lower()}s"
            log.exception("a change was not processed", resource=source, object=f"{meta.namespace}/{meta.name}")
            name = object_name(meta.namespace, meta.name)
            self._kube.unreadable.add(source, name, f"its change was not processed: {type(error).__name__}: {error}")

    def _report_unreadable(self, value: Object | None) -> None:
        """Reports to the user of a waiting pod that it is not scheduled because it cannot be read, and why."""
        if not self._running or not isinstance(value, Pod) or not self._state.waits(value):
            return
        value = self._state.as_known(value)
        if not value.metadata.unreadable:
            return
        uid, now = value.metadata.uid, self._clock.monotonic()
        message = f"the pod cannot be read: {value.metadata.unreadable}"
        before, at = self._reported.get(uid, ("", 0.0))
        if before != message or now - at >= REPEAT_SECONDS:
            self._reported[uid] = (message, now)
            self._record(value.spec.scheduler_name, value, pod_events.failed_scheduling(message))

    def stop(self) -> None:
        """No further pod is tried; `run` returns once what was decided is carried out."""
        self._stopping = True
        self._ending.set()
        self._changed.set()

    async def run(self) -> None:
        """Schedules pods until `stop`. When cancelled, pods whose binding is not confirmed return to the queue."""
        self._running = True
        async with asyncio.TaskGroup() as group:
            recording = group.create_task(self._events.run(), name="events")
            async with asyncio.TaskGroup() as attempts:
                while not self._stopping:
                    await self._slots.acquire()
                    self._changed.clear()
                    begun = self._clock.monotonic()
                    attempt = None if self._stopping else await self._decide(begun)
                    if attempt is None:
                        self._slots.release()
                        await self._wait()
                        continue
                    attempts.create_task(self._carry_out(attempt, begun))
                    await asyncio.sleep(0)  # other tasks run: renewals of the Lease, watches, bindings
            await self._events.written()
            recording.cancel()

    async def _decide(self, now: float) -> Attempt | None:
        queued = self._state.next_pod(now)
        attempt = None if queued is None else await self._attempt(queued)
        seconds, slow = self._times.take()
        for (plugin, point), duration in slow.items():
            log.warning("slow plugin", plugin=plugin, extension_point=point, seconds=round(duration, 3))
        if attempt is not None:
            self._metrics.extension_points(attempt, seconds)
            if attempt.failed_plugin:
                log.error("plugin failed", plugin=attempt.failed_plugin, pod=_path(attempt.pod), error=attempt.message)
        if attempt is None or now - self._gauged_at >= GAUGE_SECONDS:
            self._gauged_at = now
            self._metrics.pending(self._state.queue.waiting())
        return attempt

    async def _attempt(self, queued: QueuedPod) -> Attempt:
        snapshot = self._state.cluster.snapshot
        extenders = [each.of_pod(queued.pod, snapshot) for each in self._extenders if each.is_interested(queued.pod)]
        begun = self._clock.monotonic()
        if not extenders and self._decision_seconds < LONG_DECISION_SECONDS:
            attempt = self._outcome(queued, lambda: self._state.decide(queued))
            self._decision_seconds = self._clock.monotonic() - begun
            return attempt
        async with self._undisturbed:
            self._deferred = []
            try:
                deciding = asyncio.create_task(asyncio.to_thread(self._state.decide, queued, extenders))
                await _to_its_end(asyncio.wait([deciding]))
                self._decision_seconds = self._clock.monotonic() - begun
                return self._outcome(queued, deciding.result)
            except asyncio.CancelledError:  # the Lease is lost
                self._state.put_back(queued, self._clock.monotonic())
                raise
            finally:
                deferred, self._deferred = self._deferred, None
                for before, after in deferred:
                    self._apply_deferred(before, after)

    def _outcome(self, queued: QueuedPod, decide: Callable[[], Decision]) -> Attempt:
        """The outcome of a decision. If it raises an error, the pod is tried again later, and the loop continues."""
        try:
            return self._state.attempt(queued, decide())
        except Exception as error:
            log.exception("no decision", pod=_path(queued.pod))
            reason = f"nothing could be decided: {type(error).__name__}: {error}"
            return self._state.attempt(queued, Decision(status=failed(reason)))

    async def _wait(self) -> None:
        """Waits for a change, or until a pod leaves backoff."""
        if self._stopping:
            return
        due = self._state.queue.next_at()
        waits: list[asyncio.Task[Any]] = [asyncio.create_task(self._changed.wait())]
        if due is not None:
            left = max(0.0, due - self._clock.monotonic())
            waits.append(asyncio.create_task(self._clock.sleep(left)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    @asynccontextmanager
    async def _without_slot(self) -> AsyncIterator[None]:
        self._slots.release()
        try:
            yield
        finally:
            await self._slots.acquire()

    async def _carry_out(self, attempt: Attempt, begun: float) -> None:
        try:
            if attempt.result == "scheduled":
                await self._bind(attempt, begun)
            else:
                self._metrics.ended(attempt, attempt.result, self._clock.monotonic() - begun)
                await self._refuse(attempt)
        except Exception:  # it concerns one pod: the others are still scheduled
            log.exception("a decision was not carried out", pod=_path(attempt.pod))
            if self._state.is_in_flight(attempt):
                if attempt.node:
                    self._forget(attempt)
                self._state.give_back(attempt, self._clock.monotonic(), failed=True)
        finally:
            self._slots.release()
            self._changed.set()

    # A node was found

    async def _bind(self, attempt: Attempt, begun: float) -> None:
        pod = attempt.pod
        failure: NotBound | None = None
        try:
            if attempt.waiting is not None:
                await self._permitted(attempt.waiting)
            await self._cycle.bind(attempt, self._without_slot)
        except NotBound as error:
            failure = error
        except BaseException:  # cancelled: the Lease is lost
            self._forget(attempt)
            self._state.give_back(attempt, self._clock.monotonic())
            raise
        if failure is not None:
            await self._not_bound(attempt, failure, begun)
            return
        self._state.bound(attempt)
        self._reported.pop(pod.uid, None)
        self._metrics.ended(attempt, "scheduled", self._clock.monotonic() - begun)
        log.debug("bound", pod=_path(pod), node=attempt.node)
        for each in post_bind(attempt):
            log.error("plugin failed", plugin=each.plugin, pod=_path(pod), error=str(each))
        self._record(attempt.profile, pod.pod, pod_events.scheduled(attempt))

    async def _permitted(self, waiting: WaitingPod) -> None:
        """Returns once all Permit plugins allow the binding. Raises NotBound. Meanwhile, other pods use the slot."""
        decided, loop = asyncio.Event(), asyncio.get_running_loop()

        def decide() -> None:
            loop.call_soon_threadsafe(decided.set)  # a plugin may have a thread of its own

        waiting.on_decision = decide
        uid, begun = waiting.pod.uid, self._clock.monotonic()
        try:
            async with self._without_slot():
                while waiting.status is None and not self._stopping:
                    plugin, seconds = min(waiting.pending.items(), key=itemgetter(1))
                    left = max(0.0, begun + seconds - self._clock.monotonic())
                    try:
                        await run_with_guard(self._until(decided), timeout_after(self._clock, left))
                    except TimeoutError:
                        if plugin in waiting.pending:
                            waited = Duration(seconds)
                            waiting.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")
        finally:
            self._state.cluster.waiting_pods.remove(uid)
        status = waiting.status
        if status is None:
            raise NotBound("the scheduler stops", obsolete=True)
        if status.is_success:
            return
        gone = uid not in self._state.waiting
        if status.is_rejected:
            raise NotBound(one_node_refused(status), status.plugin, obsolete=gone, rejected=True)
        text = f"waiting on permit for pod: {'; '.join(status.reasons)}"
        raise NotBound(text, status.plugin, obsolete=gone)

    async def _until(self, decided: asyncio.Event) -> None:
        """Waits until the event is set, or until the scheduler stops."""
        waits = [asyncio.create_task(each.wait()) for each in (decided, self._ending)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _not_bound(self, attempt: Attempt, failure: NotBound, begun: float) -> None:
        log.warning("not bound", pod=_path(attempt.pod), node=attempt.node, plugin=failure.plugin, error=str(failure))
        async with self._undisturbed:
            self._forget(attempt, rejected=failure.rejected)
        result: Result = "unschedulable" if failure.rejected else "error"
        self._metrics.ended(attempt, result, self._clock.monotonic() - begun)
        try:
            if not failure.obsolete:
                await self._report_failure(attempt, str(failure), error=not failure.rejected)
        finally:
            refused_by = frozenset({failure.plugin}) if failure.rejected else frozenset()
            now = self._clock.monotonic()
            self._state.give_back(attempt, now, refused_by=refused_by)
            if failure.rejected:
                self._state.report_room(attempt, now)

    def _forget(self, attempt: Attempt, *, rejected: bool = False) -> None:
        for failure in self._state.forget(attempt, self._clock.monotonic(), rejected=rejected):
            log.error("plugin failed", plugin=failure.plugin, pod=_path(attempt.pod), error=str(failure))

    # No node was found

    async def _refuse(self, attempt: Attempt) -> None:
        """Carries out a refusal. The pod is in flight until everything is written, so that a preemption is not decided
        twice."""
        failed = True
        try:
            await self._report_failure(attempt, attempt.message, error=attempt.result == "error")
            failed = bool(attempt.nominated) and not await self._preempt(attempt)
        finally:
            self._state.give_back(attempt, self._clock.monotonic(), failed=failed)

    async def _preempt(self, attempt: Attempt) -> bool:
        """Whether all victims are being deleted."""
        log.info(
            "preemption",
            pod=_path(attempt.pod),
            node=attempt.nominated,
            victims=[_path(each) for each in attempt.victims],
        )
        self._metrics.preempted(len(attempt.victims))
        for other in attempt.outranked:
            await self._try(
                self._kube.set_pod_status(other.namespace, other.name, uid=other.uid, nominated_node=""), other
            )
        async with asyncio.TaskGroup() as group:
            deletions = [group.create_task(self._delete(attempt, victim)) for victim in attempt.victims]
        return all(deletion.result() for deletion in deletions)

    async def _delete(self, attempt: Attempt, victim: PodInfo) -> bool:
        assert attempt.nominated is not None
        if victim.terminating:
            return True
        waiting = self._state.cluster.waiting_pods.get(victim.uid)
        if waiting is not None and waiting.preempt(DefaultPreemption.name, "preempted"):
            # It is not bound, and returns to the queue: there is nothing to delete.
            self._record(attempt.profile, victim.pod, pod_events.preempted(attempt.pod, attempt.nominated))
            return True
        condition = pod_events.disruption_target(attempt.profile, self._clock.now())
        try:
            await self._kube.set_pod_status(victim.namespace, victim.name, uid=victim.uid, condition=condition)
            await self._kube.delete(PODS, victim.name, victim.namespace, uid=victim.uid)
        except (NotFound, Conflict):
            return True  # it is gone
        except KubeError as error:
            log.warning("victim not deleted", pod=_path(victim), for_pod=_path(attempt.pod), error=str(error))
            return False
        self._record(attempt.profile, victim.pod, pod_events.preempted(attempt.pod, attempt.nominated))
        return True

    async def _report_failure(self, attempt: Attempt, message: str, *, error: bool) -> None:
        """Writes the event, and the pod's condition and nominated node."""
        pod, now = attempt.pod, self._clock.monotonic()
        nominated = attempt.nominated
        if attempt.node or nominated == "":  # the nomination ends; nothing is written if the pod has none
            nominated = "" if pod.pod.status.nominated_node_name else None
        before, at = self._reported.get(pod.uid, ("", 0.0))
        if before == message and now - at < REPEAT_SECONDS and nominated is None:
            return
        if before != message or now - at >= REPEAT_SECONDS:
            self._record(attempt.profile, pod.pod, pod_events.failed_scheduling(message))
        condition = pod_events.not_scheduled(attempt, error=error, message=message, now=self._clock.now())
        if await self._try(
            self._kube.set_pod_status(
                pod.namespace, pod.name, uid=pod.uid, condition=condition, nominated_node=nominated
            ),
            pod,
        ):
            self._reported[pod.uid] = (message, now)
            if len(self._reported) > 2 * len(self._state.waiting) + 100:
                self._reported = {uid: each for uid, each in self._reported.items() if uid in self._state.waiting}

    def _record(self, scheduler: str, pod: Pod, content: tuple[str, str, str, str]) -> None:
        event = pod_events.event(
            pod, content, now=self._clock.now(), number=self._name(), scheduler=scheduler, instance=self._instance
        )
        self._events.record(event)

    async def _try(self, write: Awaitable[None], pod: PodInfo) -> bool:
        """Whether the status of a pod was written. Also True for a pod that is gone, or was replaced by another of its
        name: it needs no status."""
        try:
            await write
        except (NotFound, Conflict):
            return True
        except KubeError as error:
            log.warning("status not written", pod=_path(pod), error=str(error))
            return False
        return True


async def _to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Returns the result. If cancelled, waits for the thread to end first."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _path(pod: PodInfo) -> str:
    return f"{pod.namespace}/{pod.name}"
