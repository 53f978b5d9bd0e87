"""Finds the node to which a series belongs. Exporters, targets and scrape jobs identify it by its name, host name or
address, often with a port.

Addresses are compared as addresses: `[FD00:0::1]:9100` is the node with the address `fd00::1`, `::ffff:10.0.0.1` the
one with `10.0.0.1`. Names may be shorter or longer than the name of the node (`worker-1` and `worker-1.example.com`),
if only one node fits.
"""

import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv6Address, ip_address

import msgspec

from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.contracts.kubernetes.objects.node import Node

AMBIGUOUS = ""
"""Used in place of a node's name if several nodes have this address or name."""

_PORT = re.compile(r"(\d{1,5}|[a-z][-a-z0-9_]{0,62})", re.ASCII | re.IGNORECASE)
"""A number, or the name of a port, as Google's managed Prometheus writes it."""


class NodeNames(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a cluster, by every text that may identify one of them."""

    by_text: Mapping[str, str] = {}
    """Nodes by name, host name and address, as `host_of` writes them; AMBIGUOUS for a text of several nodes."""

    by_first_label: Mapping[str, str] = {}
    """Nodes by the part of their name before the first dot; AMBIGUOUS for a part of several nodes."""

    shared: Mapping[str, str] = {}
    """The address that a node has in common with another one, and the other node, by node."""

    def of(self, host: str) -> str:
        """The node that a result of `host_of` identifies; AMBIGUOUS if it fits several nodes; the text itself if
        none."""
        exact = self.by_text.get(host)
        if exact is not None or not host:
            return exact or AMBIGUOUS
        name = host.casefold().rstrip(".")
        first, dot, _ = name.partition(".")
        node = self.by_text.get(name) or self.by_first_label.get(first, AMBIGUOUS)
        # The text may lack the domain in the name of the node, or have one that the name lacks.
        fits = node == name or (node == first if dot else node.startswith(f"{first}."))
        return node if node and (fits or name in self.by_text) else host

    def has(self, name: str) -> bool:
        """Whether there is a node of this name."""
        return self.by_text.get(name) == name != AMBIGUOUS


def host_of(text: str) -> str:
    """The host of an address or of a URL, without a port; an IP address in its shortest form."""
    host = text.partition("://")[2].partition("/")[0] if "://" in text else text
    if ":" not in host and not host[:1].isdigit():
        return host  # the usual case: a name
    if host.startswith("["):
        return _canonical(host[1:].partition("]")[0])
    if (address := _address(host)) is not None:
        return address
    name, colon, port = host.rpartition(":")
    return _canonical(name) if colon and _PORT.fullmatch(port) else host


def _canonical(host: str) -> str:
    return _address(host) or host


def _address(text: str) -> str | None:
    """The address without its zone; None for other text. IPv4 addresses in the form of IPv6 are equal to them."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def texts_of(node: Node) -> frozenset[str]:
    """The host names and addresses that identify this node besides its name."""
    texts = {host_of(item.address) for item in node.status.addresses}
    return frozenset({*texts, *(text.casefold() for text in texts), node.metadata.labels.get(HOSTNAME, "")} - {""})


def node_names(nodes: Mapping[str, Iterable[str]]) -> NodeNames:
    """The names of nodes. `nodes`: the result of `texts_of`, by the name of each node."""
    by_text, first_labels, shared = {name: name for name in nodes}, dict[str, str](), dict[str, str]()
    holders: dict[str, str] = {}
    for name, texts in nodes.items():
        first = name.partition(".")[0]
        first_labels[first] = name if first_labels.get(first, name) == name else AMBIGUOUS
        for text in texts:
            if text in nodes:
                continue  # the name of a node takes precedence over the same text as an address of another node
            other = holders.setdefault(text, name)
            by_text[text] = name if by_text.get(text, name) == name else AMBIGUOUS
            if other != name:
                shared |= {name: f"{text} is also of node {other}", other: f"{text} is also of node {name}"}
    return NodeNames(by_text=by_text, by_first_label=first_labels, shared=shared)
