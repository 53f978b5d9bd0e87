"""The amounts of reclaimed resources that Equipoise has written. Koordinator uses resources of the same names.

managedFields states the last writer of each field. The annotation `equipoise.dev/reclaimed` is no evidence: nodes also
have it in the mode observe, while another program may write the amounts.
"""

from contextlib import aclosing
from typing import Any

import msgspec

from equipoise.cli.annotations.clear_reclaimed import OfferingNode
from equipoise.contracts.colocation.bands import OFFERED_NAMES
from equipoise.contracts.kubernetes.objects.metadata import ApiValue, ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.runtime.kubernetes.client import Kube, Resource

WRITER = "equipoise-reclaimer"
"""The name of the reclaimer in managedFields."""


class ManagedFields(ApiValue, frozen=True, kw_only=True):
    """The fields that one program has written last."""

    manager: str = ""
    fields_v1: dict[str, Any] = msgspec.field(default_factory=dict)


class ManagedMeta(ObjectMeta, frozen=True, kw_only=True):
    """Metadata with the writers of the object."""

    managed_fields: list[ManagedFields] = msgspec.field(default_factory=list)


class ManagedNode(Node, frozen=True, kw_only=True):
    """A node with the writers of its fields."""

    metadata: ManagedMeta = ManagedMeta()


MANAGED_NODES = Resource(group="", version="v1", plural="nodes", kind="Node", model=ManagedNode, namespaced=False)


class FoundAmounts(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes whose status contains amounts of reclaimed resources."""

    ours: list[OfferingNode]
    """The nodes with amounts that the reclaimer has written last. Their `keys` do not contain other amounts."""

    others: list[str]
    """The names of the nodes with amounts of another program."""


async def find_amounts(kube: Kube) -> FoundAmounts:
    """The amounts in the status of all nodes, by their last writer. Raises KubeError."""
    ours: list[OfferingNode] = []
    others: list[str] = []
    async with aclosing(kube.pages(MANAGED_NODES)) as pages:
        async for page in pages:
            for node in page:
                offered = node.status.capacity.keys() | node.status.allocatable.keys()
                present = {name for name in OFFERED_NAMES if name in offered}
                written = present & _written(node.metadata)
                if written:
                    keys = tuple(name for name in OFFERED_NAMES if name in written)
                    ours.append(OfferingNode(name=node.metadata.name, uid=node.metadata.uid, keys=keys))
                if present - written:
                    others.append(node.metadata.name)
    return FoundAmounts(ours=ours, others=others)


def _written(metadata: ManagedMeta) -> set[str]:
    """The names of the amounts in the status that the reclaimer has written last."""
    names: set[str] = set()
    for entry in metadata.managed_fields:
        if entry.manager == WRITER:
            status = entry.fields_v1.get("f:status", {})
            for field in ("f:capacity", "f:allocatable"):
                names.update(key.removeprefix("f:") for key in status.get(field, {}))
    return names
