"""Which scrape job measures a node, when several have series of it.

Any scraped target can have series with the name of any node. A job of node-exporters or kubelets differs from others:
it has a target on each node. So of two jobs that have series of a node, the one with more such targets measures it. If
both have equally many, the one that measured the node last stays. If neither did, none is chosen: the node has two
series, and its usage is unknown.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain, groupby
from operator import attrgetter

from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.query import ResourceName, Sample, Scrape

PREFERRED = "cadvisor"
"""The kubelet has series of containers on several pages. The page with this name has those of whole pods."""

_ORIGIN = attrgetter("origin")

Scrapes = Mapping[str, Scrape]
"""Scrapes by the name of the node."""


def jobs_of(scrapes: Mapping[ResourceName, Scrapes]) -> set[str]:
    """The names of all jobs that measure a resource of a node."""
    return {scrape.job for of_nodes in scrapes.values() for scrape in of_nodes.values()}


def choose_scrapes(samples: Iterable[Sample], names: NodeNames, before: Scrapes) -> dict[str, Scrape]:
    """The scrape that measures each node. A node is absent if it has none, or if it has equal ones.

    `before`: the last choice. A scrape in it competes as long as it has samples of other nodes, and stays unless
    another one has more: an exporter that fails is not replaced by another target that has series with the name of its
    node.
    """
    nodes: defaultdict[Scrape, set[str]] = defaultdict(set)
    targets: defaultdict[Scrape, set[str]] = defaultdict(set)
    for origin in set(map(_ORIGIN, samples)):
        node = names.of(origin.node)
        if names.has(node):
            nodes[origin.scrape].add(node)
            targets[origin.scrape].add(origin.target)
    ranks = {
        scrape: (min(len(measured), len(targets[scrape])), len(measured), PREFERRED in str(scrape))
        for scrape, measured in nodes.items()
    }
    chosen = _highest(nodes, ranks, {node: last for node, last in before.items() if last in nodes and names.has(node)})
    # A target of many nodes, most of which others measure, is not the exporter of one node: it measures none of them.
    refused = {
        scrape
        for scrape, measured in nodes.items()
        if len(targets[scrape]) < len(measured)
        and any(
            2 * ranks[other][0] > len(measured) for node in measured if (other := chosen.get(node, scrape)) != scrape
        )
    }
    if not refused:
        return chosen
    others = sorted(nodes.keys() - refused, key=ranks.__getitem__)
    return {node: others[-1] if scrape in refused else scrape for node, scrape in chosen.items()}


def _highest(
    nodes: Mapping[Scrape, set[str]], ranks: Mapping[Scrape, tuple[int, int, bool]], before: Scrapes
) -> dict[str, Scrape]:
    """The scrape with the highest rank, by node, of those that have series of the node or measured it last. Of several
    with the same rank, the one that measured the node last; none if none of them did."""
    candidates = {scrape: set(measured) for scrape, measured in nodes.items()}
    for node, last in before.items():
        candidates[last].add(node)
    chosen: dict[str, Scrape] = {}
    for _, group in groupby(sorted(nodes, key=ranks.__getitem__), key=ranks.__getitem__):
        equals = set(group)
        for scrape in equals:
            chosen |= dict.fromkeys(candidates[scrape], scrape)
        claims = Counter(chain.from_iterable(candidates[scrape] for scrape in equals)) if len(equals) > 1 else {}
        for node in [node for node, count in claims.items() if count > 1]:
            if before.get(node) in equals:
                chosen[node] = before[node]
            else:
                del chosen[node]
    return chosen
