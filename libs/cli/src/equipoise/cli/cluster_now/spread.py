"""How uneven the load of the nodes is: the difference between the most and the least loaded one, and the mean."""

from collections.abc import Collection
from typing import Protocol

import msgspec

from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.messages.values.resources import Resources, cpu_and_memory


class Loaded(Protocol):
    """The load of a node, 0..1."""

    @property
    def cpu(self) -> float | None: ...

    @property
    def memory(self) -> float | None: ...


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How uneven the nodes are. Loads 0..1."""

    nodes: int
    """Measured nodes that count."""

    mean: Resources
    spread: Resources
    """The load of the most loaded node minus that of the least loaded one; unknown with fewer than two nodes."""


def spread_of(loads: Collection[Loaded]) -> Spread:
    """Mean and spread of these loads, which are of the nodes that count. An unknown load counts for neither."""
    mean, spread = {}, {}
    for resource in RESOURCES:
        known = [load for each in loads if (load := getattr(each, resource)) is not None]
        mean[resource] = sum(known) / len(known) if known else None
        spread[resource] = max(known) - min(known) if len(known) > 1 else None
    return Spread(nodes=len(loads), mean=cpu_and_memory(mean), spread=cpu_and_memory(spread))
