"""The names and addresses of all nodes of the cluster, as the API server has them."""

from equipoise.collector.decisions.node_names import NodeNames, node_names, texts_of
from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.contracts.kubernetes.objects.node import Node


class NodeAddresses:
    """The texts that identify each node. A status with the same addresses, which is frequent, causes no work."""

    def __init__(self) -> None:
        self._texts: dict[str, frozenset[str]] = {}
        self._names: NodeNames | None = None

    def on_node(self, before: Node | None, after: Node | None) -> None:
        """A node was added (before is None), changed, or deleted (after is None)."""
        if after is None:
            if before is not None and self._texts.pop(before.metadata.name, None) is not None:
                self._names = None
            return
        name = after.metadata.name
        if before is not None and name in self._texts and _identifying_fields(before) == _identifying_fields(after):
            return
        if self._texts.get(name) != (texts := texts_of(after)):
            self._texts[name] = texts
            self._names = None

    @property
    def names(self) -> NodeNames:
        """The names of the current nodes."""
        if self._names is None:
            self._names = node_names(dict(self._texts))
        return self._names


def _identifying_fields(node: Node) -> tuple[object, ...]:
    return node.metadata.name, node.status.addresses, node.metadata.labels.get(HOSTNAME)
