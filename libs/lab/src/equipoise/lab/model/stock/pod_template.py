"""The properties of pods that kube-scheduler considers."""

from functools import cached_property

import msgspec
import numpy as np

from equipoise.contracts.kubernetes.objects import Toleration
from equipoise.lab.model.stock.plugins import Ints
from equipoise.lab.model.trace import TraceWorkload

MIB = 2**20

_DEFAULT_CPU_MILLI = 100
_DEFAULT_MEMORY = 200 * MIB
"""Defaults of NodeResourcesFit's score for missing requests. A request of 0 remains 0."""

_SPREAD_KINDS = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")
"""Workloads whose pods kube-scheduler spreads even without a Service."""


class PodTemplate(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Pods with one container and the same properties."""

    workload: int
    """Index of the workload in the trace."""

    cpu_milli: int | None = None
    """None: no request, which differs from a request of 0."""

    memory: int | None = None
    """Bytes; None as for CPU."""

    tolerations: tuple[Toleration, ...] = ()

    revision: int = 0
    """Of a Deployment: pods of another revision belong to another ReplicaSet, so they are not siblings."""

    spread: bool = True
    """Whether kube-scheduler spreads these pods over nodes."""

    @cached_property
    def requests(self) -> Ints:
        """Millicores, bytes, pods."""
        return np.array([self.cpu_milli or 0, self.memory or 0, 1], dtype=np.int64)

    @cached_property
    def required(self) -> Ints:
        """resources × 1: the free amounts that the pod requires.

        A resource without a request requires nothing, even where nodes are overcommitted.
        """
        required: Ints = np.where(self.requests > 0, self.requests, np.iinfo(np.int64).min)[:, np.newaxis]
        return required

    @cached_property
    def nonzero_requests(self) -> Ints:
        """Millicores and bytes, with defaults for missing requests."""
        cpu = _DEFAULT_CPU_MILLI if self.cpu_milli is None else self.cpu_milli
        memory = _DEFAULT_MEMORY if self.memory is None else self.memory
        return np.array([cpu, memory], dtype=np.int64)


def pod_template(workload: TraceWorkload, index: int, *, revision: int = 0) -> PodTemplate:
    """The pods of the workload with this index in the trace. A request of 0 in the trace means no request."""
    return PodTemplate(
        workload=index,
        cpu_milli=workload.request_cpu_milli or None,
        memory=workload.request_memory_mib * MIB or None,
        tolerations=workload.tolerations,
        revision=revision if workload.kind == "Deployment" else 0,
        spread=workload.kind in _SPREAD_KINDS,
    )
