"""The names and addresses of the nodes of the cluster."""

import msgspec
from collector.collectors import a_node

from equipoise.collector.state.node_addresses import NodeAddresses
from equipoise.contracts.kubernetes.objects.node import Node, NodeAddress


def with_address(name: str, address: str) -> Node:
    node = a_node(name)
    addresses = [NodeAddress(type="InternalIP", address=address)]
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, addresses=addresses))


def test_an_address_names_the_node_that_has_it_now() -> None:
    """It may be used again after its node is deleted."""
    found = NodeAddresses()
    found.on_node(None, with_address("a", "10.0.0.1"))
    first = found.names
    found.on_node(with_address("a", "10.0.0.1"), None)
    found.on_node(None, with_address("b", "10.0.0.1"))
    second = found.names
    found.on_node(with_address("b", "10.0.0.1"), with_address("b", "10.0.0.2"))

    assert ("a", "b") == (first.of("10.0.0.1"), second.of("10.0.0.1"))
    assert ("10.0.0.1", "b") == (found.names.of("10.0.0.1"), found.names.of("10.0.0.2"))


def test_a_status_with_the_same_addresses_changes_nothing() -> None:
    """Every node has one every few seconds."""
    found = NodeAddresses()
    found.on_node(None, with_address("a", "10.0.0.1"))
    names = found.names
    found.on_node(with_address("a", "10.0.0.1"), with_address("a", "10.0.0.1"))
    found.on_node(None, with_address("a", "10.0.0.1"))
    found.on_node(None, None)
    found.on_node(with_address("unknown", "10.0.0.1"), None)

    assert names is found.names
