"""DefaultPreemption: removes pods of lower priority from one node when no node is feasible."""

from collections.abc import Callable, Mapping, Sequence

from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.diagnosis import counted
from equipoise.scheduling.framework.framework import Framework
from equipoise.scheduling.framework.nominated import Nominated
from equipoise.scheduling.framework.plugin import PostFiltered
from equipoise.scheduling.framework.status import SUCCESS, Code, PluginStatus, unresolvable, unschedulable
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.preemption.candidate import PreemptionCandidate, best_candidate, candidates_wanted
from equipoise.scheduling.preemption.victims import NO_VICTIMS, victims_on_node

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."


class DefaultPreemption:
    name = "DefaultPreemption"

    def __init__(
        self,
        framework: Callable[[], Framework],
        nominated: Nominated,
        budgets: Callable[[], Sequence[PodDisruptionBudget]],
        random: Callable[[], float],
        *,
        may_preempt: Callable[[PodInfo], bool] = lambda pod: True,
        min_candidate_nodes_percentage: int = 10,
        min_candidate_nodes_absolute: int = 100,
        accepted: Callable[[PodInfo, Sequence[PreemptionCandidate]], Sequence[PreemptionCandidate]] | None = None,
    ) -> None:
        """`framework`: returns the framework that contains this plugin. `random`: returns 0 ≤ x < 1, for the node at
        which a search begins. `accepted`: returns the candidates that extenders with a preemptVerb accept, which may
        remove victims."""
        self._framework = framework
        self._nominated = nominated
        self._budgets = budgets
        self._random = random
        self._may_preempt = may_preempt
        self._percentage = min_candidate_nodes_percentage
        self._accepted = accepted
        self._absolute = min_candidate_nodes_absolute

    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, refused: Mapping[int, PluginStatus]
    ) -> PostFiltered:
        """The preemption to carry out. `refused`: the status of each refused node, by row; preemption does not help on
        nodes that are missing."""
        if (why := self._not_eligible(pod, snapshot, refused)) is not None:
            return PostFiltered(status=unschedulable(f"preemption: {why}"))
        rows = [row for row, status in refused.items() if status.code == Code.UNSCHEDULABLE]
        found, failed = self._candidates(state, pod, snapshot, rows)
        if self._accepted is not None and found:
            found = list(self._accepted(pod, found))
        best = best_candidate(found)
        if best is None:
            reasons = [reason for status in failed for reason in status.reasons]
            reasons += [NOT_HELPFUL] * (len(snapshot.rows) - len(failed))
            text = f"preemption: 0/{len(snapshot.rows)} nodes are available: {counted(reasons)}."
            # A node that was nominated earlier is not the right one any more.
            return PostFiltered(status=unschedulable(text), clear_nomination=True)
        return PostFiltered(status=SUCCESS, node=best.node, victims=best.victims)

    def candidates(
        self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Sequence[int]
    ) -> list[PreemptionCandidate]:
        """Nodes on which the removal of pods helps, those without violated budgets first."""
        return self._candidates(state, pod, snapshot, rows)[0]

    def _candidates(
        self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Sequence[int]
    ) -> tuple[list[PreemptionCandidate], list[PluginStatus]]:
        """The candidates, and why preemption does not help on the other nodes that were examined."""
        if snapshot.lowest_priority >= pod.priority:
            return [], [unresolvable(NO_VICTIMS)] * len(rows)
        wanted = candidates_wanted(len(rows), self._percentage, self._absolute)
        first = int(self._random() * len(rows)) if rows else 0
        unviolated: list[PreemptionCandidate] = []
        violating: list[PreemptionCandidate] = []
        failed: list[PluginStatus] = []
        budgets, trial = self._budgets(), snapshot.clone()
        for row in (*rows[first:], *rows[:first]):
            result = victims_on_node(
                self._framework(),
                state,
                pod,
                trial,
                row,
                nominated=self._nominated,
                budgets=budgets,
                may_preempt=self._may_preempt,
            )
            if isinstance(result, PluginStatus):
                failed.append(result)
            elif result.violations == 0:
                unviolated.append(result)
            elif len(violating) < wanted:
                violating.append(result)
            if unviolated and len(unviolated) + len(violating) >= wanted:
                break
        return [*unviolated, *violating], failed

    def _not_eligible(self, pod: PodInfo, snapshot: ClusterSnapshot, refused: Mapping[int, PluginStatus]) -> str | None:
        """Why the pod may not preempt others; None: it may."""
        if pod.pod.spec.preemption_policy == "Never":
            return NEVER
        node = self._nominated.node_of(pod) or pod.pod.status.nominated_node_name
        row = snapshot.row(node) if node else None
        if row is None:
            return None
        status = refused.get(row)
        if status is None or status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return None
        victims = (each for each in snapshot.pods_on(row) if each.priority < pod.priority)
        return TERMINATING if any(_is_preempted(each) for each in victims) else None


def _is_preempted(pod: PodInfo) -> bool:
    """Whether the pod terminates because of an earlier preemption."""
    return pod.terminating and any(
        each.type == "DisruptionTarget" and each.status == "True" and each.reason == "PreemptionByScheduler"
        for each in pod.pod.status.conditions
    )
