"""Forecast usage of pods and nodes in each hour of a day: the sum of the 24-hour profiles of their workloads."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from equipoise.contracts.configuration.settings import BatchWorkWeight
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import RESOURCES, amounts
from equipoise.contracts.load.daily_profile import SLOTS, HourlyUsage, system_usage
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.contracts.numeric import Indexes, np

ProfileOf = Callable[[Workload], HourlyUsage | None]
"""Hourly usage of one replica; None without a profile."""

RunningPod = tuple[str, Workload | None]
"""UID and workload of a pod that counts on a node."""

_BLOCK = 256
"""Nodes whose pods are summed together: their profiles then fit into the processor's cache."""


class NodePods(msgspec.Struct, frozen=True):
    """The pods that count on a node."""

    utilization: NodeUtilization
    pods: Iterable[RunningPod]
    usage_of: Callable[[str, Workload | None], Resources]
    """Current usage of a pod. Called only for workloads without a profile, as it is slow."""


class BatchWork(msgspec.Struct, frozen=True):
    """The pods that give way to others, and how much of their usage counts."""

    uids: Collection[str] = frozenset()
    weight: BatchWorkWeight = BatchWorkWeight()


PodsOfNodes = Callable[[Sequence[str]], Sequence[NodePods | None]]
"""The pods that count on the nodes of these names; None for a node without utilization."""


class UsageForecast:
    """Hourly usage of pods and nodes. Computed when it is read: not every strategy needs it."""

    def __init__(
        self,
        profile_of: ProfileOf,
        pods_of: PodsOfNodes,
        computed: Mapping[str, HourlyUsage] | None = None,
        batch_work: "BatchWork | None" = None,
    ) -> None:
        """`computed`: days of nodes that are known already."""
        self._batch_work = batch_work or BatchWork()
        self._profile_of = profile_of
        self._pods_of = pods_of
        self._nodes: dict[str, HourlyUsage] = dict(computed or {})

    def of_pod(self, workload: Workload | None, usage: Resources) -> HourlyUsage | None:
        """resources × slots; resources × 1 without a profile, taken as constant; None when the usage is unknown."""
        day = self._profile_of(workload) if workload is not None else None
        if day is None:
            day = np.array(amounts(usage))[:, np.newaxis]
        return None if np.isnan(day).any() else day

    def of_nodes(self, names: Sequence[str]) -> HourlyUsage:
        """nodes × resources × slots; NaN where unknown."""
        missing = [name for name in names if name not in self._nodes]
        if missing:
            self._nodes.update(
                zip(missing, node_days(self._profile_of, self._pods_of(missing), self._batch_work), strict=True)
            )
        return np.array([self._nodes[name] for name in names]).reshape(-1, len(RESOURCES), SLOTS)

    def changed(self, nodes: Collection[str], pods_of: PodsOfNodes) -> "UsageForecast":
        """The same, with other pods on these nodes."""
        computed = {name: day for name, day in self._nodes.items() if name not in nodes}
        return UsageForecast(self._profile_of, pods_of, computed, self._batch_work)


def node_days(
    profile_of: ProfileOf, nodes: Sequence[NodePods | None], batch_work: BatchWork | None = None
) -> HourlyUsage:
    """nodes × resources × slots: usage of each node outside its pods, constant, plus the days of all its pods.

    A pod of unknown usage adds nothing: its usage is part of the usage outside the known pods.
    """
    flat = np.full((len(nodes), len(RESOURCES)), np.nan)
    batch_work = batch_work or BatchWork()
    weight = np.array([batch_work.weight.cpu, batch_work.weight.memory])
    rows: dict[tuple[Workload | None, bool], int] = {(None, False): -1, (None, True): -1}
    profiles: list[HourlyUsage] = []
    which: list[int] = []
    ends = np.zeros(len(nodes) + 1, dtype=np.int64)
    for index, node in enumerate(nodes):
        if node is not None:
            flat[index] = system_usage(node.utilization)
            for uid, workload in node.pods:
                reduced = uid in batch_work.uids
                row = rows.get((workload, reduced))
                if row is None:
                    day = profile_of(workload) if workload is not None else None
                    row = rows[workload, reduced] = -1 if day is None else len(profiles)
                    if day is not None:
                        profiles.append(day * weight[:, np.newaxis] if reduced else day)
                if row >= 0:
                    which.append(row)
                else:
                    usage = np.array(amounts(node.usage_of(uid, workload)))
                    flat[index] += 0.0 if np.isnan(usage).any() else usage * weight if reduced else usage
        ends[index + 1] = len(which)
    total = np.repeat(flat[:, :, np.newaxis], SLOTS, axis=2)
    if profiles:
        total += _sums(np.array(profiles), np.array(which, dtype=np.int64), ends)
    return total


def _sums(days: HourlyUsage, which: Indexes, ends: Indexes) -> HourlyUsage:
    """nodes × resources × slots. `which`: rows of `days`, node after node; `ends`: where those of each node end."""
    total = np.zeros((len(ends) - 1, *days.shape[1:]))
    used = np.flatnonzero(np.diff(ends))
    for begin in range(0, len(used), _BLOCK):
        indexes = used[begin : begin + _BLOCK]
        first, last = ends[indexes[0]], ends[indexes[-1] + 1]
        total[indexes] = np.add.reduceat(days[which[first:last]], ends[indexes] - first, axis=0)
    return total
