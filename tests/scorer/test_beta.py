"""The Beta distribution against exact values, its own moments, and Trimaran's cases."""

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
def test_whole_parameters_are_sums_of_binomials(x: float, alpha: int, beta: int) -> None:
    """I_x(a, b) is the chance of at least a hits in a + b − 1 throws of chance x."""
    throws = alpha + beta - 1

    def chance(hits: int) -> float:
        ways = math.lgamma(throws + 1) - math.lgamma(hits + 1) - math.lgamma(throws - hits + 1)
        return math.exp(ways + hits * math.log(x) + (throws - hits) * math.log1p(-x))

    assert cdf(x, alpha, beta) == pytest.approx(sum(map(chance, range(alpha, throws + 1))), abs=1e-9)


@pytest.mark.parametrize("x", [0.001, 0.25, 0.5, 0.9])
def test_a_half_and_a_half_is_the_arcsine(x: float) -> None:
    """Parameters below 1: most mass lies at the ends."""
    assert cdf(x, 0.5, 0.5) == pytest.approx(2 / math.pi * math.asin(math.sqrt(x)), abs=1e-9)


@given(
    mean=st.floats(0.001, 0.999),
    part=st.floats(1e-4, 0.995),
    x=st.integers(0, 2**20).map(lambda steps: steps / 2**20),
    more=st.floats(0, 1),
)
@settings(max_examples=200)
def test_it_rises_from_0_to_1_and_is_its_own_mirror(mean: float, part: float, x: float, more: float) -> None:
    """For every mean and deviation that a share may have."""
    alpha, beta = matched(np.array([mean]), part * np.sqrt(greatest_variance(np.array([mean]))))

    lower, upper = beta_cdf(np.array([x, min(1.0, x + more)]), alpha, beta)

    assert 0.0 <= lower <= upper + 1e-9
    assert upper <= 1.0
    assert beta_cdf(np.array([1.0 - x]), beta, alpha)[0] == pytest.approx(1.0 - lower, abs=1e-8)


def test_a_deviation_of_next_to_nothing_is_a_step() -> None:
    """It is taken as a little wider, so that the work stays bounded."""
    alpha, beta = matched(np.array([0.3]), np.array([1e-9]))

    assert alpha + beta == pytest.approx(1e4)
    assert beta_cdf(np.array([0.27, 0.3, 0.33]), alpha, beta) == pytest.approx([0, 0.5, 1], abs=0.01)


@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 0.1), (1.0, 0.1), (0.5, 0.5), (0.5, 0.6), (np.nan, 0.1)])
def test_moments_that_no_distribution_has(mean: float, deviation: float) -> None:
    """A share that is always 0 or 1, or varies more than a share can, has no Beta distribution."""
    alpha, beta = matched(np.array([mean]), np.array([deviation]))

    assert np.isnan(alpha)
    assert np.isnan(beta)
    assert beta_cdf(np.array([0.5]), alpha, beta).tolist() == [0.0]
