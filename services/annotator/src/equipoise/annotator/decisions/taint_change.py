"""Which taint is written to a node, or removed from it, while consolidation empties nodes."""

from collections.abc import Mapping

import msgspec

from equipoise.contracts.kubernetes.nodes.consolidation_taint import consolidation_taint, is_consolidation
from equipoise.contracts.kubernetes.objects.node import Node, Taint
from equipoise.contracts.messages.consolidation import NodeBeingEmptied


class TaintChange(msgspec.Struct, frozen=True, kw_only=True):
    """The change of a node's taints: one is set, or removed."""

    taint: Taint
    present: bool
    """Whether the node has the taint after the change."""


def taint_change(node: Node, emptied: Mapping[str, NodeBeingEmptied]) -> TaintChange | None:
    """The change that makes the taint of a node what it should be; None if it is. Other taints are not considered.

    `emptied`: the nodes that are being emptied, by UID.
    """
    found = next(filter(is_consolidation, node.spec.taints), None)
    if (wanted := emptied.get(node.metadata.uid)) is not None:
        taint = consolidation_taint(wanted.since)
        return None if found == taint else TaintChange(taint=taint, present=True)
    return None if found is None else TaintChange(taint=found, present=False)
