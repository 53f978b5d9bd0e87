"""A campaign passes only if every run was conclusive and nothing was violated."""

import pytest

from faults.campaign import Result, exit_code, line, seeds, table

GREEN = Result(fault="errors", seed=1, seconds=9.0, violations={"I1": []}, happened={"intents": 30, "evictions": 12})
VIOLATED = Result(fault="errors", seed=2, seconds=9.0, violations={"I1": ["web-1: one too many"]})
UNSURE = Result(fault="paused", seed=1, seconds=9.0, inconclusive="3 of 20 intents")


@pytest.mark.parametrize(
    ("results", "code"),
    [([GREEN], 0), ([GREEN, VIOLATED], 1), ([UNSURE, VIOLATED], 1), ([GREEN, UNSURE], 2), ([], 2)],
)
def test_exit_codes(results: list[Result], code: int) -> None:
    """A violation counts most; what says nothing, and no run at all, is no success."""
    assert exit_code(results) == code


def test_the_table_counts_runs_by_fault() -> None:
    """A row for each fault: how many runs violated what, how many say nothing, and the sums of what happened."""
    head, errors, paused = table([GREEN, VIOLATED, UNSURE]).splitlines()
    assert head.split()[:4] == ["fault", "runs", "unsure", "I1"]
    assert errors.split()[:4] == ["errors", "2", "·", "1"]
    assert errors.split()[-2:] == ["30", "12"]
    assert paused.split()[:4] == ["paused", "1", "1", "·"]


def test_a_line_says_what_was_violated() -> None:
    """With its invariant, and why a run says nothing."""
    assert "VIOLATED" in line(VIOLATED)
    assert "I1: web-1: one too many" in line(VIOLATED)
    assert "inconclusive" in line(UNSURE)
    assert "green" in line(GREEN)


def test_seeds() -> None:
    """A list or a range."""
    assert seeds("1-3") == [1, 2, 3]
    assert seeds("4,7") == [4, 7]
