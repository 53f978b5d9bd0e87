"""The shared section `protection`."""

from fnmatch import fnmatchcase
from typing import Annotated

from msgspec import Meta

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section

SYSTEM_CRITICAL = 2_000_000_000
"""The lowest priority of the system (SystemCriticalPriority of scheduling.k8s.io)."""


class Protection(Section, frozen=True, kw_only=True):
    """Protected pods. Static, DaemonSet, bare, Job, terminating, unready and annotated pods are always protected.

    Used by descheduler and binder, so that the binder accepts what the descheduler proposes.
    """

    priority_threshold: int = SYSTEM_CRITICAL
    """Pods with this priority or higher are protected. System-critical pods (2,000,000,000 or more) always are."""

    min_replicas: Annotated[int, Meta(ge=1)] = 2
    """Workloads with fewer desired or ready replicas are protected: an eviction would be an outage."""

    replicas_settling_period: Duration = Duration(300)
    """A workload that was scaled within this time is protected: an autoscaler may be active."""

    local_storage: bool = False
    """Whether pods with an emptyDir or hostPath volume may be evicted, and lose its data."""

    persistent_volumes: bool = False
    """Whether pods with a PersistentVolumeClaim may be evicted. Their volumes must be detached and attached again."""

    stateful_sets: tuple[str, ...] | None = None
    """The StatefulSets whose pods may be moved, as `namespace/name`; `*` matches any characters. Such a move always
    has a gap: the replacement is created when the pod has ended. null: all without `moves.level`, none with a level."""

    def __post_init__(self) -> None:
        for pattern in self.stateful_sets or ():
            if pattern.count("/") != 1 and pattern != "*":
                raise ValueError(f"statefulSets has {pattern}, which is not of the form namespace/name")

    def names_stateful_set(self, namespace: str, name: str) -> bool:
        """Whether `stateful_sets` has this StatefulSet."""
        return any(fnmatchcase(f"{namespace}/{name}", pattern) for pattern in self.stateful_sets or ())
