"""What the latest messages contain about a node and a pod."""

from equipoise.contracts.load.cluster_messages import ClusterMessages
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization


def find_pod(messages: ClusterMessages, namespace: str, name: str) -> tuple[str, PlacedPod] | None:
    """The pod with this name, and its node. Of several pods, one that is not terminating is preferred, then the
    latest."""
    pods = [
        (node, pod)
        for node, placement in messages.placements.items()
        for pod in placement.pods
        if pod.name == name and pod.namespace == namespace
    ]
    return max(pods, key=lambda item: (not item[1].terminating, item[1].placed_at), default=None)


def latest_messages(messages: ClusterMessages, node: str) -> tuple[NodeUtilization | None, NodePlacement | None]:
    """The latest messages of a node; None if there is no message, or if it belongs to an earlier machine with this
    name."""
    utilization, placement = messages.utilizations.get(node), messages.placements.get(node)
    same = utilization is None or placement is None or utilization.uid == placement.uid
    return utilization if same else None, placement
