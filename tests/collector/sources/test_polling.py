"""Queries about windows on polled values."""

import math
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.collector.decisions.query import MetricQuery, Sample
from equipoise.collector.sources.polling import SampleHistory

NODE = ("a", "", "")
POD = ("", "shop", "web-0")
GIB = 2.0**30


def a_query(aggregate: str, length: float = 60.0, at: float = 100.0, **fields: object) -> MetricQuery:
    defaults = {"subject": "node", "resource": "cpu"}
    return MetricQuery(aggregate=aggregate, length=length, at=at, **(defaults | fields))  # type: ignore[arg-type]


def a_history(*samples: tuple[float, float]) -> SampleHistory:
    history = SampleHistory(3_600.0)
    for at, cpu in samples:
        history.add(NODE, at, cpu, cpu * GIB)
    return history


def value(history: SampleHistory, query: MetricQuery) -> float | None:
    [found] = [sample.value for sample in history.query(query)] or [None]
    return found


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("mean", 3.0), ("count", 4.0), ("newest", 95.0), ("last", 95.0), ("spacing", 15.0),
        ("max", 6.0), ("p95", 5.55), ("deviation", pstdev([1.0, 2.0, 3.0, 6.0])),
    ],
)  # fmt: skip
def test_each_aggregate_uses_the_samples_in_the_window(aggregate: str, expected: float) -> None:
    """Earlier samples do not count."""
    history = a_history((30.0, 99.0), (50.0, 1.0), (65.0, 2.0), (80.0, 3.0), (95.0, 6.0))

    assert pytest.approx(expected) == value(history, a_query(aggregate))


def test_a_mean_of_too_few_samples_is_left_out() -> None:
    """When the query requires a number of samples."""
    history = a_history((80.0, 1.0), (95.0, 2.0))

    assert (1.5, None) == (
        value(history, a_query("mean", min_samples=2.0)),
        value(history, a_query("mean", min_samples=3.0)),
    )


def test_a_repeated_sample_counts_once() -> None:
    """The source may not have measured again since the last poll."""
    history = a_history((80.0, 1.0), (80.0, 1.0), (95.0, 2.0), (80.0, 7.0))

    assert (2.0, 1.5) == (value(history, a_query("count")), value(history, a_query("mean")))


def test_samples_after_a_clock_correction_are_used_at_once() -> None:
    """Not only after the wrong time has passed."""
    history = a_history((65.0, 9.0), (7_265.0, 9.0), (80.0, 1.0), (95.0, 2.0))

    assert (95.0, 1.5) == (value(history, a_query("newest")), value(history, a_query("mean")))


def test_a_window_without_samples_has_no_value() -> None:
    """A single sample has no spacing; a series without new samples ends."""
    history = a_history((10.0, 1.0))

    assert [[], [], [10.0], []] == [
        [sample.value for sample in history.query(query)]
        for query in (a_query("mean"), a_query("spacing", 100.0), a_query("newest"), a_query("newest", at=311.0))
    ]


def test_an_invalid_value_makes_the_window_unknown() -> None:
    """It is not left out of the mean."""
    history = a_history((80.0, math.nan), (95.0, 2.0))

    assert all(
        math.isnan(value(history, a_query(aggregate)) or 0.0) for aggregate in ("mean", "max", "p95", "deviation")
    )


def test_a_sample_from_the_future_is_only_visible_as_the_newest() -> None:
    """Sample validation rejects it."""
    history = a_history((95.0, 2.0), (500.0, 9.0))

    assert (500.0, 2.0) == (value(history, a_query("newest")), value(history, a_query("mean")))


def test_pods_and_nodes_are_separate() -> None:
    """As are cpu and memory."""
    history = a_history((95.0, 2.0))
    history.add(POD, 95.0, 0.5, GIB)
    [pod] = history.query(a_query("mean", subject="pod", resource="memory"))

    assert ("", "shop", "web-0", GIB) == (pod.node, pod.namespace, pod.pod, pod.value)
    assert [2.0] == [sample.value for sample in history.query(a_query("mean"))]


def test_a_series_has_the_same_name_in_every_query() -> None:
    """Otherwise no count would belong to its mean."""
    history = a_history((80.0, 1.0), (95.0, 2.0))
    series = {
        sample.series
        for aggregate in ("mean", "count", "newest", "last")
        for sample in history.query(a_query(aggregate))
    }

    assert 1 == len(series)


@given(st.lists(st.floats(0.1, 50.0), min_size=1, max_size=200), st.floats(1.0, 400.0))
def test_samples_older_than_the_retention_are_deleted(gaps: list[float], limit: float) -> None:
    """Exactly those."""
    history, at, published = SampleHistory(limit), 0.0, []
    for gap in gaps:
        at += gap
        published.append((at, gap))
        history.add(NODE, at, gap, 0.0)
    recent = [gap for when, gap in published if when > at - limit]
    mean: list[Sample] = history.query(a_query("mean", length=1e6, at=at))

    assert pytest.approx(fmean(recent)) == mean[0].value
    history.prune(at + limit + 1.0)
    assert [] == history.query(a_query("count", length=1e6, at=at))
