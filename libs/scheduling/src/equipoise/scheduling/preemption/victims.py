"""The pods to remove from one node so that a pod of higher priority fits."""

from collections.abc import Callable, Sequence

import numpy as np

from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.framework import Framework
from equipoise.scheduling.framework.nominated import Nominated
from equipoise.scheduling.framework.status import PluginStatus, unresolvable
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.preemption.budgets import split_by_budgets
from equipoise.scheduling.preemption.candidate import PreemptionCandidate, importance

NO_VICTIMS = "No preemption victims found for incoming pod"


class Trial:
    """A node from which pods are removed to find out whether the pod fits. It changes the snapshot; `undo` restores
    it."""

    def __init__(
        self,
        framework: Framework,
        state: CycleState,
        pod: PodInfo,
        snapshot: ClusterSnapshot,
        row: int,
        nominated: Nominated,
    ) -> None:
        self._framework = framework
        self._state = state.clone()
        self._pod = pod
        self._snapshot = snapshot
        self._row = row
        self._nominated = nominated
        self._removed: dict[str, PodInfo] = {}

    def remove(self, pod: PodInfo) -> None:
        self._snapshot.remove_pod(pod, self._row)
        self._framework.remove_pod(self._state, self._pod, pod, self._row, self._snapshot)
        self._removed[pod.uid] = pod

    def put_back(self, pod: PodInfo) -> None:
        del self._removed[pod.uid]
        self._snapshot.add_pod(pod, self._row)
        self._framework.add_pod(self._state, self._pod, pod, self._row, self._snapshot)

    def refusal(self) -> PluginStatus | None:
        """Why the pod does not fit now; None if it fits."""
        rows = np.array([self._row], dtype=np.intp)
        diagnosis = self._framework.filter_with_nominated(self._state, self._pod, self._snapshot, rows, self._nominated)
        return diagnosis.by_node().get(self._row)

    def undo(self) -> None:
        for pod in self._removed.values():
            self._snapshot.add_pod(pod, self._row)


def victims_on_node(
    framework: Framework,
    state: CycleState,
    pod: PodInfo,
    snapshot: ClusterSnapshot,
    row: int,
    *,
    nominated: Nominated,
    budgets: Sequence[PodDisruptionBudget],
    may_preempt: Callable[[PodInfo], bool] = lambda pod: True,
) -> PreemptionCandidate | PluginStatus:
    """The pods to remove from a node, or why removal does not help. The snapshot is changed meanwhile, then restored.

    All pods of lower priority are removed. Then they are put back one after the other, as long as the pod still fits.
    Pods with a violated PodDisruptionBudget come first, and among equals the more important pods.
    """
    lower = sorted(
        (victim for victim in snapshot.pods_on(row) if victim.priority < pod.priority and may_preempt(victim)),
        key=importance,
    )
    if not lower:
        return unresolvable(NO_VICTIMS)
    trial = Trial(framework, state, pod, snapshot, row, nominated)
    try:
        for victim in lower:
            trial.remove(victim)
        if (refusal := trial.refusal()) is not None:
            return refusal
        violating, others = split_by_budgets(lower, budgets)
        victims: list[PodInfo] = []
        violations = 0
        for group in (violating, others):
            for victim in group:
                trial.put_back(victim)
                if trial.refusal() is not None:
                    trial.remove(victim)
                    victims.append(victim)
                    violations += group is violating
    finally:
        trial.undo()
    victims.sort(key=importance)
    return PreemptionCandidate(node=snapshot.name(row), victims=tuple(victims), violations=violations)
