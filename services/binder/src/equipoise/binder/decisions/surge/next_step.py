"""The next step of a move without a gap, whoever has begun it.

Two rules hold in every stage. A pod is evicted only while its workload is complete without it. It is restored only
while its ReplicaSet has a pod that is not ready: the ReplicaSet then deletes that pod, and none that serves.
"""

from equipoise.binder.decisions.surge.detached_annotations import left_over_text
from equipoise.binder.decisions.surge.observation import (
    ObservedMove,
    creation_problem,
    is_rolling_out,
    needed_pods,
    placed_replacement,
    ready_pods,
    required_period,
    restoring_problem,
)
from equipoise.binder.decisions.surge.step import End, Evict, Place, Record, Restore, Step, Wait
from equipoise.binder.state.surge_move import (
    DETACHED,
    PLACED,
    READY,
    RESERVED,
    RESTORING,
    SurgeMove,
    is_settled,
)
from equipoise.contracts.eviction.surge import TEMPLATE_HASH
from equipoise.contracts.kubernetes.nodes.occupied_nodes import FINISHED
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.messages.eviction import Outcome


def next_step(move: SurgeMove, observed: ObservedMove, now: float) -> Step:
    """The next step. `now`: the earliest time that it can be at the API server.

    A request is only ever returned in the stage that states it, so `Record` precedes it.
    """
    pod = observed.pod
    if pod is None or pod.metadata.uid != move.intent.pod_uid or pod.metadata.deletion_timestamp is not None:
        return _left(move)
    settled = is_settled(move, now)
    owner, attached = pod.metadata.controller, pod.metadata.labels.get(TEMPLATE_HASH) == move.template_hash
    if owner is not None and owner.name != move.replica_set:
        return _when(settled, End(outcome=Outcome.FAILED, detail=f"{owner.kind} {owner.name} has adopted the pod"))
    if owner is not None and attached:
        return _attached(move, pod, settled)
    complete = is_complete(move, observed, now)
    if move.stage == RESERVED:
        return Record(stage=DETACHED)
    if move.stage == READY:
        return Evict() if complete else Record(stage=DETACHED)
    if move.stage == RESTORING:
        ready = complete or is_ready_without(move, observed, now)
        if ready or is_rolling_out(observed) or restoring_problem(move, observed):
            return Record(stage=DETACHED)
        return Wait(why="its ReplicaSet adopts the pod") if attached else Restore()
    if move.stage not in (DETACHED, PLACED):
        return Wait(why=f"a later version has written the stage {move.stage}")
    if (placed := placed_replacement(move, observed)) is not None:
        return Place(replacement=placed.metadata.name, node=placed.spec.node_name, misplaced=observed.misplaced)
    if complete:
        return _when(settled, Record(stage=READY))
    return _while_incomplete(move, observed, now, settled=settled)


def is_complete(move: SurgeMove, observed: ObservedMove, now: float) -> bool:
    """Whether the pod is not needed: the workload has its ready pods without it, or the pod has ended."""
    if observed.pod is not None and observed.pod.status.phase in FINISHED:
        return True
    return ready_pods(observed, now, required_period(observed)) >= needed_pods(move, observed)


def is_ready_without(move: SurgeMove, observed: ObservedMove, now: float) -> bool:
    """Whether the workload has its ready pods without the pod: beside these, a restored pod might be the one that the
    ReplicaSet deletes."""
    return ready_pods(observed, now) >= needed_pods(move, observed)


def _left(move: SurgeMove) -> End:
    """The end of a move whose pod is gone or terminates, by our eviction or by another request."""
    if move.stage == READY:
        but = f", although its replacement runs on {move.replacement_node}: {move.misplaced}" if move.misplaced else ""
        return End(outcome=Outcome.EVICTED, detail=f"moved without a gap{but}")
    return End(outcome=Outcome.ALREADY_GONE, detail="the pod left before its eviction was requested")


def _attached(move: SurgeMove, pod: Pod, settled: bool) -> Step:
    """The step of a move whose pod belongs to its ReplicaSet."""
    left_over = left_over_text(move, pod)
    if move.stage == RESTORING:
        return End(outcome=Outcome.FAILED, detail=f"the pod was restored: {move.why}{left_over}")
    why = "the label was not removed: the binder that reserved the move has ended, or the API server refused it"
    if move.stage != RESERVED:
        why = f"another program has restored the label of the pod{left_over}"
    return _when(settled, End(outcome=Outcome.FAILED, detail=why, begun=move.stage != RESERVED))


def _while_incomplete(move: SurgeMove, observed: ObservedMove, now: float, *, settled: bool) -> Step:
    if is_rolling_out(observed):
        return Wait(why="a rollout replaces the pods of the workload: the pod is evicted when it is complete")
    if is_ready_without(move, observed, now):
        return Wait(why="the replacement has not been ready for minReadySeconds of the workload")
    if why := _restore_reason(move, observed, now):
        if problem := restoring_problem(move, observed):
            return Wait(why=f"{why}, and the pod cannot be restored: {problem}", stuck=True)
        return _when(settled, Record(stage=RESTORING, why=why))
    return Wait(why="the workload is not complete without the pod")


def _restore_reason(move: SurgeMove, observed: ObservedMove, now: float) -> str:
    """Why the pod goes back to its ReplicaSet; empty if the replacement is still waited for."""
    if observed.leaving:
        return f"node {move.intent.node}: {observed.leaving}"
    if observed.switched_off:
        return observed.switched_off
    if why := creation_problem(observed):
        return f"the replacement cannot be created: {why}"
    if move.misplaced:
        return f"the replacement runs on {move.replacement_node}: {move.misplaced}"
    if now >= move.ready_by:
        return "the replacement was not ready in time (surge.readyTimeout)"
    return ""


def _when(settled: bool, step: Step) -> Step:
    """The step, once no request of an earlier stage can arrive any more."""
    return step if settled else Wait(why="a request of the stage before may still arrive")
