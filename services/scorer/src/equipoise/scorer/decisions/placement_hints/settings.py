"""The section `scorer.hints`."""

from typing import Annotated

from msgspec import Meta

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section, Share
from equipoise.contracts.messages.placement import MAX_HOSTNAMES

TermWeight = Annotated[int, Meta(ge=1, le=100)]


class TermSettings(Section, frozen=True, kw_only=True):
    """One preferred term."""

    weight: TermWeight
    nodes: Annotated[int, Meta(ge=1, le=MAX_HOSTNAMES)]
    """Number of nodes."""


class HintSettings(Section, frozen=True, kw_only=True):
    """Placement hints: preferred nodes of new pods, for a kube-scheduler without the extender."""

    enabled: bool = False
    """Publish hints."""

    interval: Duration = Duration(15)
    """How often hints are computed."""

    terms: Annotated[tuple[TermSettings, ...], Meta(min_length=1, max_length=10)] = (
        TermSettings(weight=50, nodes=10),
        TermSettings(weight=38, nodes=10),
        TermSettings(weight=25, nodes=10),
        TermSettings(weight=12, nodes=10),
    )
    """The best nodes in the first term, the next ones in the second. kube-scheduler needs more time for more terms, but
    not for more nodes."""

    preferred_share: Share = 0.4
    """Of the nodes that a pod can use, at most this share is preferred, in terms of proportionally fewer nodes. If one
    term had half of a small cluster, the best nodes would be no better than the others."""

    avoided_share: Share = 0.25
    """The worst nodes, as a share of those that a pod can use, are avoided; at most 50 nodes."""

    avoided_weight: TermWeight = 50
    """Weight that all other nodes get."""

    min_change: Annotated[float, Meta(ge=0, le=100)] = 1.0
    """Points by which other nodes must be better, before a hint changes."""

    @property
    def preferred(self) -> int:
        """Preferred nodes of a workload, in all terms."""
        return sum(term.nodes for term in self.terms)

    def __post_init__(self) -> None:
        if self.interval <= 0:
            raise ValueError("interval must be longer than 0s")
