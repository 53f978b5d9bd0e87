"""The state of the scheduler: the cluster, the waiting pods and the attempts. It does no I/O and reads no clock.

A pod for which a node was found is assumed: the snapshot has it on that node until the API server reports its node, or
until its binding fails and it is forgotten.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from equipoise.contracts.kubernetes.nodes.occupied_nodes import FINISHED, occupies_node
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.objects.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from equipoise.contracts.unreadable.known_amounts import unknown_node, unknown_pod
from equipoise.scheduler.state.attempt import Attempt, message_of
from equipoise.scheduler.state.queue_plugins import QueuePlugins
from equipoise.scheduling.cluster_scheduler import ClusterScheduler
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.events import ClusterEvent, Kind
from equipoise.scheduling.framework.framework import Framework
from equipoise.scheduling.framework.plugin import Permit
from equipoise.scheduling.framework.plugin_calls import PluginFailed
from equipoise.scheduling.framework.queue import QueuedPod, QueueSettings, SchedulingQueue
from equipoise.scheduling.framework.status import SUCCESS, Code, PluginStatus, failed
from equipoise.scheduling.framework.waiting_pods import LONGEST_WAIT, WaitingPod
from equipoise.scheduling.model.pod_info import PodInfo, PodReader
from equipoise.scheduling.scheduler import Decision, Extender

KIND_OF: Mapping[type[Object], Kind] = {
    Node: "Node",
    PersistentVolume: "PersistentVolume",
    PersistentVolumeClaim: "PersistentVolumeClaim",
    StorageClass: "StorageClass",
    CSINode: "CSINode",
    Namespace: "Other",
    VolumeAttachment: "Other",
}
"""The kind of an object in events. Changes of other objects make no pod schedulable."""


class SchedulerState:
    """The cluster, the queue and the attempts. `apply` updates them with every change that the API server reports."""

    def __init__(
        self,
        cluster: ClusterScheduler,
        settings: QueueSettings | None = None,
        *,
        failure: Callable[[PluginFailed], None] = lambda error: None,
    ) -> None:
        """`failure` is called for a plugin that fails in the queue, where no attempt can report it."""
        self.cluster = cluster
        self.assumed: dict[str, PodInfo] = {}
        """The assumed pods by UID, with their node set."""

        self.waiting: dict[str, PodInfo] = {}
        """Pods of these schedulers without a node, by uid, as last reported."""

        self._reader = PodReader()
        self._nodes: dict[str, Node] = {}
        """Nodes by name, as reported."""

        self._used_nodes: dict[str, Node] = {}
        """Nodes by name, as in `cluster`: some count as cordoned (see `_apply_node`)."""

        self._unreadable_on: dict[str, set[str]] = {}
        """UIDs of unreadable pods by node. What is free on such a node is not known: it gets no further pods."""

        self._marked: dict[str, Pod] = {}
        """Replacements of pods whose amounts cannot be read, by UID."""

        self._attempts: dict[str, Attempt] = {}
        self._frameworks = {name: scheduler.framework for name, scheduler in cluster.schedulers.items()}
        plugins = QueuePlugins(self._frameworks, failure)
        self.queue = SchedulingQueue(plugins.sort_key, plugins.hold, plugins.hints(), settings)

    @property
    def in_flight(self) -> int:
        return len(self._attempts)

    def apply(self, before: Object | None, after: Object | None, now: float) -> None:
        """Applies a change: an object was added (`before` is None), changed or removed (`after` is None). `now`:
        seconds of any one clock.

        Raises ValueError for an object with an invalid quantity, which is then kept as one that cannot be read.
        """
        item = after if after is not None else before
        assert item is not None
        if isinstance(item, Pod):
            assert before is None or isinstance(before, Pod)
            self._apply_readable(before, after if isinstance(after, Pod) else None, now)
            return
        if isinstance(item, Node):
            self._apply_node(item.metadata.name, after if isinstance(after, Node) else None, now)
            return
        if after is None:
            self.cluster.remove(item)
        else:
            self.cluster.put(after)
        if (kind := KIND_OF.get(type(item))) is not None and _scheduling_part(before) != _scheduling_part(after):
            self._report(kind, before, after, now)

    def waits(self, pod: Pod) -> bool:
        """Whether the pod waits for a node that one of these schedulers chooses."""
        ours = pod.spec.scheduler_name in self._frameworks
        return ours and not pod.spec.node_name and pod.status.phase not in FINISHED

    def as_known(self, pod: Pod) -> Pod:
        """The pod as this state has it: itself, or the pod marked as unreadable that replaces it."""
        return self._marked.get(pod.metadata.uid, pod)

    def is_in_flight(self, attempt: Attempt) -> bool:
        return attempt.pod.uid in self._attempts

    def _apply_node(self, name: str, after: Node | None, now: float) -> None:
        """Applies a change of a node. A node that cannot be read, or that has such a pod, counts as cordoned."""
        before = self._used_nodes.get(name)
        if after is None:
            self._nodes.pop(name, None)
            if self._used_nodes.pop(name, None) is not None and before is not None:
                self.cluster.remove(before)
                self._report("Node", before, None, now)
            return
        self._nodes[name] = after
        if after.metadata.unreadable or self._unreadable_on.get(name):
            after = msgspec.structs.replace(after, spec=msgspec.structs.replace(after.spec, unschedulable=True))
        try:
            self.cluster.put(after)
        except ValueError as error:
            self._apply_node(name, unknown_node(after, str(error)), now)
            raise
        self._used_nodes[name] = after
        if _scheduling_part(before) != _scheduling_part(after):
            self._report("Node", before, after, now)

    def _apply_readable(self, before: Pod | None, after: Pod | None, now: float) -> None:
        """Applies a change of a pod. A pod with amounts that cannot be read is replaced by one that is marked as
        unreadable."""
        if before is not None:
            before = self._marked.pop(before.metadata.uid, before)
        try:
            self._apply_pod(before, after, now)
        except ValueError as error:
            if after is None or after.metadata.unreadable:
                raise
            marked = self._marked[after.metadata.uid] = unknown_pod(after, str(error))
            self._apply_pod(before, marked, now)
            raise
        finally:
            self._count_unreadable(before, None if after is None else self._marked.get(after.metadata.uid, after), now)

    def _count_unreadable(self, before: Pod | None, after: Pod | None, now: float) -> None:
        changed = set[str]()
        for pod, counts in ((before, False), (after, True)):
            if pod is not None and pod.metadata.unreadable and occupies_node(pod):
                uids = self._unreadable_on.setdefault(pod.spec.node_name, set())
                (uids.add if counts else uids.discard)(pod.metadata.uid)
                changed.add(pod.spec.node_name)
        for name in changed:
            if not self._unreadable_on[name]:
                del self._unreadable_on[name]
            if name in self._nodes:
                self._apply_node(name, self._nodes[name], now)

    # Attempts

    def next_pod(self, now: float) -> QueuedPod | None:
        """The next pod to decide about; None if no pod is ready."""
        while (queued := self.queue.pop(now)) is not None:
            pod = self.waiting.get(queued.pod.uid)
            if pod is None or pod.terminating:
                self.queue.done(queued.pod)
                continue
            queued.pod = pod
            return queued
        return None

    def decide(self, queued: QueuedPod, extenders: Sequence[Extender] = ()) -> Decision:
        """The decision about the pod. Only reads the state, which must not change meanwhile."""
        return self.cluster.decide(queued.pod, extenders)

    def put_back(self, queued: QueuedPod, now: float) -> None:
        """Returns a pod to the queue after an interrupted decision: it is tried again after its backoff."""
        self.queue.add_unschedulable(queued, (), now, failed=True)

    def attempt(self, queued: QueuedPod, decision: Decision) -> Attempt:
        """Applies a decision: the pod is assumed on its node, or nominated."""
        attempt = self._attempts[queued.pod.uid] = self._attempt(queued, queued.pod, decision)
        return attempt

    def bound(self, attempt: Attempt) -> None:
        """Records that the API server accepted the binding. The pod remains assumed until its change is reported."""
        self._attempts.pop(attempt.pod.uid, None)
        self.queue.done(attempt.pod)

    def forget(self, attempt: Attempt, now: float, *, rejected: bool = False) -> list[PluginFailed]:
        """Ends the assumption of a pod whose binding failed. Returns the errors of plugins. Call `give_back`
        afterwards.

        With `rejected`, call `report_room` after that: the space that the pod leaves is then no reason to try the pod
        itself again.
        """
        assert attempt.state is not None
        errors = attempt.framework.unreserve(attempt.state, attempt.pod, attempt.node)
        placed = self.assumed.pop(attempt.pod.uid, None)
        if placed is not None:
            self.cluster.remove_pod(placed)
            if not rejected:
                self._report("Pod", placed, None, now)
        return errors

    def report_room(self, attempt: Attempt, now: float) -> None:
        """Tries the other pods again that may fit in the room which this pod leaves."""
        event = ClusterEvent(kind="Pod", action="delete", old=attempt.pod.on_node(attempt.node), new=None)
        self.queue.on_event(event, now, without=attempt.pod.uid)

    def give_back(
        self, attempt: Attempt, now: float, *, failed: bool = False, refused_by: frozenset[str] = frozenset()
    ) -> None:
        """Returns the pod to the queue. There it waits for an event, or after an error (`failed`) for its backoff only.

        `refused_by`: plugins that refused the pod after the attempt.
        """
        failed = failed or (attempt.result != "unschedulable" and not refused_by)
        refused_by = refused_by or attempt.refused_by
        self._attempts.pop(attempt.pod.uid, None)
        pod = self.waiting.get(attempt.pod.uid)
        if pod is None or pod.terminating:
            self.queue.remove(attempt.pod)
            return
        attempt.queued.pod = pod
        self.queue.add_unschedulable(attempt.queued, refused_by, now, failed=failed)

    def _attempt(self, queued: QueuedPod, pod: PodInfo, decision: Decision) -> Attempt:
        framework = self._frameworks[pod.pod.spec.scheduler_name]
        if decision.node:
            assert decision.state is not None
            status, pending = _reserve(framework, decision.state, pod, decision.node)
            if status.is_success:
                self.cluster.nominated.remove(pod)
                self._assume(pod, decision.node)
                waiting = None
                if pending:
                    waiting = WaitingPod(pod, decision.node, pending)
                    self.cluster.waiting_pods.add(waiting)
                return Attempt(
                    queued=queued, pod=pod, framework=framework, result="scheduled", node=decision.node,
                    state=decision.state, waiting=waiting,
                )  # fmt: skip
            decision = Decision(status=status)
        return self._refused(queued, pod, framework, decision)

    def _refused(self, queued: QueuedPod, pod: PodInfo, framework: Framework, decision: Decision) -> Attempt:
        status, preemption = decision.status or SUCCESS, decision.preemption
        error = status.code == Code.ERROR
        refused_by = decision.diagnosis.plugins if decision.diagnosis else frozenset({status.plugin})
        nominated: str | None = None
        outranked: tuple[PodInfo, ...] = ()
        if preemption is not None and preemption.node:
            nominated = preemption.node
            outranked = tuple(self.cluster.nominated.preempt(pod, preemption.node))
        elif error or (preemption is not None and preemption.clear_nomination):
            self.cluster.nominated.remove(pod)
            nominated = ""
        return Attempt(
            queued=queued,
            pod=pod,
            framework=framework,
            result="error" if error else "unschedulable",
            message=message_of(decision, len(self.cluster.snapshot.rows)),
            failed_plugin=status.plugin if error else "",
            refused_by=refused_by - {""},
            nominated=nominated,
            victims=preemption.victims if preemption is not None else (),
            outranked=outranked,
        )

    def _assume(self, pod: PodInfo, node: str) -> None:
        placed = self.assumed[pod.uid] = pod.on_node(node)
        self.cluster.put_pod(placed)

    # Pods

    def _apply_pod(self, before: Pod | None, after: Pod | None, now: float) -> None:
        ran, runs = before is not None and occupies_node(before), after is not None and occupies_node(after)
        if after is not None and after.metadata.unreadable and self.waits(after):
            self._stop_waiting(after, now)  # what it needs is not known
            return
        if runs:
            assert after is not None
            pod = self._parsed(before, after)
            self._leave(pod, now)
            self.cluster.put_pod(pod)
            if not ran:
                self._report("Pod", None, pod, now)
            elif _scheduling_part(before) != _scheduling_part(after):
                assert before is not None
                self._report("Pod", PodInfo(before), pod, now)
        elif ran:
            assert before is not None
            self.cluster.remove(before)
            self._report("Pod", PodInfo(before), None, now)
        elif after is None or after.status.phase in FINISHED:
            pod = PodInfo(after or before)  # type: ignore[arg-type]  # one of them is not None
            if self._leave(pod, now):
                self._report("Pod", pod, None, now)
        elif after.spec.scheduler_name in self._frameworks:
            self._wait(before, self._parsed(before, after), now)

    def _stop_waiting(self, pod: Pod, now: float) -> None:
        waiting = self.assumed.get(pod.metadata.uid) or self.waiting.get(pod.metadata.uid)
        if waiting is not None and self._leave(waiting, now):
            self._report("Pod", waiting, None, now)

    def _parsed(self, before: Pod | None, after: Pod) -> PodInfo:
        """Parses only what has changed since the last report, or since the pod was assumed."""
        uid = after.metadata.uid
        parsed = self.assumed.get(uid) or self.waiting.get(uid)
        if parsed is None and before is not None:
            parsed = self.cluster.pod(uid, before.spec.node_name)
        return self._reader.read(after) if parsed is None else parsed.updated(after)

    def _leave(self, pod: PodInfo, now: float) -> bool:
        """Records that the pod no longer waits. Returns whether this frees room on a node."""
        self.waiting.pop(pod.uid, None)
        self.queue.remove(pod)
        if (waiting := self.cluster.waiting_pods.get(pod.uid)) is not None:
            waiting.reject("", "removed")
        placed = self.assumed.pop(pod.uid, None)
        remains = placed is not None and occupies_node(pod.pod) and placed.pod.spec.node_name == pod.pod.spec.node_name
        if placed is not None and not remains:
            self.cluster.remove_pod(placed)
        nominated = self.cluster.nominated.node_of(pod)
        self.cluster.nominated.remove(pod)
        return placed is not None or bool(nominated)

    def _wait(self, before: Pod | None, pod: PodInfo, now: float) -> None:
        was_waiting = pod.uid in self.waiting
        self.waiting[pod.uid] = pod
        if pod.uid in self.assumed:
            return
        if not was_waiting:
            if pod.pod.status.nominated_node_name:
                self.cluster.nominated.add(pod, pod.pod.status.nominated_node_name)
            self.queue.add(pod, now)
        elif _scheduling_part(before) != _scheduling_part(pod.pod):
            if pod.uid in self._attempts:
                self._report("UnscheduledPod", None, pod, now)
            else:
                self.queue.update(pod, now)

    # Queue

    def _report(self, kind: Kind, before: Any, after: Any, now: float) -> None:
        action: Literal["add", "update", "delete"] = "update"
        if before is None and kind != "UnscheduledPod":
            action = "add"
        elif after is None:
            action = "delete"
        self.queue.on_event(ClusterEvent(kind=kind, action=action, old=before, new=after), now)


def _reserve(
    framework: Framework, state: CycleState, pod: PodInfo, node: str
) -> tuple[PluginStatus, Mapping[str, float]]:
    """Calls the Reserve and Permit plugins. If one of them refuses, nothing stays reserved. If none does, also
    returns the plugins for which the pod has to wait, and for how many seconds."""
    pending: dict[str, float] = {}
    try:
        status = framework.reserve(state, pod, node)
    except PluginFailed as error:
        return PluginStatus(code=Code.ERROR, reasons=(str(error),), plugin=error.plugin), pending
    if not status.is_success:
        return status, pending
    for plugin in framework.plugins("permit"):
        assert isinstance(plugin, Permit)
        try:
            status, seconds = plugin.permit(state, pod, node)
            if status.code == Code.WAIT:
                pending[plugin.name] = min(float(seconds), LONGEST_WAIT)
                continue
        except Exception as error:
            status = failed(str(PluginFailed.by(plugin, "permit", error)))
        if not status.is_success:
            framework.unreserve(state, pod, node)
            return msgspec.structs.replace(status, plugin=plugin.name), {}
    return SUCCESS, pending


def _scheduling_part(item: Object | None) -> object:
    """The part of an object that may make a pod schedulable. It excludes status conditions, which change every few
    seconds."""
    match item:
        case None:
            return None
        case Node():
            return item.metadata.labels, item.metadata.annotations, item.spec, item.status.allocatable
        case Pod():
            return item.metadata.labels, item.spec, item.metadata.deletion_timestamp
        case Namespace():
            return item.metadata.labels
        case _:
            return item
