"""Forecast usage of pods and nodes in each hour of a day: the sum of the 24-hour profiles of their workloads.

An hour of a node is measured if the usage of enough of its pods was measured in that hour. The rest is assumed:
the usage of a pod without a profile is constant, and an unknown hour of a profile gets the mean of the known hours.

A profile was measured with other pods of the workload, and a pod may never run, or be idle. So a node has two days. One
includes the full profiles of all its pods and limits what may be moved to the node. The other one includes only what
the node's own measurements explain, and decides what has to leave it (docs/decisions/0053).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from equipoise.contracts.configuration.settings import BatchWorkWeight
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import RESOURCES, amounts
from equipoise.contracts.load.daily_profile import SLOTS, DailyProfile, HourlyUsage, system_usage
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array, Flags, Indexes, np

ProfileOf = Callable[[Workload], DailyProfile | None]
"""The profile of a workload; None if nothing is known about it."""

RunningPod = tuple[str, Workload | None]
"""UID and workload of a pod that counts on a node."""

MEASURED_USAGE = 0.8
"""An hour of a node is measured if at least this share of its pods' usage of each resource is measured."""

MOST_OF_PRESENT = 4.0
"""What has to leave a node is decided with at most this multiple of a pod's present usage in any hour of its day."""

UNRECORDED_ERROR = 0.25
"""The error of a profile until it is recorded, as a share of the mean of its day."""

_NOT_MEASURED = Resources(cpu=0.0, memory=0.0)

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

    measured: Mapping[str, Resources]
    """The measured usage of pods, by UID. A pod that is moved to the node was measured on the node that it leaves."""


class BatchWork(msgspec.Struct, frozen=True):
    """The pods that give way to others, and how much of their usage counts."""

    uids: Collection[str] = frozenset()
    weight: BatchWorkWeight = BatchWorkWeight()


PodsOfNodes = Callable[[Sequence[str]], Sequence[NodePods | None]]
"""The pods that count on the nodes of these names; None for a node without utilization."""


class UsageForecast:
    """Hourly usage of pods and nodes. It is computed when it is first read: not every strategy needs it."""

    def __init__(
        self,
        profile_of: ProfileOf,
        pods_of: PodsOfNodes,
        computed: "Mapping[str, NodeDay] | None" = None,
        batch_work: "BatchWork | None" = None,
        hour: int = 0,
    ) -> None:
        """`computed`: the days of nodes that were computed before. `hour`: the present hour, a slot of the profiles."""
        self._hour = hour
        self._batch_work = batch_work or BatchWork()
        self._profile_of = profile_of
        self._pods_of = pods_of
        self._nodes: dict[str, NodeDay] = dict(computed or {})
        self._same_nodes: UsageForecast | None = None
        """The forecast that has the days of all nodes except `_changed`."""

        self._changed: Collection[str] = ()
        self.unrecorded: set[Workload] = set()
        """The workloads for whose profiles `error_of_pod` has assumed UNRECORDED_ERROR so far."""

    def of_pod(self, workload: Workload | None, usage: Resources) -> HourlyUsage | None:
        """resources × slots: the forecast day of a pod; resources × 1 for a pod without a profile, whose usage counts
        as constant; None if its usage is unknown."""
        profile = self._profile_of(workload) if workload is not None else None
        day = np.array(amounts(usage))[:, np.newaxis] if profile is None or profile.usage is None else profile.usage
        return None if np.isnan(day).any() else day

    def explained_of_pod(self, workload: Workload | None, usage: Resources, node: str) -> HourlyUsage | None:
        """The part of a measured pod's day that counts in `explained_of_nodes`. The shape is that of `of_pod`, and it
        is None in the same cases.
        """
        day = self.of_pod(workload, usage)
        if day is None or day.shape[1] == 1:
            return day
        present = np.nan_to_num(amounts(usage))[:, np.newaxis]
        explained: HourlyUsage = np.minimum(day, MOST_OF_PRESENT * present)
        return explained * self._days([node])[0].explained_share[:, np.newaxis]

    def error_of_pod(self, workload: Workload | None, usage: Resources) -> Array:
        """Cores and bytes by which an hour of a pod may differ from its day: the recorded error of the profile of its
        workload, else UNRECORDED_ERROR; NaN if the usage of the pod is unknown."""
        profile = self._profile_of(workload) if workload is not None else None
        error = np.array(amounts(Resources() if profile is None else profile.error))
        unrecorded = np.isnan(error)
        if unrecorded.any():
            if workload is not None:
                self.unrecorded.add(workload)
            day = self.of_pod(workload, usage)
            assumed = np.full(len(RESOURCES), np.nan) if day is None else UNRECORDED_ERROR * day.mean(axis=1)
            error = np.where(unrecorded, assumed, error)
        return error

    def errors_of_nodes(self, names: Sequence[str]) -> Array:
        """nodes × resources: the sum of the errors of the node's pods, as if all of them used more in the same hour.

        A pod of unknown usage adds nothing: the hours of its node are not measured.
        """
        errors = np.zeros((len(names), len(RESOURCES)))
        recorded: dict[Workload, list[float]] = {}
        for index, node in enumerate(self._pods_of(names)):
            if node is None:
                continue
            cpu = memory = 0.0
            for uid, workload in node.pods:  # all pods of a cluster
                error = recorded.get(workload) if workload is not None else None
                if error is None:
                    profile = self._profile_of(workload) if workload is not None else None
                    with_day = profile is not None and profile.usage is not None
                    usage = Resources() if with_day else node.usage_of(uid, workload)
                    error = np.nan_to_num(self.error_of_pod(workload, usage)).tolist()
                    if workload is not None and with_day:
                        recorded[workload] = error
                cpu += error[0]
                memory += error[1]
            errors[index] = cpu, memory
        return errors

    def measured_hours_of_pod(self, workload: Workload | None) -> Flags:
        """Whether the usage of the workload's pods was measured, by slot."""
        profile = self._profile_of(workload) if workload is not None else None
        return np.zeros(SLOTS, dtype=np.bool_) if profile is None else profile.measured

    def of_nodes(self, names: Sequence[str]) -> HourlyUsage:
        """nodes × resources × slots; NaN where unknown."""
        return np.array([day.usage for day in self._days(names)]).reshape(-1, len(RESOURCES), SLOTS)

    def explained_of_nodes(self, names: Sequence[str]) -> HourlyUsage:
        """nodes × resources × slots: the part of `of_nodes` that the measurements on the node explain."""
        return np.array([day.explained for day in self._days(names)]).reshape(-1, len(RESOURCES), SLOTS)

    def measured_hours_of_nodes(self, names: Sequence[str]) -> Flags:
        """nodes × slots: whether enough of the usage of the node's pods was measured in it."""
        return np.array([day.measured for day in self._days(names)], dtype=np.bool_).reshape(-1, SLOTS)

    def changed(self, nodes: Collection[str], pods_of: PodsOfNodes) -> "UsageForecast":
        """The forecast after the pods of `nodes` changed. `pods_of` returns their new pods."""
        other = UsageForecast(self._profile_of, pods_of, batch_work=self._batch_work, hour=self._hour)
        other._same_nodes, other._changed = self, frozenset(nodes)
        return other

    def _days(self, names: Sequence[str]) -> "list[NodeDay]":
        missing = [name for name in names if name not in self._nodes]
        if self._same_nodes is not None:
            same = [name for name in missing if name not in self._changed]
            self._nodes.update(zip(same, self._same_nodes._days(same), strict=True))
            missing = [name for name in missing if name in self._changed]
        if missing:
            days = node_days(self._profile_of, self._pods_of(missing), self._batch_work, hour=self._hour)
            self._nodes.update(zip(missing, days, strict=True))
        return [self._nodes[name] for name in names]


class NodeDay(msgspec.Struct, frozen=True):
    """The forecast day of a node."""

    usage: HourlyUsage
    """NaN where unknown."""

    explained: HourlyUsage
    """The part of `usage` that the present measurements on the node explain: no pod is evicted for more."""

    explained_share: Array
    """The factors by which the days of its pods are reduced in `explained`, one per resource, 0..1."""

    measured: Flags
    """Whether the hour is measured, by slot."""


class _ProfileRows:
    """The distinct daily profiles of pods, each in one row."""

    def __init__(self, profile_of: ProfileOf, batch_weight: Array) -> None:
        """`batch_weight`: per resource, the share of the usage of batch work that counts."""
        self.usage: list[HourlyUsage] = []
        self.measured: list[Flags] = []
        self.weights: list[Array] = []
        """The share of the usage that counts, per resource."""

        self._profile_of = profile_of
        self._batch_weight = batch_weight
        self.rows: dict[tuple[Workload | None, bool], int] = {(None, False): -1, (None, True): -1}
        """The row of a workload's pods, by whether they are batch work, whose usage counts in part; -1 without a
        profile."""

    def add(self, workload: Workload | None, *, reduced: bool) -> int:
        """Adds a workload that is not in `rows` yet, and returns its row."""
        profile = self._profile_of(workload) if workload is not None else None
        row = -1
        if profile is not None and profile.usage is not None:
            row = len(self.usage)
            weight = self._batch_weight if reduced else np.ones(len(RESOURCES))
            self.usage.append(profile.usage * weight[:, np.newaxis])
            self.measured.append(profile.measured)
            self.weights.append(weight)
        self.rows[workload, reduced] = row
        return row


def node_days(
    profile_of: ProfileOf, nodes: Sequence[NodePods | None], batch_work: BatchWork | None = None, *, hour: int
) -> list[NodeDay]:
    """The days of nodes. The day of a node is its usage outside its pods, which counts as constant, plus the days of
    its pods.

    A pod of unknown usage adds nothing: its usage is part of the usage outside the known pods, which then counts as
    usage of pods that was not measured.

    `hour`: the present slot. Measurements explain an hour of a pod's day up to MOST_OF_PRESENT times what the pod uses
    now. If the days of a node's pods together exceed, in the present hour, what the pods use now, all hours are reduced
    by the same factor.
    """
    system = np.full((len(nodes), len(RESOURCES)), np.nan)
    constant = np.zeros((len(nodes), len(RESOURCES)))
    explained_constant = np.zeros((len(nodes), len(RESOURCES)))
    unmeasured = np.zeros((len(nodes), len(RESOURCES), SLOTS))
    hides_pods = np.zeros(len(nodes), dtype=np.bool_)
    batch_work = batch_work or BatchWork()
    weight = np.array([batch_work.weight.cpu, batch_work.weight.memory])
    profiles = _ProfileRows(profile_of, weight)
    uids, rows_of_workloads = batch_work.uids, profiles.rows
    rows_of_pods: list[int] = []
    usages: list[Resources] = []
    ends = np.zeros(len(nodes) + 1, dtype=np.int64)
    for index, node in enumerate(nodes):
        if node is not None:
            system[index] = system_usage(node.utilization)
            measured = node.measured
            for uid, workload in node.pods:  # all pods of a cluster
                reduced = uid in uids
                row = rows_of_workloads.get((workload, reduced))
                if row is None:
                    row = profiles.add(workload, reduced=reduced)
                if row >= 0:
                    rows_of_pods.append(row)
                    usages.append(measured.get(uid, _NOT_MEASURED))
                    continue
                usage = np.array(amounts(node.usage_of(uid, workload)))
                if np.isnan(usage).any():
                    hides_pods[index] = True
                    continue
                counted = usage * weight if reduced else usage
                constant[index] += counted
                if uid in measured:
                    explained_constant[index] += counted
                profile = profile_of(workload) if workload is not None else None
                in_hour = np.zeros(SLOTS, dtype=np.bool_) if profile is None else profile.measured
                unmeasured[index] += np.where(in_hour, 0.0, counted[:, np.newaxis])
        ends[index + 1] = len(rows_of_pods)
    pods = np.repeat(constant[:, :, np.newaxis], SLOTS, axis=2)
    explained = np.repeat(explained_constant[:, :, np.newaxis], SLOTS, axis=2)
    share = np.ones((len(nodes), len(RESOURCES)))
    if profiles.usage:
        days, hours = np.array(profiles.usage), np.array(profiles.measured)
        rows = np.array(rows_of_pods, dtype=np.int64)
        of_pods = _sums(days, rows, ends)
        pods += of_pods
        used = _used(usages) * np.array(profiles.weights)[rows]
        bounded = _bounded_sums(of_pods, days, rows, ends, most=MOST_OF_PRESENT * used)
        present, now = bounded[:, :, hour], _sums(used, np.arange(len(used)), ends)
        share = np.divide(now, present, out=share, where=present > now)
        explained += bounded * share[:, :, np.newaxis]
        if not hours.all():
            unmeasured += _sums(np.where(hours[:, np.newaxis], 0.0, days), rows, ends)
    hidden = np.where(hides_pods[:, np.newaxis], system, 0.0)[:, :, np.newaxis]
    enough = _is_measured(unmeasured + hidden, explained + hidden)
    outside = system[:, :, np.newaxis]
    return [NodeDay(*day) for day in zip(outside + pods, outside + explained, share, enough, strict=True)]


def _used(usages: Sequence[Resources]) -> Array:
    """Pods × resources; 0 where it is not known."""
    used = np.array([[usage.cpu for usage in usages], [usage.memory for usage in usages]], dtype=np.float64).T
    return np.where(np.isfinite(used) & (used > 0), used, 0.0)


def _is_measured(unmeasured: Array, pods: Array) -> Flags:
    """nodes × slots, from the usage of each node's pods (nodes × resources × slots). True without pods."""
    return np.asarray((unmeasured <= (1.0 - MEASURED_USAGE + _ROUNDING) * pods).all(axis=1), dtype=np.bool_)


def _sums(days: Array, which: Indexes, ends: Indexes, *, most: Array | None = None) -> Array:
    """The sums of the days of each node's pods: nodes × resources × slots. `which`: rows of `days`, node after node;
    `ends`: where those of each node end.

    `most`: per element of `which` and resource, the highest value that counts.
    """
    total = np.zeros((len(ends) - 1, *days.shape[1:]))
    used = np.flatnonzero(np.diff(ends))
    for begin in range(0, len(used), _BLOCK):
        indexes = used[begin : begin + _BLOCK]
        first, last = ends[indexes[0]], ends[indexes[-1] + 1]
        rows = days[which[first:last]]
        if most is not None:
            np.minimum(rows, most[first:last, :, np.newaxis], out=rows)
        total[indexes] = np.add.reduceat(rows, ends[indexes] - first, axis=0)
    return total


def _bounded_sums(sums: Array, days: Array, which: Indexes, ends: Indexes, *, most: Array) -> Array:
    """The result of `_sums` with `most`. `sums`: the result without it, which is right for nodes where no value exceeds
    it."""
    exceeding = np.flatnonzero((days.max(axis=2)[which] > most).any(axis=1))
    nodes = np.unique(np.searchsorted(ends, exceeding, side="right") - 1)
    lengths = np.diff(ends)
    pods = np.flatnonzero(np.repeat(np.isin(np.arange(len(lengths)), nodes), lengths))
    ends_of_nodes = np.concatenate(([0], np.cumsum(lengths[nodes])))
    bounded = sums.copy()
    bounded[nodes] = _sums(days, which[pods], ends_of_nodes, most=most[pods])
    return bounded
