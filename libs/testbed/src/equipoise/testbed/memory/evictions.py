"""Evictions of the in-memory API server, and the PodDisruptionBudgets that judge them."""

import msgspec

from equipoise.contracts.kubernetes.labels import selects
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.runtime.kubernetes.client import BUDGETS, EvictionResult, error_for_status
from equipoise.testbed.memory.object_store import ObjectStore


class RecordedEviction(msgspec.Struct, frozen=True, kw_only=True):
    """One POST of pods/eviction and its result, even if the response was lost."""

    namespace: str
    name: str
    uid: str
    dry_run: bool
    at: float
    """Unix seconds."""

    status: int


def judged_by_budgets(store: ObjectStore, pod: Pod, *, dry_run: bool) -> EvictionResult:
    """201, or 429 by the budget of a running pod; a budget that admits the eviction allows one less afterwards.

    Raises KubeError (500) for a pod with two budgets, as the API server does.
    """
    admitted = EvictionResult(status=201)
    if pod.status.phase in ("Pending", "Succeeded", "Failed") or pod.metadata.deletion_timestamp is not None:
        return admitted
    budgets = [
        budget
        for budget in store.sorted(BUDGETS)
        if budget.metadata.namespace == pod.metadata.namespace and selects(budget.spec.selector, pod.metadata.labels)
    ]
    if len(budgets) > 1:
        raise error_for_status(500, "", "This pod has more than one PodDisruptionBudget")
    for budget in budgets:
        allowed = budget.status.disruptions_allowed
        if allowed <= 0:
            return EvictionResult(
                status=429,
                reason="TooManyRequests",
                message=f"Cannot evict pod as it would violate the pod's disruption budget {budget.metadata.name}",
                disruption_budget=True,
                budget=budget.metadata.name,
            )
        if not dry_run:
            status = msgspec.structs.replace(budget.status, disruptions_allowed=allowed - 1)
            store.write(BUDGETS, msgspec.structs.replace(budget, status=status))
    return admitted
