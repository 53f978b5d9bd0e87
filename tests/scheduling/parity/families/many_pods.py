"""Many pods that wait when kube-scheduler starts: their order, and each decision with the pods before it assumed."""

from scheduling.parity.common_objects import Document
from scheduling.parity.generator import ClusterGenerator


class ManyPodsCluster(ClusterGenerator):
    """Pods that run have the highest priority: a preemption would change the state while others are scheduled."""

    name = "many-pods"
    at_once = True

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        if seed % 5 == 4:
            # The first feasible node is taken, and the next search begins behind it.
            profile = {"schedulerName": "default-scheduler", "plugins": {"score": {"disabled": [{"name": "*"}]}}}
            self.configuration = {"parallelism": 1, "profiles": [profile]}

    def existing_pods(self) -> list[Document]:
        pods = super().existing_pods()
        for pod in pods:
            pod["spec"]["priorityClassName"] = "high"
        return pods
