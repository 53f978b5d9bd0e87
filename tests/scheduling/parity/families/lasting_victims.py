"""Terminating pods, and nominated ones that wait for them: a removed pod takes ten minutes to end."""

from scheduling.parity.common_objects import Document
from scheduling.parity.generator import Change, ClusterGenerator

SECONDS = 600


class LastingVictimsCluster(ClusterGenerator):
    """Some pods terminate from the beginning."""

    name = "lasting-victims"
    victims_last = True

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.names = self.names[: self._random.randint(2, 5)]
        self._terminating: list[Change] = []

    def existing_pods(self) -> list[Document]:
        pods = [
            _lasting(self._pod(f"old-{self._seed}-{number}", simple=True))
            for number in range(self._random.randint(2, 6) * len(self.names))
        ]
        for pod in pods:
            pod["spec"]["nodeName"] = self._random.choice(self.names)
            if self._chance(0.2):
                path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
                self._terminating.append(Change(method="DELETE", path=path))
        return pods

    def prepared(self) -> list[Change]:
        return self._terminating

    def new_pods(self, count: int) -> list[Document]:
        return [_lasting(pod) for pod in super().new_pods(count)]


def _lasting(pod: Document) -> Document:
    pod["metadata"]["annotations"] = {"pod-delete.stage.kwok.x-k8s.io/delay": f"{SECONDS}s"}
    pod["spec"]["terminationGracePeriodSeconds"] = SECONDS
    return pod
