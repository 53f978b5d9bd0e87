"""How nodes are scored. One file per policy, one line in the table; a policy's fields are its settings."""

from typing import ClassVar, Protocol

from equipoise.contracts.demand import Link
from equipoise.contracts.messages import Resources
from equipoise.scorer.loads import Array, Demand, NodeLoads
from equipoise.scorer.policies.water_level import WaterLevel


class ScoringPolicy(Protocol):
    """Says how well a pod would lie on each node. Pure: the same question has the same answer."""

    demand_chain: ClassVar[tuple[Link, ...]]
    """Where the usage of a pod comes from that was not measured yet."""

    @property
    def windows(self) -> tuple[str, ...]:
        """Names of the windows it looks at, the most telling first."""
        ...

    def score(self, nodes: NodeLoads, demand: Demand) -> Array:
        """One score per node, 0..100. 0 says keep away: of unknown load, or overfull."""
        ...

    def level(self, nodes: NodeLoads) -> Resources:
        """The load (0..1) that nodes are led to, to explain a score; unknown where the policy aims at none."""
        ...


POLICIES: dict[str, type[ScoringPolicy]] = {
    "water_level": WaterLevel,
}

Policy = WaterLevel
"""What the configuration accepts: every policy of the table, told apart by its `name`."""
