"""Means of a usage curve over equal periods, whatever the length of its steps."""

from equipoise.contracts.numeric import Array, np


def period_means(curves: Array, seconds_per_step: float, period: float) -> Array:
    """rows × periods: the mean of each row of `curves` (rows × steps) in each whole period of this many seconds.

    A step that lies in several periods counts in each of them for its part.
    """
    steps = curves.shape[1]
    sums = np.concatenate([np.zeros((len(curves), 1)), np.cumsum(curves, axis=1)], axis=1) * seconds_per_step
    ends = np.arange(round(steps * seconds_per_step, 3) // period + 1) * period
    step = np.minimum((ends // seconds_per_step).astype(np.intp), steps - 1)
    # The usage until each end: that of whole steps, and of a part of the next step.
    until = sums[:, step] + curves[:, step] * (ends - step * seconds_per_step)
    means: Array = np.diff(until, axis=1) / period
    return means
