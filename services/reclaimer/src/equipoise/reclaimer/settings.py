"""The section `reclaimer` of the configuration: what is offered, for how long, and how often it changes."""

from typing import Annotated, Literal

from msgspec import Meta, field

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LeaderElection, Percent, Section
from equipoise.reclaimer.decisions.strategy import ReclaimPool, ReclaimStrategy, StrategyOverride


class ForecastSettings(Section, frozen=True, kw_only=True):
    """How long what is offered must last."""

    batch_hours: Annotated[int, Meta(ge=1, le=24)] = 6
    """The expected lifetime of batch pods."""

    margin: Percent = 5.0
    """Usage may exceed that of the typical day by this share of the node's capacity."""


class ReclaimerSettings(Section, frozen=True, kw_only=True):
    """The section `reclaimer`."""

    enabled: bool = False
    """Whether this installation has a reclaimer."""

    health: str = "0.0.0.0:8086"
    """Address of /healthz, /readyz, /metrics and /version."""

    mode: Literal["observe", "enforce"] = "observe"
    """observe: publish what would be offered. enforce: also write it to the status of the nodes."""

    interval: Duration = Duration(60)
    """Time between two evaluations."""

    strategy: ReclaimStrategy = ReclaimStrategy()
    pools: tuple[ReclaimPool, ...] = ()
    """Node pools with another strategy."""

    nodes: dict[str, StrategyOverride] = field(default_factory=dict)
    """By name: nodes with another strategy. They override their pool."""

    forecast: ForecastSettings = ForecastSettings()
    writes_per_second: Annotated[float, Meta(gt=0, le=1_000)] = 20.0
    """Maximum rate of writes, including failed attempts."""

    leader_election: LeaderElection = LeaderElection()

    def __post_init__(self) -> None:
        if self.interval <= 0:
            raise ValueError("interval must be longer than 0s")
        names = [pool.name for pool in self.pools]
        if len(set(names)) < len(names):
            raise ValueError("pools must have different names")
