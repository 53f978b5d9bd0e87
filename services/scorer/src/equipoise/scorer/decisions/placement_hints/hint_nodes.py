"""What placement hints need to know of each node besides its load: its name in hints, and which pods fit there."""

from collections.abc import Mapping

import msgspec

from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.contracts.kubernetes.nodes.platforms import Platform, platform_of
from equipoise.contracts.kubernetes.nodes.taints import BLOCKING_EFFECTS, being_removed, may_be_removed
from equipoise.contracts.kubernetes.objects.node import Taint
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.numeric import Array, np
from equipoise.scorer.decisions.headroom import headroom
from equipoise.scorer.decisions.load_correction import sums_of_requests_and_limits


class HintNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node, from its latest placement."""

    hostname: str
    """Value of the label `kubernetes.io/hostname`; empty for a node without it, which no hint can name."""

    remains: bool
    """Whether no autoscaler is removing the node, or may remove it."""

    headroom: Array
    """Cores, bytes and number of pods that the node can take in addition; −∞ if it is cordoned or not ready."""

    taints: frozenset[Taint]
    """The taints that keep pods away."""

    labels: Mapping[str, str]
    platform: Platform


def unknown_node() -> HintNode:
    """A node without a placement: no pod fits there."""
    return HintNode(
        hostname="",
        remains=False,
        headroom=np.full(3, -np.inf),
        taints=frozenset(),
        labels={},
        platform=platform_of({}),
    )


def hint_node(placement: NodePlacement) -> HintNode:
    """The node of a placement. Its headroom is that without its taints, because some workloads tolerate them."""
    without_taints = msgspec.structs.replace(placement, taints=[])
    return HintNode(
        hostname=placement.labels.get(HOSTNAME, ""),
        remains=not (being_removed(placement.taints) or may_be_removed(placement.taints)),
        headroom=headroom(without_taints, sums_of_requests_and_limits(placement)[0]),
        taints=frozenset(taint for taint in placement.taints if taint.effect in BLOCKING_EFFECTS),
        labels=placement.labels,
        platform=platform_of(placement.labels),
    )
