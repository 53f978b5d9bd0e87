"""The annotation by which a ReplicaSet chooses the pods that it deletes when it is scaled down.

Of ready pods, it deletes those with the lowest cost first; a pod without the annotation has the cost 0.
Source: kubernetes, pkg/controller/controller_utils.go, `ActivePodsWithRanks`.
"""

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

RANKS = 1_000
"""The number of costs that Equipoise writes, from -9999 to -9000. k8s/base/fence.yaml permits no others.

They also distinguish its own values from those of other writers, so that no second annotation is needed.
"""

_FIRST = -9_999


def cost_of_rank(rank: int) -> str:
    """The cost of a pod that should be deleted at this rank, from 0 to `RANKS` - 1; rank 0 is deleted first."""
    return str(_FIRST + rank)


def is_own_cost(value: str) -> bool:
    """Whether Equipoise wrote this cost."""
    return len(value) == 5 and value.startswith("-9") and value[1:].isascii() and value[1:].isdigit()
