"""The section `scorer.hints`."""

from typing import Annotated

from msgspec import Meta

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section, Share
from equipoise.contracts.messages.placement import MAX_HOSTNAMES

TermWeight = Annotated[int, Meta(ge=1, le=100)]


class HintSettings(Section, frozen=True, kw_only=True):
    """Placement hints, for a kube-scheduler without the extender."""

    enabled: bool = False
    """Publish hints."""

    interval: Duration = Duration(15)
    """How often hints are computed."""

    weights: Annotated[tuple[TermWeight, ...], Meta(min_length=1, max_length=10)] = (50, 38, 25, 12)
    """Weight of each preferred term, the best nodes first. More terms cost kube-scheduler time, more nodes do not."""

    nodes: Annotated[int, Meta(ge=1)] = 20
    """Preferred nodes of a workload, in all terms together."""

    avoided_share: Share = 0.25
    """Share of the worst nodes that is avoided; at most 50 nodes."""

    avoided_weight: TermWeight = 50

    min_change: Annotated[float, Meta(ge=0, le=100)] = 1.0
    """Points by which other nodes must be better before a hint changes."""

    def __post_init__(self) -> None:
        if self.nodes < len(self.weights) or self.nodes > MAX_HOSTNAMES * len(self.weights):
            raise ValueError(
                f"nodes: {self.nodes} nodes cannot be divided into {len(self.weights)} terms (weights) of 1 to "
                f"{MAX_HOSTNAMES} nodes"
            )
