"""The usage that a single sample shows, or why it shows none: NaN, infinite, negative or above the capacity."""

import math
from typing import Literal, NamedTuple

from equipoise.collector.decisions.query import Sample
from equipoise.contracts.bounds import MAX_BYTES

MAX_EXCESS = 1.05
"""A usage above the capacity by at most this factor is a rounding error and capped; a larger one is unknown."""

Reason = Literal[
    "no sample", "duplicate", "future", "stale", "gap", "young", "previous object", "invalid", "excess", "frozen",
    "zeros", "shared address", "other machine", "no interval", "short window", "no result", "unsupported",
    "no capacity",
]  # fmt: skip
"""Kinds of reasons why a usage is unknown: the label of a metric, and the key of `doctor`'s advice."""


class UnknownUsage(NamedTuple):
    """Why a usage is unknown."""

    reason: Reason
    text: str
    """The explanation for people."""


def known_usage(samples: list[Sample], capacity: float | None) -> float | None:
    """The usage in cores or bytes if there is exactly one valid sample, capped at the capacity; else None."""
    return single_value(samples, capacity)[0]


def single_value(samples: list[Sample], capacity: float | None) -> tuple[float | None, UnknownUsage | None]:
    """The value of the only sample, or None and why."""
    if not samples:
        return None, UnknownUsage("no sample", "no value")
    if len(samples) > 1:
        return None, UnknownUsage("duplicate", f"{len(samples)} values")
    return usage_of(samples[0], capacity)


def usage_of(sample: Sample, capacity: float | None) -> tuple[float | None, UnknownUsage | None]:
    """The usage in cores or bytes, capped at the capacity; or None and why."""
    value = sample.value
    if sample.share_of_capacity:
        if capacity is None:
            return None, UnknownUsage("no capacity", "value is a share of a machine whose size is not known")
        value *= capacity
    if not math.isfinite(value) or value < 0:
        return None, UnknownUsage("invalid", f"value is {value:g}")
    if capacity is not None and value > capacity * MAX_EXCESS:
        return None, UnknownUsage("excess", f"value is {value:g} where the machine has {capacity:g}")
    if value > MAX_BYTES:
        return None, UnknownUsage("excess", f"value is {value:g}, which no machine has")
    # + 0.0 turns a negative zero into a plain one.
    return (value if capacity is None else min(value, capacity)) + 0.0, None
