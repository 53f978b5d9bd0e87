"""A pod that may be evicted, and the form of the rules that protect it."""

from collections.abc import Callable

import msgspec

from equipoise.contracts.configuration.settings import Namespaces, Protection
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.contracts.kubernetes.workload import Workload


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that may be evicted, with the objects that the rules read."""

    pod: Pod
    namespace: Namespace | None
    """None: it was deleted, or is not known yet."""

    workload: Workload | None = None
    """None: a bare or static pod, or not known."""

    owners: tuple[WorkloadObject, ...] = ()
    """The pod's controller and the controllers above it; the last one is the workload. Empty: not known."""

    unreadable: str = ""
    """What could not be read, and why."""

    pods_now: int | None = None
    """The workload's pods on nodes without terminating ones; None: not known."""

    pods_before: tuple[int, int] | None = None
    """The same `protection.replicasSettlingPeriod` ago: minimum and maximum, because terminating pods may count."""

    @property
    def workload_object(self) -> WorkloadObject | None:
        return self.owners[-1] if self.owners else None

    @property
    def replicas(self) -> int:
        """Desired replicas of the workload; None in the object means 1."""
        if self.workload_object is None:
            return 0
        return 1 if self.workload_object.spec.replicas is None else self.workload_object.spec.replicas

    @property
    def unready(self) -> int:
        """Desired replicas that are missing or not ready."""
        return 0 if self.workload_object is None else max(0, self.replicas - self.workload_object.status.ready_replicas)


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of the rules."""

    protection: Protection
    namespaces: Namespaces
    own_namespace: str


Rule = Callable[[Candidate, Rules, float], str]
"""(candidate, rules, now) -> "" or why the pod is protected."""
