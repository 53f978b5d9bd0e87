"""How many pods could be moved, and what protects the others."""

from collections import Counter

from equipoise.contracts.eviction.candidate import Candidate, Rules
from equipoise.contracts.eviction.protection import PROTECTIONS
from equipoise.contracts.eviction.surge import SURGE_RULES, SurgeCandidate, may_surge, surge_decision
from equipoise.contracts.kubernetes.labels import selects
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget
from equipoise.descheduler.decisions.evaluation.eligibility import eviction_obstacle
from equipoise.descheduler.decisions.evaluation.snapshot import WatchedObjects

EVICTION, WITHOUT_GAP = "may be evicted", "may be moved without a gap"

BLOCKED = "a budget or a missing replica"
"""The key of pods that no rule protects, and whose eviction would be refused at that time."""


def movable_pods(watched: WatchedObjects, rules: Rules, now: float) -> Counter[str]:
    """The number of pods by EVICTION, WITHOUT_GAP, BLOCKED, or the name of the rule that protects them.

    Where a rule of protection would permit a move without a gap, the name of the rule that refuses it follows.
    Cooldowns and pending moves are not considered.
    """
    budgets: dict[str, list[PodDisruptionBudget]] = {}
    for budget in watched.budgets:
        budgets.setdefault(budget.metadata.namespace, []).append(budget)
    return Counter(
        _movable(watched.candidate(pod, watched.workload_of(pod)), budgets.get(pod.metadata.namespace, []), rules, now)
        for pod in watched.pods
    )


def _movable(candidate: Candidate, budgets: list[PodDisruptionBudget], rules: Rules, now: float) -> str:
    protected = next((name for name, rule in PROTECTIONS.items() if rule(candidate, rules, now)), "")
    without_gap = False
    if may_surge(candidate, protected, rules, now):
        surge = SurgeCandidate(candidate=candidate, budgets=budgets)
        refused, without_gap = surge_decision(surge, protected, rules)
        if refused:
            return f"{protected}: {next(name for name, rule in SURGE_RULES.items() if rule(surge))}"
    elif protected:
        return protected
    own = [budget for budget in budgets if selects(budget.spec.selector, candidate.pod.metadata.labels)]
    if eviction_obstacle(candidate, own, volumes_known=True, without_gap=without_gap):
        return BLOCKED
    return WITHOUT_GAP if without_gap else EVICTION
