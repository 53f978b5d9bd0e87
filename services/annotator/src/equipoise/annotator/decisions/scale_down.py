"""The scale-down of a workload that its number of pods on the days before predicts: by an autoscaler, a schedule, or a
person at the same hour."""

import math
from collections.abc import Sequence

import msgspec

from equipoise.contracts.load.daily_profile import SLOTS

HOUR = 3_600.0

LEAD = 900.0
"""Seconds before the end of an hour from which on the next one is looked at.

A pod counts in an hour that it runs for at least 80 % of. So a scale-down in the last 12 minutes of an hour appears in
the next hour only, and must be known before them.
"""

MIN_SHARE = 0.1
"""Share of the pods that a scale-down has at least. An autoscaler changes fewer without any daily pattern."""


class ScaleDown(msgspec.Struct, frozen=True, kw_only=True):
    """A scale-down that is expected."""

    hour: int
    """The hour in which it is expected, in hours since 1970."""

    pods: int
    """The number of pods that will be deleted."""

    hours: int
    """The number of hours until the workload has more pods again; at most a day."""


def expected_scale_down(by_hour: Sequence[float | None], pods: int, now: float) -> ScaleDown | None:
    """The scale-down in the next hour; None if none is expected, nothing is known, or it is not time yet.

    `by_hour`: the mean number of pods in each hour of a day (UTC). `pods`: the present number. If today's number
    differs from that of other days, the smaller of the two reductions is expected: to the same number, and by the same
    share.
    """
    hour = int((now + LEAD) // HOUR)
    if len(by_hour) != SLOTS or hour == int(now // HOUR):
        return None
    before, after = by_hour[(hour - 1) % SLOTS], by_hour[hour % SLOTS]
    if before is None or after is None or not 0 < after < before:
        return None
    remaining = math.ceil(max(after, pods * after / before) - 1e-6)
    if pods - remaining < max(1.0, MIN_SHARE * pods):
        return None
    following = (by_hour[(hour + number) % SLOTS] for number in range(SLOTS))
    hours = next((number for number, mean in enumerate(following) if mean is None or mean >= before), SLOTS)
    return ScaleDown(hour=hour, pods=pods - remaining, hours=hours)
