"""Which node a series is about, where it names its node by an address.

An address is used anew when its node goes: one that two nodes had lately names neither of them, and the samples of
before are judged by the age of the node (`readings`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from equipoise.collector.decisions.query import Sample, series_of
from equipoise.collector.sources.samples import elements, labels_of

UNCLEAR = ""
"""Instead of a name: two nodes had the address."""


def addresses(answer: Any) -> dict[str, str]:
    """Names of nodes by address, from an instant vector of kube_node_info; UNCLEAR for an address of two nodes."""
    names: dict[str, str] = {}
    for element in elements(answer):
        labels = labels_of(element)
        if not isinstance(labels, Mapping):
            continue
        node, address = labels.get("node"), labels.get("internal_ip")
        if isinstance(node, str) and isinstance(address, str) and node and address:
            names[address] = node if names.get(address, node) == node else UNCLEAR
    return names


def of_nodes(samples: Iterable[Sample], names: Mapping[str, str]) -> list[Sample]:
    """The samples with the names of their nodes instead of addresses; without those of unclear addresses."""
    found = []
    for sample in samples:
        node = names.get(sample.node.strip("[]"), sample.node)
        if node != UNCLEAR or sample.node == UNCLEAR:
            found.append(sample if node == sample.node else msgspec.structs.replace(sample, node=node))
    return found


def by_name(samples: Iterable[Sample]) -> list[Sample]:
    """The samples as series that are told apart by the names of node and pod alone."""
    return [
        msgspec.structs.replace(
            sample,
            series=series_of({"node": sample.node, "namespace": sample.namespace, "pod": sample.pod}),
        )
        for sample in samples
    ]
