"""The order in which nodes are searched: one node of each zone after the other.

A search that ends early then finds nodes of all zones. Source: `nodeTree` of pkg/scheduler/backend/cache of
Kubernetes 1.37.
"""

from collections.abc import Iterable
from itertools import zip_longest

from equipoise.contracts.kubernetes.objects.node import Node

Zone = tuple[str, str]
"""Region and zone."""


class NodeOrder:
    """Zones and the nodes of a zone are in the order in which they were added."""

    def __init__(self) -> None:
        self._zones: dict[Zone, dict[int, None]] = {}

    def changed(self, row: int, before: Node | None, after: Node | None) -> bool:
        """Replace, add or remove the node of a row. Returns whether the order has changed."""
        old, new = (None if node is None else zone_of(node) for node in (before, after))
        if old == new:
            return False
        if old is not None:
            del self._zones[old][row]
            if not self._zones[old]:
                del self._zones[old]
        if new is not None:
            self._zones.setdefault(new, {})[row] = None
        return True

    def rows(self) -> Iterable[int]:
        for one_of_each in zip_longest(*self._zones.values()):
            yield from (row for row in one_of_each if row is not None)


def zone_of(node: Node) -> Zone:
    labels = node.metadata.labels
    zone = labels.get("failure-domain.beta.kubernetes.io/zone", labels.get("topology.kubernetes.io/zone", ""))
    region = labels.get("failure-domain.beta.kubernetes.io/region", labels.get("topology.kubernetes.io/region", ""))
    return region, zone
