"""Deletion costs of Equipoise, and those of others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.eviction.deletion_cost import RANKS, cost_of_rank, is_own_cost


def test_lower_ranks_have_lower_costs() -> None:
    """All are recognized."""
    costs = [int(cost_of_rank(rank)) for rank in range(RANKS)]
    assert costs == sorted(set(costs))
    assert all(is_own_cost(str(cost)) for cost in costs)
    assert (costs[0], costs[-1]) == (-9_999, -9_000)


@pytest.mark.parametrize(
    "value", ["", "0", "-1", "-8999", "-10000", "9999", "-90001", "-9", "-9x00", "-9٣٣٣", " -9000"]
)
def test_other_values_are_those_of_other_writers(value: str) -> None:
    assert not is_own_cost(value)


@given(st.text() | st.integers().map(str))
def test_no_text_is_taken_for_a_cost_by_mistake(value: str) -> None:
    assert is_own_cost(value) == (value in {cost_of_rank(rank) for rank in range(RANKS)})
