"""A second policy that scores the same nodes, and changes no response."""

import msgspec

from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.score import ShadowResult
from equipoise.contracts.messages.utilization import WorkloadUtilization
from equipoise.contracts.numeric import Array, np
from equipoise.scorer.decisions.demand import expected_demand
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.ranking import Ranking, rank
from equipoise.scorer.decisions.scoring_settings import ScoringSettings

_MAX_BEST = 10
"""The most nodes in `ShadowResult.best`."""


class Shadow:
    """Scores every request with a second policy. Its first failure switches it off."""

    def __init__(self, policy: ScoringPolicy, settings: ScoringSettings) -> None:
        self.policy = policy
        self._settings = settings
        self.failure = ""
        """Why it was switched off; empty while it is on."""

    def result(
        self,
        ranking: Ranking,
        recent_placements: Array,
        pod: PodDemand,
        workload: WorkloadUtilization | None,
        daily: Array | None,
    ) -> ShadowResult | None:
        """The result for a request that was scored as `ranking`; None after a failure.

        `recent_placements` has the shape nodes × `placement_spans` of this policy. `workload` and `daily` describe the
        workload of the pod.
        """
        if self.failure:
            return None
        name, chain = self.policy.policy_name(), self.policy.demand_chain
        try:
            nodes = msgspec.structs.replace(ranking.nodes, recent_placements=recent_placements)
            demand = expected_demand(pod, workload, windows=nodes.windows, chain=chain, daily=daily)
            shadow = rank(self.policy, nodes, demand, ranking.hint, self._settings)
        except Exception as error:  # no failure may change the response
            self.failure = f"{name}: {type(error).__name__}: {error}"
            return None
        if not np.isfinite(shadow.points).all():
            self.failure = f"{name}: a score is not a number"
            return None
        best = shadow.scores.best
        order = best[np.argsort(-shadow.points[best], kind="stable")]
        comparable = not (shadow.scores.neutral or ranking.scores.neutral)
        return ShadowResult(
            policy=name,
            best=[] if shadow.scores.neutral else [ranking.names[index] for index in order[:_MAX_BEST]],
            agrees=not comparable or bool(np.isin(best, ranking.scores.best).any()),
        )
