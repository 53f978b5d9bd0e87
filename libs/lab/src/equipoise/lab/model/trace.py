"""A trace: nodes, workloads, pods, and what a pod of each workload used step by step."""

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from equipoise.contracts.kubernetes.objects import Toleration
from equipoise.contracts.messages.placement import Taint

Array = npt.NDArray[np.float64]


class TraceTaint(Taint, frozen=True, kw_only=True):
    """A taint of a node; in a trace the effect may be left out."""

    effect: str = "NoSchedule"


class TraceNode(msgspec.Struct, frozen=True, kw_only=True):
    """Allocatable amounts."""

    name: str
    cpu_milli: int
    memory_mib: int
    pods: int = 110
    taints: tuple[TraceTaint, ...] = ()


class TraceWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """What every pod of a workload asks for. 0: it asks for nothing; None: no limit."""

    name: str
    namespace: str = "default"
    kind: str = "Deployment"
    request_cpu_milli: int = 0
    request_memory_mib: int = 0
    limit_cpu_milli: int | None = None
    limit_memory_mib: int | None = None
    tolerations: tuple[Toleration, ...] = ()


class TracePod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod, and where the trace has it."""

    name: str
    workload: int
    """Its place among the trace's workloads."""

    node: str = ""
    """Empty: the trace does not say."""


class AntiAffinity(msgspec.Struct, frozen=True, kw_only=True):
    """On a node that has a pod of one workload, at most so many of another (or, of the same, so many in all)."""

    beside: int
    limited: int
    most: int
    """Places among the trace's workloads, and a number of pods."""


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a replay starts from."""

    name: str
    nodes: tuple[TraceNode, ...]
    workloads: tuple[TraceWorkload, ...]
    pods: tuple[TracePod, ...]
    rules: tuple[AntiAffinity, ...] = ()
    cpu_milli: Array
    """workloads × steps: what each pod of the workload uses; never NaN."""

    memory_mib: Array
    """As `cpu_milli`."""

    seconds_per_step: float
    starts_at: float = 0.0
    """Unix second of step 0. Traces without dates start at midnight UTC."""

    notes: tuple[str, ...] = ()
    """What a reader of figures has to know: derived requests, invented nodes."""

    @property
    def steps(self) -> int:
        return int(self.cpu_milli.shape[1])

    @property
    def steps_per_hour(self) -> int:
        return max(1, round(3_600 / self.seconds_per_step))

    def replicas(self) -> npt.NDArray[np.intp]:
        """Pods of each workload."""
        return np.bincount([pod.workload for pod in self.pods], minlength=len(self.workloads))


def known_everywhere(curves: Sequence[Sequence[float | None]]) -> Array:
    """rows × steps, gaps filled. A replay has to use something: the mean of the row invents no peak; 0 without any."""
    values = np.array([[np.nan if value is None else value for value in row] for row in curves], dtype=np.float64)
    known = ~np.isnan(values)
    count = known.sum(axis=1, keepdims=True)
    mean = np.where(known, values, 0.0).sum(axis=1, keepdims=True) / np.maximum(count, 1)
    filled: Array = np.where(known, values, mean)
    return filled
