"""An index of the images that nodes have, by name."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from equipoise.contracts.kubernetes.objects.node import Node

_NOWHERE: Mapping[int, int] = MappingProxyType({})


class NodeImages:
    """The index is created when it is read first, and updated from then on."""

    def __init__(self, nodes: Sequence[Node | None]) -> None:
        """`nodes`: the node of each row; None for a free row. It may change, see `changed`."""
        self._nodes = nodes
        self._sizes: dict[str, dict[int, int]] | None = None

    @property
    def unknown(self) -> bool:
        """Whether no node reports any image."""
        return not self._by_name()

    def sizes(self, name: str) -> Mapping[int, int]:
        """The size in bytes of the image with this name, by row of the nodes that have it."""
        return self._by_name().get(name, _NOWHERE)

    def _by_name(self) -> dict[str, dict[int, int]]:
        if self._sizes is None:
            self._sizes = {}
            for row, node in enumerate(self._nodes):
                self._add(row, node)
        return self._sizes

    def changed(self, row: int, before: Node | None, after: Node | None) -> None:
        """Updates the index after the node of this row was replaced, added or removed."""
        if self._sizes is None or (before and after and before.status.images == after.status.images):
            return
        for name in _names(before):
            rows = self._sizes[name]
            rows.pop(row, None)
            if not rows:
                del self._sizes[name]
        self._add(row, after)

    def _add(self, row: int, node: Node | None) -> None:
        assert self._sizes is not None
        for name, size in _names(node).items():
            self._sizes.setdefault(name, {})[row] = size


def _names(node: Node | None) -> dict[str, int]:
    """The size of each image of a node, by name. If two images have one name, the last one is used."""
    return (
        {} if node is None else {name: image.size_bytes for image in node.status.images for name in image.names or ()}
    )
