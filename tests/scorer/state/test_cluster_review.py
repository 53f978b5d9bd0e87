"""Reviews of the cluster's load in an hour."""

import numpy as np
import pytest

from equipoise.contracts.configuration.settings import PressureThresholds, ResourceThresholds
from equipoise.contracts.messages.advice import ClusterReview
from equipoise.contracts.messages.values.pressure import NodePressure, Pressure
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array
from equipoise.scorer.state.cluster_review import ClusterReviewer

HOUR = 500_000 * 3_600.0
"""A full hour."""

NAMES = ["a", "b", "c"]


def loads(*cpu: float) -> Array:
    """Of a, b and c; memory at 30 %."""
    return np.array([[each, 0.3 if each == each else np.nan] for each in cpu])


def observe(
    reviewer: ClusterReviewer, load: Array, begin: float, end: float, *, step: float = 10.0, known: bool = True
) -> list[ClusterReview]:
    """Observe the same load every few seconds; the reviews to publish."""
    reviews: list[ClusterReview] = []
    for now in np.arange(begin, end + step / 2, step):
        reviews += reviewer.observe(NAMES, load, float(now), known=known)
    return reviews


def test_the_time_above_a_threshold_is_summed_per_node() -> None:
    """In any resource, strictly above the threshold; the last period ends with the hour."""
    reviewer = ClusterReviewer(ResourceThresholds(cpu=65, memory=80))
    observe(reviewer, loads(0.9, 0.65, 0.2), HOUR, HOUR + 1_200)
    last = observe(reviewer, loads(0.5, 0.7, 0.2), HOUR + 1_210, HOUR + 3_605)[-1]

    assert (last.since, last.until, last.seen) == (HOUR, HOUR + 3_600, 3_600.0)
    assert last.over == {"a": 1_200.0, "b": 2_400.0}
    assert last.high == Resources(cpu=0.65, memory=0.8)
    assert last.nodes == 3


def test_time_with_and_without_pressure_is_summed_apart() -> None:
    """a is above its threshold and its pods wait, b only above it, and c waits below it."""
    reviewer = ClusterReviewer(ResourceThresholds(cpu=65), PressureThresholds(cpu=20))
    pressures = {name: NodePressure(sampled_at=HOUR, waiting=Pressure(cpu=share)) for name, share in
                 (("a", 0.4), ("b", 0.1), ("c", 0.4))}  # fmt: skip
    for second in range(0, 301, 10):
        reviews = reviewer.observe(NAMES, loads(0.9, 0.9, 0.2), HOUR + second, known=True, pressures=pressures)

    assert reviews[-1].over == {"a": 300.0, "b": 300.0}
    assert reviews[-1].over_without_pressure == {"b": 300.0}
    assert reviews[-1].under_with_pressure == {"c": 300.0}


def test_the_spread_is_the_mean_over_time() -> None:
    """Two thirds of the hour at 0.6, one third at 0.3; nodes of unknown load do not count."""
    reviewer = ClusterReviewer(ResourceThresholds(cpu=65))
    observe(reviewer, loads(0.8, 0.2, np.nan), HOUR, HOUR + 2_400)
    last = observe(reviewer, loads(0.5, 0.2, np.nan), HOUR + 2_410, HOUR + 3_600)[-1]

    assert last.spread.cpu == pytest.approx((2 * 0.6 + 0.3) / 3)
    assert last.deviation.cpu == pytest.approx((2 * 0.3 + 0.15) / 3)
    assert last.spread.memory == pytest.approx(0.0)
    assert last.nodes == 2


def test_a_growing_period_is_published_every_five_minutes() -> None:
    """With the same beginning, so that little is lost when a scorer crashes."""
    reviewer = ClusterReviewer(ResourceThresholds(cpu=65))
    reviews = observe(reviewer, loads(0.8, 0.2, 0.3), HOUR + 600, HOUR + 1_300)

    assert [(each.since, each.until - each.since, each.seen) for each in reviews] == [
        (HOUR + 600, 300.0, 300.0),
        (HOUR + 600, 600.0, 600.0),
    ]


def test_time_without_coverage_or_observations_does_not_count() -> None:
    """After a gap a new period begins."""
    reviewer = ClusterReviewer(ResourceThresholds(cpu=65))
    observe(reviewer, loads(0.9, 0.2, 0.3), HOUR, HOUR + 100)
    observe(reviewer, loads(0.9, 0.2, 0.3), HOUR + 110, HOUR + 200, known=False)
    [first] = reviewer.observe(NAMES, loads(0.9, 0.2, 0.3), HOUR + 1_000, known=True)
    last = observe(reviewer, loads(0.9, 0.2, 0.3), HOUR + 1_010, HOUR + 3_600)[-1]

    assert (first.since, first.until, first.seen, first.over) == (HOUR, HOUR + 200, 100.0, {"a": 100.0})
    assert (last.since, last.seen, last.over) == (HOUR + 1_000, 2_600.0, {"a": 2_600.0})


def test_an_empty_period_is_not_published() -> None:
    """A clock that steps back begins a new period."""
    reviewer = ClusterReviewer(ResourceThresholds(cpu=65))

    assert observe(reviewer, loads(np.nan, np.nan, np.nan), HOUR, HOUR + 3_700, known=False) == []
    assert reviewer.observe(NAMES, loads(0.9, 0.2, 0.3), HOUR, known=True) == []


def test_skipped_placements_are_counted_in_their_hour() -> None:
    """The next hour starts at 0."""
    reviewer = ClusterReviewer(ResourceThresholds(cpu=65))
    observe(reviewer, loads(0.1, 0.2, 0.3), HOUR, HOUR + 50)
    reviewer.skip()
    reviewer.skip()
    reviews = observe(reviewer, loads(0.1, 0.2, 0.3), HOUR + 60, HOUR + 7_200)

    assert {each.since: each.skipped for each in reviews} == {HOUR: 2, HOUR + 3_600: 0}
