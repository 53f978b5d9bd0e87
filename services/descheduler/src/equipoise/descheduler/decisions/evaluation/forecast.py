"""The 24-hour profiles of workloads, and the pods that will count on each node once the pending moves are done."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.daily_profile import HourlyUsage, workload_profile
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization
from equipoise.descheduler.state.daily_usage import NodePods, PodsOfNodes, RunningPod
from equipoise.descheduler.state.pending_moves import PendingMoves, dry_runs, real_moves


class WorkloadProfiles(Mapping[Workload, HourlyUsage]):
    """Usage of one replica by hour. Converted on first use: a cluster has thousands of workloads."""

    def __init__(self, utilization: Mapping[Workload, WorkloadUtilization]) -> None:
        self._utilization = utilization
        self._days: dict[Workload | None, HourlyUsage | None] = {}

    def __getitem__(self, workload: Workload) -> HourlyUsage:
        day: HourlyUsage | None = self.get(workload)
        if day is None:
            raise KeyError(workload)
        return day

    def get(self, workload: Workload | None, default: Any = None) -> Any:
        """Called for every pod. The method of Mapping looks up twice and raises an exception in between."""
        try:
            day = self._days[workload]
        except KeyError:
            day = workload_profile(self._utilization.get(workload)) if workload is not None else None
            self._days[workload] = day
        return default if day is None else day

    def __iter__(self) -> Iterator[Workload]:
        return (workload for workload in self._utilization if workload in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def pods_after_moves(
    pending: PendingMoves,
    staying: Callable[[str], Iterable[RunningPod]],
    *,
    nodes: Mapping[str, NodeUtilization],
    workloads: Mapping[Workload, WorkloadUtilization],
) -> PodsOfNodes:
    """The pods on each node once the pending moves are done, with their usage.

    `staying`: pods of a node that are not terminating, those moved there in a dry run included.
    """
    moving = {move.pod_uid: move for move in real_moves(pending).values()}
    simulated = dry_runs(pending)
    coming: dict[str, list[RunningPod]] = {}
    for move in moving.values():
        coming.setdefault(move.target, []).append((move.pod_uid, move.workload))

    def usage_of(node: str, uid: str, workload: Workload | None) -> Resources:
        """As measured when its move was proposed, else as measured now, else that of a replica of its workload."""
        if uid in moving:
            return moving[uid].expected_reduction
        dry_run = simulated.get(uid)
        utilization = nodes.get(node if dry_run is None else dry_run.node)
        measured = utilization.pods.get(uid) if utilization is not None else None
        if measured is not None:
            return measured
        replica = workloads.get(workload) if workload is not None else None
        otherwise = Resources() if dry_run is None else dry_run.expected_reduction
        return next((value.mean for value in replica.windows.values()), otherwise) if replica is not None else otherwise

    def on_nodes(names: Sequence[str]) -> list[NodePods | None]:
        found: list[NodePods | None] = []
        for name in names:
            utilization = nodes.get(name)
            remaining = (pod for pod in staying(name) if pod[0] not in moving)
            pods = chain(remaining, coming.get(name, ()))
            found.append(None if utilization is None else NodePods(utilization, pods, partial(usage_of, name)))
        return found

    return on_nodes
