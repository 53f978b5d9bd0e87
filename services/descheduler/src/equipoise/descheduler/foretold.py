"""What profiles foretell of every node: of pods that stay, that are on their way, or assumed to be there."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from equipoise.contracts.day import Day, workload_day
from equipoise.contracts.messages import NodeUtilization, Resources, WorkloadUtilization
from equipoise.contracts.workload import Workload
from equipoise.descheduler.assumptions import Assumptions
from equipoise.descheduler.days import Days, Part, node_day
from equipoise.descheduler.flights import Flights
from equipoise.descheduler.picture import Picture


class _WorkloadDays(Mapping[Workload, Day]):
    """Worked out when somebody asks: a cluster has thousands of workloads, and most strategies ask for none."""

    def __init__(self, said: Mapping[Workload, WorkloadUtilization]) -> None:
        self._said = said
        self._days: dict[Workload | None, Day | None] = {}

    def __getitem__(self, workload: Workload) -> Day:
        day: Day | None = self.get(workload)
        if day is None:
            raise KeyError(workload)
        return day

    def get(self, workload: Workload | None, default: Any = None) -> Any:
        """Asked of every pod, and what a mapping brings along asks twice and raises between."""
        try:
            day = self._days[workload]
        except KeyError:
            day = self._days[workload] = workload_day(self._said.get(workload)) if workload is not None else None
        return default if day is None else day

    def __iter__(self) -> Iterator[Workload]:
        return (workload for workload in self._said if workload in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def days_of(
    picture: Picture,
    *,
    nodes: Mapping[str, NodeUtilization],
    workloads: Mapping[Workload, WorkloadUtilization],
    flights: Flights,
    assumptions: Assumptions,
) -> Days:
    """`nodes`, `workloads`: what was heard of them."""
    days = _WorkloadDays(workloads)
    unasked = Resources()
    leaving = {flight.pod_uid for flight in flights.values()} | assumptions.keys()

    def usage_of(node: str, uid: str, workload: Workload | None, otherwise: Resources) -> Resources:
        """As measured on its node, else as a replica of its workload is, else as told."""
        heard = nodes.get(node)
        measured = heard.pods.get(uid) if heard is not None else None
        if measured is not None:
            return measured
        replica = workloads.get(workload) if workload is not None else None
        return next((value.mean for value in replica.windows.values()), otherwise) if replica is not None else otherwise

    coming: dict[str, list[Part]] = {}
    for flight in flights.values():
        coming.setdefault(flight.target, []).append((flight.workload, flight.relief))
    for uid, each in assumptions.items():
        usage = usage_of(each.node, uid, each.workload, each.relief)
        coming.setdefault(each.target, []).append((each.workload, usage))

    def of_node(node: str) -> Day | None:
        heard = nodes.get(node)
        if heard is None:
            return None
        # What a pod uses now is looked up for those alone that have no day: of all pods it takes long.
        staying = (
            (workload, unasked if days.get(workload) is not None else usage_of(node, uid, workload, unasked))
            for uid, workload in picture.staying(node)
            if uid not in leaving
        )
        return node_day(days, heard, chain(staying, coming.get(node, ())))

    return Days(days, of_node)
