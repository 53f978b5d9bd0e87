"""mix: several policies at once, by weight."""

from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.load.demand import EstimateSource
from equipoise.contracts.messages.resources import Resources
from equipoise.scorer.decisions.policies.policy import ScoringPolicy
from equipoise.scorer.decisions.policies.single import Single
from equipoise.scorer.state.arrays import Array, Demand, NodeLoads, Statistic


class Part(Section, frozen=True, kw_only=True):
    policy: Single
    weight: Annotated[float, Meta(gt=0)] = 1.0


class Mix(ScoringPolicy, frozen=True, kw_only=True, tag="mix"):
    """The weighted mean of other policies' scores. A node that one of them keeps away from (0) stays at 0.

    What a pod uses that was never measured comes from the chain of the first part.
    """

    parts: Annotated[tuple[Part, ...], Meta(min_length=1)]

    @property
    def demand_chain(self) -> tuple[EstimateSource, ...]:
        return self.parts[0].policy.demand_chain

    @property
    def looks_at_days(self) -> bool:
        return any(part.policy.looks_at_days for part in self.parts)

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.policy.statistics))

    @property
    def counted_within(self) -> tuple[float, ...]:
        return tuple(dict.fromkeys(span for part in self.parts for span in part.policy.counted_within))

    @property
    def windows(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.policy.windows))

    def score(self, nodes: NodeLoads, demand: Demand) -> Array:
        total = np.zeros(len(nodes.load))
        kept = np.ones(len(nodes.load), np.bool_)
        for part in self.parts:
            scores = part.policy.score(self._for(part, nodes), demand)
            total += part.weight * scores
            kept &= scores > 0.0
        mean: Array = np.where(kept, total / sum(part.weight for part in self.parts), 0.0)
        return mean

    def scores_apart(self, nodes: NodeLoads, demand: Demand) -> dict[str, Array]:
        """By the part's place and name: "1 water_level"."""
        return {
            f"{place} {part.policy.__struct_config__.tag}": part.policy.score(self._for(part, nodes), demand)
            for place, part in enumerate(self.parts, 1)
        }

    def level(self, nodes: NodeLoads) -> Resources:
        """That of its first part that has one."""
        levels = (part.policy.level(self._for(part, nodes)) for part in self.parts)
        return next((level for level in levels if level != Resources()), Resources())

    def refuse(self, nodes: NodeLoads, demand: Demand) -> dict[str, str] | None:
        """Whatever one of its parts refuses."""
        refusals = [part.policy.refuse(self._for(part, nodes), demand) for part in self.parts]
        if all(refused is None for refused in refusals):
            return None
        return {name: why for refused in reversed(refusals) for name, why in (refused or {}).items()}

    def _for(self, part: Part, nodes: NodeLoads) -> NodeLoads:
        """The columns of `placed` in the part's own order."""
        columns = [self.counted_within.index(span) for span in part.policy.counted_within]
        return msgspec.structs.replace(nodes, placed=nodes.placed[:, columns])
