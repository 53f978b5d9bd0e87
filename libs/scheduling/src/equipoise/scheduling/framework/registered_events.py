"""Which changes of the cluster may help a pod that was refused by a plugin without a queueing hint of its own.

Source: `EventsToRegister` of the plugins of Kubernetes 1.36. What their queueing hints compare in addition is left out:
a pod is tried more often than there, and never less.
"""

from collections.abc import Mapping

import msgspec

from equipoise.scheduling.framework.events import Action, ClusterEvent, Kind, changes_itself
from equipoise.scheduling.model.pod_info import PodInfo

Registered = Mapping[Kind, tuple[Action, ...]]

_CHANGED: tuple[Action, ...] = ("add", "update")
_EVERY: tuple[Action, ...] = ("add", "update", "delete")

REGISTERED: Mapping[str, Registered] = {
    "VolumeRestrictions": {"Node": _CHANGED, "Pod": ("update", "delete"), "PersistentVolumeClaim": _CHANGED},
    "NodeVolumeLimits": {
        "Node": _CHANGED, "Pod": ("update", "delete"), "PersistentVolumeClaim": _CHANGED, "CSINode": _CHANGED,
        "Other": _EVERY,
    },
    "VolumeBinding": {
        "Node": _CHANGED, "PersistentVolumeClaim": _CHANGED, "PersistentVolume": _CHANGED, "StorageClass": _CHANGED,
        "CSINode": _CHANGED,
    },
    "VolumeZone": {
        "Node": _CHANGED, "PersistentVolumeClaim": _CHANGED, "PersistentVolume": _CHANGED, "StorageClass": _CHANGED,
    },
    "PodTopologySpread": {"Node": _EVERY, "Pod": _EVERY},
    "InterPodAffinity": {"Node": _CHANGED, "Pod": _EVERY, "Other": _EVERY},
    "SchedulingGates": {},
}  # fmt: skip
"""By plugin. Other: Namespaces and VolumeAttachments. A change of the pod itself may help with every plugin."""


class RegisteredEvents(msgspec.Struct, frozen=True, kw_only=True):
    """A QueueingHint for a plugin that has none of its own."""

    events: Registered

    def may_help(self, pod: PodInfo, event: ClusterEvent) -> bool:
        return changes_itself(pod, event) or event.action in self.events.get(event.kind, ())
