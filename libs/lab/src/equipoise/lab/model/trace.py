"""A trace: nodes, workloads, pods, and the usage of one pod of each workload in each step."""

from typing import Annotated, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from equipoise.contracts.kubernetes.objects.node import Taint
from equipoise.contracts.kubernetes.objects.pod import Toleration, TopologySpreadConstraint

Array = npt.NDArray[np.float64]


class TraceTaint(Taint, frozen=True, kw_only=True):
    """A taint of a node. A trace may omit its effect."""

    effect: str = "NoSchedule"


MAX_INT32 = 2**31 - 1

Amount = Annotated[int, msgspec.Meta(ge=0)]

TopologyKey = Literal["kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region"]
"""Labels that the nodes of a trace can have."""


class TraceSpreadConstraint(TopologySpreadConstraint, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A constraint of a trace. Without a label selector, it counts the pods of the workload."""

    max_skew: Annotated[int, msgspec.Meta(ge=1, le=MAX_INT32)] = 1
    topology_key: TopologyKey
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = "DoNotSchedule"
    min_domains: Annotated[int, msgspec.Meta(ge=1, le=MAX_INT32)] | None = None
    node_affinity_policy: Literal["Honor", "Ignore"] = "Honor"
    node_taints_policy: Literal["Honor", "Ignore"] = "Ignore"


class TraceNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node, with the allocatable amounts of its resources."""

    name: str
    cpu_milli: int
    memory_mib: int
    pods: int = 110
    taints: tuple[TraceTaint, ...] = ()
    zone: str = ""
    """Value of the label `topology.kubernetes.io/zone`; empty: the node does not have it."""

    region: str = ""
    """Value of the label `topology.kubernetes.io/region`; empty: the node does not have it."""

    extended_resources: dict[str, Amount] = {}
    """Allocatable amounts of other resources than CPU, memory and pods."""


class TraceWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """Requests and limits of each pod of a workload. 0: no request; None: no limit."""

    name: str
    namespace: str = "default"
    kind: str = "Deployment"
    request_cpu_milli: int = 0
    request_memory_mib: int = 0
    limit_cpu_milli: int | None = None
    limit_memory_mib: int | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread: tuple[TraceSpreadConstraint, ...] = ()
    priority: int = 0
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"
    extended_resources: dict[str, Amount] = {}
    """Requests of other resources than CPU and memory."""

    gang: str = ""
    """The gang of its pods, which are then never moved; empty: none."""

    start_cpu_milli: int = 0
    """What a pod requests only to start, by its init containers, and its overhead: it never requests less."""

    start_memory_mib: int = 0
    """The same as `start_cpu_milli`, for memory."""

    containers: tuple[str, ...] = ()
    """The names of the containers of a pod; empty: not known."""


class TracePod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod and its node."""

    name: str
    workload: int
    """Index of its workload."""

    node: str = ""
    """Empty: unknown."""


class AntiAffinity(msgspec.Struct, frozen=True, kw_only=True):
    """A node that has a pod of the workload `beside` may have at most `most` pods of the workload `limited`.

    If both are the same workload, the node may have at most `most` of its pods.
    """

    beside: int
    """The index of a workload, like `limited`."""

    limited: int
    most: int


class TraceBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A PodDisruptionBudget. One of `min_available` and `max_unavailable` is set: a number, or a percentage (`50%`)."""

    name: str
    workloads: tuple[int, ...]
    """Indexes of the workloads whose pods it selects, of one namespace. Not empty."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a replay."""

    name: str
    nodes: tuple[TraceNode, ...]
    workloads: tuple[TraceWorkload, ...]
    pods: tuple[TracePod, ...]
    rules: tuple[AntiAffinity, ...] = ()
    budgets: tuple[TraceBudget, ...] = ()
    cpu_milli: Array
    """workloads × steps: usage of one pod. Never NaN, except in a recording that is being written."""

    memory_mib: Array
    """The same as `cpu_milli`, for memory in MiB."""

    gaps: npt.NDArray[np.bool_] | None = None
    """(CPU, memory) × workloads × steps: where nothing was measured, and the usage is the mean of the row; None:
    nowhere."""

    replicas_by_step: npt.NDArray[np.intp] | None = None
    """workloads × steps: the number of pods, where an autoscaler changes it; None: the number of `pods`."""

    seconds_per_step: float
    starts_at: float = 0.0
    """Unix time of step 0. Traces without a date start at midnight UTC."""

    notes: tuple[str, ...] = ()
    """Notes for readers of the figures, such as derived requests or invented nodes."""

    @property
    def steps(self) -> int:
        return int(self.cpu_milli.shape[1])

    def replicas(self) -> npt.NDArray[np.intp]:
        """Pods of each workload."""
        return np.bincount([pod.workload for pod in self.pods], minlength=len(self.workloads))

    @property
    def measured(self) -> bool:
        """Whether any usage was measured; otherwise it is assumed, and figures of load have no meaning."""
        return self.gaps is None or not bool(self.gaps.all())

    @property
    def in_whole_days(self) -> "Trace":
        """The trace without an incomplete day at the end, which would shift the hours when repeated."""
        steps = self.steps - self.steps % round(86_400.0 / self.seconds_per_step)
        if not steps:
            return self
        return self.with_steps(np.arange(steps))

    def with_steps(self, steps: npt.NDArray[np.intp]) -> "Trace":
        """The trace with the usage of these steps only, in this order."""
        return msgspec.structs.replace(
            self,
            cpu_milli=self.cpu_milli[:, steps],
            memory_mib=self.memory_mib[:, steps],
            gaps=None if self.gaps is None else self.gaps[:, :, steps],
        )
