"""The queue of pods that wait for a node. A pod is active, in backoff, unschedulable until a change, or gated.

Source: pkg/scheduler/backend/queue of Kubernetes 1.37. Times are seconds of any one clock.
"""

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Mapping

import msgspec

from equipoise.scheduling.framework.events import ClusterEvent, QueueingHint
from equipoise.scheduling.framework.status import PluginStatus
from equipoise.scheduling.model.pod_info import PodInfo


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The periods of the queue, in seconds."""

    initial_backoff: float = 1.0
    """The backoff after the first failed attempt. It doubles with each further failed attempt."""

    max_backoff: float = 10.0
    longest_wait: float = 300.0
    """The time after which a pod is tried again although nothing changed."""


class QueuedPod(msgspec.Struct, kw_only=True):
    """A pod in the queue, or one that is being scheduled."""

    pod: PodInfo
    added_at: float
    """The time at which the queue received it first."""

    attempts: int = 0
    failed_at: float = 0.0
    refused_by: frozenset[str] = frozenset()
    """Plugins that refused the pod in the last attempt. If empty, the attempt failed for another reason, and every
    event may help the pod."""

    refusals: int = 0
    """The number of attempts that plugins refused."""

    errors: int = 0
    """The number of attempts that ended by errors since the last refusal. Their backoff is counted separately."""

    failed: bool = False
    """Whether the last attempt ended by an error. Then the backoff never ends early, or a lasting error would be
    repeated at once."""

    @property
    def queued_at(self) -> float:
        """The time at which the pod last entered the queue. A refused pod queues behind waiting pods of the same
        priority."""
        return self.failed_at if self.refusals or self.errors else self.added_at


Hold = Callable[[PodInfo], PluginStatus]
"""`Framework.pre_enqueue`."""

SortKey = Callable[[PodInfo, float], tuple[float, ...]]
"""`sort_key` of the QueueSort plugin."""


class SchedulingQueue:
    """Each pod is in one part of the queue. A popped pod is in flight until `done` or `add_unschedulable` is called."""

    def __init__(
        self,
        sort_key: SortKey,
        hold: Hold,
        plugins: Mapping[str, object],
        settings: QueueSettings | None = None,
    ) -> None:
        """`plugins`: the plugins by name, for their queueing hints."""
        self._sort_key = sort_key
        self._hold = hold
        self._plugins = plugins
        self._settings = settings or QueueSettings()
        self._numbers = itertools.count()
        self._active: list[tuple[tuple[float, ...], int, str]] = []
        """A heap of sort keys, each with the number of its entry and a uid. May contain entries that are not valid."""

        self._backoff: list[tuple[float, int, str]] = []
        """The same as `_active`, with the end of the backoff in place of the sort key."""

        self._entries: dict[str, tuple[str, int]] = {}
        """The part of the queue (active, backoff, unschedulable or gated) and the number of the valid entry, by uid."""

        self._unschedulable: dict[str, None] = {}
        """The uids of the pods that are unschedulable, the one that has waited longest first."""

        self._pods: dict[str, QueuedPod] = {}
        self._in_flight: dict[str, tuple[QueuedPod, list[ClusterEvent]]] = {}
        """The popped pods by uid, with the events since they were popped."""

    def __len__(self) -> int:
        """Pods that wait, without those in flight."""
        return len(self._pods)

    def waiting(self) -> Mapping[str, int]:
        """The number of pods in each part of the queue: active, backoff, unschedulable, gated."""
        counts = dict.fromkeys(("active", "backoff", "unschedulable", "gated"), 0)
        for part, _ in self._entries.values():
            counts[part] += 1
        return counts

    def add(self, pod: PodInfo, now: float) -> PluginStatus:
        """Adds a new pod. Returns success, or the reason why the pod is gated until it is updated."""
        return self._put(QueuedPod(pod=pod, added_at=now))

    def update(self, pod: PodInfo, now: float) -> None:
        """Updates a waiting pod. The change may make it schedulable. Pods in flight are updated when their attempt
        ends."""
        queued = self._pods.get(pod.uid)
        if queued is None:
            if pod.uid not in self._in_flight:
                self.add(pod, now)
            return
        event = ClusterEvent(kind="UnscheduledPod", action="update", old=queued.pod, new=pod)
        queued.pod = pod
        part, _ = self._entries[pod.uid]
        if part == "gated":
            self._put(queued)
        elif part == "unschedulable" and self._may_help(queued, event):
            self._retry(queued, now)
        elif part == "active":
            self._activate(queued)

    def remove(self, pod: PodInfo) -> None:
        """Removes a pod that was deleted or has a node. Does nothing for an unknown pod."""
        self._pods.pop(pod.uid, None)
        self._entries.pop(pod.uid, None)
        self._unschedulable.pop(pod.uid, None)
        self._in_flight.pop(pod.uid, None)

    def pop(self, now: float) -> QueuedPod | None:
        """The next pod to schedule; None if no pod is ready. If no pod is active, the backoff of a refused pod ends
        early."""
        self._flush(now)
        queued = self._pop_active() or self._pop_backoff()
        if queued is None:
            return None
        queued.attempts += 1
        self._in_flight[queued.pod.uid] = (queued, [])
        return queued

    def done(self, pod: PodInfo) -> None:
        """Ends the attempt of a pod that found a node."""
        self._in_flight.pop(pod.uid, None)

    def add_unschedulable(
        self, queued: QueuedPod, refused_by: Iterable[str], now: float, *, failed: bool = False
    ) -> None:
        """Adds a pod after an attempt that found no node. Events since it was popped may already help it. `failed`: the
        attempt ended by an error, not by a refusal."""
        attempt = self._in_flight.pop(queued.pod.uid, None)
        if attempt is None:
            return  # the pod was removed meanwhile
        _, events = attempt
        queued.refused_by = frozenset(refused_by)
        # Without a plugin that refused the pod there are no queueing hints, so only the backoff ends the wait.
        failed = failed or not queued.refused_by
        queued.failed_at, queued.failed = now, failed
        queued.errors = queued.errors + 1 if failed else 0
        queued.refusals += not failed
        self._pods[queued.pod.uid] = queued
        if failed or any(self._may_help(queued, event) for event in events):
            self._retry(queued, now)
        else:
            self._put_in("unschedulable", queued)

    def on_event(self, event: ClusterEvent, now: float, *, without: str = "") -> int:
        """Retries the pods that the event may help, except the pod with the uid `without`. Returns their number."""
        for _, events in self._in_flight.values():
            events.append(event)
        waiting = [self._pods[uid] for uid in self._unschedulable if uid != without]
        helped = [queued for queued in waiting if self._may_help(queued, event)]
        for queued in helped:
            self._retry(queued, now)
        return len(helped)

    def next_at(self) -> float | None:
        """The next time at which a pod leaves backoff, or has been unschedulable for `longest_wait`; None if there is
        none."""
        oldest = itertools.islice(self._unschedulable, 1)
        times = [self._pods[uid].failed_at + self._settings.longest_wait for uid in oldest]
        times += [entry[0] for entry in self._backoff if self._is_current("backoff", entry)]
        return min(times, default=None)

    def _put_in(self, part: str, queued: QueuedPod) -> int:
        """Puts a pod into a part of the queue. Returns the number of its entry."""
        number = next(self._numbers)
        self._entries[queued.pod.uid] = (part, number)
        if part == "unschedulable":
            self._unschedulable[queued.pod.uid] = None
        else:
            self._unschedulable.pop(queued.pod.uid, None)
        return number

    def _put(self, queued: QueuedPod) -> PluginStatus:
        self._pods[queued.pod.uid] = queued
        status = self._hold(queued.pod)
        if status.is_success:
            self._activate(queued)
        else:
            self._put_in("gated", queued)
        return status

    def _activate(self, queued: QueuedPod) -> None:
        number = self._put_in("active", queued)
        heapq.heappush(self._active, (self._sort_key(queued.pod, queued.queued_at), number, queued.pod.uid))

    def _retry(self, queued: QueuedPod, now: float) -> None:
        end = self._backoff_end(queued)
        if end <= now:
            self._put(queued)
            return
        number = self._put_in("backoff", queued)
        heapq.heappush(self._backoff, (end, number, queued.pod.uid))

    def _backoff_end(self, queued: QueuedPod) -> float:
        """The end of the backoff, as a whole second: pods whose backoff ends in the same second are ordered by
        priority."""
        count = queued.errors or queued.refusals
        if not count:
            return queued.failed_at
        length = self._settings.initial_backoff * 2.0 ** min(count - 1, 32)
        return float(math.floor(queued.failed_at + min(length, self._settings.max_backoff)))

    def _flush(self, now: float) -> None:
        while self._backoff and (self._backoff[0][0] <= now or not self._is_current("backoff", self._backoff[0])):
            entry = heapq.heappop(self._backoff)
            if self._is_current("backoff", entry):
                self._put(self._pods[entry[2]])
        while (first := next(iter(self._unschedulable), None)) is not None:
            if now - self._pods[first].failed_at < self._settings.longest_wait:
                break
            self._retry(self._pods[first], now)

    def _pop_active(self) -> QueuedPod | None:
        while self._active:
            entry = heapq.heappop(self._active)
            if self._is_current("active", entry):
                return self._take(entry[2])
        return None

    def _pop_backoff(self) -> QueuedPod | None:
        """Pops a pod before its backoff ends, as kube-scheduler does with SchedulerPopFromBackoffQ.

        A pod whose attempt ended by an error is never popped early: kube-scheduler has a separate queue for these.
        """
        failed: list[tuple[float, int, str]] = []
        ready: list[tuple[float, int, str]] = []
        while self._backoff and (not ready or self._backoff[0][0] == ready[0][0]):
            entry = heapq.heappop(self._backoff)
            if not self._is_current("backoff", entry):
                continue
            if self._pods[entry[2]].failed:
                failed.append(entry)
            elif self._hold(self._pods[entry[2]].pod).is_success:
                ready.append(entry)
            else:
                self._put_in("gated", self._pods[entry[2]])
        first = min(ready, key=self._order_of, default=None)
        for entry in (*failed, *ready):
            if entry is not first:
                heapq.heappush(self._backoff, entry)
        return None if first is None else self._take(first[2])

    def _order_of(self, entry: tuple[float, int, str]) -> tuple[tuple[float, ...], int]:
        queued = self._pods[entry[2]]
        return self._sort_key(queued.pod, queued.queued_at), entry[1]

    def _take(self, uid: str) -> QueuedPod:
        del self._entries[uid]
        return self._pods.pop(uid)

    def _is_current(self, part: str, entry: tuple[object, int, str]) -> bool:
        return self._entries.get(entry[2]) == (part, entry[1])

    def _may_help(self, queued: QueuedPod, event: ClusterEvent) -> bool:
        if not queued.refused_by:
            return True
        for name in queued.refused_by:
            plugin = self._plugins.get(name)
            if not isinstance(plugin, QueueingHint) or plugin.may_help(queued.pod, event):
                return True
        return False
