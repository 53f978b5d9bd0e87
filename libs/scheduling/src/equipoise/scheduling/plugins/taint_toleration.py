"""TaintToleration: NoSchedule and NoExecute taints refuse pods, PreferNoSchedule taints lower the score of a node."""

from collections.abc import Sequence

import numpy as np

from equipoise.contracts.kubernetes.nodes.taints import BLOCKING_EFFECTS, tolerates
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.events import ClusterEvent, is_update_of, node_became_suitable
from equipoise.scheduling.framework.plugin import Refusal
from equipoise.scheduling.framework.status import Code
from equipoise.scheduling.model.arrays import Ints, Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.normalization import normalized

REASON = "node(s) had untolerated taint(s)"


class TaintToleration:
    name = "TaintToleration"

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Sequence[Refusal]:
        untolerated = snapshot.untolerated(pod.pod.spec.tolerations)
        if untolerated is None or not np.count_nonzero(nodes := untolerated.take(rows)):
            return ()
        return (Refusal(nodes=nodes, reason=REASON, code=Code.UNSCHEDULABLE_AND_UNRESOLVABLE),)

    def score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Ints:
        """The number of PreferNoSchedule taints that the pod does not tolerate."""
        untolerated = snapshot.untolerated_preferences(pod.pod.spec.tolerations)
        return np.zeros(len(rows), dtype=np.int64) if untolerated is None else untolerated.take(rows)

    def normalize(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows, scores: Ints) -> Ints:
        return normalized(scores, reverse=True)

    def may_help(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Whether the pod now tolerates the taints of a node."""
        tolerations = pod.pod.spec.tolerations
        return is_update_of(event, pod) or node_became_suitable(
            event,
            lambda node: all(
                taint.effect not in BLOCKING_EFFECTS or tolerates(tolerations, taint) for taint in node.spec.taints
            ),
        )
