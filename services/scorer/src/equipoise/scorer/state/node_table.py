"""All nodes as arrays, one row per node, computed from the latest message of each subject.

A message that was lost or late is repaired by the next one. Rows are computed when a message arrives, so that a
request costs array operations only.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from itertools import compress

import msgspec

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.cluster_messages import ClusterMessages
from equipoise.contracts.load.correction import (
    FUTURE_TOLERANCE,
    RESOURCES,
    UsageOf,
    base_problem,
    is_fresh,
    usage_on_node,
)
from equipoise.contracts.load.demand import EstimateSource, fresh_windows, pod_usage
from equipoise.contracts.load.pressure import fresh_pressure, waiting_for_others
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization
from equipoise.contracts.messages.values.pressure import NodePressure
from equipoise.contracts.numeric import Array, Flags, Rows, np
from equipoise.scorer.decisions.arrays import BandRoom, CandidateNodes, ClusterLoad, Statistic, shortest_known
from equipoise.scorer.decisions.headroom import fits, headroom
from equipoise.scorer.decisions.load_correction import (
    at_least_recent,
    base_amounts,
    corrected_load,
    latest_change,
    measured_part,
    shares_of,
    sums_of_requests_and_limits,
    unexpected_usage,
    weighted_pods,
    window_usages,
    without_recent_usage,
)
from equipoise.scorer.state.cached_cluster_load import CachedClusterLoad
from equipoise.scorer.state.daily_usage import DailyUsage
from equipoise.scorer.state.recent_placements import RecentPlacements
from equipoise.scorer.state.reservations import NegativeReservation
from equipoise.scorer.state.rows.band_rows import BandRows, requested
from equipoise.scorer.state.rows.further_rows import FurtherRows
from equipoise.scorer.state.rows.row_arrays import RowArrays
from equipoise.scorer.state.rows.row_index import RowIndex

UNCHANGED_BY_PODS: tuple[Statistic, ...] = ("deviation", "system")
"""Statistics that a pod does not change, or not in a known way."""


class NodeTable:
    """All known nodes. Rows of removed nodes are reused."""

    def __init__(
        self,
        load: LoadSettings,
        chain: tuple[EstimateSource, ...],
        *,
        statistics: tuple[Statistic, ...] = (),
        placement_spans: tuple[float, ...] = (),
        daily_loads: bool = False,
        further: tuple[str, ...] = (),
        reclaimed_lifetime: float | None = None,
    ) -> None:
        """`chain` is the policy's; the other arguments are what any policy needs: nothing else is kept.

        `reclaimed_lifetime`: seconds for which amounts of bands may be used; None without co-location.
        """
        self._settings = load
        self._chain = chain
        self._statistics = statistics
        self._placements_within = RecentPlacements(placement_spans)
        self._daily = DailyUsage(load.batch_work_weight) if daily_loads else None
        self._further = FurtherRows(load, further) if further else None
        self._bands = None if reclaimed_lifetime is None else BandRows(reclaimed_lifetime)
        self.windows = tuple(window.name for window in load.windows)
        self._lifetimes = np.array([load.lifetime(window) for window in load.windows])
        # The positions of a load that a pod changes: the mean (0) and some statistics.
        self._changed_by_pods = [
            0, *(position for position, name in enumerate(statistics, 1) if name not in UNCHANGED_BY_PODS)
        ]  # fmt: skip
        self.messages = ClusterMessages()
        self._rows = RowIndex()
        self._computed_for: dict[str, NodePlacement] = {}
        """The placement that the row's requests, limits and headroom were computed from, by node."""

        self._changed_at: dict[str, float] = {}
        """The time of the latest change of each placement in `_computed_for`."""

        self._batch_work: dict[str, tuple[PlacedPod, ...]] = {}
        """The pods whose usage counts in part, by node. Nodes without any are absent."""

        self._uncounted: dict[str, Array] = {}
        """The part of the load of batch work that does not count, windows × resources, by node. Nodes without batch
        work are absent."""

        self._free: list[int] = []
        self._table = RowArrays(windows=len(self.windows), statistics=len(statistics))
        self._cluster_load = CachedClusterLoad(self._table)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def names(self) -> Collection[str]:
        """The nodes with a row."""
        return self._rows.names

    @property
    def capacity(self) -> int:
        """Rows of the arrays."""
        return len(self._table)

    # messages

    def on_utilization(self, message: NodeUtilization, now: float) -> bool:
        """Use a node's usage; False for an outdated message."""
        return self.on_utilizations([message], now)[0]

    def on_utilizations(self, messages: Sequence[NodeUtilization], now: float) -> list[bool]:
        """Use many messages at once, in their order. Per message False if it is outdated.

        An array operation takes as long for dozens of nodes as for one.
        """
        used = [self.messages.on_utilization(message, now) for message in messages]
        self._update_rows(dict.fromkeys(message.node for message in compress(messages, used)), now)
        return used

    def on_placement(self, message: NodePlacement, now: float) -> list[PlacedPod] | None:
        """Use a node's placement. Returns the pods that are new on it, or None for an outdated message."""
        known = self.messages.placements.get(message.node)
        if not self.messages.on_placement(message, now):
            return None
        row = self._rows.get(message.node)
        self._update_rows([message.node], now)
        before = frozenset(pod.uid for pod in known.pods) if known is not None else frozenset()
        placed = [pod for pod in message.pods if pod.uid not in before]
        if row is not None and row == self._rows.get(message.node):  # `_update_rows` has counted all pods of a new row
            self._count_placements(row, placed, now)
        return placed

    def on_workload(self, message: WorkloadUtilization, now: float) -> bool:
        """Use a workload's usage; it affects a node from the node's next message on. False for an outdated message."""
        if not self.messages.on_workload(message, now):
            return False
        if self._daily is not None:
            self._daily.on_workload(message)
        return True

    def on_reclaimed(self, message: ReclaimedNode, _: float) -> bool:
        """Use the amounts of a node's bands; False for an outdated message, and without co-location."""
        if self._bands is None or not self._bands.on_message(message):
            return False
        row, placement = self._rows.get(message.node), self.messages.placements.get(message.node)
        if row is not None and placement is not None:
            self._bands.update(row, placement)
        return True

    def prune(self, now: float) -> None:
        """Remove the messages that cannot have a usable value any more."""
        if self._bands is not None:
            self._bands.prune(now)
        for workload, message in list(self.messages.workloads.items()):
            if fresh_windows(message, self._settings, now) is None and now > message.queried_at:
                del self.messages.workloads[workload]
                if self._daily is not None:
                    self._daily.remove_workload(workload)

    # nodes of a request

    def rows(self, names: Sequence[str]) -> Rows:
        """Each node's row; −1 for an unknown node. The array is read-only."""
        return self._rows.rows(names)

    def candidates(
        self,
        names: Sequence[str],
        rows: Rows,
        now: float,
        reserved: Array | None = None,
        *,
        spans: tuple[float, ...] = (),
        without: NegativeReservation | None = None,
    ) -> CandidateNodes:
        """The arrays of these nodes and of the cluster. `reserved` (rows × windows × resources) is added, and the pod
        of `without` is subtracted. `spans` are those of the policy."""
        taken = self._table.take(rows)
        load, base = taken["load"], taken["base"]
        share = None
        if reserved is not None and len(reserved):
            amount = reserved.take(rows, axis=0).reshape(len(rows), -1)
            # windows × resources × nodes, as the arrays of `taken`.
            amount = np.ascontiguousarray(np.maximum(amount, 0.0, out=amount).T)
            share = amount.reshape(len(self.windows), *base.shape) / base  # NaN: unknown node
            for position in self._changed_by_pods:
                load[position] += share
        if without is not None:
            own = rows == without.row
            load[..., own] += without.load[..., np.newaxis]
            taken["requests"][:, own] += without.requests[:, np.newaxis]
            taken["limits"][:, own] += without.limits[:, np.newaxis]
        if taken["begin"].max(initial=-np.inf) > now or taken["end"].min(initial=np.inf) < now:
            times = self._table.take_times(rows)
            unusable = (times["since"] > now) | (times["until"] < now)
            load[:, unusable[:, np.newaxis].repeat(len(RESOURCES), axis=1)] = np.nan
        by_node = load.transpose(0, 3, 1, 2)
        daily = None
        if self._daily is not None:
            # The reservation of the shortest window counts in every hour.
            reserved_daily = np.zeros((len(rows), len(RESOURCES))) if share is None else share[0].T
            daily = self._daily.loads(rows, reserved_daily, now, without)
        return CandidateNodes(
            names=names,
            windows=self.windows,
            load=by_node[0],
            base=base.T,
            cluster=self.cluster_load(now, without),
            statistics=dict(zip(self._statistics, by_node[1:], strict=True)),
            requests=taken["requests"].T,
            limits=taken["limits"].T,
            recent_placements=self.recent_placements(rows, spans, now, without),
            waiting=taken["waiting"],
            daily=daily,
            further=None if self._further is None else self._further.loads(rows, now),
        )

    def band_room(
        self, rows: Rows, now: float, reserved: Array | None = None, without: NegativeReservation | None = None
    ) -> BandRoom | None:
        """What is left of the bands on these nodes, minus what is reserved (rows × bands × resources), and without a
        pod; None without co-location."""
        return None if self._bands is None else self._bands.room(rows, now, reserved, without)

    def reclaimed(self, node: str, now: float) -> ReclaimedNode | None:
        """The reclaimer's latest message about a node; None if it is outdated, or there is none."""
        placement = self.messages.placements.get(node)
        if self._bands is None or placement is None:
            return None
        message = self._bands.message(node, placement.uid)
        return None if message is None or message.evaluated_at + self._bands.lifetime < now else message

    def without(self, node: str, pod: PlacedPod, now: float) -> NegativeReservation | None:
        """What changes in a node's row if a placed pod is not counted; None for a node of unknown load."""
        utilization, placement = self.messages.utilizations.get(node), self.messages.placements.get(node)
        row = self._rows.get(node)
        if row is None or utilization is None or placement is None:
            return None
        remaining = msgspec.structs.replace(placement, pods=[other for other in placement.pods if other.uid != pod.uid])
        usage_of, table = self.pod_usage(now), self._table
        usages = window_usages(
            utilization,
            remaining,
            usage_of,
            load=self._settings,
            statistics=self._statistics,
            batch_work=weighted_pods(remaining),
        )
        load = shares_of(usages, base_amounts(utilization), self._settings, self._statistics)[0]
        load -= measured_part(pod, utilization, usage_of, load=self._settings, statistics=self._statistics)
        load = at_least_recent(np.maximum(load, 0.0), self._settings, self._statistics)
        requests, limits = sums_of_requests_and_limits(remaining)
        daily = self._daily
        return NegativeReservation(
            row=row,
            load=load - table.load[row],
            requests=requests - table.requests[row],
            limits=limits - table.limits[row],
            daily_load=None
            if daily is None
            else daily.change_without(
                row,
                utilization,
                remaining,
                usage_of,
                table.base[row],
                now,
                unexpected_usage(
                    without_recent_usage(utilization, usage_on_node(pod, utilization, usage_of)),
                    remaining,
                    usage_of,
                    self._settings,
                ),
            ),
            placed_at=pod.placed_at,
            band_requests=None if pod.band is None else requested([pod]),
        )

    def recent_placements(
        self, rows: Rows, spans: tuple[float, ...], now: float, without: NegativeReservation | None = None
    ) -> Array:
        """rows × spans: pods placed on each node within each span of seconds; 0 for an unknown node."""
        if not spans:
            return np.zeros((len(rows), 0))
        counts = self._placements_within.counts(self.capacity + 1, spans, now)  # row −1 is the last one: always 0
        if without is not None:
            counts[without.row] -= [without.placed_at > now - span for span in spans]
        return counts[rows]

    def with_headroom(self, requests: Array, chosen: str) -> tuple[list[str], Rows]:
        """The nodes that can take one more pod with these requests, as far as placements show, and the `chosen` one.

        The chosen node is left out if it is unknown or empty.
        """
        [fitting] = fits(self._table.headroom, requests[np.newaxis])
        if (row := self._rows.get(chosen)) is not None:
            fitting[row] = True
        found = [(name, row) for name, row in self._rows.items() if fitting[row]]
        return [name for name, _ in found], np.array([row for _, row in found], np.intp)

    # the cluster

    def cluster_load(self, now: float, without: NegativeReservation | None = None) -> ClusterLoad:
        """The loads of all nodes without reservations: one pod hardly changes the level of a cluster."""
        return self._cluster_load.load(now, len(self), without)

    def current_load(self, now: float) -> tuple[list[str], Array]:
        """The nodes that count for the spread, and nodes × resources: the load in the shortest window that is known.

        All usage of batch work counts.
        """
        names = self._counted()
        load = self.candidates(names, self.rows(names), now).load
        if self._uncounted:
            load = load.copy()
            for index, name in enumerate(names):
                if (uncounted := self._uncounted.get(name)) is not None:
                    load[index] += uncounted
        return names, shortest_known(load)

    def pressures(self, names: Sequence[str], now: float) -> dict[str, NodePressure | None]:
        """The pressure of these nodes as far as moves may be decided by it."""
        utilizations = ((name, self.messages.utilizations.get(name)) for name in names)
        return {
            name: None if latest is None else fresh_pressure(latest, self._settings.freshness, now)
            for name, latest in utilizations
        }

    def requested(self) -> Array:
        """nodes × resources, in the order of `current_load`: what the pods request, as a share of the base."""
        rows = self.rows(self._counted())
        with np.errstate(divide="ignore", invalid="ignore"):
            share: Array = self._table.requests[rows] / self._table.base[rows]
        return np.where(np.isfinite(share), share, np.nan)

    def _counted(self) -> list[str]:
        """The nodes on which ordinary pods may be placed."""
        return [name for name in self._rows.names if not self.messages.placements[name].set_apart]

    def fresh_count(self, now: float) -> int:
        """Number of nodes with a fresh load."""
        return self.cluster_load(now).fresh_count

    def unmeasured_statistics(self) -> list[Statistic]:
        """Statistics that a policy uses and no node has, though some nodes have a mean."""
        if not len(self._rows):
            return []
        load = self._table.load[self.rows(list(self._rows.names))]
        known: Flags = np.logical_not(np.isnan(load).all(axis=(0, 2, 3)))
        return [name for name, there in zip(self._statistics, known[1:], strict=True) if known[0] and not there]

    # pods and workloads

    def workload_usage(self, workload: Workload | None, now: float) -> WorkloadUtilization | None:
        """The usage of a workload's replicas, fresh windows only."""
        return None if workload is None else fresh_windows(self.messages.workloads.get(workload), self._settings, now)

    def daily_profile(self, workload: Workload | None) -> Array | None:
        """resources × slots of one replica; None without a profile, or if no policy uses daily loads."""
        return None if self._daily is None else self._daily.profile_of(workload)

    def pod_usage(self, now: float) -> UsageOf:
        """A function that returns the usage of a pod: as measured, else as expected."""
        return pod_usage(self.messages.workloads, load=self._settings, chain=self._chain, now=now)

    def why_unknown(self, node: str, now: float) -> str:
        """Why this node's load is unknown; empty when it is known."""
        utilization, placement = self.messages.utilizations.get(node), self.messages.placements.get(node)
        if utilization is None:
            return "no utilization was received for it"
        if placement is None:
            return "no placement was received for it"
        if placement.uid != utilization.uid:
            return "its utilization is of an earlier machine with the same name"
        if not utilization.windows:
            return "samples cover none of its windows"
        if not self._table.usable(now)[self._rows[node]].any():
            age = now - utilization.sampled_at
            without_base = base_problem(utilization.base) if age <= self._settings.freshness.score else ""
            return without_base or f"its newest sample is {age:.1f} s old"
        return ""

    # rows

    def _update_rows(self, nodes: Iterable[str], now: float) -> None:
        """Compute the rows of nodes from their latest messages. A node without one of the two is unknown."""
        usage_of, settings = self.pod_usage(now), self._settings
        measured: list[tuple[str, int, NodeUtilization, NodePlacement]] = []
        usages: list[float] = []
        bases: list[float] = []
        sampled: list[float] = []
        constants: list[float] = []
        for node in nodes:
            self._cluster_load.count_change()
            utilization, placement = self.messages.utilizations.get(node), self.messages.placements.get(node)
            if utilization is None or placement is None or placement.uid != utilization.uid:
                self._remove_row(node)
                continue
            row = self._rows.get(node)
            if row is None:
                row = self._add_row(node)
                self._count_placements(row, placement.pods, now)
            if self._computed_for.get(node) is not placement:
                self._use_placement(node, row, placement)
            measured.append((node, row, utilization, placement))
            usages += window_usages(
                utilization,
                placement,
                usage_of,
                load=settings,
                statistics=self._statistics,
                batch_work=self._batch_work.get(node, ()),
                changed_at=self._changed_at[node],
            )
            bases += base_amounts(utilization)
            values = utilization.windows
            sampled += [values[name].sampled_at if name in values else math.nan for name in self.windows]
            sampled.append(utilization.sampled_at)
            pressure = utilization.pressure
            # Its exporter may be another one than that of the load.
            fresh = pressure is not None and is_fresh(pressure.sampled_at, now, settings.freshness.score)
            waiting = waiting_for_others(pressure) if fresh else None
            self._table.waiting[row] = math.nan if waiting is None else waiting
            if self._daily is not None:
                unexpected = unexpected_usage(utilization, placement, usage_of, settings)
                constants += self._daily.constant_usage(row, utilization, placement, usage_of, now, unexpected)
            if self._further is not None:
                self._further.update(row, utilization, placement, usage_of)
        if not measured:
            return
        rows = np.array([row for _, row, _, _ in measured], np.intp)
        load = at_least_recent(shares_of(usages, bases, settings, self._statistics), settings, self._statistics)
        base = np.array(bases).reshape(len(rows), len(RESOURCES))
        self._table.set_loads(
            rows, load, base, *self._usable_times(np.array(sampled).reshape(len(rows), -1), load[:, 0])
        )
        if self._daily is not None:
            self._daily.update(rows, constants, base)
        for index, (node, _, utilization, placement) in enumerate(measured):
            if node in self._batch_work:
                total = corrected_load(utilization, placement, usage_of, load=settings)
                self._uncounted[node] = total[0] - load[index, 0]
            else:
                self._uncounted.pop(node, None)

    def _usable_times(self, sampled: Array, means: Array) -> tuple[Array, Array]:
        """rows × windows: Unix seconds between which the load of each window may be used.

        `sampled`: rows × (windows and the node as a whole). `means`: rows × windows × resources.
        """
        of_windows, of_node = sampled[:, :-1], sampled[:, -1:]
        known = ~np.isnan(means).all(axis=2)
        since = np.where(known, np.maximum(of_windows, of_node) - FUTURE_TOLERANCE, np.inf)
        until = np.minimum(of_windows + self._lifetimes, of_node + self._settings.freshness.score)
        return since, np.where(known, until, -np.inf)

    def _use_placement(self, node: str, row: int, placement: NodePlacement) -> None:
        """Compute the parts of a row that do not depend on measurements."""
        table = self._table
        table.requests[row], table.limits[row] = sums_of_requests_and_limits(placement)
        table.headroom[row] = headroom(placement, table.requests[row])
        if batch_work := weighted_pods(placement):
            self._batch_work[node] = batch_work
        else:
            self._batch_work.pop(node, None)
        if self._bands is not None:
            self._bands.update(row, placement)
        self._computed_for[node], self._changed_at[node] = placement, latest_change(placement, self._settings)

    def _count_placements(self, row: int, pods: Sequence[PlacedPod], now: float) -> None:
        for pod in pods:
            self._placements_within.add(row, pod.placed_at, now)

    def _add_row(self, node: str) -> int:
        if not self._free:
            self._grow()
        row = self._free.pop()
        self._rows.add(node, row)
        return row

    def _remove_row(self, node: str) -> None:
        row = self._rows.pop(node)
        self._computed_for.pop(node, None)
        self._changed_at.pop(node, None)
        self._batch_work.pop(node, None)
        self._uncounted.pop(node, None)
        if row is not None:
            self._table.clear(row)
            self._placements_within.clear(row)
            if self._daily is not None:
                self._daily.clear(row)
            if self._further is not None:
                self._further.clear(row)
            if self._bands is not None:
                self._bands.clear(row)
            self._free.append(row)

    def _grow(self) -> None:
        added = self._table.grow()
        self._rows.compact()
        if self._daily is not None:
            self._daily.grow(len(self._table))
        if self._further is not None:
            self._further.grow(len(self._table))
        if self._bands is not None:
            self._bands.grow(len(self._table))
        self._free.extend(reversed(added))
