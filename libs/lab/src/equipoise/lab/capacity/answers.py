"""The answers to the questions that were asked beside a comparison."""

import msgspec

from equipoise.lab.capacity.batch_work import BatchCapacity
from equipoise.lab.capacity.fewer_nodes import NodesNeeded


class CapacityAnswers(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """None, empty: not asked."""

    batch: BatchCapacity | None = None
    nodes_needed: tuple[NodesNeeded, ...] = ()
