"""The shared section `surge`."""

from typing import Annotated, Literal

from msgspec import Meta

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section

SurgeMode = Literal["none", "singleReplicas", "blocked", "always"]

LONGEST_READY_TIMEOUT = 3_600.0
"""Seconds. Until then, no controller owns the pod."""


class SurgeSettings(Section, frozen=True, kw_only=True):
    """Moves without a gap: a pod keeps serving until its replacement is ready. Needs k8s/surge.

    Used by descheduler and binder, so that the binder accepts what the descheduler proposes.
    """

    mode: SurgeMode | None = None
    """singleReplicas: pods that only `protection.minReplicas` protects. blocked: also pods whose PodDisruptionBudget
    allows no eviction. always: every pod that can be moved so.

    null: always from `moves.level` withoutGap on, else none.
    """

    ready_timeout: Duration = Duration(300)
    """The time for the replacement to become ready, at most one hour. After it, the pod is given back to its
    ReplicaSet."""

    max_moves: Annotated[int, Meta(ge=1, le=100)] = 2
    """Number of pods that are moved without a gap at the same time, one of each workload at most."""

    def __post_init__(self) -> None:
        if not 0 < self.ready_timeout <= LONGEST_READY_TIMEOUT:
            raise ValueError("readyTimeout must be longer than 0s and at most 1h")
