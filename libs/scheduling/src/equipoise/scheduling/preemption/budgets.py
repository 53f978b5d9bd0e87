"""Which pods cannot be removed without violating their PodDisruptionBudgets."""

from collections.abc import Iterable, Sequence

from equipoise.contracts.kubernetes.labels import selects
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget
from equipoise.scheduling.model.pod_info import PodInfo


def split_by_budgets(
    pods: Sequence[PodInfo], budgets: Iterable[PodDisruptionBudget]
) -> tuple[list[PodInfo], list[PodInfo]]:
    """The pods whose removal violates a budget, and the others, both in the given order.

    Each pod uses up one allowed disruption of each of its budgets. After the first violated budget, its other budgets
    are not charged. Unlike in the eviction API, an empty selector selects no pods, and a pod without labels is never
    selected.
    """
    budgets = [budget for budget in budgets if _selects_something(budget.spec.selector)]
    allowed = [budget.status.disruptions_allowed for budget in budgets]
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for pod in pods:
        violates = False
        for index, budget in enumerate(budgets if pod.labels else ()):
            if budget.metadata.namespace != pod.namespace or not selects(budget.spec.selector, pod.labels):
                continue
            if pod.name in budget.status.disrupted_pods:
                continue  # its eviction was accepted, and is counted already
            allowed[index] -= 1
            if allowed[index] < 0:
                violates = True
                break
        (violating if violates else others).append(pod)
    return violating, others


def _selects_something(selector: LabelSelector | None) -> bool:
    return selector is not None and bool(selector.match_labels or selector.match_expressions)
