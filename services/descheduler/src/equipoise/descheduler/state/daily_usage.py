"""Forecast usage of pods and nodes in each hour of a day: the sum of the 24-hour profiles of their workloads.

An hour of a node is measured if the usage of enough of its pods was measured in that hour. The other usage is an
assumption: that of a pod without a profile is constant, and an unknown hour of a profile gets the mean of the others.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from equipoise.contracts.configuration.settings import BatchWorkWeight
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import RESOURCES, amounts
from equipoise.contracts.load.daily_profile import SLOTS, DailyProfile, HourlyUsage, system_usage
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.contracts.numeric import Array, Flags, Indexes, np

ProfileOf = Callable[[Workload], DailyProfile | None]
"""The profile of a workload; None if nothing is known about it."""

RunningPod = tuple[str, Workload | None]
"""UID and workload of a pod that counts on a node."""

MEASURED_USAGE = 0.8
"""The least share of the usage of a node's pods, of each resource, that is measured in a measured hour."""

_ROUNDING = 1e-9
"""Rounding error of the sums of usage, as a share of them."""

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
        computed: "Mapping[str, NodeDay] | None" = None,
        batch_work: "BatchWork | None" = None,
    ) -> None:
        """`computed`: days of nodes that are known already."""
        self._batch_work = batch_work or BatchWork()
        self._profile_of = profile_of
        self._pods_of = pods_of
        self._nodes: dict[str, NodeDay] = dict(computed or {})

    def of_pod(self, workload: Workload | None, usage: Resources) -> HourlyUsage | None:
        """resources × slots; resources × 1 without a profile, taken as constant; None when the usage is unknown."""
        profile = self._profile_of(workload) if workload is not None else None
        day = np.array(amounts(usage))[:, np.newaxis] if profile is None or profile.usage is None else profile.usage
        return None if np.isnan(day).any() else day

    def measured_hours_of_pod(self, workload: Workload | None) -> Flags:
        """Whether the usage of the workload's pods was measured, by slot."""
        profile = self._profile_of(workload) if workload is not None else None
        return np.zeros(SLOTS, dtype=np.bool_) if profile is None else profile.measured

    def of_nodes(self, names: Sequence[str]) -> HourlyUsage:
        """nodes × resources × slots; NaN where unknown."""
        return np.array([day.usage for day in self._days(names)]).reshape(-1, len(RESOURCES), SLOTS)

    def measured_hours_of_nodes(self, names: Sequence[str]) -> Flags:
        """nodes × slots: whether enough of the usage of the node's pods was measured in it."""
        return np.array([day.measured for day in self._days(names)], dtype=np.bool_).reshape(-1, SLOTS)

    def changed(self, nodes: Collection[str], pods_of: PodsOfNodes) -> "UsageForecast":
        """The same, with other pods on these nodes."""
        computed = {name: day for name, day in self._nodes.items() if name not in nodes}
        return UsageForecast(self._profile_of, pods_of, computed, self._batch_work)

    def _days(self, names: Sequence[str]) -> "list[NodeDay]":
        missing = [name for name in names if name not in self._nodes]
        if missing:
            days = node_days(self._profile_of, self._pods_of(missing), self._batch_work)
            self._nodes.update(zip(missing, days, strict=True))
        return [self._nodes[name] for name in names]


class NodeDay(msgspec.Struct, frozen=True):
    """The forecast day of a node."""

    usage: HourlyUsage
    """NaN where unknown."""

    measured: Flags
    """Whether the hour is measured, by slot."""


class _ProfileRows:
    """The distinct daily profiles of pods, each in one row."""

    def __init__(self, profile_of: ProfileOf, batch_weight: Array) -> None:
        """`batch_weight`: per resource, the share of the usage of batch work that counts."""
        self.usage: list[HourlyUsage] = []
        self.measured: list[Flags] = []
        self._profile_of = profile_of
        self._batch_weight = batch_weight[:, np.newaxis]
        self.rows: dict[tuple[Workload | None, bool], int] = {(None, False): -1, (None, True): -1}
        """The row of a workload, for batch work (which counts in part) another one; -1 without a profile."""

    def add(self, workload: Workload | None, *, reduced: bool) -> int:
        """The row of one that is not among `rows` yet."""
        profile = self._profile_of(workload) if workload is not None else None
        row = -1
        if profile is not None and profile.usage is not None:
            row = len(self.usage)
            self.usage.append(profile.usage * self._batch_weight if reduced else profile.usage)
            self.measured.append(profile.measured)
        self.rows[workload, reduced] = row
        return row


def node_days(
    profile_of: ProfileOf, nodes: Sequence[NodePods | None], batch_work: BatchWork | None = None
) -> list[NodeDay]:
    """The days of nodes: the usage of each outside its pods, constant, plus the days of all its pods.

    A pod of unknown usage adds nothing: its usage is part of the usage outside the known pods, which then counts as
    usage of pods that was not measured.
    """
    system = np.full((len(nodes), len(RESOURCES)), np.nan)
    constant = np.zeros((len(nodes), len(RESOURCES)))
    unmeasured = np.zeros((len(nodes), len(RESOURCES), SLOTS))
    hides_pods = np.zeros(len(nodes), dtype=np.bool_)
    batch_work = batch_work or BatchWork()
    weight = np.array([batch_work.weight.cpu, batch_work.weight.memory])
    profiles = _ProfileRows(profile_of, weight)
    rows_of_pods: list[int] = []
    ends = np.zeros(len(nodes) + 1, dtype=np.int64)
    for index, node in enumerate(nodes):
        if node is not None:
            system[index] = system_usage(node.utilization)
            for uid, workload in node.pods:
                reduced = uid in batch_work.uids
                row = profiles.rows.get((workload, reduced))  # of every pod of a cluster
                if row is None:
                    row = profiles.add(workload, reduced=reduced)
                if row >= 0:
                    rows_of_pods.append(row)
                    continue
                usage = np.array(amounts(node.usage_of(uid, workload)))
                if np.isnan(usage).any():
                    hides_pods[index] = True
                    continue
                counted = usage * weight if reduced else usage
                constant[index] += counted
                profile = profile_of(workload) if workload is not None else None
                in_hour = np.zeros(SLOTS, dtype=np.bool_) if profile is None else profile.measured
                unmeasured[index] += np.where(in_hour, 0.0, counted[:, np.newaxis])
        ends[index + 1] = len(rows_of_pods)
    pods = np.repeat(constant[:, :, np.newaxis], SLOTS, axis=2)
    if profiles.usage:
        days, hours = np.array(profiles.usage), np.array(profiles.measured)
        rows = np.array(rows_of_pods, dtype=np.int64)
        pods += _sums(days, rows, ends)
        if not hours.all():
            unmeasured += _sums(np.where(hours[:, np.newaxis], 0.0, days), rows, ends)
    hidden = np.where(hides_pods[:, np.newaxis], system, 0.0)[:, :, np.newaxis]
    enough = _is_measured(unmeasured + hidden, pods + hidden)
    total = system[:, :, np.newaxis] + pods
    return [NodeDay(usage, measured_hours) for usage, measured_hours in zip(total, enough, strict=True)]


def _is_measured(unmeasured: Array, pods: Array) -> Flags:
    """nodes × slots, from the usage of each node's pods (nodes × resources × slots). True without pods."""
    return np.asarray((unmeasured <= (1.0 - MEASURED_USAGE + _ROUNDING) * pods).all(axis=1), dtype=np.bool_)


def _sums(days: HourlyUsage, which: Indexes, ends: Indexes) -> HourlyUsage:
    """nodes × resources × slots. `which`: rows of `days`, node after node; `ends`: where those of each node end."""
    total = np.zeros((len(ends) - 1, *days.shape[1:]))
    used = np.flatnonzero(np.diff(ends))
    for begin in range(0, len(used), _BLOCK):
        indexes = used[begin : begin + _BLOCK]
        first, last = ends[indexes[0]], ends[indexes[-1] + 1]
        total[indexes] = np.add.reduceat(days[which[first:last]], ends[indexes] - first, axis=0)
    return total
