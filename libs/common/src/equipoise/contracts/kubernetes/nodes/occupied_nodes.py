"""Which pods occupy a node: those that are on it and not finished."""

from equipoise.contracts.kubernetes.objects.pod import Pod

FINISHED = frozenset({"Succeeded", "Failed"})
"""Phases of pods that no longer use resources, although their object still exists."""


def occupies_node(pod: Pod) -> bool:
    """Whether the pod is bound to a node and has not finished."""
    return bool(pod.spec.node_name) and pod.status.phase not in FINISHED
