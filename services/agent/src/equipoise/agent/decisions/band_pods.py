"""Which pods of the node belong to a band of reclaimed resources, and what they request."""

from collections.abc import Mapping

import msgspec

from equipoise.agent.state.watched_pods import BandPod
from equipoise.contracts.colocation.bands import OFFERED_BANDS, RESOURCE_NAMES, limits_of_band
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.requests import pod_requests
from equipoise.contracts.load.pod_priority import (
    PRIORITY_CLASS_LABEL,
    PriorityClass,
    priority_class_of,
    qos_of,
)
from equipoise.contracts.unreadable.known_amounts import unknown_requests

MIRROR = "kubernetes.io/config.mirror"
"""Annotation of the API server's copy of a static pod, with the hash that names its group.

Users who may create pods can write it, together with an owner of the kind Node, and a hash can be copied from a static
pod. But the kubelet runs no pod from the API server that has this annotation. So the agent does not change
such pods, and no annotation ever names a group.
"""

MILLI = 1_000.0


def band_pod(pod: Pod) -> BandPod | None:
    """The pod of a band; None if it has no band, has ended, is marked as static, or has unreadable amounts.

    A pod does not belong to the band free only because it has no requests: many system pods have none.
    """
    if pod.status.phase in ("Succeeded", "Failed") or MIRROR in pod.metadata.annotations or unknown_requests(pod):
        return None
    try:
        return _requesting(pod) or _free(pod)
    except ValueError:
        return None


def within_node(pods: Mapping[str, BandPod], cores: float) -> dict[str, BandPod]:
    """The pods, with CPU requests of at most the cores of the node.

    The kubelet refuses a pod that requests more of a band than the status of the node has. But whoever may write the
    status can write any amount, and a pod of then is not refused later. Without this limit its request would take CPU
    time from other batch pods, or evict them.
    """
    return {
        uid: msgspec.structs.replace(pod, cpu_request=cores) if (pod.cpu_request or 0.0) > cores else pod
        for uid, pod in pods.items()
    }


def _requesting(pod: Pod) -> BandPod | None:
    requests = pod_requests(pod)
    for band in OFFERED_BANDS:
        cpu, memory = RESOURCE_NAMES[band]
        if requests.get(cpu) or requests.get(memory):
            limits = limits_of_band(pod, band)
            return _pod(
                pod,
                band,
                cpu_request=requests.get(cpu, 0.0) / MILLI or None,
                cpu_limit=limits.cpu,
                memory_limit=limits.memory,
            )
    return None


def _free(pod: Pod) -> BandPod | None:
    """A pod of the band batch or free without amounts: by label or by priority, and of the QoS class BestEffort."""
    labels = {PRIORITY_CLASS_LABEL: pod.metadata.labels.get(PRIORITY_CLASS_LABEL, "")}
    band = priority_class_of(labels, pod.spec.priority, "Guaranteed")
    return _pod(pod, band) if band in ("batch", "free") and qos_of(pod.status.qos_class) == "BestEffort" else None


def _pod(
    pod: Pod,
    band: PriorityClass,
    cpu_request: float | None = None,
    cpu_limit: float | None = None,
    memory_limit: float | None = None,
) -> BandPod:
    owner = pod.metadata.controller
    return BandPod(
        uid=pod.metadata.uid,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        band=band,
        priority=pod.spec.priority,
        cpu_request=cpu_request,
        cpu_limit=cpu_limit,
        memory_limit=memory_limit,
        evictable=band != "mid" and owner is not None and owner.kind != "DaemonSet",
        terminating=pod.metadata.deletion_timestamp is not None,
    )
