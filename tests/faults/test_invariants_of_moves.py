"""Every check of moves without a gap detects its violations, and nothing in a valid history."""

import pytest

from faults.histories_of_moves import ALLOWED_MOVES, BAD_MOVES, GUARANTEES, endpoints, required
from faults.history import History
from faults.history_of_moves import below
from faults.invariants import INVARIANTS, violations


@pytest.mark.parametrize("name", BAD_MOVES)
def test_a_bad_history_violates_its_invariant(name: str) -> None:
    invariant, history = BAD_MOVES[name]
    assert violations(history, GUARANTEES)[invariant]


@pytest.mark.parametrize("history", ALLOWED_MOVES.values(), ids=ALLOWED_MOVES.keys())
def test_an_allowed_history_has_no_violation(history: History) -> None:
    assert violations(history, GUARANTEES) == {name: [] for name in INVARIANTS}


def test_the_time_below_the_required_endpoints() -> None:
    """With the fewest endpoints and the most required meanwhile; a span that has not ended has 0 seconds."""
    counts = endpoints((1, 2), (10, 1), (11, 0), (12.5, 2), (20, 1))
    assert list(below(counts, required((2, 2)))) == [(10, 2.5, 0, 2), (20, 0.0, 1, 2)]
    assert list(below(counts, required((2, 0)))) == []
    assert list(below((), required((2, 1), (3, 0)))) == [(2, 1.0, 0, 1)]
