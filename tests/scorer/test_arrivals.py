"""How many pods each node was given lately."""

from equipoise.scorer.state.recent_placements import Arrivals

NOW = 1_000.0


def test_each_span_counts_what_was_placed_within_it() -> None:
    """A pod that is exactly as old as the span no longer counts."""
    arrivals = Arrivals((60.0, 300.0))
    for row, age in ((0, 1.0), (0, 59.0), (0, 60.0), (1, 200.0), (1, 300.0), (1, 900.0)):
        arrivals.add(row, NOW - age, NOW)
    assert arrivals.counts(3, NOW).tolist() == [[2, 3], [0, 1], [0, 0]]
    assert arrivals.counts(3, NOW + 250).tolist() == [[0, 1], [0, 0], [0, 0]]


def test_a_row_that_becomes_another_nodes_starts_at_nothing() -> None:
    """Rows of removed nodes are used again."""
    arrivals = Arrivals((60.0,))
    arrivals.add(0, NOW, NOW)
    arrivals.drop(0)
    assert arrivals.counts(1, NOW).tolist() == [[0]]


def test_a_year_of_pods_takes_no_more_room_than_a_span() -> None:
    """Old ones are dropped when room is needed, none that counts."""
    arrivals = Arrivals((60.0,))
    for second in range(10_000):
        arrivals.add(second % 7, float(second), float(second))
    assert arrivals.counts(7, 9_999.0).sum() == 60
    assert len(arrivals._times) <= 512


def test_nothing_is_kept_for_a_policy_that_counts_nothing() -> None:
    """The shape is that of no spans, and the pod is not remembered."""
    arrivals = Arrivals(())
    arrivals.add(0, NOW, NOW)
    assert arrivals._end == 0
    assert arrivals.counts(2, NOW).shape == (2, 0)
