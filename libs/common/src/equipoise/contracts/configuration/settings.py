"""The shared sections of the configuration, which must be the same for every service."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.further_resources import (
    LABEL_NAME,
    WINDOW,
    is_number,
    is_shifted,
    names_problem,
    range_selectors,
)
from equipoise.contracts.messages.values.lease import LONGEST_LEASE

Percent = Annotated[float, Meta(ge=0, le=100)]
"""A percentage, 0..100."""

Share = Annotated[float, Meta(ge=0, le=1)]
"""A share, 0..1."""


class Section(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=False
):
    """A part of the configuration. Unknown fields are errors, so that a misspelled field is never ignored."""


class LeaderElection(Section, frozen=True, kw_only=True):
    """One replica leads, and the others only watch. All values are seconds, as in every Lease."""

    lease_duration: Annotated[float, Meta(gt=0, le=LONGEST_LEASE)] = 15.0
    renew_deadline: Annotated[float, Meta(gt=0)] = 10.0
    retry_period: Annotated[float, Meta(gt=0)] = 2.0

    def __post_init__(self) -> None:
        if not 1.2 * self.retry_period < self.renew_deadline < self.lease_duration:
            raise ValueError("1.2 × retryPeriod must be less than renewDeadline, and that less than leaseDuration")


class Window(Section, frozen=True, kw_only=True):
    """A period over which usage is averaged."""

    name: str
    """Name of the window in messages and policies, for example "15m"."""

    length: Duration

    refresh_period: Duration
    """How often the collector queries the window."""


class Freshness(Section, frozen=True, kw_only=True):
    """How long a measured value may be used. Its age is that of the newest raw sample."""

    eviction: Duration = Duration(120)
    """A node with older samples is neither source nor target of an eviction."""

    score: Duration = Duration(180)
    """The age of samples above which scores treat the load as unknown. Also the minimum lifetime of the value of a
    window."""

    refresh_factor: Annotated[float, Meta(ge=1)] = 3.0
    """The value of a window is valid for max(score, refreshFactor × refreshPeriod of the window)."""

    skew_warning: Duration = Duration(2)
    """Difference to Prometheus' clock above which a warning is reported."""

    skew_unknown: Duration = Duration(10)
    """Difference to Prometheus' clock above which every value is unknown. Also the difference to the clock of the API
    server above which a binder evicts nothing."""


class Coverage(Section, frozen=True, kw_only=True):
    """Shares of the expected data below which Equipoise does not act."""

    window: Share = 0.80
    """A window is unknown if its samples cover less than this share of it."""

    eviction: Share = 0.80
    """The share of fresh nodes below which nothing is evicted."""

    score: Share = 0.70
    """The share of fresh nodes below which every score is neutral."""

    node_settling_period: Duration = Duration(300)
    """A node younger than this is not yet expected to have data, and is neither source nor target of a move."""


_DEFAULT_WINDOWS = (
    Window(name="5m", length=Duration(300), refresh_period=Duration(15)),
    Window(name="15m", length=Duration(900), refresh_period=Duration(30)),
    Window(name="1h", length=Duration(3_600), refresh_period=Duration(120)),
    Window(name="1d", length=Duration(86_400), refresh_period=Duration(1_800)),
)


class BatchWorkWeight(Section, frozen=True, kw_only=True):
    """How much of the usage of batch work counts for ordinary pods, to which batch work gives way. Batch work: pods of
    the bands batch and free, see docs/colocation.md. Without such pods these settings have no effect.
    """

    cpu: Share = 0.2
    """Share of CPU usage. Low, because cgroups of batch work have the lowest weight: other pods get its cores at once.
    Not 0, because it shares caches with other pods, and stops making progress where they take its cores."""

    memory: Share = 1.0
    """Share of memory usage. All of it, because its memory is not available to other pods until a pod of batch work
    ends."""


class FurtherResource(Section, frozen=True, kw_only=True):
    """How the load of a further resource is measured: usage as a share of capacity, both in the same unit."""

    node: str
    """PromQL of the mean usage of each node over `$window`, one series per node:
    `sum by (node) (rate(node_network_transmit_bytes_total[$window]))`."""

    capacity: float | str
    """What a node can use at most: a number for all nodes, or PromQL with one series per node. With 100, load is the
    value itself, in percent."""

    pod: str | None = None
    """PromQL of the mean usage of each pod over `$window`, with the labels `namespace` and `pod`. null: it is not known
    which pods use the resource, and thresholds of it move no pod."""

    node_label: str | None = None
    """The label that names the node in the series of this resource. null: `collector.prometheus.nodeLabels`."""

    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    """Labels of the nodes that have the resource; empty: all nodes. Other nodes neither have this load nor lack it."""

    def __post_init__(self) -> None:
        for setting, promql in (("node", self.node), ("pod", self.pod)):
            if promql is not None and not range_selectors(promql):
                raise ValueError(
                    f"{setting} must apply {WINDOW} to a series, as in rate(my_bytes_total[{WINDOW}]) or "
                    f"avg_over_time(my_gauge[{WINDOW}]): {promql!r}"
                )
            if promql is not None and is_shifted(promql):
                raise ValueError(f"{setting} must be about now, without offset and @ after [{WINDOW}]: {promql!r}")
        if isinstance(self.capacity, str):
            if not self.capacity.strip() or WINDOW in self.capacity:
                raise ValueError(f"capacity must be a number or PromQL without {WINDOW}: {self.capacity!r}")
            if is_number(self.capacity):
                raise ValueError(f"capacity must be a number without quotes, or PromQL: {self.capacity!r}")
        elif not 0 < self.capacity <= 2.0**53:
            raise ValueError(f"capacity must be above 0: {self.capacity:g}")
        if self.node_label is not None and LABEL_NAME.fullmatch(self.node_label) is None:
            raise ValueError(f"nodeLabel {self.node_label!r} is no name of a label")

    def is_on(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels has the resource."""
        return all(labels.get(key) == value for key, value in self.node_selector.items())


class LoadSettings(Section, frozen=True, kw_only=True):
    """What usage and load mean in this cluster."""

    base: Literal["allocatable", "capacity"] = "allocatable"
    """The amount of which load is a share."""

    memory: Literal["workingSet", "anonymous"] = "workingSet"
    """Which memory counts as used, for nodes and pods."""

    windows: tuple[Window, ...] = _DEFAULT_WINDOWS
    """The windows, shortest first. The usage of pods is measured over the shortest window."""

    compensation: Literal["proportional", "cliff", "off"] = "proportional"
    """How the mean of a window is corrected for pods that arrived or left during it."""

    pod_start_timeout: Duration = Duration(600)
    """A pod counts as started at the latest this long after its placement, even if its node has not reported it."""

    batch_work_weight: BatchWorkWeight = BatchWorkWeight()
    """Used by scores of ordinary pods and by the strategy level_day, so that both agree which node is full."""

    resources: dict[str, FurtherResource] = msgspec.field(default_factory=dict)
    """Resources besides cpu and memory, by name: {network: {node: …, pod: …, capacity: …}}. docs/metrics.md has
    examples for network, disks and GPUs."""

    freshness: Freshness = Freshness()
    coverage: Coverage = Coverage()

    def __post_init__(self) -> None:
        if problem := names_problem(self.resources):
            raise ValueError(f"resources: {problem}")
        if not self.windows:
            raise ValueError("at least one window is needed")
        lengths = [window.length for window in self.windows]
        if min(lengths) <= 0:
            raise ValueError("a window must be longer than 0s")
        if min(window.refresh_period for window in self.windows) <= 0:
            raise ValueError("the refreshPeriod of a window must be longer than 0s")
        if lengths != sorted(lengths) or len({window.name for window in self.windows}) != len(lengths):
            raise ValueError("windows must have different names and be ordered from the shortest to the longest")

    @property
    def shortest(self) -> Window:
        return self.windows[0]

    @property
    def longest(self) -> Window:
        return self.windows[-1]

    def window(self, name: str) -> Window | None:
        return next((window for window in self.windows if window.name == name), None)

    def lifetime(self, window: Window) -> float:
        """Seconds for which a value of this window may be used (design law 2)."""
        return max(self.freshness.score, self.freshness.refresh_factor * window.refresh_period)


class ResourceThresholds(Section, frozen=True, kw_only=True):
    """Load in percent of the base, per resource; None: this resource is ignored."""

    cpu: Percent | None = None
    memory: Percent | None = None
    pods: Percent | None = None
    """Number of pods, in percent of the pods that the node allows. Used by the descheduler only."""


THRESHOLD_RESOURCES = ("cpu", "memory", "pods")
"""Resources that may have a threshold."""

MIN_GAP = 5.0
"""The minimum distance, in points, of the threshold up to which a node is filled from that above which it is emptied.

It is about the load of one or two pods. With less, one move could fill a node that the next move empties.
"""


def too_close(
    low: ResourceThresholds, high: ResourceThresholds, *, low_name: str = "low", high_name: str = "high"
) -> str:
    """Describes a threshold of `low` that is not MIN_GAP below that of `high`, and what to change. Empty if there is
    none.

    A resource with only one of the two thresholds is valid.
    """
    for resource in THRESHOLD_RESOURCES:
        lower, upper = getattr(low, resource), getattr(high, resource)
        if lower is not None and upper is not None and lower + MIN_GAP > upper:
            if min(lower, upper) == 100.0:
                return (
                    f"{low_name}.{resource} and {high_name}.{resource} are 100: to ignore {resource}, leave {resource} "
                    f"out of both"
                )
            return (
                f"{low_name}.{resource} ({lower:g}) must be at least {MIN_GAP:g} points below {high_name}.{resource} "
                f"({upper:g}), or what one move fills the next one empties: lower the one or raise the other"
            )
    return ""


class PressureThresholds(Section, frozen=True, kw_only=True):
    """The share of time, in percent, above which waiting for a resource is contention; null: pressure in this resource
    is shown, and decides nothing. Without measured pressure, a threshold has no effect."""

    cpu: Percent | None = None
    memory: Percent | None = None
    io: Percent | None = None


class FurtherThresholds(Section, frozen=True, kw_only=True):
    """Load of a further resource (`load.resources`) in percent of its capacity."""

    high: Percent
    """A node above this load is hot, and no target of moves. Neither is a node whose load is unknown."""

    low: Percent | None = None
    """A node at or below this load, and at or below `low` in cpu and memory, is idle. null: 20 points below `high`."""

    def __post_init__(self) -> None:
        if self.low is not None and self.low + MIN_GAP > self.high:
            raise ValueError(f"low ({self.low:g}) must be at least {MIN_GAP:g} points below high ({self.high:g})")

    @property
    def idle(self) -> float:
        """`low`, or its default."""
        return max(0.0, self.high - 20.0) if self.low is None else self.low


class Thresholds(Section, frozen=True, kw_only=True):
    """Thresholds of the scorer, descheduler and binder. They share them, so that none empties nodes that another one
    fills."""

    high: ResourceThresholds = ResourceThresholds(cpu=65, memory=80)
    """A node above this load in any resource is hot. Resources that are left out are ignored: {cpu: 70} has no
    threshold of memory."""

    low: ResourceThresholds = ResourceThresholds(cpu=45, memory=60)
    """A node at or below this load in every resource is idle. Must be at least 5 points below `high`."""

    prod_high: ResourceThresholds = ResourceThresholds()
    """The same as `high`, for the usage of production pods (by Koordinator class, else priority, else QoS class)."""

    prod_low: ResourceThresholds = ResourceThresholds()
    """The same as `low`, for the usage of production pods. Must be at least 5 points below `prodHigh`."""

    pressure: PressureThresholds = PressureThresholds()
    """The pressure above which a node is hot, whatever its load is: with a threshold of cpu or io, pods are moved away
    from nodes whose pods wait for longer. Nodes with more than half of this pressure are no targets of moves."""

    resources: dict[str, FurtherThresholds] = msgspec.field(default_factory=dict)
    """Thresholds of further resources, by their names in `load.resources`: {network: {high: 70}}. Used by descheduler
    and binder."""

    def __post_init__(self) -> None:
        fault = contradiction(self)
        if fault:
            raise ValueError(fault)


def contradiction(thresholds: Thresholds) -> str:
    """Describes thresholds that contradict each other. Empty if all are consistent."""
    fault = too_close(thresholds.low, thresholds.high) or too_close(
        thresholds.prod_low, thresholds.prod_high, low_name="prodLow", high_name="prodHigh"
    )
    for resource in THRESHOLD_RESOURCES:
        whole, part = getattr(thresholds.high, resource), getattr(thresholds.prod_high, resource)
        if not fault and whole is not None and part is not None and part > whole:
            fault = (
                f"prodHigh.{resource} ({part:g}) must not be above high.{resource} ({whole:g}): it could not be reached"
            )
    return fault


class Placement(Section, frozen=True, kw_only=True):
    """How kube-scheduler learns which nodes have headroom. If both ways are disabled, nodes are only measured and
    relieved."""

    extender: bool = True
    """kube-scheduler requests scores from the scorers (k8s/scheduler). The descheduler then moves more pods, because a
    replacement will run on its target."""

    hints: bool = False
    """Placement hints: the scorers compute them, the annotators write them, and the API server adds them to new pods.
    Needs k8s/hints."""


class Namespaces(Section, frozen=True, kw_only=True):
    """Namespaces in which pods may be evicted: only `include`, or all except `exclude`."""

    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    """Default: kube-system, kube-public, kube-node-lease and the namespace of Equipoise."""

    def __post_init__(self) -> None:
        if self.include is not None and self.exclude is not None:
            raise ValueError("give namespaces.include or namespaces.exclude, not both")

    def allow(self, namespace: str, own_namespace: str) -> bool:
        """Whether pods of this namespace may be evicted at all."""
        if self.include is not None:
            return namespace in self.include
        excluded = self.exclude
        if excluded is None:
            excluded = ("kube-system", "kube-public", "kube-node-lease", own_namespace)
        return namespace not in excluded
