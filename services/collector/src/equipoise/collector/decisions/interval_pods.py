"""Chooses the pods from whose samples the scrape interval of each node's pods is found: to read the raw samples of all
pods would be too many."""

from collections.abc import Iterable, Iterator, Mapping

from equipoise.collector.state.placement import PodName

PODS_OF_NODE = 3
"""The next pod of a node is tried when the one before has no samples: its namespace may be excluded from scraping."""

QUERY_LENGTH = 4_000
"""Characters of the names in one query. A query is part of a URL, and proxies accept URLs of 8 kB."""


def interval_pods(since: Mapping[PodName, float]) -> tuple[PodName, ...]:
    """Some pods of one node, in the order in which they are tried. `since`: when each began to run.

    The pods that have run longest, from different namespaces if there are several.
    """
    longest = sorted(since, key=lambda name: (since[name], name))
    of_namespace: dict[str, PodName] = {}
    for name in longest:
        of_namespace.setdefault(name[0], name)
    firsts = list(of_namespace.values())[:PODS_OF_NODE]
    return (*firsts, *[name for name in longest if name not in firsts][: PODS_OF_NODE - len(firsts)])


def in_queries(pods: Iterable[PodName]) -> Iterator[tuple[PodName, ...]]:
    """The pods in groups, each small enough for a query. Pods of equal names are in one group.

    A query selects namespaces and names apart, so other pods of these names and namespaces are in its result.
    """
    group: list[PodName] = []
    length = 0
    for name in sorted(pods, key=lambda name: (name[1], name[0])):
        length += sum(map(len, name))
        if group and length > QUERY_LENGTH:
            yield tuple(group)
            group, length = [], sum(map(len, name))
        group.append(name)
    if group:
        yield tuple(group)
