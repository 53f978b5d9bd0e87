"""The rate limit of published decisions."""

import pytest

from equipoise.scorer.shell.decision_sampler import DecisionSampler


@pytest.mark.parametrize(("rate", "at_once", "a_second_later"), [(10.0, 10, 10), (0.5, 1, 0), (0.0, 0, 0)])
def test_at_most_a_seconds_worth_is_admitted_at_once(rate: float, at_once: int, a_second_later: int) -> None:
    """At least one; none with rate 0."""
    sampler = DecisionSampler(rate)

    assert sum(sampler.take(1_000.0) for _ in range(50)) == at_once
    assert sum(sampler.take(1_001.0) for _ in range(50)) == a_second_later


def test_a_rate_below_one_admits_every_few_seconds() -> None:
    """Every other second at half a decision per second."""
    sampler = DecisionSampler(0.5)

    assert [sampler.take(1_000.0 + second) for second in range(5)] == [True, False, True, False, True]
