"""Which nodes Cluster Autoscaler would remove, by its rules: a replay of rules that were read, not of the program.

A node goes if its requests are below a share of what it offers, of CPU and of memory, and each of its pods fits on
another node by kube-scheduler's filters (docs/others.md has the sources). Nodes go one after the other, each with the
pods of those before it; the ten minutes that it waits change nothing in a cluster where nothing else happens.
"""

from collections.abc import Sequence

from equipoise.contracts.numeric import np
from equipoise.descheduler.decisions.cluster import ClusterView
from equipoise.descheduler.decisions.cluster_node import MovablePod

UTILIZATION = 0.5
"""The default of `--scale-down-utilization-threshold`."""

Moves = Sequence[tuple[MovablePod, int]]
"""Pods with the index of the node to which each is evicted."""


def scaled_down(cluster: ClusterView) -> list[tuple[int, Moves]]:
    """The nodes that go, by their index and in their order, with the moves of their pods."""
    fit, nodes = cluster.fit(cluster.nodes), cluster.nodes
    pods = {index: list(node.pods) for index, node in enumerate(nodes)}
    gone: list[tuple[int, Moves]] = []
    first = 0
    while True:
        removed = {index for index, _ in gone}
        shares = fit.requested.max(axis=1)
        for source in (index for index in range(len(nodes)) if index not in removed and shares[index] < UTILIZATION):
            moves: list[tuple[MovablePod, int]] = []
            for pod in pods[source]:
                allowed = ~fit.refusals(pod).refused
                allowed[[source, *removed]] = False
                # It tries the nodes in turn, from the one after that of the pod before.
                targets = np.flatnonzero(allowed)
                if not len(targets):
                    break
                target = int(targets[np.searchsorted(targets, first) % len(targets)])
                first = target + 1
                fit.move(pod, target)
                moves.append((pod, target))
            if len(moves) == len(pods[source]):
                for pod, target in moves:
                    pods[target].append(pod)
                gone.append((source, moves))
                break
            for pod, _ in moves:
                fit.move(pod, source)
        else:
            return gone
