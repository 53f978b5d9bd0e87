"""How many decisions are told of."""

import pytest

from equipoise.scorer.shell.decision_sampler import Sampler


@pytest.mark.parametrize(("rate", "at_once", "a_second_later"), [(10.0, 10, 10), (0.5, 1, 0), (0.0, 0, 0)])
def test_at_most_so_many_pass(rate: float, at_once: int, a_second_later: int) -> None:
    """As many at once as in a second, at least one; with rate 0 none at all."""
    sampler = Sampler(rate)

    assert sum(sampler.take(1_000.0) for _ in range(50)) == at_once
    assert sum(sampler.take(1_001.0) for _ in range(50)) == a_second_later


def test_a_slow_rate_passes_one_now_and_then() -> None:
    """Every other second at half a decision per second."""
    sampler = Sampler(0.5)

    assert [sampler.take(1_000.0 + second) for second in range(5)] == [True, False, True, False, True]
