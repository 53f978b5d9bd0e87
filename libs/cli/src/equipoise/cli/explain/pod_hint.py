"""The placement hint with which a pod was created, from the pod itself."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from equipoise.cli.whole_objects import WholeObject, whole
from equipoise.contracts.hints.policy import HINTED
from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.runtime.kubernetes.client import NODES, PODS, Kube


class PodHint(msgspec.Struct, frozen=True, kw_only=True):
    """What the admission policy added to a pod."""

    workload: str
    """The key of its hint, `Deployment.web`."""

    version: str
    """Of the object with the hints."""

    preferred: int
    """Nodes."""

    avoided: int
    node_weight: int | None
    """Of its node: 0 if it is neither preferred nor avoided, negative if avoided; None: it has none yet."""

    def __str__(self) -> str:
        nodes = f"{self.preferred} nodes preferred, {self.avoided} avoided"
        text = f"created with the placement hint of {self.workload}: {nodes}"
        match self.node_weight:
            case None:
                return text
            case 0:
                return f"{text}; its node is neither"
            case weight if weight > 0:
                return f"{text}; its node is preferred with weight {weight}"
            case weight:
                return f"{text}; its node is avoided with weight {-weight}"


async def read_pod_hint(kube: Kube, namespace: str, name: str) -> PodHint | None:
    """None: the pod was created without one. Raises KubeError."""
    pod = await kube.get(whole(PODS), name, namespace)
    if HINTED not in pod.metadata.annotations:
        return None
    node = str(pod.spec.get("nodeName", ""))
    hostname = (await kube.get(NODES, node)).metadata.labels.get(HOSTNAME, "") if node else None
    return pod_hint(pod, hostname)


def pod_hint(pod: WholeObject, hostname: str | None) -> PodHint:
    """Of a pod with the annotation. `hostname`: the label of its node; None: it has none."""
    workload, _, version = pod.metadata.annotations[HINTED].rpartition("@")
    weights = dict(_weights(pod))
    return PodHint(
        workload=workload,
        version=version,
        preferred=sum(weight > 0 for weight in weights.values()),
        avoided=sum(weight < 0 for weight in weights.values()),
        node_weight=None if hostname is None else weights.get(hostname, 0),
    )


def _weights(pod: WholeObject) -> Iterator[tuple[str, int]]:
    """By node, of the preferred terms that name nodes; negative: avoided."""
    affinity: Mapping[str, Any] = pod.spec.get("affinity", {}).get("nodeAffinity", {})
    for term in affinity.get("preferredDuringSchedulingIgnoredDuringExecution", []):
        for rule in term["preference"].get("matchExpressions", []):
            if rule["key"] == HOSTNAME and rule["operator"] in ("In", "NotIn"):
                weight = term["weight"] if rule["operator"] == "In" else -term["weight"]
                yield from ((name, weight) for name in rule["values"])
