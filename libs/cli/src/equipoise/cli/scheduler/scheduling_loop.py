"""Takes pod after pod from the queue, and carries out what was decided while the next one is tried."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import structlog

from equipoise.cli.scheduler import pod_events
from equipoise.cli.scheduler.binding_cycle import BindingCycle, NotBound, post_bind
from equipoise.cli.scheduler.metrics import SchedulerMetrics
from equipoise.cli.scheduler.scheduler_state import Attempt, SchedulerState
from equipoise.runtime.kubernetes.client import EVENTS, Conflict, Kube, KubeError, NotFound
from equipoise.runtime.process.clock import Clock
from equipoise.scheduling.framework.plugin_times import PluginTimes
from equipoise.scheduling.model.pod_info import PodInfo

BINDINGS = 16
"""Pods whose binding, or whose failure, is written at the same time."""

REPEAT_SECONDS = 300.0
"""The same FailedScheduling of a pod is reported again after so many seconds."""

GAUGE_SECONDS = 1.0

log = structlog.get_logger()


class SchedulingLoop:
    """One task decides. `notify` wakes it after every change."""

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
        name: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        """`instance`: this replica, in events. `name`: makes the name of an event unique."""
        self._kube = kube
        self._clock = clock
        self._state = state
        self._cycle = cycle
        self._metrics = metrics
        self._times = times
        self._instance = instance
        self._name = name
        self._slots = asyncio.Semaphore(BINDINGS)
        self._changed = asyncio.Event()
        self._stopping = False
        self._reported: dict[str, tuple[str, float]] = {}
        """By uid of the pod: the last FailedScheduling, and when it was reported (monotonic)."""

        self._gauged_at = -GAUGE_SECONDS

    def notify(self) -> None:
        self._changed.set()

    def stop(self) -> None:
        """No further pod is tried; `run` returns once what was decided is carried out."""
        self._stopping = True
        self._changed.set()

    async def run(self) -> None:
        """Until `stop`. When it is cancelled, pods whose binding is not confirmed return to the queue."""
        async with asyncio.TaskGroup() as group:
            while not self._stopping:
                await self._slots.acquire()
                self._changed.clear()
                begun = self._clock.monotonic()
                attempt = None if self._stopping else self._decide(begun)
                if attempt is None:
                    self._slots.release()
                    await self._wait()
                    continue
                group.create_task(self._carry_out(attempt, begun))
                await asyncio.sleep(0)  # other tasks run: renewals of the Lease, watches, bindings

    def _decide(self, now: float) -> Attempt | None:
        attempt = self._state.next_attempt(now)
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

    async def _wait(self) -> None:
        """For a change, or until a pod leaves backoff."""
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
        finally:
            self._slots.release()
            self.notify()

    # A node was found

    async def _bind(self, attempt: Attempt, begun: float) -> None:
        pod = attempt.pod
        failure: NotBound | None = None
        try:
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
        await self._record(attempt, pod, pod_events.scheduled(attempt))

    async def _not_bound(self, attempt: Attempt, failure: NotBound, begun: float) -> None:
        log.warning("not bound", pod=_path(attempt.pod), node=attempt.node, plugin=failure.plugin, error=str(failure))
        self._forget(attempt)
        self._metrics.ended(attempt, "error", self._clock.monotonic() - begun)
        try:
            if not failure.obsolete:
                await self._report_failure(attempt, str(failure), error=True)
        finally:
            self._state.give_back(attempt, self._clock.monotonic())

    def _forget(self, attempt: Attempt) -> None:
        for failure in self._state.forget(attempt, self._clock.monotonic()):
            log.error("plugin failed", plugin=failure.plugin, pod=_path(attempt.pod), error=str(failure))

    # No node was found

    async def _refuse(self, attempt: Attempt) -> None:
        """The pod is in flight until all is written, so that a preemption is not decided twice."""
        failed = True
        try:
            await self._report_failure(attempt, attempt.message, error=attempt.result == "error")
            failed = not await self._preempt(attempt) if attempt.nominated else False
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
        if victim.terminating:
            return True
        condition = pod_events.disruption_target(attempt.profile, self._clock.now())
        try:
            await self._kube.set_pod_status(victim.namespace, victim.name, uid=victim.uid, condition=condition)
            await self._kube.delete_pod(victim.namespace, victim.name, uid=victim.uid)
        except (NotFound, Conflict):
            return True  # it is gone
        except KubeError as error:
            log.warning("victim not deleted", pod=_path(victim), for_pod=_path(attempt.pod), error=str(error))
            return False
        assert attempt.nominated is not None
        await self._record(attempt, victim, pod_events.preempted(attempt.pod, attempt.nominated))
        return True

    async def _report_failure(self, attempt: Attempt, message: str, *, error: bool) -> None:
        """The event, and the pod's condition and nominated node."""
        pod, now = attempt.pod, self._clock.monotonic()
        nominated = attempt.nominated
        if attempt.node or nominated == "":
            nominated = "" if pod.pod.status.nominated_node_name else None
        before, at = self._reported.get(pod.uid, ("", 0.0))
        if before == message and now - at < REPEAT_SECONDS and nominated is None:
            return
        if before != message or now - at >= REPEAT_SECONDS:
            await self._record(attempt, pod, pod_events.failed_scheduling(message))
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

    async def _record(self, attempt: Attempt, pod: PodInfo, content: tuple[str, str, str, str]) -> None:
        event = pod_events.event(
            pod, content, now=self._clock.now(), number=self._name(), scheduler=attempt.profile, instance=self._instance
        )
        try:
            await self._kube.create(EVENTS, event)
        except KubeError as error:
            log.debug("event not created", pod=_path(pod), error=str(error))

    async def _try(self, write: Awaitable[None], pod: PodInfo) -> bool:
        """A pod that is gone, or that another one replaced, needs no status."""
        try:
            await write
        except (NotFound, Conflict):
            return True
        except KubeError as error:
            log.warning("status not written", pod=_path(pod), error=str(error))
            return False
        return True


def _path(pod: PodInfo) -> str:
    return f"{pod.namespace}/{pod.name}"
