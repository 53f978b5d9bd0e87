"""What kube-scheduler sees of a pod."""

from functools import cached_property

import msgspec
import numpy as np

from equipoise.contracts.kubernetes.objects import Toleration
from equipoise.lab.model.stock.resources import NOT_ASKED_CPU_MILLI, NOT_ASKED_MEMORY, Ints, needed
from equipoise.lab.model.trace import TraceWorkload

MIB = 2**20

_SPREAD_KINDS = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")
"""Workloads whose pods kube-scheduler knows to be siblings, without a Service that says so."""


class PodKind(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All pods that are alike; each has one container."""

    workload: int
    """Its place among the trace's workloads."""

    cpu_milli: int | None = None
    """None: not asked for, which counts as 100 m when nodes are scored by what is left of them; 0: asked for as 0."""

    memory: int | None = None
    """Bytes. None counts as 200 MiB."""

    tolerations: tuple[Toleration, ...] = ()

    revision: int = 0
    """Of a Deployment: pods of another ReplicaSet are no siblings. Count it up at a roll-out."""

    spread: bool = True
    """Its siblings are told apart from other pods, to keep it off their nodes."""

    @cached_property
    def asked(self) -> Ints:
        """Millicores, bytes, pods."""
        return np.array([self.cpu_milli or 0, self.memory or 0, 1], dtype=np.int64)

    @cached_property
    def needed(self) -> Ints:
        """What has to be free, as a column of `asked`."""
        return needed(self.asked)

    @cached_property
    def counted(self) -> Ints:
        """Millicores and bytes, with something for what was not asked."""
        cpu = NOT_ASKED_CPU_MILLI if self.cpu_milli is None else self.cpu_milli
        memory = NOT_ASKED_MEMORY if self.memory is None else self.memory
        return np.array([cpu, memory], dtype=np.int64)


def pod_kind(workload: TraceWorkload, index: int, *, revision: int = 0) -> PodKind:
    """The pods of the trace's workload number `index`. In a trace, a request of 0 was not asked for."""
    return PodKind(
        workload=index,
        cpu_milli=workload.request_cpu_milli or None,
        memory=workload.request_memory_mib * MIB or None,
        tolerations=workload.tolerations,
        revision=revision if workload.kind == "Deployment" else 0,
        spread=workload.kind in _SPREAD_KINDS,
    )
