"""Which level of trust is advised after a week of observation, and what it would move now. Changes nothing."""

from collections.abc import Iterable

import msgspec

from equipoise.cli.bus.messages import retained_messages, send_request
from equipoise.cli.effective.reading import read_effective
from equipoise.cli.effective.trust import published_moves
from equipoise.cli.plan.summary import plan_sentence
from equipoise.contracts.bus.subjects import PLAN_PREVIEW, PREFIX
from equipoise.contracts.configuration.moves import LEVELS, MovesInEffect, MovesLevel
from equipoise.contracts.messages.advice import ClusterReview
from equipoise.contracts.messages.plan import PlanRequest, PlanResponse
from equipoise.runtime.bus import BusError
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import Clock

ADVISED: MovesLevel = "withoutGap"
HOUR, WEEK = 3_600.0, 7 * 86_400.0
MIN_SHARE = 0.8
"""The share of the hours of the week in which the load of enough nodes was known, as for all coverages."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """How long the scorers have observed the cluster."""

    hours: int
    """Hours of the last week in which the load of enough nodes was known."""

    since: float | None
    """The begin of the first one; None if there is none."""

    def is_a_week(self, now: float) -> bool:
        return self.since is not None and now - self.since >= WEEK - HOUR and self.hours * HOUR >= MIN_SHARE * WEEK


def observation(reviews: Iterable[ClusterReview], now: float) -> Observation:
    """The hours of the last week that reviews cover. Reviews of several scorers about one hour count once."""
    hours = {int(review.since // HOUR) for review in reviews if review.seen > 0 and now - WEEK <= review.until <= now}
    return Observation(hours=len(hours), since=min(hours) * HOUR if hours else None)


def is_below(moves: MovesInEffect) -> bool:
    """Whether less happens, and no level is configured that permits more."""
    levels = (moves.level, moves.configured or "off")
    return all(LEVELS.index(level) < LEVELS.index(ADVISED) for level in levels)


def next_level_text(observed: Observation, now: float, plan: PlanResponse | None) -> str:
    """The advice. `plan`: what the advised level would move now; None if it is unknown."""
    total = int(WEEK / HOUR)
    if not observed.is_a_week(now):
        return f"observed in {observed.hours} of {total} hours: after a week, a level is advised"
    would = "What it would move now is unknown, as no descheduler leads"
    if plan is not None:
        would = plan_sentence(plan) or f"It would move no pod now ({'; '.join(plan.why.values()) or 'no reason given'})"
    return f"observed in {observed.hours} of {total} hours: the level {ADVISED} is advised. {would.rstrip('.')}."


async def read_next_level(server: Nats, clock: Clock) -> str:
    """The advice; empty if the level in effect or the configured one is as high as the advised one. Raises BusError."""
    now = clock.now()
    if not is_below(published_moves(await read_effective(server, clock), now)):
        return ""
    pattern = f"{PREFIX}.advice.cluster.*.*"
    reviews = [
        message
        async for _, message in retained_messages(server, pattern, since=now - WEEK - HOUR, clock=clock)
        if isinstance(message, ClusterReview)
    ]
    observed = observation(reviews, now)
    plan = None
    if observed.is_a_week(now):
        try:
            request = PlanRequest(level=ADVISED)
            plan = await send_request(server, PLAN_PREVIEW, request, PlanResponse, no_responder="")
        except BusError:
            plan = None
    return next_level_text(observed, now, plan)
