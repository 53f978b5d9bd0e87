"""Many pods that wait when kube-scheduler starts: their order, and each decision with the pods before it assumed."""

from bench.parity.common_objects import Document
from bench.parity.generator import ClusterGenerator


class ManyPodsCluster(ClusterGenerator):
    """Pods that run have the highest priority: a preemption would change the state while others are scheduled."""

    name = "many-pods"
    at_once = True

    def existing_pods(self) -> list[Document]:
        pods = super().existing_pods()
        for pod in pods:
            pod["spec"]["priorityClassName"] = "high"
        return pods
