"""Nodes that are no source or no target, and pods whose eviction would fail."""

from typing import Any

import msgspec
import pytest
from builders import NOW, a_workload
from descheduler.cluster import a_node_object, a_pod_object, a_ready, a_workload_object, moment

from equipoise.contracts.eviction.candidate import Candidate
from equipoise.contracts.kubernetes.nodes.consolidation_taint import consolidation_taint
from equipoise.contracts.kubernetes.objects.metadata import Condition, ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeSpec, NodeStatus, Taint
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget, PodDisruptionBudgetStatus
from equipoise.descheduler.decisions.evaluation.eligibility import eviction_obstacle, source_refusal, target_refusal

POD = a_pod_object("web-1", "node-a", NOW)
DEPLOYMENT = a_workload_object("web", 3)


def a_budget(allowed: int, **metadata: Any) -> PodDisruptionBudget:
    status = PodDisruptionBudgetStatus(disruptions_allowed=allowed)
    return PodDisruptionBudget(metadata=ObjectMeta(name="budget", **metadata), status=status)


def obstacle(
    ready: int = 3, *budgets: PodDisruptionBudget, volumes_known: bool = True, without_gap: bool = False
) -> str:
    status = msgspec.structs.replace(DEPLOYMENT.status, ready_replicas=ready)
    owner = msgspec.structs.replace(DEPLOYMENT, status=status)
    candidate = Candidate(pod=POD, namespace=None, workload=a_workload(), owners=(owner,))
    return eviction_obstacle(candidate, budgets, volumes_known=volumes_known, without_gap=without_gap)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (obstacle(), ""),
        (obstacle(3, a_budget(1)), ""),
        (obstacle(2), "1 of 3 replicas of Deployment/shop/web are not ready"),
        (obstacle(3, a_budget(0)), "PodDisruptionBudget budget allows no disruption"),
        (obstacle(3, a_budget(0), without_gap=True), ""),
        (obstacle(3, a_budget(1), a_budget(1)), "more than one PodDisruptionBudget"),
        (obstacle(3, a_budget(1, generation=2)), "PodDisruptionBudget budget was changed"),
        (obstacle(volumes_known=False), "the nodes that can reach its volumes are not known"),
    ],
)
def test_an_eviction_that_would_fail_is_not_proposed(found: str, expected: str) -> None:
    """A missing replica, an exhausted budget and a volume of unknown location are obstacles."""
    assert found.startswith(expected)
    assert bool(found) == bool(expected)


def tainted(key: str) -> Node:
    return a_node_object("node-a", NOW, spec=NodeSpec(taints=[Taint(key=key, effect="NoSchedule")]))


def with_ready(condition: Condition) -> Node:
    return a_node_object("node-a", NOW, status=NodeStatus(conditions=[condition]))


def with_metadata(**metadata: Any) -> Node:
    return a_node_object("node-a", NOW, metadata=ObjectMeta(name="node-a", **metadata))


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (with_metadata(creation_timestamp=moment(NOW - 299)), "node is younger than 300 s"),
        (with_metadata(deletion_timestamp=moment(NOW)), "node is being deleted"),
        (with_ready(a_ready("False", NOW - 9_999)), "node is not Ready"),
        (with_ready(a_ready("True", NOW - 299)), "node was not Ready within the last 300 s"),
        (a_node_object("node-a", NOW, status=NodeStatus()), "node is not Ready"),
        (with_ready(Condition(type="Ready", status="True")), "it is not known since when the node is Ready"),
        (tainted("ToBeDeletedByClusterAutoscaler"), "node is being removed by an autoscaler"),
        (tainted("karpenter.sh/disrupted"), "node is being removed by an autoscaler"),
    ],
)
def test_new_leaving_and_unready_nodes_are_neither_source_nor_target(node: Node, why: str) -> None:
    """The refusal states which of these a node is."""
    assert source_refusal(node, now=NOW, settling=300).startswith(why)
    assert target_refusal(node, now=NOW, settling=300).startswith(why)


def test_a_node_that_was_created_while_a_clock_was_ahead_is_not_new_until_then() -> None:
    """That could take years."""
    later = NOW + 31_536_000
    created = with_metadata(creation_timestamp=moment(later))
    both = msgspec.structs.replace(created, status=NodeStatus(conditions=[a_ready("True", later)]))
    assert source_refusal(both, now=NOW, settling=300) == target_refusal(both, now=NOW, settling=300) == ""


@pytest.mark.parametrize(
    "node",
    [
        a_node_object("node-a", NOW, spec=NodeSpec(unschedulable=True)),
        tainted("DeletionCandidateOfClusterAutoscaler"),
        a_node_object("node-a", NOW, spec=NodeSpec(taints=[consolidation_taint(NOW)])),
        tainted("virtual-kubelet.io/provider"),
        tainted("node.kubernetes.io/memory-contention-pressure"),
    ],
)
def test_cordoned_and_virtual_nodes_and_those_that_will_be_removed_are_only_no_target(node: Node) -> None:
    """They may be relieved, but not filled."""
    assert source_refusal(node, now=NOW, settling=300) == ""
    assert target_refusal(node, now=NOW, settling=300)
