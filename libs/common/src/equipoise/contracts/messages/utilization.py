"""`utilization.>`: the measurements of the collector."""

from typing import Annotated, Literal

from msgspec import Meta

from equipoise.contracts.bounds import LATEST, MAX_AHEAD, Amount, Count, Seconds, Time, implausible_amount
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.example import COLLECTOR_EPOCH, GIB, HOT_NODE, NOW, POD_UID, USAGE, WORKLOAD
from equipoise.contracts.messages.message import MUST_BE_KNOWN, Message, Value
from equipoise.contracts.messages.values.pressure import MeasuredPodPressure, NodePressure, Pressure
from equipoise.contracts.messages.values.resources import Resources

MeanPods = Annotated[float, Meta(ge=0, le=1e9)]
"""A mean number of pods."""


class WindowUsage(Value, frozen=True, kw_only=True):
    """Usage over one window that ends at `sampled_at`."""

    sampled_at: Time
    """Time of the newest raw sample in this window, on Prometheus' clock."""

    mean: Resources = Resources()
    p95: Resources = Resources()
    max: Resources = Resources()
    deviation: Resources = Resources()


class RecentUsage(Value, frozen=True, kw_only=True):
    """Mean usage over the last few scrapes of a node."""

    length: Annotated[float, Meta(ge=0.001, le=LATEST)]
    """The length of the period that ends at `sampled_at`, in seconds."""

    sampled_at: Time
    """Time of the newest raw sample, on Prometheus' clock."""

    mean: Resources = Resources()


class ResourceStatus(Value, frozen=True, kw_only=True):
    """How well a further resource of a node (`load.resources`) is known."""

    sampled_at: Time = 0.0
    """Time of its newest raw sample, on Prometheus' clock; 0 if there is none."""

    unknown: str = ""
    """Why its load over the shortest window is unknown; empty if it is known."""


class NodeUtilization(Message, frozen=True, kw_only=True):
    """`utilization.node.<node>`: the usage of a node and of each of its pods. Always complete."""

    node: str
    uid: str
    base: Resources
    """The allocatable (or capacity) of which load is a share."""

    memory_kind: Annotated[Literal["workingSet", "anonymous"], MUST_BE_KNOWN] = "workingSet"
    sampled_at: Time
    """Newest raw sample of the node, on Prometheus' clock."""

    queried_at: Time
    """Evaluation time of the query, on Prometheus' clock."""

    windows: dict[str, WindowUsage]
    """The usage in each window, by window name; windows that samples do not cover are absent."""

    system: Resources = Resources()
    """Usage of the node outside its pods (mean of the shortest window)."""

    pods: dict[str, Resources] = {}
    """The mean of the shortest window, by pod UID."""

    recent: RecentUsage | None = None
    """The recent usage, as long as the shortest window does not cover all pods completely. Such pods are not measured,
    and may use more than expected. Only scores and placement hints use it, because it varies more than a window."""

    pressure: NodePressure | None = None
    """None if neither the kernel nor the source has it."""

    resources: dict[str, ResourceStatus] = {}
    """The further resources that the node should have, by name. Their amounts are in `base`, `windows` and `pods`."""

    epoch: Count
    """The time at which this collector took over, in milliseconds. Messages are ordered by `epoch`, then `sequence`."""

    sequence: Count

    @property
    def measured_at(self) -> float:
        return self.queried_at

    @property
    def implausible(self) -> str:
        pressure = () if self.pressure is None else (self.pressure.sampled_at,)
        recent = () if self.recent is None else (self.recent.sampled_at,)
        return _measured_late(self, *pressure, *recent, *(status.sampled_at for status in self.resources.values()))


class WorkloadUtilization(Message, frozen=True, kw_only=True):
    """`utilization.workload.<key>.<namespace>.<name>`: usage per replica."""

    workload: Workload
    replicas: Count
    """The number of pods that were measured."""

    sampled_at: Time
    queried_at: Time
    windows: dict[str, WindowUsage]
    profile: dict[str, list[Amount | None]] = {}
    """The usage per replica in the 24 hourly slots of a day in UTC, by resource ("cpu", "memory")."""

    replicas_by_hour: Annotated[list[MeanPods | None], Meta(max_length=24)] = []
    """The number of pods in the same slots, smoothed over days like the profile. Only pods that run for most of an hour
    count in it. Empty while the number is the same in all known slots."""

    forecast_error: Resources = Resources()
    """The difference of an hour of a replica from what the profile had for it before: root mean square over the slots,
    smoothed over days. Unknown until enough slots were measured on two days."""

    epoch: Count
    sequence: Count

    @property
    def measured_at(self) -> float:
        return self.queried_at

    @property
    def implausible(self) -> str:
        amounts = (implausible_amount(resource, hours) for resource, hours in self.profile.items())
        return _measured_late(self) or next(filter(None, amounts), "")


class UtilizationCycle(Message, frozen=True, kw_only=True):
    """`utilization.cycle.<shard>`: published at the end of each measurement cycle of a collector."""

    shard: str
    cycle: Count
    expected: Count
    """The number of Ready nodes that are old enough and match the selector of the collector."""

    fresh: Count
    """The number of expected nodes whose load is known."""

    queried_at: Time
    skew: Seconds = 0.0
    """Prometheus' clock minus the collector's, in seconds."""

    missing: dict[str, str] = {}
    """Some of the expected nodes without data (at most 20), and why."""

    reasons: dict[str, Count] = {}
    """The number of expected nodes without data, by the kind of reason."""

    problem: str = ""
    """Why the collector cannot measure at all; empty if it can."""

    epoch: Count = 0
    sequence: Count = 0

    @property
    def measured_at(self) -> float:
        return self.queried_at


def _measured_late(message: NodeUtilization | WorkloadUtilization, *others: float) -> str:
    """Describes a sample that is later than its query, because it would count as fresh for too long. Empty if there is
    none. `others`: the times of other samples."""
    latest = max([message.sampled_at, *(window.sampled_at for window in message.windows.values()), *others])
    return "" if latest <= message.queried_at + MAX_AHEAD else f"a sample is {latest - message.queried_at:g} s too new"


def _window(cpu: float, memory: float) -> WindowUsage:
    return WindowUsage(sampled_at=NOW - 6, mean=Resources(cpu=cpu, memory=memory * GIB))


NODE_UTILIZATION = NodeUtilization(
    node=HOT_NODE,
    uid="7b1c",
    base=Resources(cpu=8, memory=32 * GIB),
    sampled_at=NOW - 6,
    queried_at=NOW,
    windows={"5m": _window(7.28, 18), "15m": _window(7.1, 18)},
    system=Resources(cpu=0.3, memory=GIB),
    pods={POD_UID: USAGE},
    pressure=NodePressure(
        sampled_at=NOW - 6,
        waiting=Pressure(cpu=0.31, memory=0.0, io=0.02),
        pods={POD_UID: MeasuredPodPressure(cpu=0.12, throttled=0.04)},
    ),
    epoch=COLLECTOR_EPOCH,
    sequence=42,
)

WORKLOAD_UTILIZATION = WorkloadUtilization(
    workload=WORKLOAD,
    replicas=3,
    sampled_at=NOW - 6,
    queried_at=NOW,
    windows={"5m": _window(1.1, 1.5)},
    profile={"cpu": [0.4] * 8 + [1.1] * 2 + [None] * 14, "memory": [1.5 * GIB] * 10 + [None] * 14},
    replicas_by_hour=[1.0] * 8 + [3.0] * 2 + [None] * 14,
    forecast_error=Resources(cpu=0.2, memory=0.1 * GIB),
    epoch=COLLECTOR_EPOCH,
    sequence=42,
)

UTILIZATION_CYCLE = UtilizationCycle(
    shard="all",
    cycle=42,
    expected=40,
    fresh=39,
    queried_at=NOW,
    skew=0.02,
    missing={"node-17.example.com": "no sample within 180 s"},
    reasons={"no sample": 1},
    epoch=COLLECTOR_EPOCH,
    sequence=42,
)
