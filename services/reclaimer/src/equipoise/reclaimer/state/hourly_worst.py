"""The highest usage of each node in each hour of the last day, of high-priority pods and of the system together."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from equipoise.contracts.bounds import MAX_BYTES, MAX_CORES
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.contracts.numeric import Array, Singles, np

PublishedDay = dict[str, list[float | None]]
"""The highest amount of each hour of the day (UTC), by resource; None: not measured."""


class _Day(NamedTuple):
    """The last 24 hours of a node."""

    uid: str
    hour: int
    """The latest hour, counted since 1970."""

    amounts: Singles


class HourlyWorst:
    """The usage of each node: resources × hours of the day (UTC). NaN: no measurement in that hour of the last day."""

    def __init__(self, day: float = 86_400.0) -> None:
        """`day`: length of a day in seconds."""
        self._hour = day / SLOTS
        self._days: dict[str, _Day] = {}

    def observe(self, node: str, uid: str, used: Array, now: float) -> None:
        """`used`: per resource, cores and bytes."""
        hour = int(now // self._hour)
        slot = self._until(node, uid, hour)[:, hour % SLOTS]
        # An amount that no machine has could be infinite in 32 bits.
        np.fmax(slot, np.where(used <= MAX_BYTES, used, np.nan), out=slot, casting="same_kind")

    def restore(self, message: ReclaimedNode, now: float) -> None:
        """Use the amounts of an earlier reclaimer. For an hour that is known already, the higher amount counts."""
        if not 0.0 <= now - message.evaluated_at < SLOTS * self._hour or not message.highest:
            return
        hour = int(message.evaluated_at // self._hour)
        amounts = np.full((len(RESOURCES), SLOTS), np.nan, np.float32)
        for row, resource in enumerate(RESOURCES):
            amounts[row] = _hours(message.highest.get(resource, ()))
        day = self._days.get(message.node)
        if day is not None and day.uid == message.uid:
            # A message of another hour is ignored: its slots are partly those of another day.
            amounts = np.fmax(amounts, day.amounts) if day.hour == hour else day.amounts
            hour = day.hour
        self._days[message.node] = _Day(message.uid, hour, amounts)

    def day(self, node: str, uid: str, now: float) -> Singles:
        """resources × hours of the day."""
        return self._until(node, uid, int(now // self._hour))

    def remove(self, node: str) -> None:
        self._days.pop(node, None)

    def _until(self, node: str, uid: str, hour: int) -> Singles:
        """The amounts of the 24 hours that end with this one. Those of earlier hours become unknown."""
        day = self._days.get(node)
        if day is None or day.uid != uid or hour - day.hour >= SLOTS or hour < day.hour - 1:
            amounts = np.full((len(RESOURCES), SLOTS), np.nan, np.float32)
        else:
            amounts = day.amounts
            for passed in range(day.hour + 1, hour + 1):
                amounts[:, passed % SLOTS] = np.nan
        self._days[node] = _Day(uid, hour, amounts)
        return amounts


def published(days: Sequence[Singles]) -> list[PublishedDay]:
    """The days as messages contain them, rounded to milli-cores and MiB."""
    units, most = np.array([[1_000.0], [2.0**-20]]), [[MAX_CORES], [MAX_BYTES]]
    amounts = np.minimum(np.rint(np.array(days).reshape(-1, len(RESOURCES), SLOTS) * units) / units, most)
    published_days: list[PublishedDay] = []
    for measured, unknown in zip(amounts, np.isnan(amounts), strict=True):
        hours: Any = measured.tolist()
        if unknown.any():
            hours = [[None if math.isnan(amount) else amount for amount in of_day] for of_day in hours]
        published_days.append(dict(zip(RESOURCES, hours, strict=True)))
    return published_days


def _hours(amounts: Sequence[float | None]) -> list[float]:
    """24 amounts. A missing or impossible amount is NaN."""
    hours = [amount if amount is not None and 0.0 <= amount <= MAX_BYTES else np.nan for amount in amounts[:SLOTS]]
    return hours + [np.nan] * (SLOTS - len(hours))
