"""The parameters of one replay."""

from typing import Literal

import msgspec

from equipoise.binder.decisions.limits import Limits
from equipoise.contracts.configuration.moves import MovesLevel
from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import LoadSettings, Section, Thresholds
from equipoise.contracts.configuration.surge import SurgeSettings
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.lab.model.resource_requests import RequestsVariant
from equipoise.lab.results import ForecastSource, PlacementMode, Scenario
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.settings import ScorerSettings


class Settings(Section, frozen=True, kw_only=True):
    """The sections of the configuration that a replay uses."""

    load: LoadSettings = LoadSettings()
    thresholds: Thresholds = Thresholds()
    protection: Protection = Protection()
    level: MovesLevel | None = None
    surge: SurgeSettings = SurgeSettings()
    scorer: ScorerSettings = ScorerSettings()
    descheduler: DeschedulerSettings = DeschedulerSettings()
    limits: Limits = Limits()
    deletion_costs: Literal["none", "hottestNodes", "emptiestNodes"] = "none"
    """See `AnnotatorSettings`."""


class ReplayPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of one replay."""

    scenario: Scenario
    policy: str
    """A policy's name, that of a plugin, or STOCK or GREEDY."""

    scoring: ScoringPolicy | None = None
    """The policy itself; None for a plugin, STOCK and GREEDY."""

    placement: PlacementMode = "extender"
    """How the scores of the policy reach kube-scheduler. Ignored without a policy."""

    descheduler: bool = False
    seed: int = 1
    """Seed of the order of arrivals and of all other randomness."""

    weight: int = 5
    """Weight of the extender entry."""

    percentage_of_nodes_to_score: int = 0
    """The value in the configuration of kube-scheduler; 0: it depends on the number of nodes."""

    plugin: str = ""
    """A plugin of a user, as `module:Class` or `file.py:Class`; empty: none."""

    plugin_weight: int = 1
    """The weight of its scores in kube-scheduler."""

    missing: float = 0.01
    """Share (0..1) of missing samples."""

    hint_delay: float = 2.0
    """Seconds from the computation of hints until new pods get them."""

    tick: float = 300.0
    """Seconds between two samples, and two evaluations of the descheduler; at most a step of the trace. Without the
    descheduler, it is a step."""

    forecast: ForecastSource = "profile"
    removed_nodes: int = 0
    """Number of nodes that are removed from the trace, see `with_fewer_nodes`."""

    requests: RequestsVariant = RequestsVariant()
    settings: Settings = Settings()
