"""The policies of the scorer as a plugin: nodes are scored by their measured load, without a request to an extender."""

from collections.abc import Callable

from equipoise.contracts.numeric import np
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.model.arrays import Ints, Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scorer.decisions.demand import pod_demand
from equipoise.scorer.state.scoring_state import ScoringState

NAME = "EquipoiseLoad"
"""The plugin's name in a KubeSchedulerConfiguration."""

WEIGHT = 5
"""The default weight: 500 points between the best and the worst node, as with the shipped extender entry."""


class LoadPolicy:
    """A Score plugin. Its scores are those of the scorer with `extender.maxScore: 100` in the same state: the points of
    a policy in `scorer/decisions/policies/`, which also decides about nodes whose load is stale or unknown.

    As in the scorer, all nodes get the same score without sufficient data, and the expected usage of a scored pod
    counts on its best nodes until its placement is received. Unlike in the scorer, only feasible nodes are scored.
    """

    name = NAME

    def __init__(self, state: ScoringState, now: Callable[[], float], *, neutral: bool = False) -> None:
        """`state` must have the maximum score MAX_SCORE. `now` returns Unix seconds. `neutral`: whether all nodes get
        the same score (`scorer.neutral`)."""
        self._state = state
        self._now = now
        self._neutral = neutral

    def score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Ints:
        if self._neutral:
            return np.zeros(len(rows), dtype=np.int64)
        found = self._state.prioritize(pod_demand(pod.pod), snapshot.names(rows), self._now())
        return found.scores.scores.astype(np.int64)
