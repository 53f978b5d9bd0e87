"""The next step of a move without a gap, for each state that a binder may find."""

import random
from typing import Any

import msgspec
import pytest
from binder.replica_sets import Controllers, a_move, observed
from builders import NOW

from equipoise.binder.decisions.surge.next_step import next_step
from equipoise.binder.decisions.surge.observation import node_leaving
from equipoise.binder.decisions.surge.step import End, Evict, Place, Record, Restore, Step, Wait
from equipoise.binder.state.surge_move import (
    DETACH_LIFETIME,
    DETACHED,
    PLACED,
    READY,
    RESERVED,
    RESTORING,
    STEP_LIFETIME,
    SurgeMove,
    with_refused_request,
)
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.contracts.eviction.opt_out import DO_NOT_DISRUPT
from equipoise.contracts.kubernetes.objects.metadata import Condition
from equipoise.contracts.kubernetes.objects.node import Node, NodeSpec, Taint
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.kubernetes.client import DEPLOYMENTS, PODS, REPLICA_SETS
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

LATER = NOW + STEP_LIFETIME
PLACEMENT = {"replacement": "web-rs-new-1", "replacement_node": "node-b"}
STAGES = (RESERVED, DETACHED, PLACED, READY, RESTORING)


def a_cluster(replicas: int = 1) -> Controllers:
    clock = ManualClock(now=NOW)
    return Controllers(MemoryKube(clock), clock, replicas, random.Random(0))


def detached(replicas: int = 1, *, bound: bool = False, ready: bool = False) -> Controllers:
    """A cluster whose pod web-1 is detached."""
    cluster = a_cluster(replicas)
    cluster.detach("web-1")
    cluster.synchronize()
    if bound or ready:
        cluster.bind("web-rs-new-1")
    if ready:
        cluster.set_ready("web-rs-new-1")
    return cluster


def step(cluster: Controllers, move: SurgeMove, now: float = LATER, **fields: Any) -> Step:
    return next_step(move, observed(cluster, move, **fields), now)


@pytest.mark.parametrize("stage", STAGES)
def test_an_evicted_pod_ends_the_move(stage: str) -> None:
    cluster = detached(ready=True)
    cluster.kube.remove(PODS, "web-1", "shop")
    result = step(cluster, a_move(stage=stage), NOW)
    assert isinstance(result, End)
    assert result.outcome == (Outcome.EVICTED if stage == READY else Outcome.ALREADY_GONE)


def test_the_outcome_states_that_the_replacement_runs_where_it_should_not() -> None:
    cluster = detached(ready=True)
    cluster.kube.remove(PODS, "web-1", "shop")
    result = step(cluster, a_move(stage=READY, misplaced="too hot", **PLACEMENT), NOW)
    assert result == End(
        outcome=Outcome.EVICTED, detail="moved without a gap, although its replacement runs on node-b: too hot"
    )


@pytest.mark.parametrize("stage", STAGES)
def test_another_pod_with_the_same_name_ends_the_move(stage: str) -> None:
    cluster = a_cluster()
    move = a_move(stage=stage)
    cluster.kube.remove(PODS, "web-1", "shop")
    cluster.synchronize()
    assert isinstance(step(cluster, move), End)


def test_a_removed_label_is_recorded_before_anything_else() -> None:
    assert step(detached(ready=True), a_move(), NOW) == Record(stage=DETACHED)


def test_a_label_that_was_never_removed_ends_the_move_when_no_request_can_arrive_any_more() -> None:
    """The request may take as long as an API server works on one. It cannot arrive if it was refused."""
    cluster, move = a_cluster(), a_move()
    for now in (NOW + 1, NOW + STEP_LIFETIME, NOW + DETACH_LIFETIME - 1):
        assert isinstance(step(cluster, move, now), Wait)
    for result in (step(cluster, move, NOW + DETACH_LIFETIME), step(cluster, with_refused_request(move), NOW)):
        assert isinstance(result, End)
        assert (result.outcome, result.begun) == (Outcome.FAILED, False)


def test_a_pod_that_is_not_yet_released_is_waited_for() -> None:
    cluster, move = a_cluster(), a_move(stage=DETACHED)
    cluster.set_hash("web-1", "")
    assert isinstance(step(cluster, move), Wait)


def test_a_bound_replacement_is_recorded() -> None:
    expected = Place(replacement="web-rs-new-1", node="node-b", misplaced="too hot")
    assert step(detached(bound=True), a_move(stage=DETACHED), NOW, misplaced="too hot") == expected


def test_no_replica_that_ran_already_is_taken_for_a_replacement_that_is_not_created_yet() -> None:
    """It may run on the node that the pod leaves, and the move would be given up."""
    cluster = a_cluster(replicas=3)
    cluster.detach("web-1")
    cluster.release("web-1")
    move = a_move(3, stage=DETACHED)
    assert isinstance(step(cluster, move, NOW, misplaced="the pod was to leave this node"), Wait)
    cluster.synchronize()
    assert isinstance(step(cluster, move, NOW), Wait)
    cluster.bind("web-rs-new-1")
    assert step(cluster, move, NOW) == Place(replacement="web-rs-new-1", node="node-b", misplaced="")


@pytest.mark.parametrize("stage", [DETACHED, PLACED])
def test_a_replacement_that_was_placed_anew_is_judged_before_anything_else(stage: str) -> None:
    """Also one that is ready at once, so that the outcome states where it runs."""
    cluster = detached(ready=True)
    move = a_move(stage=stage, replacement="web-rs-new-0", replacement_node="node-c", stage_at=0.0)
    assert isinstance(step(cluster, move, NOW), Place)
    placed = Place(replacement="web-rs-new-1", node="node-b").applied(move, NOW)
    assert step(cluster, placed, NOW) == Record(stage=READY)


def test_the_eviction_is_recorded_before_it_is_requested() -> None:
    cluster = detached(ready=True)
    assert step(cluster, a_move(stage=PLACED, **PLACEMENT)) == Record(stage=READY)
    assert step(cluster, a_move(stage=READY)) == Evict()


def test_a_replacement_counts_when_it_has_been_ready_for_the_time_that_the_workload_requires() -> None:
    cluster = patient(detached(ready=True))
    move = a_move(stage=PLACED, replacement="web-rs-new-1", replacement_node="node-b")
    assert isinstance(step(cluster, move, NOW + 59), Wait)
    assert step(cluster, move, NOW + 60) == Record(stage=READY)


def patient(cluster: Controllers, period: int = 60) -> Controllers:
    """The cluster with `minReadySeconds` of the Deployment."""
    deployment = cluster.deployment
    assert deployment is not None
    spec = msgspec.structs.replace(deployment.spec, min_ready_seconds=period)
    cluster.put_deployment(msgspec.structs.replace(deployment, spec=spec))
    return cluster


@pytest.mark.parametrize("stage", [PLACED, RESTORING])
def test_no_pod_is_restored_beside_a_replacement_that_is_ready_for_less_than_that_time(stage: str) -> None:
    """The ReplicaSet would choose which of the two it deletes."""
    move = a_move(stage=stage, ready_by=NOW + 10, misplaced="too hot", **PLACEMENT)
    result = step(patient(detached(ready=True)), move, NOW + 30)
    assert isinstance(result, Wait) if stage == PLACED else result == Record(stage=DETACHED)


def test_a_node_that_is_emptied_does_not_wait_for_that_time() -> None:
    """Whoever empties it would evict the pod at once."""
    move = a_move(stage=PLACED, **PLACEMENT)
    assert step(patient(detached(ready=True)), move, leaving="node is cordoned") == Record(stage=READY)


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (None, "node was deleted"),
        (Node(spec=NodeSpec(unschedulable=True)), "node is cordoned"),
        (Node(spec=NodeSpec(taints=[Taint(key="node.kubernetes.io/unschedulable")])), "node is cordoned"),
        (Node(spec=NodeSpec(taints=[Taint(key="ToBeDeletedByClusterAutoscaler")])), "ToBeDeletedByClusterAutoscaler"),
        (Node(spec=NodeSpec(taints=[Taint(key="karpenter.sh/disrupted")])), "karpenter.sh/disrupted"),
        (Node(spec=NodeSpec(taints=[Taint(key="DeletionCandidateOfClusterAutoscaler")])), ""),
        (Node(spec=NodeSpec(taints=[Taint(key="node.kubernetes.io/not-ready")])), ""),
    ],
)
def test_a_node_is_emptied_when_it_is_cordoned_removed_or_deleted(node: Node | None, why: str) -> None:
    assert why in node_leaving(node)
    assert bool(node_leaving(node)) == bool(why)


def test_a_replacement_that_fails_again_stops_the_eviction() -> None:
    cluster = detached(ready=True)
    cluster.set_ready("web-rs-new-1", ready=False)
    assert step(cluster, a_move(stage=READY)) == Record(stage=DETACHED)


def test_no_pod_is_evicted_while_another_pod_of_the_workload_is_not_ready() -> None:
    cluster = detached(3, ready=True)
    cluster.set_ready("web-2", ready=False)
    assert step(cluster, a_move(3, READY)) == Record(stage=DETACHED)


def test_pods_that_were_added_since_are_not_waited_for() -> None:
    cluster = detached(2, ready=True)
    cluster.scale(5)
    cluster.synchronize()
    assert step(cluster, a_move(2, READY)) == Evict()


def restored(why: str, cluster: Controllers, now: float = LATER, *, misplaced: str = "", **fields: str) -> None:
    """Checks that the pod is restored, for a reason with this text."""
    move = a_move(stage=PLACED, misplaced=misplaced, **PLACEMENT)
    record = step(cluster, move, now, **fields)
    assert isinstance(record, Record)
    assert record.stage == RESTORING
    assert why in record.why
    assert step(cluster, a_move(stage=RESTORING, why=record.why), now, **fields) == Restore()


def test_a_replacement_that_is_not_ready_in_time_is_given_up() -> None:
    restored("not ready in time", detached(bound=True), NOW + 300)


def test_a_pod_goes_back_when_its_node_is_emptied() -> None:
    restored("node is cordoned", detached(bound=True), leaving="node is cordoned")


def test_a_pod_goes_back_when_its_replacement_is_on_the_wrong_node() -> None:
    restored("too hot", detached(bound=True), misplaced="too hot")


def test_a_pod_goes_back_when_its_replacement_cannot_be_created() -> None:
    cluster = detached(bound=True)
    (replica_set,) = cluster.replica_sets
    failure = Condition(type="ReplicaFailure", status="True", reason="FailedCreate")
    status = msgspec.structs.replace(replica_set.status, conditions=[failure])
    cluster.kube.put(REPLICA_SETS, msgspec.structs.replace(replica_set, status=status))
    restored("FailedCreate", cluster)


@pytest.mark.parametrize("stage", [DETACHED, PLACED, READY])
@pytest.mark.parametrize(("misplaced", "leaving"), [("", "cordoned"), ("too hot", ""), ("", "")])
def test_no_pod_is_restored_while_its_workload_is_complete_without_it(stage: str, misplaced: str, leaving: str) -> None:
    """Not even after the time for the replacement: the ReplicaSet would choose which of the ready pods it deletes."""
    move = a_move(stage=stage, misplaced=misplaced, **PLACEMENT)
    result = step(detached(ready=True), move, NOW + 1_000, leaving=leaving)
    assert result in (Record(stage=READY), Evict())


def test_a_workload_that_is_complete_while_its_pod_is_restored_keeps_the_replacement() -> None:
    assert step(detached(ready=True), a_move(stage=RESTORING)) == Record(stage=DETACHED)


def test_a_restored_pod_ends_the_move_with_the_reason() -> None:
    result = step(a_cluster(), a_move(stage=RESTORING, why="too late"), NOW)
    assert result == End(outcome=Outcome.FAILED, detail="the pod was restored: too late")


@pytest.mark.parametrize("stage", [DETACHED, PLACED])
def test_no_pod_is_restored_during_a_rollout(stage: str) -> None:
    cluster = detached(bound=True)
    cluster.roll_out()
    assert isinstance(step(cluster, a_move(stage=stage, **PLACEMENT), NOW + 1_000), Wait)
    assert step(cluster, a_move(stage=RESTORING), NOW + 1_000) == Record(stage=DETACHED)


def test_a_rollout_that_has_finished_replaces_the_pod() -> None:
    cluster = detached()
    cluster.roll_out()
    cluster.synchronize()
    cluster.bind("web-rs-2-new-2")
    cluster.set_ready("web-rs-2-new-2")
    assert step(cluster, a_move(stage=DETACHED)) == Record(stage=READY)


def test_the_pod_of_a_deployment_that_was_deleted_is_evicted() -> None:
    cluster = detached()
    cluster.delete_deployment()
    assert step(cluster, a_move(stage=DETACHED)) == Record(stage=READY)
    assert step(cluster, a_move(stage=READY)) == Evict()


def test_the_pod_of_a_deployment_that_was_scaled_to_zero_is_evicted() -> None:
    cluster = detached()
    cluster.scale(0)
    cluster.synchronize()
    assert step(cluster, a_move(stage=READY)) == Evict()


def test_a_replica_set_without_its_deployment_keeps_its_pods() -> None:
    """After `kubectl delete --cascade=orphan`."""
    cluster = detached()
    deployment = cluster.deployment
    assert deployment is not None
    cluster.kube.remove(DEPLOYMENTS, "web", "shop")
    assert isinstance(step(cluster, a_move(stage=DETACHED)), Wait)
    restored("not ready in time", detached(bound=True), NOW + 300)


def test_a_pod_that_has_ended_is_evicted_although_the_workload_is_not_complete() -> None:
    cluster = detached()
    pod = cluster.pod("web-1")
    assert pod is not None
    cluster.kube.put(PODS, msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase="Failed")))
    assert step(cluster, a_move(stage=READY)) == Evict()


def test_a_label_that_another_program_has_restored_ends_the_move() -> None:
    cluster, move = a_cluster(), a_move(stage=DETACHED)
    result = step(cluster, move)
    assert isinstance(result, End)
    assert "another program" in result.detail


@pytest.mark.parametrize("stage", [DETACHED, RESTORING])
def test_the_annotation_that_remains_beside_a_label_that_somebody_has_restored_is_named(stage: str) -> None:
    """Nothing would remove it, and Karpenter would keep the node of the pod for good."""
    cluster, move = a_cluster(), a_move(stage=stage, do_not_disrupt=True)

    def detail(move: SurgeMove) -> str:
        result = step(cluster, move)
        assert isinstance(result, End)
        return result.detail

    assert "kubectl annotate" not in detail(move)
    cluster.edit("web-1", annotations={DO_NOT_DISRUPT: "true"})
    assert detail(move).endswith(f"kubectl annotate pod --namespace shop web-1 {DO_NOT_DISRUPT}-")
    assert "kubectl annotate" not in detail(a_move(stage=stage))


def test_a_label_that_another_program_has_edited_is_written_back() -> None:
    cluster = detached(bound=True)
    cluster.set_hash("web-1", "other")
    restored("not ready in time", cluster, NOW + 300)


@pytest.mark.parametrize("value", ["", "h2"])
def test_a_pod_whose_annotation_was_edited_is_named_until_its_replacement_is_ready(value: str) -> None:
    """With the command that gives it back: the policy refuses it to the binder. Then it is evicted as any other."""
    cluster = detached(bound=True)
    cluster.edit("web-1", annotations={DETACHED_HASH: value})
    move = a_move(stage=PLACED, **PLACEMENT)
    assert step(cluster, msgspec.structs.replace(move, stage=RESTORING), NOW + 300) == Record(stage=DETACHED)
    result = step(cluster, move, NOW + 300)
    assert isinstance(result, Wait)
    assert result.stuck
    assert "kubectl label pod --overwrite --namespace shop web-1 pod-template-hash=h1" in result.why
    cluster.set_ready("web-rs-new-1")
    assert step(cluster, move, NOW + 301) == Record(stage=READY)


def test_a_pod_that_its_replica_set_does_not_select_any_more_is_named() -> None:
    """Nothing is written that has no effect."""
    cluster = detached(bound=True)
    move = a_move(stage=PLACED, **PLACEMENT)
    found = observed(cluster, move)
    assert found.pod is not None
    metadata = msgspec.structs.replace(found.pod.metadata, labels={"app": "debugged"})
    found = msgspec.structs.replace(found, pod=msgspec.structs.replace(found.pod, metadata=metadata))
    result = next_step(move, found, NOW + 300)
    assert isinstance(result, Wait)
    assert result.stuck
    assert "ReplicaSet web-rs does not select its labels" in result.why


def test_a_pod_whose_annotation_was_edited_waits_for_its_replacement_as_any_other() -> None:
    cluster = detached(bound=True)
    cluster.edit("web-1", annotations={DETACHED_HASH: ""})
    result = step(cluster, a_move(stage=PLACED, **PLACEMENT))
    assert isinstance(result, Wait)
    assert not result.stuck


def test_a_pod_that_another_controller_has_adopted_ends_the_move() -> None:
    cluster = detached(bound=True)
    cluster.put_replica_set(2, 1)
    cluster.set_hash("web-1", "h2")
    cluster.synchronize()
    result = step(cluster, a_move(stage=DETACHED))
    assert isinstance(result, End)
    assert "web-rs-2" in result.detail


def test_a_stage_of_a_later_version_is_waited_for() -> None:
    assert isinstance(step(detached(ready=True), a_move(stage="parked")), Wait)


@pytest.mark.parametrize("stage", [DETACHED, PLACED])
def test_contradicting_requests_never_follow_each_other_at_once(stage: str) -> None:
    """A binder that is slow may still send the request of the stage before."""
    move = a_move(stage=stage, **PLACEMENT)
    assert isinstance(step(detached(ready=True), move, NOW + 1), Wait)
    assert isinstance(step(detached(bound=True), move, NOW + 1, leaving="cordoned"), Wait)
