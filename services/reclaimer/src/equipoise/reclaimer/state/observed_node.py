"""What an evaluation reads of one node."""

import math
from collections.abc import Mapping

import msgspec

from equipoise.contracts.colocation.bands import OfferedBand
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.numeric import Array, Singles
from equipoise.reclaimer.state.deviations import Outlook
from equipoise.reclaimer.state.node_usage import BandRequests, NodeUsage

Amounts = Mapping[OfferedBand, Array]
"""Amounts per band and resource, cores and bytes; NaN is unknown."""


class ObservedNode(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What an evaluation reads of one node."""

    placement: NodePlacement
    usage: NodeUsage | None
    """None: the node has not been measured."""

    sampled_at: float | None
    age: float
    """Seconds since the newest sample; without any, since this reclaimer began to wait for one."""

    highest: Singles
    """resources × hours of the day (UTC): of the last 24 hours."""

    existing: Mapping[str, int]
    """Milli-cores and bytes by resource name: in the node's status, or what was offered last in observation."""

    inconsistent: bool = False
    """The node's status contains a band in its capacity with another amount than in its allocatable resources: a
    kubelet copies the former. Or a kubelet that started removed amounts or set them to 0; `existing` contains them."""

    contested: bool = False
    """Whether another program writes the same names in the node's status."""

    requests: BandRequests
    """What its pods request of the bands."""

    outlook: Outlook | None = None
    """What is learned of its deviations."""

    last: Amounts
    """What was reclaimed when the node was last measured; empty: unknown."""

    since_write: float = math.inf
    """Seconds since the last write."""
