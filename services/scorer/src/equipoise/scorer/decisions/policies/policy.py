"""The base classes of scoring policies: sections of the configuration that score nodes."""

from collections.abc import Iterable, Sequence
from typing import Annotated

from msgspec import Meta

from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.load.demand import MEASURED_FIRST, EstimateSource
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array, np
from equipoise.scorer.decisions.arrays import CandidateNodes, Demand, Demands, Statistic

Weight = Annotated[float, Meta(ge=0)]

_ROUNDING = 1e-9


class ScoringPolicy(Section, frozen=True, kw_only=True, tag_field="name"):
    """Scores how well a pod fits the load of each node. Pure: the same arguments have the same result."""

    @classmethod
    def policy_name(cls) -> str:
        """The `name` in the configuration."""
        return str(cls.__struct_config__.tag)

    @property
    def demand_chain(self) -> tuple[EstimateSource, ...]:
        """Sources of a pod's expected usage, in order of precedence."""
        return MEASURED_FIRST

    @property
    def uses_daily_loads(self) -> bool:
        """Whether the policy needs the load of the next 24 hours, which is not computed otherwise."""
        return False

    @property
    def further(self) -> tuple[str, ...]:
        """The further resources, and kinds of pressure, that the policy uses: metrics as in `MetricRule`."""
        return ()

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """The statistics that the policy needs besides the mean."""
        return ()

    @property
    def placement_spans(self) -> tuple[float, ...]:
        """The policy needs the number of pods placed on a node in the last seconds, for each of these spans."""
        return ()

    @property
    def windows(self) -> tuple[str, ...]:
        """Names of the windows that the policy uses, the most important first; empty if it uses daily loads."""
        return ()

    def score(self, nodes: CandidateNodes, demand: Demand) -> Array:
        """One score per node, 0..100. It is 0 if the load is unknown or would exceed the node."""
        raise NotImplementedError

    def score_pods(self, nodes: CandidateNodes, demands: Demands) -> Array:
        """pods × nodes: the scores of many pods at once. A policy overrides it only to be faster."""
        return np.array([self.score(nodes, demand) for demand in demands.each]).reshape(len(demands), len(nodes.load))

    def scores_by_part(self, nodes: CandidateNodes, demand: Demand) -> dict[str, Array]:
        """The scores of each policy of a mix by its name, for explanations."""
        return {}

    def level(self, nodes: CandidateNodes) -> Resources:
        """The load (0..1) that the policy aims at, for explanations; unknown without one."""
        return Resources()

    def refuse(self, nodes: CandidateNodes, demand: Demand) -> dict[str, str] | None:
        """Nodes above the policy's own thresholds, with the reason; None: use the shared `thresholds.high`."""
        return None


def above(names: Sequence[str], checks: Iterable[tuple[str, Array, float]], digits: int = 1) -> dict[str, str]:
    """The nodes above a threshold, with the reason. Each of `checks` has a text, percent per node, and a threshold.

    A node gets the reason of its first failed check. A value above by a rounding error only, or unknown (NaN), passes.
    """
    refused: dict[str, str] = {}
    for text, percent, threshold in checks:
        for index in map(int, np.flatnonzero(percent > threshold + _ROUNDING)):
            refused.setdefault(names[index], f"{text} {percent[index]:.{digits}f}%, above {threshold:g}%")
    return refused


class SingleWindowPolicy(ScoringPolicy, frozen=True, kw_only=True):
    """A policy that uses one window. If the window is not configured, all nodes score 0."""

    window: str = "15m"
    """A name in `load.windows`. The load of a node is unknown without a value for this window."""

    @property
    def windows(self) -> tuple[str, ...]:
        return (self.window,)

    def score(self, nodes: CandidateNodes, demand: Demand) -> Array:
        if self.window not in nodes.windows:
            return np.zeros(len(nodes.load))
        return self.score_window(nodes, demand, nodes.windows.index(self.window))

    def score_window(self, nodes: CandidateNodes, demand: Demand, at: int) -> Array:
        """The scores; `at` is the position of the window in the arrays."""
        raise NotImplementedError
