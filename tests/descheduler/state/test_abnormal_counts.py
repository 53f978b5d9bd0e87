"""Ten minutes above the threshold make a node abnormal, a burst does not."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.state.abnormal_counts import AbnormalCounts, abnormal_nodes, counted

INTERVAL = 120.0
NEEDED = 5


def classified(abnormal: bool | None, sampled_at: float) -> NodeClassification:
    """None: its load is not known."""
    state: Literal["unknown", "hot", "between"] = "unknown" if abnormal is None else "hot" if abnormal else "between"
    return NodeClassification(node="a", state=state, load=Resources(), sampled_at=sampled_at)


def after(observations_of: list[tuple[float, bool | None, float]]) -> AbnormalCounts:
    """The counts of one node after (time, abnormal, sample's time)."""
    counts: AbnormalCounts = {}
    for now, abnormal, sampled_at in observations_of:
        counts = counted(counts, [classified(abnormal, sampled_at)], now=now, interval=INTERVAL)
    return counts


def is_abnormal(observations_of: list[tuple[float, bool | None, float]]) -> bool:
    return abnormal_nodes(after(observations_of), NEEDED) == {"a"}


def test_five_in_a_row_make_a_node_abnormal() -> None:
    """The fifth evaluation above the threshold decides, not the fourth."""
    every_interval = [(i * INTERVAL, True, i * INTERVAL) for i in range(5)]

    assert is_abnormal(every_interval)
    assert not is_abnormal(every_interval[:4])


def test_a_burst_is_no_trend() -> None:
    """A minute above the threshold counts once, however often it is sampled and evaluated in between."""
    burst = [(float(second), 300 <= second < 360, float(second)) for second in range(0, 1_200, 15)]

    assert all(not is_abnormal(burst[: i + 1]) for i in range(len(burst)))
    assert max(count.abnormal for i in range(len(burst)) for count in after(burst[: i + 1]).values()) == 1


def test_the_same_sample_counts_once() -> None:
    """The last sample of a source that failed while the node was hot counts once."""
    assert not is_abnormal([(i * INTERVAL, True, 7.0) for i in range(20)])


def test_an_unknown_load_neither_counts_nor_ends_a_count() -> None:
    """A single gap in the data delays the count by one evaluation."""
    with_gap = [(i * INTERVAL, None if i in (1, 4) else True, i * INTERVAL) for i in range(7)]

    assert is_abnormal(with_gap)
    assert not is_abnormal(with_gap[:6])


@pytest.mark.parametrize(("missing", "counted"), [(1, 6), (2, 1)])
def test_a_count_ends_while_nothing_is_measured(missing: int, counted: int) -> None:
    """Five minutes after the last abnormal evaluation, as in Koordinator: after a longer gap the count restarts."""
    before = [(i * INTERVAL, True, i * INTERVAL) for i in range(5)]
    gap = [(i * INTERVAL, None, 4 * INTERVAL) for i in range(5, 5 + missing)]
    back = (5 + missing) * INTERVAL

    assert after([*before, *gap, (back, True, back)])["a"].abnormal == counted


def test_a_count_ends_during_the_gap_itself() -> None:
    """A node that is not measured is not abnormal for ever."""
    before = [(i * INTERVAL, True, i * INTERVAL) for i in range(5)]

    assert is_abnormal([*before, (4 * INTERVAL + 300, None, 0.0)])
    assert after([*before, (4 * INTERVAL + 301, None, 0.0)]) == {}


def test_a_count_ends_after_evaluations_that_never_happened() -> None:
    """A leader that could not evaluate for an hour does not continue an old count."""
    assert after([(0.0, True, 0.0), (3_600.0, True, 3_600.0)])["a"].abnormal == 1


def test_samples_slower_than_the_evaluations_end_no_count() -> None:
    """While the load is known and above the threshold the count lives, even when no evaluation counts."""
    slow = [(i * INTERVAL, True, i * INTERVAL // 600 * 600) for i in range(21)]

    assert is_abnormal(slow)


def test_a_long_interval_may_miss_one_evaluation() -> None:
    """The lifetime of a count is at least two and a half intervals."""
    counts: AbnormalCounts = {}
    for number, abnormal in enumerate([True, None, True]):
        now = 900.0 * number
        counts = counted(counts, [classified(abnormal, now)], now=now, interval=900.0)

    assert counts["a"].abnormal == 2


def test_a_normal_evaluation_ends_the_count() -> None:
    """Abnormal evaluations must follow one another."""
    interrupted = [(i * INTERVAL, i != 4, i * INTERVAL) for i in range(9)]

    assert not is_abnormal(interrupted)
    assert is_abnormal([*interrupted, (9 * INTERVAL, True, 9 * INTERVAL)])


def test_a_node_that_is_gone_is_forgotten() -> None:
    """A later node of the same name starts at zero."""
    counts = after([(0.0, True, 0.0)])

    assert counted(counts, [], now=INTERVAL, interval=INTERVAL) == {}


@given(st.lists(st.tuples(st.floats(0, 400), st.sampled_from([True, False, None]), st.floats(-50, 500)), max_size=60))
def test_a_count_grows_by_at_most_one_per_interval(steps: list[tuple[float, bool | None, float]]) -> None:
    """And only on a newer sample."""
    now, counts = 0.0, {}
    for wait, abnormal, ahead in steps:
        now += wait
        before = counts.get("a")
        counts = counted(counts, [classified(abnormal, now + ahead)], now=now, interval=INTERVAL)
        after = counts.get("a")
        if before is not None and after is not None and after.abnormal > before.abnormal:
            assert after.abnormal == before.abnormal + 1
            assert after.evaluated_at - before.evaluated_at >= INTERVAL - 0.01
            assert after.sampled_at > before.sampled_at
        elif before is not None and after is not None and after.abnormal < before.abnormal:
            assert after.abnormal == 1
            assert now - before.abnormal_at > 300
        elif before is None and after is not None:
            assert after.abnormal == 1
