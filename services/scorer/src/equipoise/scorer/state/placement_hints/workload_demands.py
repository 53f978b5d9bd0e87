"""The expected usage of a new pod of each workload."""

from collections.abc import Collection

import msgspec

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.demand import EstimateSource
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.utilization import WorkloadUtilization
from equipoise.contracts.numeric import Array
from equipoise.scorer.decisions.arrays import Demand
from equipoise.scorer.decisions.demand import demand_of_placed, expected_demand
from equipoise.scorer.state.node_table import NodeTable

_LIFETIME = 300.0
"""Seconds for which an expected usage is kept if nothing new is known: measured values become outdated."""


class _KnownDemand(msgspec.Struct, frozen=True, kw_only=True):
    """The expected usage, and what it was computed from."""

    latest: PlacedPod | None
    usage: WorkloadUtilization | None
    daily: Array | None
    demand: Demand
    expires_at: float


class WorkloadDemands:
    """The expected usage of each workload's pods, computed again when a workload has a new measurement or a new pod."""

    def __init__(self, nodes: NodeTable, chain: tuple[EstimateSource, ...]) -> None:
        """`chain` is the policy's."""
        self._nodes = nodes
        self._chain = chain
        self._known: dict[Workload, _KnownDemand] = {}

    def demand(self, workload: Workload, latest: PlacedPod | None, now: float) -> Demand:
        """`latest` is the workload's newest pod; None: it had none yet, so its requests are not known."""
        usage, daily = self._nodes.messages.workloads.get(workload), self._nodes.daily_profile(workload)
        known = self._known.get(workload)
        if (
            known is not None
            and now < known.expires_at <= now + _LIFETIME  # or this clock was ahead
            and (known.latest is latest and known.usage is usage and known.daily is daily)
        ):
            return known.demand
        pod = PodDemand(namespace=workload.namespace, name="", uid="", workload=workload)
        demand = expected_demand(
            pod if latest is None else demand_of_placed(latest),
            self._nodes.workload_usage(workload, now),
            windows=self._nodes.windows,
            chain=self._chain,
            daily=daily,
        )
        self._known[workload] = _KnownDemand(
            latest=latest, usage=usage, daily=daily, demand=demand, expires_at=now + _LIFETIME
        )
        return demand

    def retain(self, workloads: Collection[Workload]) -> None:
        """Remove all others."""
        if len(self._known) > len(workloads):
            self._known = {each: self._known[each] for each in workloads if each in self._known}
