"""What collectors have told before: this one must speak louder, and take back the nodes that went while none watched.

Readers drop a lower epoch, so one that depends on clocks alone could silence us for as long as we lead.
"""

from collections.abc import Container

import msgspec

from equipoise.contracts.messages.utilization import UtilizationCycle


class ToldPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """Of a placement on the bus all that is needed here: its pods are not even read."""

    node: str
    uid: str
    labels: dict[str, str] = {}
    removed: bool = False
    epoch: int


class Past:
    """The last placement of every node on the bus, ours among them."""

    def __init__(self) -> None:
        self._nodes: dict[str, ToldPlacement] = {}
        self._cycles: dict[str, UtilizationCycle] = {}
        self._loudest: dict[str, int] = {}
        self._epoch = 0

    def on_placement(self, told: ToldPlacement) -> None:
        """Take in what was told of a node."""
        self._epoch = max(self._epoch, told.epoch)
        if told.removed:
            self._nodes.pop(told.node, None)
        else:
            before = self._nodes.get(told.node, told)
            self._nodes[told.node] = msgspec.structs.replace(told, epoch=max(told.epoch, before.epoch))

    def on_cycle(self, cycle: UtilizationCycle) -> None:
        """Take in the end of a round, of whoever.

        Nobody who heard a louder one believes it, but the last one is what the bus keeps for those who start anew.
        """
        self._cycles[cycle.shard] = cycle
        self._loudest[cycle.shard] = max(cycle.epoch, self._loudest.get(cycle.shard, 0))

    def cycles(self) -> list[UtilizationCycle]:
        """The last one of every shard that there ever was on the bus."""
        return list(self._cycles.values())

    def loudest(self, shard: str) -> int:
        """The highest epoch in which a shard that was heard of has ended a round."""
        return self._loudest[shard]

    def next_epoch(self, now: float) -> int:
        """An epoch above every one before: milliseconds of `now`, unless a clock ran ahead of it."""
        return max(int(now * 1000), self._epoch + 1)

    def told(self) -> list[tuple[str, int]]:
        """Every node that is told of, and the highest epoch in which it was."""
        return [(name, told.epoch) for name, told in self._nodes.items()]

    def phantoms(self, present: Container[str]) -> list[ToldPlacement]:
        """Nodes that were told of and whose names are not `present` in the cluster."""
        return [told for name, told in self._nodes.items() if name not in present]
