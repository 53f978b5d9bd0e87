"""What is counted over the placements of all nodes: no count reads all of them."""

from collections import Counter
from collections.abc import Collection

from equipoise.contracts.kubernetes.nodes.platforms import Platform, platform_of
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import NodePlacement


class PlacementCounts:
    """The placement of a node that has changed is removed and added again."""

    def __init__(self) -> None:
        self.ready = 0
        """The number of nodes that are Ready."""

        self.pods = 0
        self.platforms: Counter[Platform] = Counter()
        """The number of nodes of each platform. Platforms without a node are absent."""

        self._nodes_of: dict[Workload | None, set[str]] = {}

    def add(self, placement: NodePlacement) -> None:
        self._count(placement, 1)
        for workload in _workloads(placement):
            self._nodes_of.setdefault(workload, set()).add(placement.node)

    def remove(self, placement: NodePlacement) -> None:
        """`placement`: one that was added."""
        self._count(placement, -1)
        for workload in _workloads(placement):
            nodes = self._nodes_of[workload]
            nodes.remove(placement.node)
            if not nodes:
                del self._nodes_of[workload]

    def nodes_of(self, workload: Workload | None) -> Collection[str]:
        """The nodes with a pod of the workload, or with one that is gone. None: pods without a workload."""
        return self._nodes_of.get(workload, ())

    def _count(self, placement: NodePlacement, sign: int) -> None:
        self.ready += sign * placement.ready
        self.pods += sign * len(placement.pods)
        platform = platform_of(placement.labels)
        self.platforms[platform] += sign
        if not self.platforms[platform]:
            del self.platforms[platform]


def _workloads(placement: NodePlacement) -> set[Workload | None]:
    return {pod.workload for pod in (*placement.pods, *placement.gone)}
