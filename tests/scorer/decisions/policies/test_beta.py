"""The Beta distribution, compared with exact values."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.scorer.decisions.policies.beta import beta_cdf, greatest_variance, matched


def cdf(x: float, alpha: float, beta: float) -> float:
    return float(beta_cdf(np.array([x]), np.array([alpha]), np.array([beta]))[0])


@pytest.mark.parametrize("x", [1e-9, 0.01, 0.2, 0.5, 0.7, 0.999])
@pytest.mark.parametrize(
    ("alpha", "beta"), [(1, 1), (2, 1), (1, 3), (5, 4), (2, 30), (40, 60), (300, 700), (4_000, 6_000)]
)
def test_integer_parameters_give_a_binomial_sum(x: float, alpha: int, beta: int) -> None:
    """I_x(a, b) is the probability of at least a successes in a + b − 1 trials of probability x."""
    throws = alpha + beta - 1

    def chance(hits: int) -> float:
        ways = math.lgamma(throws + 1) - math.lgamma(hits + 1) - math.lgamma(throws - hits + 1)
        return math.exp(ways + hits * math.log(x) + (throws - hits) * math.log1p(-x))

    assert cdf(x, alpha, beta) == pytest.approx(sum(map(chance, range(alpha, throws + 1))), abs=1e-9)


@pytest.mark.parametrize("x", [0.001, 0.25, 0.5, 0.9])
def test_parameters_of_one_half_give_the_arcsine_distribution(x: float) -> None:
    """Parameters below 1: most of the mass is at the ends."""
    assert cdf(x, 0.5, 0.5) == pytest.approx(2 / math.pi * math.asin(math.sqrt(x)), abs=1e-9)


@given(
    mean=st.floats(0.001, 0.999),
    part=st.floats(1e-4, 0.995),
    x=st.integers(0, 2**20).map(lambda steps: steps / 2**20),
    more=st.floats(0, 1),
)
@settings(max_examples=200)
def test_the_distribution_function_rises_from_0_to_1_and_is_symmetric(
    mean: float, part: float, x: float, more: float
) -> None:
    """For every possible mean and deviation of a share."""
    alpha, beta = matched(np.array([mean]), part * np.sqrt(greatest_variance(np.array([mean]))))

    lower, upper = beta_cdf(np.array([x, min(1.0, x + more)]), alpha, beta)

    assert 0.0 <= lower <= upper + 1e-9
    assert upper <= 1.0
    assert beta_cdf(np.array([1.0 - x]), beta, alpha)[0] == pytest.approx(1.0 - lower, abs=1e-8)


def test_a_tiny_deviation_gives_a_step() -> None:
    """The deviation is increased, so that the number of terms is bounded."""
    alpha, beta = matched(np.array([0.3]), np.array([1e-9]))

    assert alpha + beta == pytest.approx(1e4)
    assert beta_cdf(np.array([0.27, 0.3, 0.33]), alpha, beta) == pytest.approx([0, 0.5, 1], abs=0.01)


@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 0.1), (1.0, 0.1), (0.5, 0.5), (0.5, 0.6), (np.nan, 0.1)])
def test_impossible_moments_have_no_distribution(mean: float, deviation: float) -> None:
    """A share that is always 0 or 1, or has a larger deviation than a share can have."""
    alpha, beta = matched(np.array([mean]), np.array([deviation]))

    assert np.isnan(alpha)
    assert np.isnan(beta)
    assert beta_cdf(np.array([0.5]), alpha, beta).tolist() == [0.0]
