"""A campaign passes only when every run is conclusive and without violations."""

import pytest

from faults.campaign import Result, exit_code, line, markdown, seeds, table
from faults.catalog import FAULTS

PASSED = Result(fault="errors", seed=1, seconds=9.0, violations={"I1": []}, happened={"intents": 30, "evictions": 12})
VIOLATED = Result(fault="errors", seed=2, seconds=9.0, violations={"I1": ["web-1: one too many"]})
INCONCLUSIVE = Result(fault="paused", seed=1, seconds=9.0, inconclusive="3 of 20 intents")


@pytest.mark.parametrize(
    ("results", "code"),
    [([PASSED], 0), ([PASSED, VIOLATED], 1), ([INCONCLUSIVE, VIOLATED], 1), ([PASSED, INCONCLUSIVE], 2), ([], 2)],
)
def test_exit_codes(results: list[Result], code: int) -> None:
    """A violation comes first; an inconclusive run, and no run at all, is no success."""
    assert exit_code(results) == code


def test_the_table_counts_runs_by_fault() -> None:
    """A row per fault: violations by invariant, inconclusive runs, and the traffic of all runs."""
    head, errors, paused = table([PASSED, VIOLATED, INCONCLUSIVE]).splitlines()
    assert head.split()[:4] == ["fault", "runs", "inconclusive", "I1"]
    assert errors.split()[:4] == ["errors", "2", "·", "1"]
    assert errors.split()[-2:] == ["30", "12"]
    assert paused.split()[:4] == ["paused", "1", "1", "·"]


def test_the_table_in_markdown_has_the_numbers_of_the_plan() -> None:
    """To be pasted into docs/reliability.md."""
    *_, errors, paused = markdown([PASSED, VIOLATED, INCONCLUSIVE]).splitlines()
    assert errors == "| `errors` | F25 | 2 | 30 | 12 | 1 | 0 |"
    assert paused == "| `paused` |  | 1 | 0 | 0 | 0 | 1 |"


def test_a_line_has_the_violations() -> None:
    """By invariant, and why a run is inconclusive."""
    assert "VIOLATED" in line(VIOLATED)
    assert "I1: web-1: one too many" in line(VIOLATED)
    assert "inconclusive" in line(INCONCLUSIVE)
    assert "passed" in line(PASSED)


def test_seeds() -> None:
    """A list or a range."""
    assert seeds("1-3") == [1, 2, 3]
    assert seeds("4,7") == [4, 7]


def test_the_campaign_has_every_fault_of_the_plan() -> None:
    """F1 to F57; the mix of all of them, F40, is the soak."""
    covered = {number for fault in FAULTS.values() for number in fault.covers} | {40}
    assert set(range(1, 58)) == covered
