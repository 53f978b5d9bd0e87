"""What nodes use, as arrays over nodes and resources: thousands of nodes are asked the same for every pod."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from equipoise.contracts.messages.resources import Resources
from equipoise.descheduler.state.cluster import FleetNode, MovablePod, Resource

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

MEASURED: tuple[Resource, ...] = ("cpu", "memory", "pods")
"""The columns. The number of pods is a share of those that the node allows."""

PODS = MEASURED.index("pods")


REQUEST_TOLERANCE = np.array([1e-9, 1.0, 0.0])
"""Cores, bytes and pods that a request may be short of: requests are sums of decimal fractions."""


def row(values: Mapping[Resource, float], missing: float = np.nan) -> Array:
    """A value per column."""
    return np.array([values.get(resource, missing) for resource in MEASURED])


def _known(values: Array) -> Array:
    """NaN for what is no amount: unknown, infinite, negative."""
    return np.where(np.isfinite(values) & (values >= 0), values, np.nan)


def bases(nodes: Sequence[FleetNode]) -> Array:
    """Nodes × resources: what loads refer to; NaN where there is none of it."""
    told = [(node.base.cpu, node.base.memory, node.fit.allocatable.get("pods")) for node in nodes]
    values = _known(np.array(told, dtype=np.float64).reshape(-1, len(MEASURED)))
    return np.where(values > 0, values, np.nan)


def amounts(nodes: Sequence[FleetNode], window: str, *, projected: bool) -> Array:
    """Nodes × resources: cores, bytes and pods; NaN where unknown. `projected`: once the moves under way are done."""
    nothing = Resources()
    told: list[tuple[float | None, float | None, float | None]] = []
    for node in nodes:
        usage = nothing if node.unknown else node.projected(window) if projected else node.usage.get(window, nothing)
        told.append((usage.cpu, usage.memory, None if node.unknown else node.pod_count()))
    return _known(np.array(told, dtype=np.float64).reshape(-1, len(MEASURED)))


def production_amounts(nodes: Sequence[FleetNode]) -> tuple[Array, Flags]:
    """Nodes × resources: what production pods use as far as that is known, and whether it is known of all of them.

    What is known of some is a least amount: it may prove a node hot, and never proves one idle.
    """
    sums, whole = np.zeros((len(nodes), len(MEASURED))), np.ones(len(nodes), dtype=np.bool_)
    for position, node in enumerate(nodes):
        usages = node.production_usages()
        told = np.array([(usage.cpu, usage.memory) for usage in usages], dtype=np.float64).reshape(-1, 2)
        values = _known(told)
        sums[position] = (*np.nansum(values, axis=0), len(usages))
        whole[position] = not node.unknown and not np.isnan(values).any()
    return sums, whole


def amount_of(pod: MovablePod) -> Array:
    """What moves with a pod: cores, bytes, and one pod. Unknown usage moves nothing."""
    told = np.array([pod.usage.cpu, pod.usage.memory, 1.0], dtype=np.float64)
    return np.nan_to_num(_known(told))
