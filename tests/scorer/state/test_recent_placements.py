"""The number of pods placed on each node in the last minutes."""

from equipoise.scorer.state.recent_placements import RecentPlacements

NOW = 1_000.0


def test_each_span_counts_the_pods_placed_within_it() -> None:
    """A pod exactly as old as the span does not count."""
    placements = RecentPlacements((60.0, 300.0))
    for row, age in ((0, 1.0), (0, 59.0), (0, 60.0), (1, 200.0), (1, 300.0), (1, 900.0)):
        placements.add(row, NOW - age, NOW)

    assert placements.counts(3, (60.0, 300.0), NOW).tolist() == [[2, 3], [0, 1], [0, 0]]
    assert placements.counts(3, (60.0, 300.0), NOW + 250).tolist() == [[0, 1], [0, 0], [0, 0]]


def test_a_cleared_row_has_no_placements() -> None:
    """Rows of removed nodes are reused."""
    placements = RecentPlacements((60.0,))
    placements.add(0, NOW, NOW)
    placements.clear(0)

    assert placements.counts(1, (60.0,), NOW).tolist() == [[0]]


def test_memory_is_bounded_by_the_longest_span() -> None:
    """Expired placements are removed when the arrays are full."""
    placements = RecentPlacements((60.0,))
    for second in range(10_000):
        placements.add(second % 7, float(second), float(second))

    assert placements.counts(7, (60.0,), 9_999.0).sum() == 60
    assert len(placements._times) <= 512


def test_without_spans_nothing_is_recorded() -> None:
    """The result has no columns."""
    placements = RecentPlacements(())
    placements.add(0, NOW, NOW)

    assert placements._end == 0
    assert placements.counts(2, (), NOW).shape == (2, 0)


def test_placements_of_the_time_of_a_clock_that_was_ahead_do_not_count() -> None:
    """Neither those that were recorded while it was, nor those that the API server dated."""
    placements = RecentPlacements((60.0,))
    placements.add(0, NOW + 86_400, NOW + 86_400)
    placements.add(0, NOW + 86_400, NOW)

    assert placements.counts(1, (60.0,), NOW).tolist() == [[0]]
