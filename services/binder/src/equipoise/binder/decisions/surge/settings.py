"""The settings of moves without a gap."""

from typing import Annotated, Literal

from msgspec import Meta

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section

SurgeMode = Literal["off", "singleReplicas", "blocked", "always"]


class SurgeSettings(Section, frozen=True, kw_only=True):
    """Moves without a gap: a pod keeps serving until its replacement is ready."""

    mode: SurgeMode = "off"
    """singleReplicas: pods that only `protection.minReplicas` protects. blocked: also pods whose PodDisruptionBudget
    allows no eviction. always: every pod that can be moved so."""

    ready_timeout: Duration = Duration(300)
    """The time for the replacement to become ready. After it, the pod is given back to its ReplicaSet."""

    max_moves: Annotated[int, Meta(ge=0)] = 2
    """Number of pods that are moved without a gap at the same time, one of each workload at most."""
