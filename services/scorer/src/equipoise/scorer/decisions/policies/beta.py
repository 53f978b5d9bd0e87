"""The Beta distribution of a share (0..1) with a given mean and standard deviation.

Arrays broadcast. Accurate to 1e-8.
"""

from equipoise.contracts.numeric import Array, np

_NARROWEST = 1e4
"""Upper limit of alpha + beta: the distribution is then less than 0.005 wide, and the fraction converges quickly."""

_CERTAIN = 25.0
"""A tail with a probability below e⁻²⁵ counts as 0."""

_ACCURACY = 1e-10
_TERMS = 200
_CHECK_EVERY = 4
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680)
_SHIFT = 6


def greatest_variance(mean: Array) -> Array:
    """The variance of a share that is always 0 or 1; 0 for a mean outside 0..1."""
    return np.maximum(mean * (1.0 - mean), 0.0)


def matched(mean: Array, deviation: Array) -> tuple[Array, Array]:
    """Alpha and beta of the distribution with these moments; NaN if no distribution has them.

    alpha = mean·k and beta = (1 − mean)·k, with k = mean·(1 − mean)/deviation² − 1. A deviation for which k would be
    above 10,000 is increased.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        k = np.minimum(greatest_variance(mean) / deviation**2 - 1.0, _NARROWEST)
    k = np.where(k > 0.0, k, np.nan)
    return mean * k, (1.0 - mean) * k


def beta_cdf(x: Array, alpha: Array, beta: Array) -> Array:
    """Probability (0..1) of a value up to x: the regularized incomplete beta function I_x(alpha, beta).

    0 where alpha or beta is not above 0, and so no distribution exists. Uses the continued fraction of DLMF 8.17.22.
    """
    x, alpha, beta = np.broadcast_arrays(x, alpha, beta)
    exists = (alpha > 0.0) & (beta > 0.0)
    probability: Array = np.where(exists & (x >= 1.0), 1.0, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        total = alpha + beta
        mean = alpha / total
        # The distribution is sub-Gaussian with a variance of at most 1/(4·(alpha + beta + 1)) (Marchal and Arbel 2017).
        far = 2.0 * (total + 1.0) * (x - mean) ** 2 > _CERTAIN
    probability[exists & far & (x > mean)] = 1.0
    inner = exists & ~far & (x > 0.0) & (x < 1.0)
    if inner.any():
        probability[inner] = _regularized(x[inner], alpha[inner], beta[inner])
    return probability


def _regularized(x: Array, a: Array, b: Array) -> Array:
    """I_x(a, b) for 0 < x < 1. Above the mean it is 1 − I_(1 − x)(b, a), whose fraction converges faster."""
    mirrored = x * (a + b + 2.0) > a + 1.0
    x, complement = np.where(mirrored, 1.0 - x, x), np.where(mirrored, x, 1.0 - x)
    a, b = np.where(mirrored, b, a), np.where(mirrored, a, b)
    logarithm = a * np.log(x) + b * np.log(complement) - _log_beta(a, b)
    below = np.exp(logarithm) / a / _fraction(x, a, b)
    probability: Array = np.clip(np.where(mirrored, 1.0 - below, below), 0.0, 1.0)
    return probability


def _fraction(x: Array, a: Array, b: Array) -> Array:
    """1 + d₁/(1 + d₂/(1 + …)) by Lentz's method, for each element. Converged elements are not computed further."""
    fraction = np.ones_like(x)
    remaining = np.arange(len(x))
    value, c, d = np.ones_like(x), np.ones_like(x), np.zeros_like(x)
    for term in range(_TERMS):
        even = a + 2.0 * term
        # Each pass computes two steps: d₂ₘ₊₁ and d₂ₘ₊₂.
        step = -(a + term) * (a + b + term) * x / (even * (even + 1.0))
        d = 1.0 / (1.0 + step * d)
        c = 1.0 + step / c
        value *= c * d
        m = term + 1.0
        step = m * (b - m) * x / ((even + 1.0) * (even + 2.0))
        d = 1.0 / (1.0 + step * d)
        c = 1.0 + step / c
        change = c * d
        value *= change
        if term % _CHECK_EVERY == _CHECK_EVERY - 1:
            unconverged = np.abs(change - 1.0) > _ACCURACY
            fraction[remaining] = value
            remaining, x, a, b = remaining[unconverged], x[unconverged], a[unconverged], b[unconverged]
            value, c, d = value[unconverged], c[unconverged], d[unconverged]
            if not len(remaining):
                break
    return fraction


def _log_beta(a: Array, b: Array) -> Array:
    """ln B(a, b) = ln Γ(a) + ln Γ(b) − ln Γ(a + b)."""
    rise_a, series_a = _log_gamma_parts(a)
    rise_b, series_b = _log_gamma_parts(b)
    rise, series = _log_gamma_parts(a + b)
    logarithm: Array = series_a + series_b - series - np.log(rise_a / rise * rise_b) + 0.5 * np.log(2.0 * np.pi)
    return logarithm


def _log_gamma_parts(z: Array) -> tuple[Array, Array]:
    """p and r with ln Γ(z) = r − ln p + ln √2π: Stirling's series at z + 6, and the product z·(z + 1)·…·(z + 5)."""
    rise = z.copy()
    for step in range(1, _SHIFT):
        rise *= z + step
    z = z + _SHIFT
    inverse = 1.0 / z
    square = inverse * inverse
    first, second, third, fourth = _STIRLING
    series = inverse * (first + square * (second + square * (third + square * fourth)))
    return rise, (z - 0.5) * np.log(z) - z + series
