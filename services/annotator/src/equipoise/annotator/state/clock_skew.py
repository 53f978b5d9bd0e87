"""The skew between the metric source's clock and the collectors': if it is too large, no value's age is known."""

from equipoise.contracts.bus.streams import UTILIZATION_MAX_AGE
from equipoise.contracts.load.correction import skew_of
from equipoise.contracts.load.latest import supersedes_measurement
from equipoise.contracts.messages.utilization import UtilizationCycle


class ClockSkews:
    """The last cycle of each shard, which carries its skew."""

    def __init__(self) -> None:
        self._received: dict[str, tuple[UtilizationCycle, float]] = {}

    def on_cycle(self, cycle: UtilizationCycle, now: float) -> bool:
        """False for a cycle older than the known one."""
        held = self._received.get(cycle.shard)
        if not supersedes_measurement(cycle, held and held[0]):
            return False
        self._received[cycle.shard] = cycle, now
        return True

    def largest(self, now: float) -> float:
        """The largest skew of the shards, in seconds, positive when the source is ahead; without outdated cycles."""
        # By our time of arrival: a cycle's own times are on the skewed clock.
        return skew_of(cycle for cycle, at in self._received.values() if now - at <= UTILIZATION_MAX_AGE)
