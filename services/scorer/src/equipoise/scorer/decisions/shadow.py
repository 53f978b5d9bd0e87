"""A second policy that only looks on: what it would have answered, and whether that would have changed anything."""

import numpy as np

from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.score import ShadowResult
from equipoise.contracts.messages.utilization import WorkloadUtilization
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.ranking import Ranked, rank
from equipoise.scorer.state.arrays import Array, NodeLoads
from equipoise.scorer.state.demand import expected_demand
from equipoise.scorer.state.replacement_hints import Hint

_TOLD = 10


class Shadow:
    """Scores what the first policy was asked. It changes no answer; after a failure it looks no more."""

    def __init__(self, policy: ScoringPolicy, name: str, *, least_spread: float) -> None:
        self.policy = policy
        self._name = name
        self._least_spread = least_spread
        self.failure = ""
        """Why it was switched off; empty while it looks on."""

    def opinion(
        self,
        ranked: Ranked,
        nodes: NodeLoads,
        pod: PodDemand,
        workload: WorkloadUtilization | None,
        hint: Hint,
        *,
        day: Array | None = None,
    ) -> ShadowResult | None:
        """What it says to an answered question; None when it fails or has failed.

        `nodes` are those of the answer, with what this policy looks at beside the mean.
        """
        if self.failure:
            return None
        try:
            demand = expected_demand(pod, workload, windows=nodes.windows, chain=self.policy.demand_chain, day=day)
            own = rank(self.policy, ranked.names, nodes, demand, hint, least_spread=self._least_spread)
        except Exception as error:  # whatever it is, the answer stands
            self.failure = f"{self._name}: {type(error).__name__}: {error}"
            return None
        if not np.isfinite(own.points).all():
            self.failure = f"{self._name}: a score is not a number"
            return None
        order = own.answer.best[np.argsort(-own.points[own.answer.best], kind="stable")]
        telling = not (own.answer.neutral or ranked.answer.neutral)
        return ShadowResult(
            policy=self._name,
            best=[] if own.answer.neutral else [ranked.names[index] for index in order[:_TOLD]],
            agrees=not telling or bool(np.isin(own.answer.best, ranked.answer.best).any()),
        )
