"""mix: the weighted mean of several policies."""

from typing import Annotated

import msgspec
from msgspec import Meta

from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.load.demand import EstimateSource
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array, np
from equipoise.scorer.decisions.arrays import CandidateNodes, Demand, Statistic
from equipoise.scorer.decisions.policies.policy import ScoringPolicy
from equipoise.scorer.decisions.policies.table import SinglePolicy


class MixPart(Section, frozen=True, kw_only=True):
    policy: SinglePolicy
    weight: Annotated[float, Meta(gt=0)] = 1.0


class Mix(ScoringPolicy, frozen=True, kw_only=True, tag="mix"):
    """The weighted mean of other policies' scores. A node that scores 0 in one of them scores 0.

    The expected usage of a pod that was never measured comes from the chain of the first part.
    """

    parts: Annotated[tuple[MixPart, ...], Meta(min_length=1)]

    @property
    def demand_chain(self) -> tuple[EstimateSource, ...]:
        return self.parts[0].policy.demand_chain

    @property
    def uses_daily_loads(self) -> bool:
        return any(part.policy.uses_daily_loads for part in self.parts)

    @property
    def further(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.policy.further))

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.policy.statistics))

    @property
    def placement_spans(self) -> tuple[float, ...]:
        return tuple(dict.fromkeys(span for part in self.parts for span in part.policy.placement_spans))

    @property
    def windows(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.policy.windows))

    def score(self, nodes: CandidateNodes, demand: Demand) -> Array:
        total = np.zeros(len(nodes.load))
        usable = np.ones(len(nodes.load), np.bool_)
        for part in self.parts:
            scores = part.policy.score(self._nodes_for(part, nodes), demand)
            total += part.weight * scores
            usable &= scores > 0.0
        mean: Array = np.where(usable, total / sum(part.weight for part in self.parts), 0.0)
        return mean

    def scores_by_part(self, nodes: CandidateNodes, demand: Demand) -> dict[str, Array]:
        """The scores of each part, by its position and name, such as "1 water_level"."""
        return {
            f"{position} {part.policy.policy_name()}": part.policy.score(self._nodes_for(part, nodes), demand)
            for position, part in enumerate(self.parts, 1)
        }

    def level(self, nodes: CandidateNodes) -> Resources:
        """The level of the first part that has one."""
        levels = (part.policy.level(self._nodes_for(part, nodes)) for part in self.parts)
        return next((level for level in levels if level != Resources()), Resources())

    def refuse(self, nodes: CandidateNodes, demand: Demand) -> dict[str, str] | None:
        """The nodes that any part refuses."""
        refusals = [part.policy.refuse(self._nodes_for(part, nodes), demand) for part in self.parts]
        if all(refused is None for refused in refusals):
            return None
        return {name: why for refused in reversed(refusals) for name, why in (refused or {}).items()}

    def _nodes_for(self, part: MixPart, nodes: CandidateNodes) -> CandidateNodes:
        """The nodes with the columns of `recent_placements` that this part needs, in its order."""
        columns = [self.placement_spans.index(span) for span in part.policy.placement_spans]
        return msgspec.structs.replace(nodes, recent_placements=nodes.recent_placements[:, columns])
