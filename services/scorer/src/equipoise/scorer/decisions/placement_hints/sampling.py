"""How many nodes must be named so that one of them is scored: kube-scheduler scores only some nodes of a large cluster.

It ends its search when enough nodes are feasible, wherever in the list of nodes it began. Preferences do not change
which ones these are.
"""

from math import ceil, log

from equipoise.contracts.messages.placement import MAX_HOSTNAMES

_MISSED = 0.005
"""The accepted share (0..1) of pods for which kube-scheduler scores none of the named nodes."""


def scored_nodes(nodes: int) -> int:
    """The number of scored nodes with `percentageOfNodesToScore: 0`, the default. Source: numFeasibleNodesToFind of
    kube-scheduler 1.36."""
    return min(nodes, max(100, nodes * max(5, 50 - nodes // 125) // 100))


def targets_beside(nodes: int) -> int:
    """Number of nodes to name beside the intended target of an evicted pod; 0 if all nodes are scored."""
    scored = scored_nodes(nodes)
    return 0 if scored == nodes else ceil(log(_MISSED) / log(1 - scored / nodes))


def most_preferred(most: int, nodes: int) -> int:
    """The maximum number of nodes that a hint prefers: `most`, or in a large cluster as many as are needed."""
    return min(MAX_HOSTNAMES, max(most, targets_beside(nodes)))
