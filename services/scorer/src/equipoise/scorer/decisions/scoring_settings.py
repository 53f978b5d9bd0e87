"""How pods are scored: the part of the scorer's configuration that its decisions use."""

from typing import Annotated

from msgspec import Meta

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section
from equipoise.scorer.decisions.placement_hints.settings import HintSettings
from equipoise.scorer.decisions.policies import Policy
from equipoise.scorer.decisions.policies.profile import ProfilePolicy


class BandScoring(Section, frozen=True, kw_only=True):
    """Pods of the bands mid and batch are scored by the amounts left of their band: see docs/decisions/0037."""

    enabled: bool = False
    """Needs the reclaimer (`reclaimer.enabled`). Without it, the policy scores these pods like all other pods."""

    lifetime: Duration = Duration(300)
    """The time after an evaluation of the reclaimer for which its amounts may be used."""

    def __post_init__(self) -> None:
        if self.lifetime <= 0:
            raise ValueError("lifetime must be longer than 0s")


class ScoringSettings(Section, frozen=True, kw_only=True):
    """How pods are scored."""

    policy: Policy = ProfilePolicy()

    shadow: Policy | None = None
    """A second policy that changes nothing: its results are counted and published for comparison."""

    min_spread: Annotated[float, Meta(ge=0, le=100)] = 5.0
    """Points of the policy by which the best and the worst node must differ; otherwise scores are neutral."""

    reservation_timeout: Annotated[float, Meta(ge=0)] = 2.0
    """Seconds for which the usage of a scored pod counts on its best nodes, if it is not placed earlier.

    It covers the time from the response until the placement is received. This time depends on the API server, so time
    compression does not divide it.
    """

    replacement_hint_duration: Duration = Duration(600)
    """The time after an eviction for which the evicted node is avoided and its target preferred for the replacement."""

    hints: HintSettings = HintSettings()
    reclaimed: BandScoring = BandScoring()
