"""The section `reclaimer` of the configuration: what is offered, for how long, and how often it changes."""

from typing import Annotated

from msgspec import Meta, field

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LeaderElection, Section
from equipoise.contracts.messages.reclaimed import ReclaimMode
from equipoise.reclaimer.decisions.degradation import DegradeSettings
from equipoise.reclaimer.decisions.evaluation import ReclaimEvaluation
from equipoise.reclaimer.decisions.offer import OfferSettings
from equipoise.reclaimer.decisions.strategy import ForecastSettings, ReclaimPool, ReclaimStrategy, StrategyOverride


class ReclaimerSettings(Section, frozen=True, kw_only=True):
    """The section `reclaimer`."""

    enabled: bool = False
    """Whether this installation has a reclaimer."""

    health: str = "0.0.0.0:8086"
    """Address of /healthz, /readyz, /metrics and /version."""

    mode: ReclaimMode = "observe"
    """observe: publish what would be offered. enforce: also write it to the status of the nodes."""

    interval: Duration = Duration(60)
    """Time between two evaluations."""

    strategy: ReclaimStrategy = ReclaimStrategy()
    pools: tuple[ReclaimPool, ...] = ()
    """Node pools with another strategy."""

    nodes: dict[str, StrategyOverride] = field(default_factory=dict)
    """Nodes with another strategy, by name. They override their pool."""

    forecast: ForecastSettings = ForecastSettings()
    degrade: DegradeSettings = DegradeSettings()
    offer: OfferSettings = OfferSettings()
    writes_per_second: Annotated[float, Meta(gt=0, le=1_000)] = 20.0
    """Maximum rate of writes, including failed attempts."""

    leader_election: LeaderElection = LeaderElection()

    def __post_init__(self) -> None:
        if self.interval <= 0:
            raise ValueError("interval must be longer than 0s")
        if self.forecast.day <= 0:
            raise ValueError("forecast.day must be longer than 0s")
        names = [pool.name for pool in self.pools]
        if len(set(names)) < len(names):
            raise ValueError("pools must have different names")

    def evaluation(self) -> ReclaimEvaluation:
        return ReclaimEvaluation(
            strategy=self.strategy,
            pools=self.pools,
            nodes=self.nodes,
            forecast=self.forecast,
            degrade=self.degrade,
            offer=self.offer,
        )
