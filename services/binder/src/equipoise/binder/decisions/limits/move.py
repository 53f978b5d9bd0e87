"""A move that limits are asked about."""

import msgspec

from equipoise.contracts.kubernetes.workload import Workload


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """One pod that would leave its node."""

    namespace: str
    node: str
    workload: Workload | None
    replicas: int
    """How many pods the workload should have."""

    unready: int
    """How many of them are missing or not ready, this one and those in migration included if they are."""

    cluster_pods: int
    """Pods on all nodes, as far as known; fewer are stricter."""
