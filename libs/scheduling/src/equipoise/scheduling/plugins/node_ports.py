"""NodePorts: on a node, a host port can be used by one pod only."""

from collections.abc import Sequence

import numpy as np

from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.events import ClusterEvent
from equipoise.scheduling.framework.plugin import SKIPPED, PreFiltered, Refusal
from equipoise.scheduling.model.arrays import Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot

REASON = "node(s) didn't have free ports for the requested pod ports"


class NodePorts:
    name = "NodePorts"

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot) -> PreFiltered:
        return PreFiltered() if pod.host_ports else SKIPPED

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Sequence[Refusal]:
        occupied = [
            any(wanted.conflicts(used) for used in snapshot.ports_on(row) for wanted in pod.host_ports)
            for row in rows.tolist()
        ]
        return (Refusal(nodes=np.array(occupied, dtype=np.bool_), reason=REASON),)

    def may_help(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Whether a pod with one of the ports was removed, or a node was added."""
        if event.kind == "Pod" and event.action == "delete" and isinstance(event.old, PodInfo):
            return any(wanted.conflicts(used) for used in event.old.host_ports for wanted in pod.host_ports)
        return event.kind == "Node" and event.action == "add"
