"""The day that lies before pods and nodes: the daily profiles of their workloads, added up."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import RESOURCES, amounts
from equipoise.contracts.load.daily_profile import SLOTS, HourlyUsage, system_usage
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization

WorkloadDays = Mapping[Workload, HourlyUsage]
"""One replica's day; a workload without one is absent."""

Part = tuple[str, Workload | None]
"""Something that works on a node: its UID, and whose it is."""

_BLOCK = 256
"""Nodes whose pods are added up together: their days then stay in the processor's cache."""


class Working(msgspec.Struct, frozen=True):
    """What works on a node."""

    heard: NodeUtilization
    parts: Iterable[Part]
    usage_of: Callable[[str, Workload | None], Resources]
    """What such a part uses now: asked of those alone whose workload has no day, as it takes long."""


NodeParts = Callable[[Sequence[str]], Sequence[Working | None]]
"""What works on the nodes of these names; None for a node of which nothing was heard."""


class Days:
    """Days by pod and by node, worked out when somebody asks: not every strategy does."""

    def __init__(
        self, workloads: WorkloadDays, working: NodeParts, known: Mapping[str, HourlyUsage] | None = None
    ) -> None:
        """`known`: days of nodes that were worked out before."""
        self._workloads = workloads
        self._working = working
        self._nodes: dict[str, HourlyUsage] = dict(known or {})

    def of_pod(self, workload: Workload | None, usage: Resources) -> HourlyUsage | None:
        """resources × slots, or resources × 1 for what has no day and is taken to go on as it is; None when unknown."""
        day = self._workloads.get(workload) if workload is not None else None
        if day is None:
            day = np.array(amounts(usage))[:, np.newaxis]
        return None if np.isnan(day).any() else day

    def of_nodes(self, names: Sequence[str]) -> HourlyUsage:
        """nodes × resources × slots; NaN where it is not known."""
        missing = [name for name in names if name not in self._nodes]
        if missing:
            self._nodes.update(zip(missing, node_days(self._workloads, self._working(missing)), strict=True))
        return np.array([self._nodes[name] for name in names]).reshape(-1, len(RESOURCES), SLOTS)

    def changed(self, nodes: Collection[str], working: NodeParts) -> "Days":
        """The same, but for these nodes, on which something else works."""
        return Days(self._workloads, working, {name: day for name, day in self._nodes.items() if name not in nodes})


def node_days(workloads: WorkloadDays, nodes: Sequence[Working | None]) -> HourlyUsage:
    """nodes × resources × slots: what each node uses beyond its pods all day, and the days of all that work on it.

    A part of unknown usage adds nothing: what it uses counts as beyond the pods.
    """
    flat = np.full((len(nodes), len(RESOURCES)), np.nan)
    rows: dict[Workload | None, int] = {None: -1}
    whole: list[HourlyUsage] = []
    which: list[int] = []
    ends = np.zeros(len(nodes) + 1, dtype=np.int64)
    for place, working in enumerate(nodes):
        if working is not None:
            flat[place] = system_usage(working.heard)
            for uid, workload in working.parts:
                row = rows.get(workload)
                if row is None:
                    day = workloads.get(workload) if workload is not None else None
                    row = rows[workload] = -1 if day is None else len(whole)
                    if day is not None:
                        whole.append(day)
                if row >= 0:
                    which.append(row)
                else:
                    usage = np.array(amounts(working.usage_of(uid, workload)))
                    flat[place] += 0.0 if np.isnan(usage).any() else usage
        ends[place + 1] = len(which)
    total = np.repeat(flat[:, :, np.newaxis], SLOTS, axis=2)
    if whole:
        total += _sums(np.array(whole), np.array(which, dtype=np.int64), ends)
    return total


def _sums(days: HourlyUsage, which: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> HourlyUsage:
    """nodes × resources × slots: of the days (workloads × …) those of a node lie one after another in `which`."""
    total = np.zeros((len(ends) - 1, *days.shape[1:]))
    used = np.flatnonzero(np.diff(ends))
    for begin in range(0, len(used), _BLOCK):
        places = used[begin : begin + _BLOCK]
        first, last = ends[places[0]], ends[places[-1] + 1]
        total[places] = np.add.reduceat(days[which[first:last]], ends[places] - first, axis=0)
    return total
