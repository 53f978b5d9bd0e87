"""What collectors have published before: a new epoch must be higher, and nodes deleted since must be reported.

Subscribers drop messages with a lower epoch. An epoch that only comes from a clock could be too low, and subscribers
would drop all our messages.
"""

from collections.abc import Container

import msgspec

from equipoise.contracts.messages.utilization import UtilizationCycle


class PublishedPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a placement message that PreviousMessages needs. The pods are not decoded."""

    node: str
    uid: str
    labels: dict[str, str] = {}
    created_at: float = 0.0
    removed: bool = False
    epoch: int


class PreviousMessages:
    """The last placement of every node and the last cycle of every shard on the bus, our own among them."""

    def __init__(self) -> None:
        self.nodes: dict[str, PublishedPlacement] = {}
        """The placements of the nodes by name, each with the highest epoch of its node."""

        self.cycles: dict[str, UtilizationCycle] = {}
        """The last cycle of every shard that was ever on the bus."""

        self.cycle_epochs: dict[str, int] = {}
        """The highest epoch of the cycles of each shard."""

        self._highest_epoch = 0

    def on_placement(self, placement: PublishedPlacement) -> None:
        self._highest_epoch = max(self._highest_epoch, placement.epoch)
        if placement.removed:
            self.nodes.pop(placement.node, None)
        else:
            before = self.nodes.get(placement.node, placement)
            self.nodes[placement.node] = msgspec.structs.replace(placement, epoch=max(placement.epoch, before.epoch))

    def on_cycle(self, cycle: UtilizationCycle) -> None:
        """Keeps a cycle of a lower epoch too: current subscribers drop it, but the bus hands it to new ones."""
        self.cycles[cycle.shard] = cycle
        self.cycle_epochs[cycle.shard] = max(cycle.epoch, self.cycle_epochs.get(cycle.shard, 0))

    def next_epoch(self, now: float) -> int:
        """An epoch above every previous one: milliseconds of `now`, or more when a clock was ahead of it."""
        return max(int(now * 1000), self._highest_epoch + 1)

    def missing_nodes(self, present: Container[str]) -> list[PublishedPlacement]:
        """Published nodes whose names are not `present` in the cluster."""
        return [placement for name, placement in self.nodes.items() if name not in present]
