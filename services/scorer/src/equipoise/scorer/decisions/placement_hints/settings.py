"""The section `scorer.hints`."""

from typing import Annotated

from msgspec import Meta

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section, Share
from equipoise.contracts.messages.placement import MAX_HOSTNAMES

TermWeight = Annotated[int, Meta(ge=1, le=100)]


class HintSettings(Section, frozen=True, kw_only=True):
    """Placement hints (`placement.hints`): preferred nodes of new pods, for a kube-scheduler without the extender.

    The section `annotator.hints` has the settings for writing hints and for how long they are valid.
    """

    interval: Duration = Duration(15)
    """How often hints are computed."""

    terms: Annotated[int, Meta(ge=1, le=6)] = 3
    """The number of preferred terms. The weight of a node is the sum of the weights of the terms that name it, so 3
    terms distinguish 7 grades of nodes. kube-scheduler needs more time for more terms."""

    preferred_weight: Annotated[int, Meta(ge=32, le=100)] = 32
    """Weight of the first term. Each further term has half the weight of the term before it."""

    preferred_nodes: Annotated[int, Meta(ge=1, le=MAX_HOSTNAMES)] = 30
    """The maximum number of nodes that are preferred. Every pod with a hint has their names. Above about 4,000 nodes,
    of which kube-scheduler scores a fifth or less, up to 50 are preferred, so that it scores one of them for nearly
    every pod."""

    preferred_share: Share = 0.65
    """The best nodes, as a share of those that a pod can use, are preferred."""

    avoided_share: Share = 0.25
    """The worst nodes, as a share of those that a pod can use, are avoided."""

    avoided_nodes: Annotated[int, Meta(ge=0, le=MAX_HOSTNAMES)] = 25
    """The maximum number of nodes that are avoided. Every pod with a hint has their names."""

    avoided_weight: TermWeight = 8
    """Weight that all other nodes get."""

    min_change: Annotated[float, Meta(ge=0, le=100)] = 1.0
    """A hint keeps a node until another node for the same position is better by more than this number of points."""

    @property
    def grades(self) -> int:
        """Number of grades of preferred nodes; the best ones have the highest grade."""
        return (1 << self.terms) - 1

    def __post_init__(self) -> None:
        if self.interval <= 0:
            raise ValueError("interval must be longer than 0s")
