"""How many pods of a trace could be moved."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from scheduling.pods import a_budget, a_node

from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import Namespaces
from equipoise.contracts.configuration.surge import SurgeMode
from equipoise.contracts.eviction.candidate import Rules
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.values.resources import Resources
from equipoise.lab.model.cluster_objects import pod_template
from equipoise.lab.model.descheduling.api_objects import ApiObjects
from equipoise.lab.model.descheduling.movable_pods import BLOCKED, EVICTION, WITHOUT_GAP, movable_pods
from equipoise.lab.model.trace import TraceWorkload

NOW = 1_800_000_000.0


def movable(
    mode: SurgeMode = "none",
    *,
    pods: int = 1,
    min_replicas: int = 2,
    budgets: Sequence[PodDisruptionBudget] = (),
    **fields: Any,
) -> dict[str, int]:
    """The pods of one workload that has run for a day. `fields`: those of the workload in the trace."""
    traced = TraceWorkload(name="web", **fields)
    owner = Workload(kind=traced.kind, group="apps", namespace=traced.namespace, name=traced.name)
    placed = [
        PlacedPod(
            uid=f"web-{number}", namespace=traced.namespace, name=f"web-{number}", workload=owner,
            placed_at=NOW - 86_400.0, running_since=NOW - 86_400.0,
        )
        for number in range(pods)
    ]  # fmt: skip
    template = pod_template(traced)
    objects = ApiObjects(
        replicas=lambda workload: pods,
        excluded=lambda workload: (),
        all_nodes={"node": a_node("node")},
        template=lambda uid: template.pod,
    )
    base = Resources(cpu=8.0, memory=2.0**35)
    objects.on_placement(NodePlacement(node="node", uid="node", allocatable=base, pods=placed, epoch=1, sequence=1))
    rules = Rules(
        protection=Protection(min_replicas=min_replicas), namespaces=Namespaces(), own_namespace="own", surge=mode
    )
    return dict(movable_pods(objects.watched(budgets), rules, NOW))


def test_a_single_replica_is_protected_unless_it_can_be_moved_without_a_gap() -> None:
    """A trace states no strategy of its Deployments: they have the default, which adds a pod in rollouts."""
    assert {"few replicas": 1} == movable()
    assert {WITHOUT_GAP: 1} == movable("singleReplicas")
    assert {EVICTION: 1} == movable(min_replicas=1)


def test_pods_of_larger_workloads_are_evicted_unless_all_pods_are_moved_without_a_gap() -> None:
    assert {EVICTION: 3} == movable("singleReplicas", pods=3)
    assert {WITHOUT_GAP: 3} == movable("always", pods=3)


def test_the_rule_is_named_that_refuses_a_move_without_a_gap() -> None:
    """After the one that protects the pod."""
    assert {"few replicas: no Deployment": 1} == movable("always", kind="StatefulSet")
    assert {"few replicas: devices": 1} == movable("always", extended_resources={"nvidia.com/gpu": 1})


def test_other_protections_are_named() -> None:
    assert {"gang": 2} == movable("always", pods=2, gang="PodGroup train")
    assert {"DaemonSet": 2} == movable("always", pods=2, kind="DaemonSet")


@pytest.mark.parametrize(("mode", "expected"), [("none", BLOCKED), ("blocked", WITHOUT_GAP)])
def test_a_budget_that_allows_no_disruption_blocks_evictions_only(mode: SurgeMode, expected: str) -> None:
    budget = a_budget(0, namespace="default", app="web")

    assert {expected: 3} == movable(mode, pods=3, budgets=[budget])
    other = msgspec.structs.replace(budget, metadata=msgspec.structs.replace(budget.metadata, namespace="other"))
    assert {EVICTION: 3} == movable(mode, pods=3, budgets=[other])
