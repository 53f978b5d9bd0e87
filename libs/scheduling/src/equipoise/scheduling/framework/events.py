"""Changes of the cluster that may make an unschedulable pod schedulable."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.scheduling.model.pod_info import PodInfo

Kind = Literal[
    "Pod", "UnscheduledPod", "Node", "PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode", "Other"
]
"""The kind of the changed object. Pod: a pod with a node. UnscheduledPod: a pod that waits for a node."""

Action = Literal["add", "update", "delete"]

ADDED_OR_UPDATED: tuple[Action, ...] = ("add", "update")


class ClusterEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One change. `old` is None for an addition, `new` for a deletion."""

    kind: Kind
    action: Action
    old: Object | PodInfo | None = None
    new: Object | PodInfo | None = None


@runtime_checkable
class QueueingHint(Protocol):
    """A plugin that defines which events may make it accept a pod that it refused."""

    def may_help(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Whether a pod that this plugin refused should be tried again. Without this method, it is tried again after
        every event."""
        ...


def node_became_suitable(event: ClusterEvent, is_suitable: Callable[[Node], bool]) -> bool:
    """Whether a suitable node was added, or a node changed from unsuitable to suitable."""
    if event.kind != "Node" or not isinstance(event.new, Node) or not is_suitable(event.new):
        return False
    return not isinstance(event.old, Node) or not is_suitable(event.old)


def pods_of(event: ClusterEvent) -> Sequence[PodInfo]:
    """The pod before and after the event. Only one of both if it was added or deleted."""
    return [pod for pod in (event.old, event.new) if isinstance(pod, PodInfo)] if event.kind == "Pod" else []


def is_one_of(event: ClusterEvent, events: Mapping[Kind, tuple[Action, ...]]) -> bool:
    return event.action in events.get(event.kind, ())


def changed(event: ClusterEvent, what: Callable[[Any], object]) -> bool:
    """Whether the object was added or removed, or the update changed the value that `what` returns."""
    return event.old is None or event.new is None or what(event.old) != what(event.new)


def is_update_of(event: ClusterEvent, pod: PodInfo) -> bool:
    """Whether the event is a change of this waiting pod."""
    return event.kind == "UnscheduledPod" and isinstance(event.new, PodInfo) and event.new.uid == pod.uid
