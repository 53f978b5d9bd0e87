"""What would stop an eviction at present though nothing protects the pod: proposing it would be noise."""

from collections.abc import Sequence

from equipoise.contracts.eviction.protection import Candidate
from equipoise.contracts.kubernetes.objects import PodDisruptionBudget


def obstacle(candidate: Candidate, budgets: Sequence[PodDisruptionBudget], *, volumes_known: bool) -> str:
    """ "" when nothing stands in the way, else what does. `budgets`: those that choose the pod."""
    if not volumes_known:
        return "it is not known where its volumes can be reached"
    if candidate.unready:
        return f"{candidate.unready} of {candidate.replicas} replicas of {candidate.workload} are not ready"
    if len(budgets) > 1:
        return "more than one PodDisruptionBudget chooses it: the API server refuses such evictions"
    for budget in budgets:
        if budget.status.observed_generation < budget.metadata.generation:
            return f"PodDisruptionBudget {budget.metadata.name} was changed and its controller has not seen it yet"
        if budget.status.disruptions_allowed < 1:
            return f"PodDisruptionBudget {budget.metadata.name} allows no disruption"
    return ""
