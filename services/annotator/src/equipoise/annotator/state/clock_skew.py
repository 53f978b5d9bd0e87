"""How far the source's clock and the collectors' are apart: too far, and the age of no value is known."""

from equipoise.contracts.bus.streams import UTILIZATION_MAX_AGE
from equipoise.contracts.load.correction import skew_of
from equipoise.contracts.load.latest import supersedes_measurement
from equipoise.contracts.messages.utilization import UtilizationCycle


class Skews:
    """What each shard's last round said of it."""

    def __init__(self) -> None:
        self._heard: dict[str, tuple[UtilizationCycle, float]] = {}

    def on_cycle(self, cycle: UtilizationCycle, now: float) -> None:
        """Take in the end of a round, unless a later one is known."""
        held = self._heard.get(cycle.shard)
        if supersedes_measurement(cycle, held and held[0]):
            self._heard[cycle.shard] = cycle, now

    def largest(self, now: float) -> float:
        """Of all shards, in seconds: positive where the source is ahead; a shard silent for long is dissolved."""
        # By the time at which it was heard: a cycle's own times are on the clock that is in doubt.
        return skew_of(cycle for cycle, heard_at in self._heard.values() if now - heard_at <= UTILIZATION_MAX_AGE)
