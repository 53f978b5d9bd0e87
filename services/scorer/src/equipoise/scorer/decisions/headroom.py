"""The amounts of a node that further pods can request."""

from equipoise.contracts.kubernetes.nodes.taints import BLOCKING_EFFECTS
from equipoise.contracts.load.correction import RESOURCES, amounts
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.numeric import Array, Flags, np

_ROUNDING = 1e-9
"""The rounding error of sums of requests, as a share of the allocatable amount."""


def headroom(placement: NodePlacement, requests: Array) -> Array:
    """Cores, bytes and pods that a node can take in addition to its pods' requests (per resource).

    NaN is unknown. −∞ if the node is not ready, cordoned or tainted: the scorer does not know the tolerations of pods.
    """
    tainted = any(taint.effect in BLOCKING_EFFECTS for taint in placement.taints)
    if not placement.ready or placement.cordoned or tainted:
        return np.full(len(requests) + 1, -np.inf)
    allocatable = np.array(amounts(placement.allocatable))
    return np.append(allocatable * (1.0 + _ROUNDING) - requests, placement.pod_capacity - len(placement.pods))


def fits(headrooms: Array, requests: Array) -> Flags:
    """pods × nodes: can each node take one more pod with these requests?

    `headrooms` are nodes × (resources, pods), `requests` pods × resources. A pod without a request for a resource also
    fits if the headroom is negative. No pod fits if the headroom is unknown.
    """
    fit: Flags = np.broadcast_to(headrooms[:, -1] >= 1.0, (len(requests), len(headrooms))).copy()
    for resource in range(len(RESOURCES)):
        needed, left = requests[:, resource, np.newaxis], headrooms[:, resource]
        fit &= (left >= needed) | ((needed == 0.0) & (left > -np.inf))
    return fit
