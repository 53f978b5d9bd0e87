"""What a pod shows of a move without a gap, which detaches it from its ReplicaSet until its replacement is ready."""

from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta

DETACHED_HASH = "equipoise.dev/detached-pod-template-hash"
"""The annotation of a detached pod: the value of the label that was removed. Any tenant can write it, so it shows what
is restored, and proves nothing."""


def is_marked_detached(pod: ObjectMeta) -> bool:
    """Whether a pod without controller has the annotation. Only the ledger proves that the pod is being moved."""
    return pod.controller is None and DETACHED_HASH in pod.annotations
