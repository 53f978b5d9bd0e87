"""What a campaign is expected to do: its waves, their spread and their time. Pure."""

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from equipoise.binder.state.campaign import MAX_BUDGET, MAX_DURATION, MAX_EXPECTED, Campaign, ExpectedSpread
from equipoise.cli.plan.summary import Risk, risk_of
from equipoise.cli.plan.waiting import waiting_nodes
from equipoise.cli.terminal import RESOURCES
from equipoise.contracts.messages.plan import PlannedMove, PlanResponse

LEAST = 3_600.0
"""Seconds that a campaign lasts at least, if its duration is not given."""

UNKNOWN = 86_400.0
"""Seconds that a campaign lasts if its duration is not given, and the time of its moves is not known."""


class ForecastWave(msgspec.Struct, frozen=True, kw_only=True):
    """The moves of one evaluation."""

    moves: int
    without_gap: int
    spread: float | None
    """The spread (0..1) once they are done; None if no load is known."""

    ends_after: float | None = None
    """Seconds from the start until its replacements are ready; None if the limits or their time are not known."""


class CampaignForecast(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a campaign."""

    waves: list[ForecastWave]
    moves: int
    without_gap: int
    resource: str
    """The resource whose spread falls most. The campaign is compared with it."""

    spread_before: float | None
    spread_after: float | None
    risk: Risk
    duration: float | None
    """Seconds until the last wave is done; None if that is not known."""

    why: dict[str, str]
    """Why nothing more would move, by strategy; empty if only the budget or the target ends it."""

    budget: int
    lasts: float
    """Seconds after which it expires."""

    target_spread: float | None = None
    evictions: str
    nodes: int
    unknown: int | None
    """The nodes of unknown load, which are in no spread; None if that is not known."""

    fills: int
    """The number of nodes to which pods move."""

    unscheduled: int | None


def first_wait(plan: PlanResponse) -> float:
    """Seconds until a hot node of the plan has been hot for long enough."""
    return max(waiting_nodes(plan).values(), default=0) * plan.interval


def waves_of(plan: PlanResponse, target: float | None) -> list[list[PlannedMove]]:
    """The moves of each wave, up to the first one after which the spread is at most `target` (0..1)."""
    resource, moves, waves = resource_of(plan), iter(plan.moves), []
    for wave in plan.waves:
        waves.append(list(islice(moves, wave.moves)))
        spread = getattr(wave.after.spread, resource)
        if target is not None and spread is not None and spread <= target:
            break
    return waves


def resource_of(plan: PlanResponse) -> str:
    """The resource whose spread falls most; of two equal ones, that of the most loaded node."""

    def order(resource: str) -> tuple[float, float]:
        before, after = plan.before, plan.after
        highest = None if before is None else getattr(before.highest, resource)
        begin, end = (None if loads is None else getattr(loads.spread, resource) for loads in (before, after))
        fall = 0.0 if begin is None or end is None else begin - end
        return fall, -1.0 if highest is None else highest

    return max(RESOURCES, key=order)


def forecast(
    plan: PlanResponse,
    waves: Sequence[Sequence[PlannedMove]],
    ends: Sequence[float] | None,
    *,
    budget: int | None,
    lasts: float | None,
    target: float | None,
) -> CampaignForecast:
    """The expected course of a campaign with these waves.

    `ends`: seconds after which each wave is done, as far as limits allow them; None if the limits are not known.
    `budget`, `lasts`: the options; None if not given.
    """
    resource, moves = resource_of(plan), [move for wave in waves for move in wave]
    shown = [
        ForecastWave(
            moves=len(wave),
            without_gap=sum(move.without_gap for move in wave),
            spread=getattr(planned.after.spread, resource),
            ends_after=None if ends is None or number >= len(ends) else ends[number],
        )
        for number, (wave, planned) in enumerate(zip(waves, plan.waves, strict=False))
    ]
    before = None if plan.before is None else getattr(plan.before.spread, resource)
    duration = shown[-1].ends_after if shown else 0.0
    default = UNKNOWN if duration is None else max(LEAST, 2 * duration)
    return CampaignForecast(
        waves=shown,
        moves=len(moves),
        without_gap=sum(move.without_gap for move in moves),
        resource=resource,
        spread_before=before,
        spread_after=shown[-1].spread if shown else before,
        risk=risk_of(moves),
        duration=duration,
        why=plan.why,
        budget=min(MAX_BUDGET, budget or len(moves)),
        lasts=min(MAX_DURATION, lasts or default),
        target_spread=target,
        evictions=plan.evictions,
        nodes=plan.considered,
        unknown=plan.unknown,
        fills=len({move.target for move in moves}),
        unscheduled=plan.unscheduled,
    )


def campaign_of(forecast: CampaignForecast, name: str, started_by: str) -> Campaign:
    """The campaign as the ledger holds it. Its times are set when it starts."""
    points = list(_expected(forecast))
    if len(points) > MAX_EXPECTED:
        last = len(points) - 1
        points = [points[round(number * last / (MAX_EXPECTED - 1))] for number in range(MAX_EXPECTED)]
    return Campaign(
        name=name,
        started_by=started_by,
        started_at=0.0,
        expires_at=0.0,
        budget=forecast.budget,
        resource=forecast.resource,
        expected=tuple(points),
        target_spread=forecast.target_spread,
        unscheduled=forecast.unscheduled,
        nodes=forecast.nodes,
        fills=forecast.fills,
    )


def _expected(forecast: CampaignForecast) -> Iterator[ExpectedSpread]:
    moves = 0
    if forecast.spread_before is not None:
        yield ExpectedSpread(moves=0, spread=forecast.spread_before)
    for wave in forecast.waves:
        moves += wave.moves
        if wave.spread is not None:
            yield ExpectedSpread(moves=moves, spread=wave.spread)
