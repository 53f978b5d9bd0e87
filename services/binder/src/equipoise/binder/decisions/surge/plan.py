"""Whether a pod is moved without a gap."""

import msgspec

from equipoise.binder.state.ledger import Ledger
from equipoise.binder.state.surge_move import RESERVED, SurgeMove
from equipoise.contracts.eviction.opt_out import DO_NOT_DISRUPT
from equipoise.contracts.eviction.surge import TEMPLATE_HASH, SurgeCandidate
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent


class SurgePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a move without a gap needs to know of the pod that it detaches."""

    workload: Workload
    replica_set: str
    """The name of the ReplicaSet of the pod."""

    template_hash: str
    replicas: int
    """The desired replicas of the Deployment."""

    version: str
    """The resourceVersion of the pod."""

    do_not_disrupt: bool = False
    """See `SurgeMove`."""

    def move(self, intent: EvictionIntent, now: float, timeout: float) -> SurgeMove:
        """The move in its first stage. `timeout`: seconds for the replacement to become ready."""
        return SurgeMove(
            intent=intent,
            workload=self.workload,
            replica_set=self.replica_set,
            template_hash=self.template_hash,
            replicas=self.replicas,
            do_not_disrupt=self.do_not_disrupt,
            stage=RESERVED,
            stage_at=now,
            ready_by=now + timeout,
        )


def plan_of(surge: SurgeCandidate) -> SurgePlan | None:
    """The plan for a pod that no rule refuses; None if its owners are not known."""
    candidate, workload = surge.candidate, surge.candidate.workload
    if workload is None or not candidate.owners:
        return None
    metadata = candidate.pod.metadata
    return SurgePlan(
        workload=workload,
        replica_set=candidate.owners[0].metadata.name,
        template_hash=metadata.labels[TEMPLATE_HASH],
        replicas=candidate.replicas,
        version=metadata.resource_version,
        do_not_disrupt=DO_NOT_DISRUPT not in metadata.annotations,
    )


def slot_refusal(ledger: Ledger, workload: Workload, max_moves: int) -> str:
    """Why no further move may begin; empty if one may."""
    if any(move.workload == workload for move in ledger.surge_moves):
        return f"a pod of {workload} is being moved without a gap"
    count = len(ledger.surge_moves)
    return f"{count} of {max_moves} pods are being moved without a gap (surge.maxMoves)" if count >= max_moves else ""
