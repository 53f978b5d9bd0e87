"""What a scoring policy looks at: the loads of nodes and the demand of a pod, as arrays.

Arrays are float64; the last axis is the resource, in the order of `contracts.load.RESOURCES`. NaN is unknown.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.load.demand import EstimateSource
from equipoise.contracts.messages.resources import Resources

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


Statistic = Literal["p95", "max", "deviation", "production", "system"]
"""What a policy may ask for beside the mean: a quantile of the window, its highest value, its standard deviation, what
production pods use (`contracts.production`), and what the node uses beyond its pods."""

BEYOND = 1e6
"""Shares are cut here: a pod may ask for any number of cores, and arithmetic must not overflow."""


class Days(msgspec.Struct, frozen=True, kw_only=True):
    """The coming day of the fleet. The arrays hold all rows: a question's nodes are picked as late as possible."""

    share: Array
    """resources × rows × slots: what each node will use, as share of its base."""

    peak: Array
    """resources × rows: the highest slot of each."""

    booked: Array
    """resources × rows: what is promised to each, in every hour."""

    rows: Rows
    """The nodes that the question is about; −1 for one that was never heard of."""

    mean: Array
    """resources × slots: the fleet's share, every node counting alike."""

    base: Array
    """resources: the mean base of the fleet's nodes, cores and bytes."""


class FleetLoads:
    """The loads of all nodes; what policies ask of all of them together is worked out once."""

    def __init__(self, load: Array) -> None:
        """`load` is nodes × windows × resources, in no particular order; NaN for what is not fresh."""
        self.load = load

    @cached_property
    def fresh(self) -> int:
        """Nodes with a load that may be used."""
        return int((~np.isnan(self.load).all(axis=(1, 2))).sum())

    @cached_property
    def mean(self) -> Array:
        """windows × resources: every known node counts alike; NaN where none is known."""
        known = ~np.isnan(self.load)
        count = known.sum(axis=0)
        total = np.where(known, self.load, 0.0).sum(axis=0)
        mean: Array = np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
        return mean

    @cached_property
    def minimum(self) -> Array:
        """windows × resources; infinite where none is known."""
        minimum: Array = np.fmin.reduce(self.load, axis=0, initial=np.inf)
        return minimum


class NodeLoads(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes a question is about, and the whole fleet around them."""

    names: Sequence[str]
    windows: tuple[str, ...]
    """Names along the window axis, shortest first."""

    load: Array
    """nodes × windows × resources: share (0..1, above 1 when overcommitted) of the base that is used or booked."""

    base: Array
    """nodes × resources: cores and bytes that load refers to."""

    fleet: FleetLoads
    """Every node of the fleet, as measured and placed a moment ago; the cluster's level comes from it."""

    statistics: Mapping[Statistic, Array]
    """As `load`, for each of the policy's `statistics`; NaN where the mean is unknown or nobody measures it."""

    requested: Array
    """nodes × resources: cores and bytes that the pods of a node ask for."""

    limited: Array
    """As `requested`: their limits; of a pod without one, or with a lower one, its request."""

    placed: Array
    """nodes × the policy's `counted_within`: how many pods a node was given within so many seconds."""

    days: Days | None = None
    """Only for a policy that looks at them."""


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod is expected to use."""

    usage: Array
    """windows × resources: cores and bytes, always known."""

    sources: dict[str, EstimateSource]
    """Per resource the link of the chain that told, for the shortest window."""

    requests: Array
    """Per resource: cores and bytes it asks for, 0 where it asks for nothing."""

    limits: Array
    """Per resource: its limit, or its request where that is higher."""

    production: bool = True
    """See `contracts.production`."""

    day: Array | None = None
    """resources × slots: cores and bytes in each hour of the day; None: as `usage` says, all day."""

    daemon: bool = False
    """A DaemonSet's: it has no other node to go to."""


def resources(values: Array) -> Resources:
    """The way back from `amounts`."""
    return Resources(
        **{name: float(value) for name, value in zip(RESOURCES, values, strict=True) if np.isfinite(value)}
    )


def shortest_known(load: Array) -> Array:
    """nodes × resources, of nodes × windows × resources: in the shortest window that each node has measured."""
    first = (~np.isnan(load).all(axis=2)).argmax(axis=1)
    found: Array = load[np.arange(len(load)), first]
    return found


def pod_share(nodes: NodeLoads, demand: Demand) -> Array:
    """nodes × windows × resources: the share (0..) of each node's base that the pod would use."""
    with np.errstate(over="ignore"):
        return np.minimum(demand.usage[np.newaxis, :, :] / nodes.base[:, np.newaxis, :], BEYOND)


def expected_load(nodes: NodeLoads, demand: Demand) -> Array:
    """nodes × windows × resources: the load of each node with the pod on it; unknown where the node's load is."""
    return nodes.load + pod_share(nodes, demand)
