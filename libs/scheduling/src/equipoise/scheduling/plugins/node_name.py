"""NodeName: a pod that names its node fits on no other one."""

from collections.abc import Sequence

import numpy as np

from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.events import ClusterEvent, node_became_suitable
from equipoise.scheduling.framework.plugin import Refusal
from equipoise.scheduling.framework.status import Code
from equipoise.scheduling.model.arrays import Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot

REASON = "node(s) didn't match the requested node name"


class NodeName:
    name = "NodeName"

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Sequence[Refusal]:
        wanted = pod.pod.spec.node_name
        if not wanted:
            return ()
        others = np.array([snapshot.name(row) != wanted for row in rows.tolist()], dtype=np.bool_)
        return (Refusal(nodes=others, reason=REASON, code=Code.UNSCHEDULABLE_AND_UNRESOLVABLE),)

    def may_help(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Whether the node that the pod names was added."""
        return node_became_suitable(event, lambda node: node.metadata.name == pod.pod.spec.node_name)
