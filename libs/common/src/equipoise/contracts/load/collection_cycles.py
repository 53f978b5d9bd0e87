"""The latest collection cycle of each shard of the collector, and how long a shard counts after its last one."""

from equipoise.contracts.bus.streams import UTILIZATION_MAX_AGE
from equipoise.contracts.load.correction import skew_of
from equipoise.contracts.load.latest import supersedes_measurement
from equipoise.contracts.messages.utilization import UtilizationCycle
from equipoise.contracts.recent import is_recent


class CollectionCycles:
    """A shard counts for `UTILIZATION_MAX_AGE` seconds after its last cycle arrived. `now`: Unix seconds.

    The time of arrival decides, because a cycle's own time is that of the metric source, whose clock may be wrong.
    """

    def __init__(self) -> None:
        self._received: dict[str, tuple[UtilizationCycle, float]] = {}
        """The latest cycle of each shard, with the time of its arrival."""

    def on_cycle(self, message: UtilizationCycle, now: float) -> bool:
        """False for a cycle older than the latest one of its shard."""
        latest = self._received.get(message.shard)
        if not supersedes_measurement(message, latest and latest[0]):
            return False
        for shard, (_, at) in list(self._received.items()):
            if not is_recent(at, now, UTILIZATION_MAX_AGE):
                del self._received[shard]
        self._received[message.shard] = message, now
        return True

    def current(self, now: float) -> list[UtilizationCycle]:
        """The latest cycles of the shards that count."""
        return [cycle for cycle, at in self._received.values() if is_recent(at, now, UTILIZATION_MAX_AGE)]

    def skew(self, now: float) -> float:
        """The metric source's clock minus the collectors', in seconds: the largest of all shards, 0 without any."""
        return skew_of(self.current(now))
