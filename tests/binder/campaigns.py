"""Campaigns and evaluations with defaults."""

from typing import Any

from builders import NOW

from equipoise.binder.decisions.campaign import ClusterEvaluation
from equipoise.binder.state.campaign import Campaign, ExpectedSpread
from equipoise.contracts.messages.descheduling import CampaignEffect, EvaluatedCluster, LoadExtremes
from equipoise.contracts.messages.values.resources import Resources

COURSE = (
    ExpectedSpread(moves=0, spread=0.6),
    ExpectedSpread(moves=4, spread=0.4),
    ExpectedSpread(moves=8, spread=0.2),
)


def a_campaign(name: str = "chg-1", **fields: Any) -> Campaign:
    """A campaign that began ten minutes ago and lasts one more hour."""
    defaults: dict[str, Any] = {
        "started_at": NOW - 600,
        "expires_at": NOW + 3_600,
        "budget": 8,
        "expected": COURSE,
        "unscheduled": 1,
        "nodes": 50,
        "fills": 10,
        "observed_at": NOW - 550,
    }
    return Campaign(name=name, **(defaults | fields))


def an_effect(without: float, planned: float | None = None, campaign: str = "chg-1", **fields: Any) -> CampaignEffect:
    """The moves of a campaign: the spread of CPU without them, and as planned (the same if not given)."""
    as_planned = without if planned is None else planned
    return CampaignEffect(
        campaign=campaign,
        **({"moves": 4} | fields),
        without_moves=Resources(cpu=without, memory=0.1),
        as_planned=Resources(cpu=as_planned, memory=0.1),
    )


def an_evaluation(spread: float | None = 0.6, at: float = NOW, **fields: Any) -> ClusterEvaluation:
    """Without a move of a campaign."""
    loads = LoadExtremes(highest=Resources(cpu=0.9), spread=Resources(cpu=spread, memory=0.1))
    defaults: dict[str, Any] = {"nodes": 50, "unscheduled": 1, "campaign": CampaignEffect(), "loads": loads}
    return ClusterEvaluation(evaluated_at=at, cluster=EvaluatedCluster(**(defaults | fields)))
