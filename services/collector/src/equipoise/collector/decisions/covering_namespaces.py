"""Which namespaces have pods on every node: their few series show how often the pods of each node are scraped."""

from collections import defaultdict
from collections.abc import Iterable

from equipoise.collector.decisions.query import Sample
from equipoise.collector.decisions.scrape_choice import choose_scrapes
from equipoise.collector.state.node_names import NodeNames

MOST = 20
"""Namespaces at most. Other nodes have the usual interval."""


def covering_namespaces(samples: Iterable[Sample], names: NodeNames) -> tuple[str, ...]:
    """Namespaces which together have pods on every node; first the one with most nodes for its number of series.

    Series of jobs that do not measure their node do not count.
    """
    nodes: defaultdict[str, set[str]] = defaultdict(set)
    series: defaultdict[str, float] = defaultdict(float)
    found = list(samples)
    scrapes = choose_scrapes(found, names, {})
    known = [sample for sample in found if scrapes.get(names.of(sample.node)) == sample.scrape]
    for sample in known or found:
        nodes[sample.namespace].add(names.of(sample.node))
        series[sample.namespace] += sample.value
    chosen: list[str] = []
    missing = set().union(*nodes.values())
    while missing and len(chosen) < MOST:
        best = max(sorted(nodes), key=lambda name: len(nodes[name] & missing) ** 2 / max(1.0, series[name]))
        if not nodes[best] & missing:
            break
        chosen.append(best)
        missing -= nodes[best]
    return tuple(chosen)
