"""The loads of nodes once moves are done, and how uneven they are."""

from collections.abc import Sequence

from equipoise.contracts.load.correction import RESOURCES, load_of, plus
from equipoise.contracts.messages.descheduling import LoadExtremes
from equipoise.contracts.messages.values.resources import Resources, cpu_and_memory
from equipoise.descheduler.decisions.cluster import ClusterView, PodMove
from equipoise.descheduler.decisions.cluster_node import ClusterNode


def load_after(node: ClusterNode, window: str, moves: Sequence[PodMove]) -> Resources:
    """The load once the pending moves and these moves are done."""
    usage = node.projected(window)
    for move in moves:
        if move.pod.node == node.name:
            usage = plus(usage, move.pod.usage, -1.0)
        if move.target == node.name:
            usage = plus(usage, move.pod.usage)
    return load_of(usage, node.base)


def load_extremes(cluster: ClusterView, moves: Sequence[PodMove]) -> LoadExtremes:
    """How uneven the nodes of known load are once the pending moves and these moves are done."""
    window = cluster.windows[0]
    of_nodes: dict[str, list[PodMove]] = {}
    for move in moves:
        for name in (move.pod.node, move.target):
            of_nodes.setdefault(name, []).append(move)
    loads = [load_after(node, window, of_nodes.get(node.name, ())) for node in cluster.nodes if not node.unknown]
    highest, spread = {}, {}
    for name in RESOURCES:
        known_loads = [load for each in loads if (load := getattr(each, name)) is not None]
        highest[name] = max(known_loads, default=None)
        spread[name] = max(known_loads) - min(known_loads) if known_loads else None
    return LoadExtremes(highest=cpu_and_memory(highest), spread=cpu_and_memory(spread))
