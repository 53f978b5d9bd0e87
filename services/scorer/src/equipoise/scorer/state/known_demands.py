"""The expected usage of the pods of each workload, kept until anything that it is computed from changes.

The pods of a burst are alike, and computing the expected usage takes as long as scoring all nodes.
"""

import msgspec

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.demand import EstimateSource
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.utilization import WorkloadUtilization
from equipoise.contracts.messages.values.resources import Resources
from equipoise.scorer.decisions.arrays import Demand
from equipoise.scorer.decisions.demand import expected_demand
from equipoise.scorer.state.node_table import NodeTable

_MAX_KNOWN = 1_000
"""The maximum number of workloads. Each takes about 1 KiB."""


class _Inputs(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What an expected usage was computed from."""

    message: WorkloadUtilization | None
    """The profile of the workload changes only with it."""

    fresh: tuple[str, ...]
    """The windows of the message that were not outdated."""

    requests: Resources
    limits: Resources
    reclaimed_requests: Resources
    reclaimed_limits: Resources
    priority: int
    priority_class: str

    def same(self, other: "_Inputs") -> bool:
        return (
            self.message is other.message
            and self.fresh == other.fresh
            and self.requests == other.requests
            and self.limits == other.limits
            and self.reclaimed_requests == other.reclaimed_requests
            and self.reclaimed_limits == other.reclaimed_limits
            and self.priority == other.priority
            and self.priority_class == other.priority_class
        )


class KnownDemands:
    """The latest demand of each workload."""

    def __init__(self, nodes: NodeTable, chain: tuple[EstimateSource, ...]) -> None:
        """`chain`: the estimate sources of the policy, in their order."""
        self._nodes = nodes
        self._chain = chain
        self._known: dict[Workload | None, tuple[_Inputs, Demand]] = {}

    def demand(self, pod: PodDemand, now: float) -> Demand:
        """The same as `expected_demand` of the pod and the latest messages."""
        workload = self._nodes.workload_usage(pod.workload, now)
        inputs = _Inputs(
            message=None if pod.workload is None else self._nodes.messages.workloads.get(pod.workload),
            fresh=() if workload is None else tuple(workload.windows),
            requests=pod.requests,
            limits=pod.limits,
            reclaimed_requests=pod.reclaimed_requests,
            reclaimed_limits=pod.reclaimed_limits,
            priority=pod.priority,
            priority_class=pod.priority_class,
        )
        known = self._known.pop(pod.workload, None)
        if known is None or not inputs.same(known[0]):
            windows, daily = self._nodes.windows, self._nodes.daily_profile(pod.workload)
            known = inputs, expected_demand(pod, workload, windows=windows, chain=self._chain, daily=daily)
            if len(self._known) >= _MAX_KNOWN:
                del self._known[next(iter(self._known))]  # the one that was used longest ago
        self._known[pod.workload] = known
        return known[1]
