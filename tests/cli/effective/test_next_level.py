"""After a week of observation a level of trust is advised, with what it would move now; before it, none is."""

import pytest
from builders import NOW
from cli.plan.test_plan_summary import AFTER, BEFORE, a_move, a_plan
from hypothesis import given
from hypothesis import strategies as st

from equipoise.cli.effective.next_level import (
    HOUR,
    MIN_SHARE,
    WEEK,
    Observation,
    is_below,
    next_level_text,
    observation,
)
from equipoise.contracts.configuration.moves import LEVELS, MovesInEffect, MovesLevel
from equipoise.contracts.messages.advice import ClusterReview

BEGIN = NOW // HOUR * HOUR


def a_review(hours_ago: int, seen: float = 3_000.0) -> ClusterReview:
    since = BEGIN - hours_ago * HOUR
    return ClusterReview(since=since, until=min(since + HOUR - 1, NOW), seen=seen, nodes=40)


def observed(*hours_ago: int, seen: float = 3_000.0) -> Observation:
    return observation([a_review(hours, seen) for hours in hours_ago], NOW)


WHOLE_WEEK = range(1, 168)


@pytest.mark.parametrize(
    ("found", "week"),
    [
        (observed(*WHOLE_WEEK), True),
        (observed(*range(1, 140), 167), True),
        (observed(*range(1, 165)), False),  # the first hour is too late
        (observed(*range(1, 120), 167), False),  # too many hours are missing
        (observed(*WHOLE_WEEK, seen=0.0), False),  # nothing was known
        (observed(), False),
    ],
)
def test_a_week_is_observed_if_it_is_covered(found: Observation, week: bool) -> None:
    assert found.is_a_week(NOW) == week


@given(st.lists(st.integers(0, 400)))
def test_reviews_of_several_scorers_about_one_hour_count_once(hours: list[int]) -> None:
    once, twice = observed(*hours), observed(*hours, *hours)
    assert once == twice
    assert once.hours <= WEEK / HOUR + 1
    assert not once.is_a_week(NOW) or once.hours >= MIN_SHARE * WEEK / HOUR


@pytest.mark.parametrize(
    ("level", "configured", "below"),
    [
        ("off", None, True),
        ("scaleDowns", "scaleDowns", True),
        ("off", "off", True),
        ("off", "withoutGap", False),  # it is chosen, and held lower by something else
        ("hotNodes", None, False),
        ("withoutGap", "withoutGap", False),
    ],
)
def test_it_is_advised_only_where_less_is_chosen(level: MovesLevel, configured: MovesLevel | None, below: bool) -> None:
    assert is_below(MovesInEffect(level=level, configured=configured)) == below
    assert level in LEVELS


def test_the_advice_states_what_the_level_would_move_now() -> None:
    week = observed(*WHOLE_WEEK)
    plan = a_plan(a_move(without_gap=True), before=BEFORE, after=AFTER)
    text = next_level_text(week, NOW, plan)
    assert text.startswith(
        "observed in 167 of 168 hours: the level withoutGap is advised. In sum: 1 pod would be moved"
    )
    nothing = next_level_text(week, NOW, a_plan(why={"low_node_load": "no node is hot"}))
    assert nothing.endswith("is advised. It would move no pod now (no node is hot).")
    assert "unknown" in next_level_text(week, NOW, None)
    assert next_level_text(observed(1, 2), NOW, plan) == "observed in 2 of 168 hours: after a week, a level is advised"
