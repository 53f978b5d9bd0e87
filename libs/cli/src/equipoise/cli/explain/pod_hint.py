"""The placement hint with which a pod was created, from the pod itself."""

import msgspec

from equipoise.cli.terminal import count
from equipoise.contracts.hints.hinted_pod import hint_weights
from equipoise.contracts.hints.policy import HINTED
from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.messages.placement import PlacedHint
from equipoise.runtime.kubernetes.client import NODES, PODS, Kube


class PodHint(msgspec.Struct, frozen=True, kw_only=True):
    """What the admission policy added to a pod."""

    workload: str
    """The key of its hint, `Deployment.web`."""

    version: str
    """The version of the object with the hints."""

    preferred: int
    """The number of preferred nodes."""

    avoided: int
    node_weight: int | None
    """The weight of the pod's node: 0 if neither preferred nor avoided, negative if avoided. None without a node."""

    def __str__(self) -> str:
        text = f"created with the placement hint of {self.workload}: {_nodes(self.preferred, self.avoided)}"
        return text if self.node_weight is None else f"{text}; its node is {_effect(self.node_weight)}"


def placed_hint_text(hint: PlacedHint | None) -> str:
    """The text of a hint from the bus, which does not name the workload. Empty without a hint, or if it is unknown."""
    if hint is None or hint.node == "none":
        return ""
    nodes = _nodes(hint.preferred, hint.avoided)
    return f"created with a placement hint: {nodes}; its node is {_effect(hint.weight)}"


def _nodes(preferred: int, avoided: int) -> str:
    return f"{count(preferred, 'node')} preferred, {avoided} avoided"


def _effect(weight: int) -> str:
    if not weight:
        return "neither"
    return f"preferred with weight {weight}" if weight > 0 else f"avoided with weight {-weight}"


async def read_pod_hint(kube: Kube, namespace: str, name: str) -> PodHint | None:
    """The hint with which a pod was created; None if it had none. Raises KubeError."""
    pod = await kube.get(PODS, name, namespace)
    node = pod.spec.node_name
    hostname = (await kube.get(NODES, node)).metadata.labels.get(HOSTNAME, "") if node else None
    return pod_hint(pod, hostname)


def pod_hint(pod: Pod, hostname: str | None) -> PodHint | None:
    """The hint with which the pod was created; None if it had none.

    `hostname` is the hostname label of its node; None if it has no node.
    """
    weights = hint_weights(pod)
    if weights is None:
        return None
    workload, _, version = pod.metadata.annotations[HINTED].rpartition("@")
    return PodHint(
        workload=workload,
        version=version,
        preferred=sum(weight > 0 for weight in weights.values()),
        avoided=sum(weight < 0 for weight in weights.values()),
        node_weight=None if hostname is None else weights.get(hostname, 0),
    )
