"""The shared sections of the configuration, which every service reads in the same way."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from equipoise.contracts.configuration.duration import Duration

Percent = Annotated[float, Meta(ge=0, le=100)]
"""0..100."""

Share = Annotated[float, Meta(ge=0, le=1)]
"""0..1."""


class Section(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=False
):
    """A part of the configuration. Unknown fields are errors, so that a misspelled one is never ignored."""


class Window(Section, frozen=True, kw_only=True):
    """A time window over which usage is averaged."""

    name: str
    """Its name in messages and policies: "15m"."""

    length: Duration

    refresh_period: Duration
    """How often the collector measures it."""


class Freshness(Section, frozen=True, kw_only=True):
    """How long a measured value may be used. Its age is that of the newest raw sample."""

    eviction: Duration = Duration(120)
    """With an older sample a node is neither source nor target of an eviction."""

    score: Duration = Duration(180)
    """With an older sample the load of a node is unknown for scoring. Also the minimum lifetime of a window's value."""

    refresh_factor: Annotated[float, Meta(ge=1)] = 3.0
    """The lifetime of a window's value is max(score, refreshFactor × its refreshPeriod)."""

    skew_warning: Duration = Duration(2)
    """Difference to Prometheus' clock above which a warning is logged."""

    skew_unknown: Duration = Duration(10)
    """Difference to Prometheus' clock above which every value is unknown."""


class Coverage(Section, frozen=True, kw_only=True):
    """Minimum shares of expected data: with less, Equipoise does not act."""

    window: Share = 0.80
    """A window is unknown if its samples cover less of it."""

    eviction: Share = 0.80
    """Below this share of nodes with known load nothing is evicted."""

    score: Share = 0.70
    """Below this share of nodes with known load every score is neutral."""

    node_settling_period: Duration = Duration(300)
    """A younger node is not expected to have data yet, and is neither source nor target of a move."""


_DEFAULT_WINDOWS = (
    Window(name="5m", length=Duration(300), refresh_period=Duration(15)),
    Window(name="15m", length=Duration(900), refresh_period=Duration(30)),
    Window(name="1h", length=Duration(3_600), refresh_period=Duration(120)),
    Window(name="1d", length=Duration(86_400), refresh_period=Duration(1_800)),
)


class LoadSettings(Section, frozen=True, kw_only=True):
    """How usage and load are measured in this cluster."""

    base: Literal["allocatable", "capacity"] = "allocatable"
    """Load is usage as a share of this."""

    memory: Literal["workingSet", "anonymous"] = "workingSet"
    """Which memory counts as used, for nodes and pods."""

    windows: tuple[Window, ...] = _DEFAULT_WINDOWS
    """Shortest first; pods are measured over the shortest one."""

    compensation: Literal["proportional", "cliff", "off"] = "proportional"
    """How a window's mean is corrected for pods that arrived or left within it."""

    pod_start_timeout: Duration = Duration(600)
    """A pod counts as started at most this long after its placement, even if its node has not reported it."""

    freshness: Freshness = Freshness()
    coverage: Coverage = Coverage()

    def __post_init__(self) -> None:
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
    """Load in percent of the base, per resource; None: the resource is ignored."""

    cpu: Percent | None = None
    memory: Percent | None = None
    pods: Percent | None = None
    """Number of pods, in percent of the maximum of the node. Used only by the descheduler."""


THRESHOLD_RESOURCES = ("cpu", "memory", "pods")
"""Resources that can have thresholds."""

MIN_GAP = 5.0
"""Minimum distance, in points, between the load to which nodes are filled and the load from which they are emptied.

It is the load of a pod or two: with less, one move would fill a node and the next one empty it again.
"""


def too_close(
    low: ResourceThresholds, high: ResourceThresholds, *, low_name: str = "low", high_name: str = "high"
) -> str:
    """ "" if every threshold of `low` is at least MIN_GAP below that of `high`, else what to change.

    A resource may have only one of the two.
    """
    for resource in THRESHOLD_RESOURCES:
        lower, upper = getattr(low, resource), getattr(high, resource)
        if lower is not None and upper is not None and lower + MIN_GAP > upper:
            return (
                f"{low_name}.{resource} ({lower}) must be at least {MIN_GAP:g} points below {high_name}.{resource} "
                f"({upper}), or one move fills a node and the next one empties it: lower the first or raise the second"
            )
    return ""


class Thresholds(Section, frozen=True, kw_only=True):
    """Used by scorer, descheduler and binder, so that one does not empty what the other fills."""

    high: ResourceThresholds = ResourceThresholds(cpu=65, memory=80)
    """A node above it in any resource is too hot."""

    low: ResourceThresholds = ResourceThresholds(cpu=45, memory=60)
    """A node at or below it in every resource is idle. At least 5 points below `high`."""

    prod_high: ResourceThresholds = ResourceThresholds()
    """Like `high`, for the usage of the node's production pods (by Koordinator's class, else priority, else QoS)."""

    prod_low: ResourceThresholds = ResourceThresholds()
    """Like `low`, for the usage of the node's production pods. At least 5 points below `prodHigh`."""

    def __post_init__(self) -> None:
        fault = contradiction(self)
        if fault:
            raise ValueError(fault)


def contradiction(thresholds: Thresholds) -> str:
    """ "" if the four thresholds are consistent, else which are not."""
    fault = too_close(thresholds.low, thresholds.high) or too_close(
        thresholds.prod_low, thresholds.prod_high, low_name="prodLow", high_name="prodHigh"
    )
    for resource in THRESHOLD_RESOURCES:
        whole, part = getattr(thresholds.high, resource), getattr(thresholds.prod_high, resource)
        if not fault and whole is not None and part is not None and part > whole:
            fault = (
                f"prodHigh.{resource} ({part}) must not be above high.{resource} ({whole}): it would never be reached"
            )
    return fault


class Namespaces(Section, frozen=True, kw_only=True):
    """Namespaces whose pods may be evicted: only `include`, or all except `exclude`."""

    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    """Default: kube-system, kube-public, kube-node-lease and Equipoise's own."""

    def __post_init__(self) -> None:
        if self.include is not None and self.exclude is not None:
            raise ValueError("give namespaces.include or namespaces.exclude, not both")

    def allow(self, namespace: str, own_namespace: str) -> bool:
        """Whether pods of this namespace may be evicted."""
        if self.include is not None:
            return namespace in self.include
        excluded = self.exclude
        if excluded is None:
            excluded = ("kube-system", "kube-public", "kube-node-lease", own_namespace)
        return namespace not in excluded


SYSTEM_CRITICAL = 2_000_000_000
"""The lowest system-critical priority (scheduling.k8s.io, SystemCriticalPriority)."""


class Protection(Section, frozen=True, kw_only=True):
    """Which pods are never evicted, besides static, DaemonSet, bare, Job, terminating, unready and annotated ones.

    Descheduler and binder use the same rules.
    """

    priority_threshold: int = SYSTEM_CRITICAL
    """Pods with this priority or a higher one are protected; system-critical ones (from 2,000,000,000) always are."""

    min_replicas: Annotated[int, Meta(ge=1)] = 2
    """Workloads with fewer desired or fewer ready replicas are protected: an eviction would be an outage."""

    replicas_settling_period: Duration = Duration(300)
    """A workload that was scaled within this time is protected: an autoscaler is active."""

    local_storage: bool = False
    """Allow the eviction of pods with emptyDir or hostPath volumes, whose data is lost."""

    persistent_volumes: bool = False
    """Allow the eviction of pods with a PersistentVolumeClaim. Their volumes are detached and attached again."""
