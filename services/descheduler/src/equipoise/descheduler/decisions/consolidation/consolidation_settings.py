"""The section `descheduler.consolidation`."""

from typing import Annotated, Literal

from msgspec import Meta

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.prices import PriceTable
from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.messages.consolidation import MAX_NODES
from equipoise.descheduler.decisions.planning.pools import Selector

ConsolidationMode = Literal["off", "observe", "act"]


class NodeGroup(Section, frozen=True, kw_only=True):
    """Nodes of which an autoscaler keeps a minimum."""

    node_selector: Selector
    min_nodes: Annotated[int, Meta(ge=0)]


class Consolidation(Section, frozen=True, kw_only=True):
    """Empties nodes that the cluster can do without, so that an autoscaler removes them.

    Equipoise removes no node. Karpenter with `consolidationPolicy: WhenEmpty` and Cluster Autoscaler remove empty ones.
    """

    mode: ConsolidationMode = "off"
    """off: only `equipoise consolidate` shows which nodes could go. observe: every evaluation decides which one would
    be emptied. act: its pods are moved, within the limits of all moves; needs `moves.level` levelDay, if a level is
    set."""

    max_nodes: Annotated[int, Meta(ge=1, le=MAX_NODES)] = 1
    """Number of nodes that are being emptied at the same time, including empty ones that are not removed yet."""

    min_age: Duration = Duration(3_600)
    """A younger node is not emptied: an autoscaler has just added it."""

    margin: Annotated[float, Meta(ge=0, le=50)] = 5.0
    """Points that every target stays below the high thresholds in every hour, in addition to the errors of the daily
    profiles of its pods."""

    emptying_timeout: Duration = Duration(7_200)
    """A node that is not empty after this time is no longer emptied."""

    removal_timeout: Duration = Duration(1_800)
    """The time within which an autoscaler removes an empty node. If none does, no other node is emptied."""

    retry_interval: Duration = Duration(14_400)
    """How long a node is left out after its emptying was ended."""

    node_selector: Selector = Selector()
    """The nodes that may be emptied. All nodes may be targets."""

    groups: tuple[NodeGroup, ...] = ()
    """Groups of nodes with a minimum size, which autoscalers do not publish."""

    prices: PriceTable = PriceTable()
    """Nodes that save the most per moved pod are emptied first. Without prices, all nodes cost the same."""

    def __post_init__(self) -> None:
        if min(self.emptying_timeout, self.removal_timeout) <= 0:
            raise ValueError("emptyingTimeout and removalTimeout must be longer than 0s")
