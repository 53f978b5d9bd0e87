"""The day that lies before pods and nodes: the daily profiles of their workloads, added up."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from equipoise.contracts.day import SLOTS, Day, beyond_pods
from equipoise.contracts.load import amounts
from equipoise.contracts.messages import NodeUtilization, Resources
from equipoise.contracts.workload import Workload

WorkloadDays = Mapping[Workload, Day]
"""One replica's day; a workload without one is absent."""

Part = tuple[Workload | None, Resources]
"""Something that works on a node: whose it is, and what it uses now."""


class Days:
    """Days by pod and by node, worked out when somebody asks: not every strategy does."""

    def __init__(self, workloads: WorkloadDays, node_day: Callable[[str], Day | None]) -> None:
        """`node_day`: what a node of that name will use; None when it is not known."""
        self._workloads = workloads
        self._node_day = node_day
        self._nodes: dict[str, Day | None] = {}

    def of_pod(self, workload: Workload | None, usage: Resources) -> Day | None:
        """Its workload's day, else what it uses now all day (one slot); None when neither is known."""
        return part_day(self._workloads, (workload, usage))

    def of_node(self, name: str) -> Day | None:
        if name not in self._nodes:
            self._nodes[name] = self._node_day(name)
        return self._nodes[name]


def part_day(workloads: WorkloadDays, part: Part) -> Day | None:
    """resources × slots, or resources × 1 for what has no day and is taken to go on as it is; None when unknown."""
    workload, usage = part
    day = workloads.get(workload) if workload is not None else None
    if day is None:
        day = np.array(amounts(usage))[:, np.newaxis]
    return None if np.isnan(day).any() else day


def node_day(workloads: WorkloadDays, heard: NodeUtilization, parts: Iterable[Part]) -> Day:
    """resources × slots: what a node uses beyond its pods all day, and the days of all that work on it.

    A part of unknown usage adds nothing: what it uses counts as beyond the pods.
    """
    whole: list[Day] = []
    flat: list[list[float]] = []
    for workload, usage in parts:
        day = workloads.get(workload) if workload is not None else None
        if day is None:
            flat.append(amounts(usage))
        else:
            whole.append(day)
    beyond = beyond_pods(heard)
    if flat:
        beyond = beyond + _sum_of_known(np.array(flat))
    if not whole:
        return np.repeat(beyond[:, np.newaxis], SLOTS, axis=1)
    total: Day = beyond[:, np.newaxis] + _sum_of_known(np.array(whole))
    return total


def _sum_of_known(parts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Over the first axis, without the parts of which anything is unknown."""
    total: npt.NDArray[np.float64] = parts.sum(axis=0)
    if np.isnan(total).any():
        unknown = np.isnan(parts.reshape(len(parts), -1)).any(axis=1)
        total = parts[~unknown].sum(axis=0)
    return total
