"""What a scoring policy looks at: the loads of nodes and the demand of a pod, as arrays.

Arrays are float64; the last axis is the resource, in the order of `contracts.load.RESOURCES`. NaN is unknown.
"""

import msgspec
import numpy as np
import numpy.typing as npt

from equipoise.contracts.demand import Link
from equipoise.contracts.load import RESOURCES
from equipoise.contracts.messages import Resources

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


_BEYOND = 1e6
"""Shares are cut here: a pod may ask for any number of cores, and arithmetic must not overflow."""


class NodeLoads(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes a question is about, and the whole fleet around them."""

    windows: tuple[str, ...]
    """Names along the window axis, shortest first."""

    load: Array
    """nodes × windows × resources: share (0..1, above 1 when overcommitted) of the base that is used or booked."""

    base: Array
    """nodes × resources: cores and bytes that load refers to."""

    fleet: Array
    """As `load`, for every fresh node of the fleet and in no particular order; the cluster's level comes from it."""


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod is expected to use."""

    usage: Array
    """windows × resources: cores and bytes, always known."""

    sources: dict[str, Link]
    """Per resource the link of the chain that told, for the shortest window."""


def amounts(resources: Resources) -> list[float]:
    """One value per resource, NaN for what is unknown."""
    return [np.nan if (value := getattr(resources, resource)) is None else value for resource in RESOURCES]


def resources(values: Array) -> Resources:
    """The way back from `amounts`."""
    return Resources(
        **{name: float(value) for name, value in zip(RESOURCES, values, strict=True) if np.isfinite(value)}
    )


def expected_load(nodes: NodeLoads, demand: Demand) -> Array:
    """nodes × windows × resources: the load of each node with the pod on it; unknown where the node's load is."""
    with np.errstate(over="ignore"):
        share = demand.usage[np.newaxis, :, :] / nodes.base[:, np.newaxis, :]
    return nodes.load + np.minimum(share, _BEYOND)
