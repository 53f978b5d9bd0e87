"""The cases written by hand, one per seed."""

from scheduling.parity.cases import nodes, pods, preemption, resources, volumes
from scheduling.parity.common_objects import Document
from scheduling.parity.generator import Change, ClusterGenerator

CASES = (*resources.CASES, *pods.CASES, *nodes.CASES, *preemption.CASES, *volumes.CASES)


class HandwrittenCluster(ClusterGenerator):
    name = "handwritten"
    objects_first = True

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.case = CASES[seed % len(CASES)]
        self.names = [node["metadata"]["name"] for node in self.case.nodes]
        self.configuration = self.case.configuration

    def nodes(self) -> list[Document]:
        return list(self.case.nodes)

    def objects(self) -> list[Document]:
        return list(self.case.objects)

    def existing_pods(self) -> list[Document]:
        return list(self.case.pods)

    def prepared(self) -> list[Change]:
        return list(self.case.prepared)

    def new_pods(self, count: int) -> list[Document]:
        return list(self.case.new)
