"""Whether queries can be limited to the series of some nodes, and to which series.

Which label names the node differs between profiles and scrape jobs, and its value may be a name, an address, or the
address of a proxy. So a query is limited only by a label that the series of all nodes have, as an earlier query about
all nodes has shown.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.query import NodeMatcher, Origin, Sample
from equipoise.collector.decisions.sharding import shard_of

SPARE_VALUES = 100
"""How many more values of a label may name no node than name one. With more of them, such as the addresses of pods,
queries would become too long."""


class NodeLabel(msgspec.Struct, frozen=True, kw_only=True):
    """The label that names the node of every series about nodes, or of every series about pods."""

    label: str
    jobs: tuple[str, ...]
    """The scrape jobs of these series."""

    values: Mapping[str, tuple[str, ...]]
    """The values of the label, by node, and those of nodes that were removed not long ago."""

    unnamed: tuple[str, ...] = ()
    """Its values that name no node of this cluster: the address of a proxy, or of a node that was deleted. Any node may
    have such series, so no query leaves them out."""

    def matcher(self, nodes: Iterable[str]) -> NodeMatcher | None:
        """The series of these nodes; None if no series of them is known."""
        values = [value for node in nodes for value in self.values.get(node, ())]
        return NodeMatcher(self.label, (*sorted(values), *self.unnamed)) if values else None


def find_node_label(
    samples: Iterable[Sample],
    names: NodeNames,
    jobs: Collection[str],
    before: NodeLabel | None = None,
    kept: Collection[str] = (),
) -> NodeLabel | str:
    """The label that names the node of every series of these jobs; or why there is none.

    `before`: the last result. A node that has no series now keeps its values, because an exporter that failed returns
    with them; and so does one of the nodes `kept`, which was removed: an hour of the past has series of it.
    """
    origins: set[Origin] = {sample.origin for sample in samples if sample.origin.scrape.job in jobs}
    labels = sorted({origin.label for origin in origins})
    if not labels:
        return "no series names a node of this cluster"
    if labels[0] == "":
        return "some series have no label that names their node"
    if len(labels) > 1:
        return f"series name their nodes by different labels: {', '.join(labels)}"
    values: dict[str, set[str]] = {}
    for origin in origins:
        node = names.of(origin.node)
        values.setdefault(node if names.has(node) else "", set()).add(origin.text)
    unnamed = tuple(sorted(values.pop("", ())))
    if len(unnamed) > len(values) + SPARE_VALUES:
        return f"{len(unnamed)} values of the label {labels[0]} name no node of this cluster"
    last = before.values if before is not None and before.label == labels[0] else {}
    return NodeLabel(
        label=labels[0],
        jobs=tuple(sorted(jobs)),
        values={name: texts for name, texts in last.items() if names.has(name) or name in kept}
        | {name: tuple(sorted(texts)) for name, texts in values.items()},
        unnamed=unnamed,
    )


def in_parts(label: NodeLabel, nodes: Iterable[str], parts: int) -> list[tuple[frozenset[str], NodeMatcher]]:
    """Queries that are each about some of these nodes."""
    groups: dict[int, list[str]] = {}
    for node in nodes:
        if label.values.get(node):
            groups.setdefault(shard_of(node, parts), []).append(node)
    values = {number: sorted(text for node in group for text in label.values[node]) for number, group in groups.items()}
    return [
        (frozenset(group), NodeMatcher(label.label, tuple(values[number]))) for number, group in sorted(groups.items())
    ]


def of_no_part(
    label: NodeLabel, parts: Iterable[tuple[frozenset[str], NodeMatcher]], nodes: Iterable[str]
) -> NodeMatcher:
    """The series that name no node, or one of these nodes, and that are in none of these parts.

    The label of a node that was never seen may have its name.
    """
    texts = {text for node in nodes for text in label.values.get(node, (node,))}
    texts.difference_update(text for _, matcher in parts for text in matcher.values)
    return NodeMatcher(label.label, ("", *sorted(texts.difference(label.unnamed)), *label.unnamed))
