"""What every scoring policy is: a section of the configuration that scores."""

from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.load.demand import MEASURED_FIRST, EstimateSource
from equipoise.contracts.messages.resources import Resources
from equipoise.scorer.state.arrays import Array, Demand, NodeLoads, Statistic


class ScoringPolicy(Section, frozen=True, kw_only=True, tag_field="name"):
    """Says how well a pod would lie on each node. Pure: the same question has the same answer."""

    @property
    def demand_chain(self) -> tuple[EstimateSource, ...]:
        """Where the usage of a pod comes from that was not measured yet."""
        return MEASURED_FIRST

    @property
    def looks_at_days(self) -> bool:
        """Whether it needs the coming day of every node: it is only kept for a policy that does."""
        return False

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """What it looks at beside the mean."""
        return ()

    @property
    def counted_within(self) -> tuple[float, ...]:
        """Spans in seconds for which it wants to know how many pods a node was given."""
        return ()

    @property
    def windows(self) -> tuple[str, ...]:
        """Names of the windows it looks at, the most telling first; none when it looks at whole days."""
        return ()

    def score(self, nodes: NodeLoads, demand: Demand) -> Array:
        """One score per node, 0..100. 0 says keep away: of unknown load, or overfull."""
        raise NotImplementedError

    def scores_apart(self, nodes: NodeLoads, demand: Demand) -> dict[str, Array]:
        """Where several policies are mixed: the scores of each by its name, to explain the mix."""
        return {}

    def level(self, nodes: NodeLoads) -> Resources:
        """The load (0..1) that nodes are led to, to explain a score; unknown where the policy aims at none."""
        return Resources()

    def refuse(self, nodes: NodeLoads, demand: Demand) -> dict[str, str] | None:
        """Nodes that its own thresholds forbid, and why; None: it has none, and the shared high marks count."""
        return None
