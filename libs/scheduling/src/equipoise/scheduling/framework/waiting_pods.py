"""Pods that have a node, but wait until Permit plugins allow them to be bound there."""

from collections.abc import Callable, Iterator, Mapping

from equipoise.scheduling.framework.status import SUCCESS, Code, PluginStatus
from equipoise.scheduling.model.pod_info import PodInfo

LONGEST_WAIT = 15 * 60.0
"""Seconds that a plugin may let a pod wait; longer times are shortened, as in kube-scheduler."""


class WaitingPod:
    """A pod that waits until all pending plugins allow it, or one rejects it."""

    def __init__(self, pod: PodInfo, node: str, pending: Mapping[str, float]) -> None:
        """`pending`: the seconds after which a plugin rejects the pod, by name of the plugin."""
        self.pod = pod
        self.node = node
        """The node on which resources are reserved for the pod."""

        self._pending = dict(pending)
        self.status: PluginStatus | None = None
        """The status of the decision; None while the pod waits."""

        self.on_decision: Callable[[], None] = lambda: None
        """A function that is called once, when there is a decision."""

    @property
    def pending(self) -> Mapping[str, float]:
        """The plugins that have not allowed the pod yet, with their seconds."""
        return self._pending

    def allow(self, plugin: str) -> None:
        """Allows the pod. Does nothing for a plugin that is not pending, or after a decision."""
        self._pending.pop(plugin, None)
        if not self._pending:
            self._decide(SUCCESS)

    def reject(self, plugin: str, why: str) -> bool:
        """Rejects the pod, which is unschedulable until an event helps. Returns False after an earlier decision."""
        return self._decide(PluginStatus(code=Code.UNSCHEDULABLE, reasons=(why,), plugin=plugin))

    def preempt(self, plugin: str, why: str) -> bool:
        """Rejects the pod, but it is tried again after its backoff. Returns False after an earlier decision."""
        return self._decide(PluginStatus(code=Code.ERROR, reasons=(why,), plugin=plugin))

    def _decide(self, status: PluginStatus) -> bool:
        if self.status is not None:
            return False
        self.status = status
        self.on_decision()
        return True


class WaitingPods:
    """The waiting pods of all profiles, by uid. Plugins access them as `Handle.waiting_pods`."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def add(self, pod: WaitingPod) -> None:
        self._pods[pod.pod.uid] = pod

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)
