"""How far the usage of each node was above its typical day, in the last eight days, and what is learned from it.

All nodes are rows of the same arrays: 5,000 nodes take 25 MB. What is learned of a node is some hours old, since only a
few nodes are learned at a time. Nothing is stored: after a start it is unknown for two days.
"""

import math

import msgspec

from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.numeric import Array, Rows, Singles, np

STEPS_PER_HOUR = 4
"""Deviations are recorded every 15 minutes."""

LEVELS = 40
"""Levels of the error: each is the middle of 2.5 % of what happened."""

REMEMBERED_HOURS = 4
"""A deviation counts until it has been lower for this time: a short dip of usage is not offered for hours."""

STEPS_PER_DAY = SLOTS * STEPS_PER_HOUR

MEAN_STEPS = (1, 6 * STEPS_PER_HOUR, STEPS_PER_DAY)
"""Steps of the means from which a later deviation is expected: the latest value, six hours, a day."""

MEANS = len(MEAN_STEPS)

RECENT_STEPS = STEPS_PER_DAY + REMEMBERED_HOURS * STEPS_PER_HOUR
"""Steps of deviations from which later ones are expected."""

STEPS = 8 * STEPS_PER_DAY
"""Steps that are kept: one day before the seven from which errors are learned."""

LEARN_PERIOD = 6
"""Hours after which a node is learned again."""

_GROWTH = 512
"""The number of rows that are added when no row is free."""


class Outlook(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The outlook of one node, as shares of its capacity. NaN: not known yet."""

    deviation: Singles
    """resources × hours ahead: how far usage will probably be above that of the typical day."""

    errors: Array
    """resources × hours ahead × levels of equal probability."""

    constant: Array
    """resources: mean of the usage without a profile, on one day."""


class Deviations:
    """Times are Unix seconds."""

    def __init__(self, hours: int, day: float = 86_400.0) -> None:
        """`hours`: the number of hours ahead for which errors are learned. `day`: the length of a day in seconds; an
        hour is a 24th of it."""
        self.hours = hours
        self._hour = day / SLOTS
        self._rows: dict[str, tuple[str, int]] = {}
        """UID of the node, and its row."""

        self._free: list[int] = []
        self._quarter: int | None = None
        """Quarter hours since 1970: the one that is measured now."""

        self._used = 0
        """Rows that nodes have or had; the others have never been used."""

        self._expected_until = 0
        """Rows whose expected deviation is that of the last quarter."""

        count = len(RESOURCES)
        self._steps = np.empty((0, count, STEPS), np.float16)
        self._sum, self._constant_sum = np.empty((0, count)), np.empty((0, count))
        self._count = np.empty((0, count))
        self._constant = np.empty((0, count))
        self._expected = np.empty((0, count, hours), np.float32)
        self._levels = np.empty((0, count, hours, LEVELS), np.float16)
        self.moments: Singles = np.empty((0, count, hours, MEANS, MEANS + 1), np.float32)
        self._learned_at = np.empty(0)

    def observe(self, node: str, uid: str, used: Array, typical: Array, constant: Array, now: float) -> None:
        """Records three usages as shares of the capacity: `used` now, `typical` by hour of the day (resources × hours),
        and `constant`, the part of `typical` without a profile."""
        self._advance(now)
        row = self._row(node, uid)
        if math.isnan(self._constant[row, 0]):
            self._constant[row] = constant
        # The value of an hour applies to its middle; between two middles it is interpolated.
        middle = now / self._hour - 0.5
        slot = math.floor(middle)
        later = middle - slot
        expected = typical[:, slot % SLOTS] * (1.0 - later) + typical[:, (slot + 1) % SLOTS] * later
        # The part without a profile is expected to have its mean, not the usage of now.
        deviation = used - expected - self._constant[row] + constant
        if np.isfinite(deviation).all():
            self._sum[row] += deviation
            self._constant_sum[row] += constant
            self._count[row] += 1.0

    def outlook(self, node: str, uid: str) -> Outlook | None:
        """None: nothing is known of the node."""
        known = self._rows.get(node)
        if known is None or known[0] != uid:
            return None
        row = known[1]
        return Outlook(deviation=self._expected[row], errors=self._levels[row], constant=self._constant[row])

    def remove(self, node: str) -> None:
        if (known := self._rows.pop(node, None)) is not None:
            self._free.append(known[1])
            self.moments[known[1]] = 0.0

    def outdated(self, count: int, now: float) -> Rows:
        """The rows whose expected deviation is older than the last quarter hour, at most `count`."""
        self._advance(now)
        return np.arange(self._expected_until, min(self._expected_until + count, self._used))

    def on_expected(self, rows: Rows, expected: Array) -> None:
        """Records the expected deviations of the rows that are outdated: rows × resources × hours ahead."""
        self._expected[rows] = expected
        self._expected_until += len(rows)

    def due(self, count: int, now: float) -> Rows:
        """The rows that were learned LEARN_PERIOD ago, the oldest first, at most `count`."""
        self._advance(now)
        learned_at = self._learned_at[: self._used]
        oldest: Rows = np.argsort(learned_at, kind="stable")[:count]
        return oldest[now - learned_at[oldest] >= LEARN_PERIOD * self._hour]

    def on_learned(self, rows: Rows, levels: Array, now: float) -> None:
        """Records the levels of the errors: rows × resources × hours ahead × LEVELS."""
        self._levels[rows] = levels
        self._learned_at[rows] = now

    def latest(self, rows: Rows, steps: int) -> Array:
        """rows × resources × the latest complete quarter hours, oldest first."""
        last = self._quarter or 0
        ordered: Array = self._steps[rows][:, :, np.arange(last - steps, last) % STEPS].astype(np.float64)
        return ordered

    def _advance(self, now: float) -> None:
        """Complete the quarter hours that have passed. Those in which nothing was measured are unknown."""
        quarter = int(now // (self._hour / STEPS_PER_HOUR))
        if self._quarter is None:
            self._quarter = quarter
        if quarter < self._quarter - 1:
            self._forget(quarter)
        if quarter <= self._quarter:
            return
        if quarter - self._quarter > 1:
            passed = np.arange(self._quarter, min(quarter, self._quarter + STEPS)) % STEPS
            self._steps[:, :, passed] = np.nan
        with np.errstate(invalid="ignore"):
            self._steps[:, :, self._quarter % STEPS] = self._sum / self._count
            constant = self._constant_sum / self._count
        self._constant += np.where(self._count > 0, (constant - self._constant) / STEPS_PER_DAY, 0.0)
        self._sum[:] = self._constant_sum[:] = self._count[:] = 0.0
        self._quarter, self._expected_until = quarter, 0

    def _forget(self, quarter: int) -> None:
        """Forget everything: the clock was set back to this quarter hour, so the times of all values are unknown."""
        self._steps[:] = self._expected[:] = self._levels[:] = np.nan
        self._sum[:] = self._constant_sum[:] = self._count[:] = self.moments[:] = 0.0
        self._learned_at[:] = -math.inf
        self._quarter, self._expected_until = quarter, 0

    def _row(self, node: str, uid: str) -> int:
        known = self._rows.get(node)
        if known is not None and known[0] == uid:
            return known[1]
        self.remove(node)
        if not self._free:
            self._free = list(range(len(self._steps) + _GROWTH - 1, len(self._steps) - 1, -1))
            for name in ("_steps", "_sum", "_constant_sum", "_count", "_constant", "_expected", "_levels", "moments"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros((_GROWTH, *old.shape[1:]), old.dtype)]))
            self._learned_at = np.concatenate([self._learned_at, np.zeros(_GROWTH)])
        row = self._free.pop()
        self._used = max(self._used, row + 1)
        self._steps[row] = self._expected[row] = self._levels[row] = self._constant[row] = np.nan
        self._sum[row] = self._constant_sum[row] = self._count[row] = self.moments[row] = 0.0
        self._learned_at[row] = -math.inf
        self._rows[node] = uid, row
        return row
