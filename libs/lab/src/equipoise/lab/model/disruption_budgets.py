"""PodDisruptionBudgets in a replay: how many disruptions they allow, and which evictions the API server refuses.

Source: pkg/controller/disruption and pkg/registry/core/pod/storage/eviction.go of Kubernetes 1.36.
"""

from collections.abc import Sequence

import msgspec

from equipoise.binder.decisions.eviction_response import read_response
from equipoise.binder.decisions.result import Finish
from equipoise.contracts.kubernetes.labels import selects
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, ObjectMeta, SelectorRequirement
from equipoise.contracts.kubernetes.objects.workload import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from equipoise.lab.model.cluster_objects import WORKLOAD, workload_label
from equipoise.lab.model.trace import TraceBudget, TraceWorkload
from equipoise.scheduling.model.pod_info import PodInfo

_UNMANAGED = frozenset({"Pod"})
"""Kinds of workloads whose pods have no controller."""

_WITHOUT_SCALE = frozenset({"CronJob", "DaemonSet", "Job", "Node"})
"""Kinds of workloads whose number of replicas the disruption controller cannot read."""

_VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


class PodCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of a workload now."""

    desired: int
    """The desired number of replicas."""

    existing: int
    """The number of pods, including pending and terminating ones."""

    healthy: int
    """The number of pods that are ready and not terminating."""


def budget_object(
    budget: TraceBudget, workloads: Sequence[TraceWorkload], pods: Sequence[PodCounts]
) -> PodDisruptionBudget:
    """The budget as an object. `workloads` and `pods` are those of the budget, in its order."""
    labels = [workload_label(each) for each in workloads]
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=budget.name, namespace=workloads[0].namespace),
        spec=PodDisruptionBudgetSpec(
            selector=LabelSelector(match_expressions=[SelectorRequirement(key=WORKLOAD, operator="In", values=labels)]),
            min_available=budget.min_available,
            max_unavailable=budget.max_unavailable,
        ),
        status=budget_status(budget, [each.kind for each in workloads], pods),
    )


def budget_status(budget: TraceBudget, kinds: Sequence[str], pods: Sequence[PodCounts]) -> PodDisruptionBudgetStatus:
    """The status that the disruption controller writes.

    `kinds` and `pods` belong to the workloads of the budget, in its order.
    Percentages refer to the desired replicas and are rounded up."""
    expected = sum(each.existing for each in pods)
    # For all other amounts, the controller needs the desired replicas. If it cannot read them, it allows nothing.
    if not isinstance(budget.min_available, int):
        present = [(kind, each.desired) for kind, each in zip(kinds, pods, strict=True) if each.existing]
        expected = sum(desired for kind, desired in present if kind not in _UNMANAGED)
        if not _WITHOUT_SCALE.isdisjoint(kind for kind, _ in present):
            expected = 0
    if budget.max_unavailable is not None:
        minimum = max(0, expected - _absolute(budget.max_unavailable, expected))
    else:
        minimum = _absolute(budget.min_available or 0, expected)
    allowed = max(0, sum(each.healthy for each in pods) - minimum)
    # Without expected pods nothing is allowed: the controller may not have seen the first ones yet.
    return PodDisruptionBudgetStatus(disruptions_allowed=allowed if expected else 0, expected_pods=expected)


def _absolute(amount: int | str, total: int) -> int:
    """The number of pods for an amount, which is a number or a percentage of `total`, for example `50%`."""
    return amount if isinstance(amount, int) else -(-int(amount.removesuffix("%")) * total // 100)


def refused_eviction(pod: PodInfo, budgets: Sequence[PodDisruptionBudget]) -> Finish | None:
    """The outcome of the eviction of a ready pod, if the API server refuses it because of these budgets."""
    matching = [
        budget
        for budget in budgets
        if budget.metadata.namespace == pod.namespace and selects(budget.spec.selector, pod.labels)
    ]
    if len(matching) > 1:
        return read_response(500, _SEVERAL).finish
    if matching and matching[0].status.disruptions_allowed < 1:
        return read_response(429, _VIOLATED, disruption_budget=True).finish
    return None
