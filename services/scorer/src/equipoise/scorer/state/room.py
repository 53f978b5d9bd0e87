"""What nodes could still be given, as far as their placements tell: by requests, number of pods, and whether at all."""

import numpy as np

from equipoise.contracts.load.correction import amounts
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.scorer.state.arrays import Array, Flags

_KEEP_OFF = ("NoSchedule", "NoExecute")

_CRUMBS = 1e-9
"""Share of an allocatable by which sums of requests may be off."""


def room_of(placement: NodePlacement, requested: Array) -> Array:
    """Cores, bytes and pods that a node can take beyond what its pods ask for (`requested`: per resource).

    NaN is unknown. −∞ where nothing may come: not ready, cordoned, or tainted, for what a pod tolerates is not told.
    """
    closed = not placement.ready or placement.cordoned or any(taint.effect in _KEEP_OFF for taint in placement.taints)
    if closed:
        return np.full(len(requested) + 1, -np.inf)
    allocatable = np.array(amounts(placement.allocatable))
    return np.append(allocatable * (1.0 + _CRUMBS) - requested, placement.pod_capacity - len(placement.pods))


def fits(room: Array, requests: Array) -> Flags:
    """Per row of `room` (nodes × (resources + 1)): could it take one pod more that asks for this much per resource?

    A pod that asks for nothing of a resource needs none of it; what is unknown has no room.
    """
    asked = np.append(requests, 1.0)
    with np.errstate(invalid="ignore"):
        enough: Flags = ((room >= asked) | ((asked == 0.0) & (room > -np.inf))).all(axis=1)
    return enough
