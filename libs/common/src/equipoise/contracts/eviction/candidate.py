"""A pod that may be evicted, and the form of the rules that protect it."""

from collections.abc import Callable

import msgspec

from equipoise.contracts.configuration.moves import MovesLevel
from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import Namespaces
from equipoise.contracts.configuration.surge import SurgeMode
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.contracts.kubernetes.workload import Workload


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that may be evicted, with the objects that the rules read."""

    pod: Pod
    namespace: Namespace | None
    """The namespace of the pod; None if it was deleted, or is not known yet."""

    workload: Workload | None = None
    """The workload of the pod; None for a bare or static pod, or if it is unknown."""

    owners: tuple[WorkloadObject, ...] = ()
    """The controller of the pod, then the controller of that one. The last one is the workload. Empty if unknown."""

    unreadable: str = ""
    """The object that could not be read, and why; empty if all were read."""

    pods_now: int | None = None
    """The number of pods of the workload on nodes, without terminating pods; None if unknown."""

    pods_before: tuple[int, int] | None = None
    """The number of these pods `protection.replicasSettlingPeriod` ago: a minimum, and a maximum with terminating
    pods."""

    @property
    def workload_object(self) -> WorkloadObject | None:
        return self.owners[-1] if self.owners else None

    @property
    def replicas(self) -> int:
        """The desired replicas of the workload: 1 if its object does not state them, 0 if there is no object."""
        if self.workload_object is None:
            return 0
        return 1 if self.workload_object.spec.replicas is None else self.workload_object.spec.replicas

    @property
    def unready(self) -> int:
        """The number of desired replicas that are missing or not ready."""
        return 0 if self.workload_object is None else max(0, self.replicas - self.workload_object.status.ready_replicas)


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of the rules."""

    protection: Protection
    namespaces: Namespaces
    own_namespace: str
    level: MovesLevel | None = None
    """How far Equipoise is trusted to move pods (`moves.level`)."""

    surge: SurgeMode = "none"
    """Which pods are moved without a gap, by `surge.mode` and the level."""


Rule = Callable[[Candidate, Rules, float], str]
"""A function of (candidate, rules, now). It returns why the pod is protected, or an empty text."""
