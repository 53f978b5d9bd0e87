"""How much batch work fits beside the usage of nodes."""

import numpy as np
import pytest

from equipoise.lab.model.batch_demand import (
    Forecast,
    LastingOffer,
    NodeDays,
    lowest_of_last_day,
    offered_now,
    run_batch,
)

DAY = 96


def nodes(daily: np.ndarray, noise: float, days: int = 11) -> NodeDays:
    """20 nodes of 40 cores with the same day."""
    generator = np.random.default_rng(1)
    usage = np.tile(daily, (20, days)) + generator.normal(0.0, noise, (20, days * DAY))
    return NodeDays(
        usage=usage, capacity=np.full(20, 40.0), measured_from=(days - 2) * DAY, measured_until=(days - 1) * DAY
    )


def test_constant_usage_is_filled_up_to_the_threshold_by_every_rule() -> None:
    days = nodes(np.full(DAY, 16.0), 0.0)
    for rule in (offered_now, lowest_of_last_day, LastingOffer(Forecast(days, hours=6), suppressed=0.03)):
        figures = run_batch(days, rule, hours=6, threshold=0.65)
        assert (figures.running, figures.suppressed) == (pytest.approx(0.25), 0.0)


def test_what_lasts_runs_more_than_the_worst_of_a_day_with_less_suppression_than_what_is_idle_now() -> None:
    """A night of twelve hours in which 16 of 40 cores are idle; by day 2 are."""
    daily = np.where(np.arange(DAY) < DAY // 2, 10.0, 24.0)
    days = nodes(daily, 0.5)
    now, worst, lasting = (
        run_batch(days, rule, hours=6, threshold=0.65)
        for rule in (offered_now, lowest_of_last_day, LastingOffer(Forecast(days, hours=6), suppressed=0.03))
    )
    assert lasting.running > 1.5 * worst.running
    assert lasting.suppressed < 0.02 < now.suppressed
