"""NodeUnschedulable: cordoned nodes, unless the pod tolerates the taint that they get."""

from collections.abc import Sequence

from equipoise.contracts.kubernetes.nodes.taints import UNSCHEDULABLE, tolerates
from equipoise.contracts.kubernetes.objects.node import Taint
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.events import ClusterEvent, is_update_of, node_became_suitable
from equipoise.scheduling.framework.plugin import Refusal
from equipoise.scheduling.framework.status import Code
from equipoise.scheduling.model.arrays import Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot

REASON = "node(s) were unschedulable"
TAINT = Taint(key=UNSCHEDULABLE, effect="NoSchedule")


class NodeUnschedulable:
    name = "NodeUnschedulable"

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Sequence[Refusal]:
        cordoned = snapshot.cordoned
        if cordoned is None or tolerates(pod.pod.spec.tolerations, TAINT):
            return ()
        return (Refusal(nodes=cordoned.take(rows), reason=REASON, code=Code.UNSCHEDULABLE_AND_UNRESOLVABLE),)

    def may_help(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Whether a node became suitable: it is not cordoned."""
        return is_update_of(event, pod) or node_became_suitable(event, lambda node: not node.spec.unschedulable)
