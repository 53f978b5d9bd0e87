"""Which victims violate PodDisruptionBudgets."""

from scheduling.pods import a_pod

from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, ObjectMeta
from equipoise.contracts.kubernetes.objects.workload import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from equipoise.scheduling.preemption.budgets import split_by_budgets


def a_budget(label: str, allowed: int) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=label, namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={label: "yes"})),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def test_a_pod_that_violates_a_budget_uses_no_disruption_of_the_next_one() -> None:
    """In kube-scheduler since 1.37; until then the second pod violated its budget, too."""
    both, second = a_pod("both", labels={"x": "yes", "y": "yes"}), a_pod("second", labels={"y": "yes"})

    assert split_by_budgets([both, second], [a_budget("x", 0), a_budget("y", 1)]) == ([both], [second])
    assert split_by_budgets([both, second], [a_budget("y", 1), a_budget("x", 0)]) == ([both, second], [])
