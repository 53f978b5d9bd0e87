"""The latest collection cycle of each shard of the collector."""

from equipoise.contracts.bus.streams import UTILIZATION_MAX_AGE
from equipoise.contracts.load.correction import skew_of
from equipoise.contracts.load.latest import supersedes_measurement
from equipoise.contracts.messages.utilization import UtilizationCycle
from equipoise.contracts.recent import is_recent


class CollectionCycles:
    """The latest cycle of each shard, for `UTILIZATION_MAX_AGE` seconds after it arrived. `now`: Unix seconds.

    The time of arrival is used, because a cycle's own time is that of the metric source, whose clock may be wrong.
    """

    def __init__(self) -> None:
        self._received: dict[str, tuple[UtilizationCycle, float]] = {}
        """The latest cycle of each shard, with the time of its arrival."""

    def on_cycle(self, message: UtilizationCycle, now: float) -> bool:
        """Stores a cycle. Returns False if it is older than the latest one of its shard."""
        latest = self._received.get(message.shard)
        if not supersedes_measurement(message, latest and latest[0]):
            return False
        for shard, (_, at) in list(self._received.items()):
            if not is_recent(at, now, UTILIZATION_MAX_AGE):
                del self._received[shard]
        self._received[message.shard] = message, now
        return True

    def current(self, now: float) -> list[UtilizationCycle]:
        """The latest cycles that are not outdated."""
        return [cycle for cycle, at in self._received.values() if is_recent(at, now, UTILIZATION_MAX_AGE)]

    def skew(self, now: float) -> float:
        """The clock of the metrics source minus that of the collector, in seconds: the largest of all shards, or 0."""
        return skew_of(self.current(now))
