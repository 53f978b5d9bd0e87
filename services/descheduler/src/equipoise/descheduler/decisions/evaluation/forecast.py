"""What profiles foretell of every node: of pods that stay, that are on their way, or assumed to be there."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.daily_profile import HourlyUsage, workload_profile
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization
from equipoise.descheduler.decisions.evaluation.cluster_builder import Picture
from equipoise.descheduler.state.daily_usage import NodeParts, Part, Working
from equipoise.descheduler.state.dry_run_moves import Assumptions


class ProfileDays(Mapping[Workload, HourlyUsage]):
    """Worked out when somebody asks: a cluster has thousands of workloads, and most strategies ask for none."""

    def __init__(self, said: Mapping[Workload, WorkloadUtilization]) -> None:
        self._said = said
        self._days: dict[Workload | None, HourlyUsage | None] = {}

    def __getitem__(self, workload: Workload) -> HourlyUsage:
        day: HourlyUsage | None = self.get(workload)
        if day is None:
            raise KeyError(workload)
        return day

    def get(self, workload: Workload | None, default: Any = None) -> Any:
        """Asked of every pod, and what a mapping brings along asks twice and raises between."""
        try:
            day = self._days[workload]
        except KeyError:
            day = self._days[workload] = workload_profile(self._said.get(workload)) if workload is not None else None
        return default if day is None else day

    def __iter__(self) -> Iterator[Workload]:
        return (workload for workload in self._said if workload in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def working(
    picture: Picture,
    *,
    nodes: Mapping[str, NodeUtilization],
    workloads: Mapping[Workload, WorkloadUtilization],
    assumptions: Assumptions,
) -> NodeParts:
    """`nodes`, `workloads`: what was heard of them."""
    flights = {flight.pod_uid: flight for flight in picture.flights.values()}
    leaving = flights.keys() | assumptions.keys()
    coming: dict[str, list[Part]] = {}
    for flight in flights.values():
        coming.setdefault(flight.target, []).append((flight.pod_uid, flight.workload))
    for uid, each in assumptions.items():
        coming.setdefault(each.target, []).append((uid, each.workload))

    def usage_of(node: str, uid: str, workload: Workload | None) -> Resources:
        """As told of a move under way; else as measured on its node, else as a replica of its workload is."""
        if uid in flights:
            return flights[uid].relief
        assumed = assumptions.get(uid)
        heard = nodes.get(assumed.node if assumed is not None else node)
        measured = heard.pods.get(uid) if heard is not None else None
        if measured is not None:
            return measured
        replica = workloads.get(workload) if workload is not None else None
        otherwise = assumed.relief if assumed is not None else Resources()
        return next((value.mean for value in replica.windows.values()), otherwise) if replica is not None else otherwise

    def on_nodes(names: Sequence[str]) -> list[Working | None]:
        found: list[Working | None] = []
        for name in names:
            heard = nodes.get(name)
            staying = (part for part in picture.staying(name) if part[0] not in leaving)
            parts = chain(staying, coming.get(name, ()))
            found.append(None if heard is None else Working(heard, parts, partial(usage_of, name)))
        return found

    return on_nodes
