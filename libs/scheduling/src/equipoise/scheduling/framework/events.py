"""Changes of the cluster that may make a pod schedulable that was not."""

from typing import Literal, Protocol, runtime_checkable

import msgspec

from equipoise.contracts.kubernetes.objects import Object
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
    """A plugin that refuses pods may tell which events can change that."""

    def may_help(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Whether a pod that this plugin refused should be tried again. Without the method: after every event."""
        ...
