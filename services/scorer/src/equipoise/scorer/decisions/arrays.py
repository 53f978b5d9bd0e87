"""The arrays that a scoring policy reads: loads of the candidate nodes, and the expected usage of the pod.

Arrays are float64. The last axis is the resource, in the order of `contracts.load.RESOURCES`. NaN is unknown.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal

import msgspec

from equipoise.contracts.colocation.bands import OfferedBand
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.load.demand import EstimateSource
from equipoise.contracts.messages.values.resources import Resources, bounded_resources
from equipoise.contracts.numeric import Array, Flags, Rows, np

Statistic = Literal["p95", "max", "deviation", "production", "system"]
"""What a policy may use besides the mean: 95th percentile, maximum and standard deviation of a window, the usage of
production pods (`contracts.load.pod_priority`), and the usage of the node outside its pods."""

MAX_SHARE = 1e6
"""Shares are capped here: a pod may request any number of cores, and arithmetic must not overflow."""


def _no_requests() -> Array:
    return np.full(len(RESOURCES), np.nan)


class DailyLoads(msgspec.Struct, frozen=True, kw_only=True):
    """The expected load of the candidates in the next 24 hours."""

    share: Array
    """nodes × resources × slots: expected usage as a share of the base; NaN for an unknown node."""

    peak: Array
    """nodes × resources: the highest slot."""

    reserved: Array
    """nodes × resources: share that is reserved, in every slot."""

    mean: Array
    """resources × slots: the unweighted mean share of the cluster's nodes."""

    base: Array
    """resources: the mean base of the cluster's nodes, cores and bytes."""

    def take(self, columns: Rows) -> "DailyLoads":
        """The values of the candidates in these columns."""
        return DailyLoads(
            share=self.share[columns],
            peak=self.peak[columns],
            reserved=self.reserved[columns],
            mean=self.mean,
            base=self.base,
        )


class BandRoom(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of each band on the candidates."""

    left: Array
    """nodes × bands × resources: cores and bytes, below 0 if the band has less than is requested; NaN is unknown."""

    capacity: Array
    """nodes × resources: cores and bytes."""

    def take(self, columns: Rows) -> "BandRoom":
        """The values of the candidates in these columns."""
        return BandRoom(left=self.left[columns], capacity=self.capacity[columns])


class LoadRanges(msgspec.Struct, frozen=True, kw_only=True):
    """The loads of all nodes in short, by resource: NaN where none is known."""

    mean: Array
    """Unweighted."""

    lowest: Array
    highest: Array

    @classmethod
    def of(cls, load: Array) -> "LoadRanges":
        """`load`: nodes × resources, NaN where it is unknown."""
        known = ~np.isnan(load)
        count, total = known.sum(axis=0), np.where(known, load, 0.0).sum(axis=0)
        return cls(
            mean=np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0),
            lowest=np.fmin.reduce(load, axis=0, initial=np.nan),
            highest=np.fmax.reduce(load, axis=0, initial=np.nan),
        )


class FurtherLoads(msgspec.Struct, frozen=True, kw_only=True):
    """The loads of further resources on the candidates."""

    names: tuple[str, ...]
    load: Array
    """nodes × names: share in the shortest window; NaN is unknown."""

    lacking: Flags
    """nodes × names: whether the node does not have the resource. Its load is NaN, but it is not unknown."""

    of_all: LoadRanges

    def column(self, name: str) -> "FurtherColumn":
        """The loads of one resource; all NaN for a resource that is not measured."""
        if name not in self.names:
            unknown = np.full(len(self.load), np.nan)
            return FurtherColumn(load=unknown, lacking=np.zeros(len(unknown), dtype=np.bool_))
        index = self.names.index(name)
        return FurtherColumn(
            load=self.load[:, index],
            lacking=self.lacking[:, index],
            mean=float(self.of_all.mean[index]),
            lowest=float(self.of_all.lowest[index]),
            highest=float(self.of_all.highest[index]),
        )

    def take(self, columns: Rows) -> "FurtherLoads":
        """The values of the candidates in these columns."""
        return msgspec.structs.replace(self, load=self.load[columns], lacking=self.lacking[columns])


class FurtherColumn(msgspec.Struct, frozen=True, kw_only=True):
    """The loads of one further resource on the candidates, and those of all nodes; NaN where none is known."""

    load: Array
    lacking: Flags
    mean: float = math.nan
    lowest: float = math.nan
    highest: float = math.nan


class ClusterLoad:
    """The loads of all nodes; aggregates are computed on first use."""

    def __init__(self, load: Array, waiting: Array | None = None) -> None:
        """`load` is nodes × windows × resources, in no particular order; NaN where it is not fresh. `waiting`: see
        `CandidateNodes`."""
        self.load = load
        self.waiting = waiting

    @cached_property
    def fresh_count(self) -> int:
        """Number of nodes with a fresh load."""
        return int((~np.isnan(self.load).all(axis=(1, 2))).sum())

    @cached_property
    def mean(self) -> Array:
        """windows × resources, unweighted over the known nodes; NaN where none is known."""
        known = ~np.isnan(self.load)
        count = known.sum(axis=0)
        total = np.where(known, self.load, 0.0).sum(axis=0)
        mean: Array = np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
        return mean

    @cached_property
    def maximum(self) -> Array:
        """windows × resources; NaN where none is known."""
        maximum: Array = np.fmax.reduce(self.load, axis=0, initial=np.nan)
        return maximum

    @cached_property
    def highest_waiting(self) -> float:
        """The longest share of time in which the pods of any node wait; NaN if it is known of none."""
        return np.nan if self.waiting is None else float(np.fmax.reduce(self.waiting, initial=np.nan))

    @cached_property
    def minimum(self) -> Array:
        """windows × resources; infinite where none is known."""
        minimum: Array = np.fmin.reduce(self.load, axis=0, initial=np.inf)
        return minimum


class CandidateNodes(msgspec.Struct, frozen=True, kw_only=True):
    """The candidate nodes of one request, and the load of the whole cluster."""

    names: Sequence[str]
    windows: tuple[str, ...]
    """Names along the window axis, shortest first."""

    load: Array
    """nodes × windows × resources: usage and reservations as a share (0..1, above 1 when overcommitted) of the base."""

    base: Array
    """nodes × resources: cores and bytes that load refers to."""

    cluster: ClusterLoad
    """All nodes without reservations, up to a second old (`NodeTable.cluster_load`)."""

    statistics: Mapping[Statistic, Array]
    """Each of the policy's `statistics`, shaped as `load`; NaN where it or the mean is not measured."""

    requests: Array
    """nodes × resources: the sum of the pods' requests, cores and bytes."""

    limits: Array
    """The sum of the limits, shaped as `requests`. A pod counts with its request if its limit is missing or lower."""

    recent_placements: Array
    """nodes × the policy's `placement_spans`: pods placed on the node within each span."""

    waiting: Array | None = None
    """The share of time (0..1) in which pods of each node wait for CPU or disks (`waiting_for_others`); NaN is unknown.
    None: unknown for all nodes."""

    daily: DailyLoads | None = None
    """The loads of the next 24 hours; None for a policy without `uses_daily_loads`."""

    further: FurtherLoads | None = None
    """None for a policy that uses no further resource."""

    bands: BandRoom | None = None
    """None without co-location, and for a pod that requests nothing of a band."""

    emptied: Mapping[str, str] = {}
    """The nodes that consolidation is emptying, which score 0, with a text that states why. They need not be
    candidates."""

    def take(self, columns: Rows) -> "CandidateNodes":
        """The values of the candidates in these columns."""
        daily, bands, further = self.daily, self.bands, self.further
        return CandidateNodes(
            names=[self.names[column] for column in columns.tolist()],
            windows=self.windows,
            load=self.load[columns],
            base=self.base[columns],
            cluster=self.cluster,
            statistics={name: values[columns] for name, values in self.statistics.items()},
            requests=self.requests[columns],
            limits=self.limits[columns],
            recent_placements=self.recent_placements[columns],
            waiting=None if self.waiting is None else self.waiting[columns],
            daily=None if daily is None else daily.take(columns),
            further=None if further is None else further.take(columns),
            bands=None if bands is None else bands.take(columns),
            emptied=self.emptied,
        )


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """The expected usage of a pod."""

    usage: Array
    """windows × resources: cores and bytes; always known."""

    sources: dict[str, EstimateSource]
    """The source of the estimate for the shortest window, by resource."""

    requests: Array
    """The requests per resource, cores and bytes; 0 without a request."""

    limits: Array
    """The limit per resource, or the request if that is higher."""

    production: bool = True
    """See `contracts.load.pod_priority`."""

    daily: Array | None = None
    """resources × slots: cores and bytes in each hour of the day; None: `usage` all day."""

    daemon: bool = False
    """Whether it is a pod of a DaemonSet: no other node can take it."""

    batch_work: bool = False
    """Whether the pod gives way to other pods: see `load.batchWorkWeight`."""

    band: OfferedBand | None = None
    """The band that it requests amounts of."""

    band_requests: Array = msgspec.field(default_factory=_no_requests)
    """The requests of its band per resource, cores and bytes; NaN without a request."""


class Demands(msgspec.Struct, frozen=True, kw_only=True):
    """The expected usage of many pods, each as one `Demand` and all as arrays."""

    each: Sequence[Demand]
    usage: Array
    """pods × windows × resources: cores and bytes."""

    daily: Array
    """pods × resources × slots: cores and bytes in each hour of the day."""

    def __len__(self) -> int:
        return len(self.each)

    @property
    def of_bands(self) -> list[int]:
        """Rows of the pods that request amounts of a band."""
        return [row for row, demand in enumerate(self.each) if demand.band is not None]

    @classmethod
    def of(cls, demands: Sequence[Demand]) -> "Demands":
        """The demands of at least one pod."""
        usage = np.array([demand.usage for demand in demands])
        daily = np.repeat(usage[:, :1].transpose(0, 2, 1), SLOTS, axis=2)
        for index, demand in enumerate(demands):
            if demand.daily is not None:
                daily[index] = demand.daily
        return cls(each=demands, usage=usage, daily=daily)


def resources(values: Array) -> Resources:
    """The inverse of `amounts`, for messages: bounded."""
    cpu, memory = (float(value) if np.isfinite(value) else None for value in values)
    return bounded_resources(cpu=cpu, memory=memory)


def with_more_load(nodes: CandidateNodes, resource: int, share: float) -> CandidateNodes:
    """The nodes if each had this much more load (0..1) of one resource, in every window and hour."""
    load = nodes.load.copy()
    load[:, :, resource] += share
    if nodes.daily is None:
        return msgspec.structs.replace(nodes, load=load)
    reserved = nodes.daily.reserved.copy()
    reserved[:, resource] += share
    daily = msgspec.structs.replace(nodes.daily, reserved=reserved)
    return msgspec.structs.replace(nodes, load=load, daily=daily)


def shortest_known(load: Array) -> Array:
    """nodes × resources: the part of `load` (nodes × windows × resources) in each node's shortest known window."""
    first = (~np.isnan(load).all(axis=2)).argmax(axis=1)
    found: Array = load[np.arange(len(load)), first]
    return found


def pod_share(nodes: CandidateNodes, demand: Demand) -> Array:
    """nodes × windows × resources: the expected usage of the pod as a share (0..) of each node's base."""
    with np.errstate(over="ignore"):
        share: Array = np.minimum(demand.usage[:, :, np.newaxis] / nodes.base.T, MAX_SHARE)
    return share.transpose(2, 0, 1)


def expected_load(nodes: CandidateNodes, demand: Demand) -> Array:
    """nodes × windows × resources: the load of each node with the pod; NaN where the node's load is unknown."""
    return nodes.load + pod_share(nodes, demand)
