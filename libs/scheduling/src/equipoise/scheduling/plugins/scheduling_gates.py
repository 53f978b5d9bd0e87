"""SchedulingGates: a pod with gates is not scheduled until they are removed."""

from equipoise.scheduling.framework.events import ClusterEvent, is_update_of
from equipoise.scheduling.framework.status import SUCCESS, PluginStatus, unresolvable
from equipoise.scheduling.model.pod_info import PodInfo


class SchedulingGates:
    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> PluginStatus:
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return SUCCESS
        return unresolvable(f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]")

    def may_help(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Whether the pod was changed: its gates may have been removed."""
        return is_update_of(event, pod)
