"""The highest usage of each node in each hour of the last day, of high-priority pods and of the system together."""

from collections.abc import Mapping, Sequence
from math import isfinite

from equipoise.contracts.bounds import MAX_BYTES, bounded
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.contracts.numeric import Array, Singles, np


class HourlyWorst:
    """One row per node: resources × hours of the day (UTC). NaN: no measurement in that hour of the last day."""

    def __init__(self, day: float = 86_400.0) -> None:
        """`day`: its length in seconds."""
        self._hour = day / SLOTS
        self._days: dict[str, tuple[str, int, Singles]] = {}
        """UID of the node, the latest hour since 1970, the amounts."""

    def observe(self, node: str, uid: str, used: Array, now: float) -> None:
        """`used`: per resource, cores and bytes."""
        hour = int(now // self._hour)
        day = self._until(node, uid, hour)
        slot = day[:, hour % SLOTS]
        # What no machine has would be infinite in 32 bits.
        np.fmax(slot, np.where(used <= MAX_BYTES, used, np.nan), out=slot, casting="same_kind")

    def restore(self, message: ReclaimedNode, now: float) -> None:
        """Use what an earlier reclaimer published; hours that are known already stay the higher of both."""
        if not 0.0 <= now - message.evaluated_at < SLOTS * self._hour or not message.highest:
            return
        hour = int(message.evaluated_at // self._hour)
        published = np.full((len(RESOURCES), SLOTS), np.nan, np.float32)
        for row, resource in enumerate(RESOURCES):
            published[row] = _hours(message.highest.get(resource, ()))
        known = self._days.get(message.node)
        if known is not None and known[0] == message.uid:
            # Hours after the message, and hours that it does not show any more, are not compared.
            published = np.fmax(published, known[2]) if known[1] == hour else known[2]
            hour = known[1]
        self._days[message.node] = (message.uid, hour, published)

    def day(self, node: str, uid: str, now: float) -> Singles:
        """resources × hours of the day."""
        return self._until(node, uid, int(now // self._hour))

    def remove(self, node: str) -> None:
        self._days.pop(node, None)

    def _until(self, node: str, uid: str, hour: int) -> Singles:
        """The last 24 hours at this hour: what is older becomes unknown."""
        known = self._days.get(node)
        if known is None or known[0] != uid or hour - known[1] >= SLOTS or hour < known[1] - 1:
            day = np.full((len(RESOURCES), SLOTS), np.nan, np.float32)
        else:
            day = known[2]
            for passed in range(known[1] + 1, hour + 1):
                day[:, passed % SLOTS] = np.nan
        self._days[node] = (uid, hour, day)
        return day


def published(day: Singles) -> Mapping[str, list[float | None]]:
    """The day as the message carries it: milli-cores and MiB are precise enough."""
    units = (1_000.0, 2.0**-20)
    found: dict[str, list[float | None]] = {}
    for resource, amounts, unit in zip(RESOURCES, day.tolist(), units, strict=True):
        found[resource] = [
            bounded(resource, round(amount * unit) / unit) if isfinite(amount) else None for amount in amounts
        ]
    return found


def _hours(amounts: Sequence[float | None]) -> list[float]:
    """24 amounts; NaN where there is none, or an impossible one."""
    found = [amount if amount is not None and 0.0 <= amount <= MAX_BYTES else np.nan for amount in amounts[:SLOTS]]
    return found + [np.nan] * (SLOTS - len(found))
