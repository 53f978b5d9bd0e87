"""Changes of the cluster that may make a pod schedulable that was not."""

from collections.abc import Callable
from typing import Literal, Protocol, runtime_checkable

import msgspec

from equipoise.contracts.kubernetes.objects import Node, Object
from equipoise.scheduling.model.pod_info import PodInfo

Kind = Literal[
    "Pod", "UnscheduledPod", "Node", "PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode", "Other"
]
"""Pod: one that has a node. UnscheduledPod: the pod itself that waits."""

Action = Literal["add", "update", "delete"]


class ClusterEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One change. `old` is None for an addition, `new` for a deletion."""

    kind: Kind
    action: Action
    old: Object | PodInfo | None = None
    new: Object | PodInfo | None = None


@runtime_checkable
class QueueingHint(Protocol):
    """A plugin that refuses pods may define which events can change that."""

    def may_help(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Whether a pod that this plugin refused should be tried again. Without the method: after every event."""
        ...


def node_helps(event: ClusterEvent, suits: Callable[[Node], bool]) -> bool:
    """A node was added that suits the pod, or changed so that it does now and did not before."""
    if event.kind != "Node" or not isinstance(event.new, Node) or not suits(event.new):
        return False
    return not isinstance(event.old, Node) or not suits(event.old)


def changes_itself(pod: PodInfo, event: ClusterEvent) -> bool:
    """The pod that waits was changed."""
    return event.kind == "UnscheduledPod" and isinstance(event.new, PodInfo) and event.new.uid == pod.uid
