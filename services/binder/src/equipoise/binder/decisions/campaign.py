"""Decides from each evaluation, the ledger and the time whether a campaign goes on, and why it ends."""

import math

import msgspec

from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.limits.rule import amount
from equipoise.binder.state.campaign import EXHAUSTED, STOPPED, Campaign, name_problem
from equipoise.binder.state.ledger import Ledger
from equipoise.contracts.bounds import CLOCK_TOLERANCE, Time
from equipoise.contracts.messages.descheduling import CampaignEffect, EvaluatedCluster

SPREAD_TOLERANCE = 0.1
"""The share of the spread without its moves by which the spread may be higher than it could be: kube-scheduler may
choose another node than the target, and that does not matter much."""

WORSE = 2
"""Evaluations in a row that must find the cluster worse than planned. From the first one on, the campaign permits
nothing beyond the usual limits."""

BEFORE = 600.0
"""Seconds before its start from which an evaluation is compared with the campaign: its plan was made after it."""

GAINED = 4
"""Evaluations in a row that must find nothing to move: with the default interval, three of them take longer than the
cooldown of a workload after an eviction."""

_replace = msgspec.structs.replace


class ClusterEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a `DescheduleDecision` that concern campaigns."""

    evaluated_at: Time
    cluster: EvaluatedCluster | None = None


def start_refusal(ledger: Ledger, name: str, now: float) -> str:
    """Why a campaign of this name cannot start now; empty if it can. `now`: the API server's time."""
    campaign = ledger.campaign
    if why := name_problem(name):
        return why
    if ledger.paused:
        return f"evictions are paused ({ledger.pause_reason or 'no reason given'}): first run `equipoise resume`"
    if campaign is not None and campaign.ended_at is None and now < campaign.expires_at:
        done = f"{campaign.used} of {campaign.budget} moves"
        return f"campaign {campaign.name} is running ({done}): wait until it ends, or `equipoise rebalance --abort`"
    named = {record.campaign for record in (*ledger.entries, *ledger.past)}
    if name in named or (campaign is not None and campaign.name == name):
        return f"an earlier campaign has the name {name}: choose another one, which no Event or outcome has yet"
    return ""


def continued(ledger: Ledger, evaluation: ClusterEvaluation | None, limits: Limits, now: float) -> Ledger:
    """The ledger with what the latest evaluation and the time mean for its campaign.

    An evaluation changes nothing if the campaign was compared with it before, or if it is much older than the campaign.
    `now`: the API server's time.
    """
    campaign = ledger.campaign
    if campaign is None or campaign.ended_at is not None:
        return ledger
    if evaluation is not None and evaluation.cluster is not None and evaluation.cluster.campaign is not None:
        newest = max(campaign.observed_at, campaign.started_at - BEFORE)
        if newest < evaluation.evaluated_at <= now + CLOCK_TOLERANCE:
            campaign = _observed(campaign, evaluation.cluster, evaluation.evaluated_at)
    if why := _end(campaign, ledger, limits, now):
        campaign = campaign.ending(why, now)
    return ledger if campaign == ledger.campaign else _replace(ledger, campaign=campaign)


def _observed(campaign: Campaign, cluster: EvaluatedCluster, at: float) -> Campaign:
    """The campaign with the finding of one more evaluation."""
    campaign = _replace(campaign, observed_at=at, spread=cluster.loads.spread.amount(campaign.resource))
    finding, detail = _finding(campaign, cluster)
    found = campaign.found + 1 if finding and finding == campaign.finding else int(bool(finding))
    return _replace(campaign, finding=finding, detail=detail, found=found)


def _finding(campaign: Campaign, cluster: EvaluatedCluster) -> tuple[str, str]:
    """What is worse than it should be, for comparison and with its numbers. What is not known is not worse."""
    left = campaign.nodes - cluster.nodes
    if campaign.nodes and left > 0 and left >= math.ceil(campaign.fills / 2):
        return "nodes left", f"{left} of {campaign.nodes} nodes have left, and it was to fill {campaign.fills}"
    unscheduled = campaign.unscheduled
    if unscheduled is not None and cluster.unscheduled > unscheduled:
        return "unscheduled pods", f"{cluster.unscheduled} pods have no node, at its start {unscheduled} had none"
    if why := _useless_moves(campaign, cluster.campaign):
        return "spread", why
    return (EXHAUSTED, f"{EXHAUSTED}: no pod was proposed in {GAINED} evaluations") if cluster.exhausted else ("", "")


def _useless_moves(campaign: Campaign, effect: CampaignEffect | None) -> str:
    """Why its moves do harm or no good, by present loads; empty if they do good or are not known.

    The spread is compared with those that the same loads would have without its moves, and with all of them at their
    targets. Both change with the load of the whole cluster as the spread does, so that it changes no result.
    """
    if effect is None or effect.campaign != campaign.name:
        return ""
    spread, without, planned = (
        campaign.spread,
        effect.without_moves.amount(campaign.resource),
        effect.as_planned.amount(campaign.resource),
    )
    if spread is None or without is None or planned is None:
        return ""
    if spread <= min(without, planned) + SPREAD_TOLERANCE * without:
        return ""
    moves = f"without {effect.moves} measured moves it would be {100 * without:.1f}"
    return (
        f"the spread of {campaign.resource} is {100 * spread:.1f} points: {moves}, with all of them at their targets "
        f"{100 * planned:.1f}"
    )


def _end(campaign: Campaign, ledger: Ledger, limits: Limits, now: float) -> str:
    """Why the campaign ends now; empty if it goes on, or is only paused."""
    if now >= campaign.expires_at:
        return f"expired after {campaign.used} of {campaign.budget} moves"
    if why := _failed_replacements(campaign, ledger, limits, now):
        return f"{STOPPED}{why}"
    if campaign.finding and campaign.found >= (GAINED if campaign.finding == EXHAUSTED else WORSE):
        return campaign.detail if campaign.finding == EXHAUSTED else f"{STOPPED}{campaign.detail}"
    target, spread = campaign.target_spread, campaign.spread
    if target is not None and spread is not None and spread <= target:
        return f"reached its target: the spread of {campaign.resource} is {100 * spread:.1f} points"
    own = (entry for entry in ledger.entries if entry.campaign == campaign.name)
    if campaign.used >= campaign.budget and all(entry.outcome is not None for entry in own):
        return f"used its budget of {campaign.budget} moves"
    return ""


def _failed_replacements(campaign: Campaign, ledger: Ledger, limits: Limits, now: float) -> str:
    """Which replacements of its pods cannot be created, or are not ready in time; empty if there are too few."""
    view = ledger.view(now, dry_run=False, migration_timeout=limits.migration_timeout)
    own = [entry for entry in view.failing() if entry.campaign == campaign.name]
    if own:
        return f"the replacement of {own[0].namespace}/{own[0].pod} cannot be created ({own[0].failure})"
    late = limits.late_replacements
    own = [entry for entry in late.entries(view) if entry.campaign == campaign.name]
    if own and len(own) >= amount(late.max, 0):
        return f"{len(own)} replacements are not ready after {late.after}"
    return ""
