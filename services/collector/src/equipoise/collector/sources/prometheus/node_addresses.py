"""Maps addresses to node names, for series that name their node by its address.

An address is used again after its node is deleted. One that two nodes had recently identifies neither of them; older
samples are rejected by the age of the node (`sample_validation`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from equipoise.collector.decisions.query import Sample, series_name
from equipoise.collector.sources.prometheus.samples import elements, labels_of

AMBIGUOUS = ""
"""Instead of a name: two nodes had the address."""


def names_by_address(result: Any) -> dict[str, str]:
    """Node names by address, from an instant vector of kube_node_info; AMBIGUOUS for an address of two nodes."""
    names: dict[str, str] = {}
    for element in elements(result):
        labels = labels_of(element)
        if not isinstance(labels, Mapping):
            continue
        node, address = labels.get("node"), labels.get("internal_ip")
        if isinstance(node, str) and isinstance(address, str) and node and address:
            names[address] = node if names.get(address, node) == node else AMBIGUOUS
    return names


def with_node_names(samples: Iterable[Sample], names: Mapping[str, str]) -> list[Sample]:
    """The samples with node names instead of addresses; those of ambiguous addresses are left out."""
    found = []
    for sample in samples:
        node = names.get(sample.node.strip("[]"), sample.node)
        if node != AMBIGUOUS or sample.node == AMBIGUOUS:
            found.append(sample if node == sample.node else msgspec.structs.replace(sample, node=node))
    return found


def identified_by_name(samples: Iterable[Sample]) -> list[Sample]:
    """The samples with series that are identified by node, namespace and pod alone."""
    return [
        msgspec.structs.replace(
            sample,
            series=series_name({"node": sample.node, "namespace": sample.namespace, "pod": sample.pod}),
        )
        for sample in samples
    ]
