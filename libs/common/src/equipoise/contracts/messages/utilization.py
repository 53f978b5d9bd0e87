"""`utilization.>`: what the collector measured."""

from typing import Literal

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.message import Message, Value
from equipoise.contracts.messages.resources import Resources


class WindowUsage(Value, frozen=True, kw_only=True):
    """What was used over one window that ends at `sampled_at`."""

    sampled_at: float
    """Time of the newest raw sample in this window, on Prometheus' clock."""

    mean: Resources = Resources()
    p95: Resources = Resources()
    max: Resources = Resources()
    deviation: Resources = Resources()


class NodeUtilization(Message, frozen=True, kw_only=True):
    """`utilization.node.<node>`: what a node and each of its pods use. Always complete."""

    node: str
    uid: str
    base: Resources
    """The allocatable (or capacity) that load refers to."""

    memory_kind: Literal["workingSet", "anonymous"] = "workingSet"
    sampled_at: float
    """Newest raw sample of the node, on Prometheus' clock."""

    queried_at: float
    """Evaluation time of the query, on Prometheus' clock."""

    windows: dict[str, WindowUsage]
    """By window name; windows that samples do not cover are absent."""

    system: Resources = Resources()
    """What the node uses beyond its pods (mean of the shortest window)."""

    pods: dict[str, Resources] = {}
    """By pod UID: mean of the shortest window."""

    epoch: int
    """Milliseconds at which this collector took over; with `sequence` it orders messages: lower is dropped."""

    sequence: int


class WorkloadUtilization(Message, frozen=True, kw_only=True):
    """`utilization.workload.<key>.<namespace>.<name>`: usage per replica."""

    workload: Workload
    replicas: int
    """Pods that were measured."""

    sampled_at: float
    queried_at: float
    windows: dict[str, WindowUsage]
    profile: dict[str, list[float | None]] = {}
    """By resource ("cpu", "memory"): 24 hourly slots of a day in UTC, usage per replica."""

    epoch: int
    sequence: int


class UtilizationCycle(Message, frozen=True, kw_only=True):
    """`utilization.cycle.<shard>`: ends a round of the collector."""

    shard: str
    cycle: int
    expected: int
    """Ready nodes, old enough, that match the collector's selector."""

    fresh: int
    """Those of them with known load."""

    queried_at: float
    skew: float = 0.0
    """Prometheus' clock minus the collector's, in seconds."""

    missing: dict[str, str] = {}
    """Some of the expected nodes without data (at most 20), and why."""

    reasons: dict[str, int] = {}
    """How many expected nodes are without data, by the kind of reason."""

    problem: str = ""
    """What keeps the collector from measuring at all; empty when nothing does."""

    epoch: int = 0
    sequence: int = 0
