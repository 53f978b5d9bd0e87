"""Clusters in which not all nodes are searched: more than 100, in zones, and which ones a search examines."""

from scheduling.parity.common_objects import GPU, Document
from scheduling.parity.families.many_pods import ManyPodsCluster

REGIONS = ("region-a", "region-b")


class ManyNodesCluster(ManyPodsCluster):
    """kube-scheduler examines one node after the other (`parallelism: 1`), so that its choice can be repeated."""

    name = "many-nodes"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.names = [f"node-{seed}-{number}" for number in range(self._random.randint(101, 190))]
        self.configuration = {"parallelism": 1, "percentageOfNodesToScore": self._random.choice((0, 0, 5, 60, 100))}

    def nodes(self) -> list[Document]:
        nodes = super().nodes()
        for node in nodes:
            if self._chance(0.2):
                node["metadata"]["labels"]["topology.kubernetes.io/region"] = self._random.choice(REGIONS)
            if self._chance(0.6):
                node["status"]["allocatable"].pop(GPU, None)
                node["status"]["capacity"].pop(GPU, None)
                node["spec"]["taints"] = []
        return nodes

    def existing_pods(self) -> list[Document]:
        return super().existing_pods()[:40]
