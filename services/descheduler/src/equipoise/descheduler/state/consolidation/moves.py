"""The moves of an evaluation away from nodes that are being emptied, within all limits."""

from collections.abc import Sequence

from equipoise.descheduler.decisions.cluster import ClusterView, MovePlan
from equipoise.descheduler.decisions.consolidation.plan import EmptiedNode
from equipoise.descheduler.decisions.planning.target_selection import OUTSCORED
from equipoise.descheduler.state.draft import MOVES_OF_ALL, MOVES_OF_NODE, PlanDraft

STRATEGY = "consolidate"
"""The name of consolidation where others have the name of a strategy."""


def emptying_moves(cluster: ClusterView, nodes: Sequence[EmptiedNode], otherwise: str) -> MovePlan:
    """The next moves away from these nodes. `otherwise`: why there is none if no limit is the reason."""
    draft = PlanDraft(cluster, cluster.windows[:1])
    for emptied in nodes:
        for pod, target in emptied.moves:
            source, row = emptied.node, draft.projection.positions[target.name]
            if draft.room <= 0:
                draft.refuse(None, MOVES_OF_ALL)
                return draft.plan(otherwise)
            if source.source_refusal or draft.room_from(source) <= 0:
                draft.refuse(source, source.source_refusal or MOVES_OF_NODE)
                break
            if pod.protection:
                draft.refuse(source, pod.protection, pod)
                continue
            if draft.busy(pod):
                draft.refuse(source, "another pod of its workload moves first", pod)
                continue
            outscored = draft.projection.outscored(pod, row)
            if outscored is None or outscored[row] or draft.projection.fit.refuses(pod, row):
                draft.refuse(source, OUTSCORED, pod)
                continue
            draft.add(pod, source, target, f"empties {source.name}, which the cluster can do without")
    return draft.plan(otherwise)
