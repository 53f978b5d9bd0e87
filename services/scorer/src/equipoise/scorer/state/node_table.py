"""The whole picture: the last word of every node, its placement and its workloads, kept as arrays.

State is the last message of each subject; anything lost or late is healed by the next one. What a message changes is
worked out when it comes, so that a question costs array operations only.
"""

import copy
import math
from collections.abc import Sequence
from itertools import repeat

import msgspec
import numpy as np

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import FUTURE_TOLERANCE, RESOURCES, UsageOf
from equipoise.contracts.load.demand import EstimateSource, fresh_windows, pod_usage
from equipoise.contracts.load.latest import supersedes, supersedes_measurement
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization
from equipoise.scorer.state.arrays import Array, Flags, FleetLoads, NodeLoads, Rows, Statistic, shortest_known
from equipoise.scorer.state.daily_usage import FleetDays
from equipoise.scorer.state.load_correction import (
    base_of,
    compensated_load,
    measured_part,
    requested_and_limited,
)
from equipoise.scorer.state.recent_placements import Arrivals
from equipoise.scorer.state.room import fits, room_of
from equipoise.scorer.state.table import Table

_SNAPSHOT_LIFE = 1.0
"""Seconds."""

_UNMOVED: tuple[Statistic, ...] = ("deviation", "system")
"""Statistics that a pod on its way does not change."""


class Fleet:
    """All nodes this scorer has heard of. One row per node; rows of removed nodes are used again."""

    def __init__(
        self,
        load: LoadSettings,
        chain: tuple[EstimateSource, ...],
        *,
        statistics: tuple[Statistic, ...] = (),
        counted_within: tuple[float, ...] = (),
        also_counted_within: tuple[float, ...] = (),
        days: bool = False,
    ) -> None:
        """`statistics`, `counted_within` and `days` are the policy's: what nobody looks at is not kept.

        `also_counted_within`: more spans that `placed` is asked for.
        """
        self._settings = load
        self._chain = chain
        self._statistics = statistics
        self._moved = [0, *(row for row, name in enumerate(statistics, 1) if name not in _UNMOVED)]
        self._counted_within = counted_within
        self._arrivals = Arrivals(counted_within, also_counted_within)
        self._days = FleetDays() if days else None
        self._windows = tuple(window.name for window in load.windows)
        self._lives = [(window, load.lifetime(window)) for window in load.windows]
        self._utilizations: dict[str, NodeUtilization] = {}
        self._placements: dict[str, NodePlacement] = {}
        self._removed_at: dict[str, float] = {}
        self._workloads: dict[Workload, WorkloadUtilization] = {}
        self._rows: dict[str, int] = {}
        self._sized: dict[str, NodePlacement] = {}
        """By node, the placement that its row's requests, limits and room come from."""

        self._free: list[int] = []
        self._table = Table(windows=len(self._windows), statistics=len(statistics))
        self._snapshot = FleetLoads(self._table.load[:, 0])
        self._snapshot_at = -np.inf
        self._changes = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def capacity(self) -> int:
        """Rows of the arrays."""
        return len(self._table)

    @property
    def windows(self) -> tuple[str, ...]:
        return self._windows

    # what is heard

    def utilization(self, message: NodeUtilization, now: float) -> bool:
        """Take a node's usage; False when it is older than what is held.

        A new UID is a new machine under an old name. After a life without news any message is taken: a node that
        went over to a collector which began earlier must not stay unknown.
        """
        placement = self._placements.get(message.node)
        if placement is not None and placement.removed and placement.uid == message.uid:
            return False
        held = self._utilizations.get(message.node)
        same = held if held is None or held.uid == message.uid else None
        if not supersedes_measurement(message, same):
            return False
        self._utilizations[message.node] = message
        self._refresh(message.node, now)
        return True

    def placement(self, message: NodePlacement, now: float) -> list[PlacedPod] | None:
        """Take a node's placement; the pods it newly holds, or None when it is older than what is held."""
        held = self._placements.get(message.node)
        if held is not None and held.uid == message.uid and not supersedes(message, held):
            return None
        # A removed node's message stays for a while, so that a late one cannot bring the node back.
        self._placements[message.node] = message
        self._removed_at.pop(message.node, None)
        if message.removed:
            self._removed_at[message.node] = now
            self._utilizations.pop(message.node, None)
        row = self._rows.get(message.node)
        self._refresh(message.node, now)
        before = frozenset(pod.uid for pod in held.pods) if held is not None else frozenset()
        arrived = [pod for pod in message.pods if pod.uid not in before]
        if row is not None and row == self._rows.get(message.node):
            self._count(row, arrived, now)
        return arrived

    def workload(self, message: WorkloadUtilization) -> bool:
        """Take a workload's usage; nodes use it from their next message on."""
        held = self._workloads.get(message.workload)
        if not supersedes_measurement(message, held):
            return False
        self._workloads[message.workload] = message
        if self._days is not None:
            self._days.learn(message)
        return True

    def forget(self, now: float) -> None:
        """Workloads and nodes come and go for ever: drop what can have no usable value any more."""
        for node, removed_at in list(self._removed_at.items()):
            if now - removed_at > self._settings.freshness.score:
                del self._removed_at[node], self._placements[node]
                self._utilizations.pop(node, None)
        for workload, message in list(self._workloads.items()):
            if fresh_windows(message, self._settings, now) is None and now > message.queried_at:
                del self._workloads[workload]
                if self._days is not None:
                    self._days.forget(workload)

    # what is asked

    def usage_of(self, workload: Workload | None, now: float) -> WorkloadUtilization | None:
        """What a workload's replicas use, as far as it is fresh."""
        return None if workload is None else fresh_windows(self._workloads.get(workload), self._settings, now)

    def rows(self, names: Sequence[str]) -> Rows:
        """Each node's row; −1 for one that was never heard of."""
        return np.fromiter(map(self._rows.get, names, repeat(-1)), dtype=np.intp, count=len(names))

    def loads(self, names: Sequence[str], rows: Rows, now: float, booked: Array | None = None) -> NodeLoads:
        """The loads of these nodes, with what is booked on them (rows × windows × resources), and of the fleet."""
        taken = self._table.take(rows)
        load = taken["load"]
        if booked is not None and len(booked):
            on_its_way = np.maximum(booked.take(rows, axis=0), 0.0).transpose(1, 2, 0)
            load[self._moved] += on_its_way / taken["base"]  # of an unheard node whatever it is: its load is unknown
        unusable = (taken["since"] > now) | (taken["until"] < now)
        if unusable.any():
            load[:, unusable[:, np.newaxis].repeat(len(RESOURCES), axis=1)] = np.nan
        by_node = load.transpose(0, 3, 1, 2)
        return NodeLoads(
            names=names,
            windows=self._windows,
            load=by_node[0],
            base=taken["base"].T,
            fleet=self.snapshot(now),
            statistics=dict(zip(self._statistics, by_node[1:], strict=True)),
            requested=taken["requested"].T,
            limited=taken["limited"].T,
            placed=self.placed(rows, self._counted_within, now),
            days=None if self._days is None else self._days.of(rows, booked, now),
        )

    def snapshot(self, now: float) -> FleetLoads:
        """All nodes' loads of a moment ago: as of now for a small fleet, else at most a second old, and until a
        fiftieth of its nodes have changed. What is booked is not in it: a level hardly moves by one pod.
        """
        if not (self._changes <= len(self) // 50 and 0.0 <= now - self._snapshot_at < _SNAPSHOT_LIFE):
            self._snapshot = FleetLoads(np.where(self._usable(now)[:, :, np.newaxis], self._table.load[:, 0], np.nan))
            self._snapshot_at, self._changes = now, 0
        return self._snapshot

    def unmeasured(self) -> list[Statistic]:
        """What a policy looks at and no node has, though nodes are known."""
        if not self._rows:
            return []
        load = self._table.load[list(self._rows.values())]
        known: Flags = np.logical_not(np.isnan(load).all(axis=(0, 2, 3)))
        return [name for name, there in zip(self._statistics, known[1:], strict=True) if known[0] and not there]

    def day_of(self, workload: Workload | None) -> Array | None:
        """resources × slots of one replica; None when it has no day, or no policy looks at days."""
        return None if self._days is None else self._days.of_workload(workload)

    def placed(self, rows: Rows, within: tuple[float, ...], now: float) -> Array:
        """rows × spans: how many pods each node was given within so many seconds; 0 for one never heard of."""
        counts = self._arrivals.counts(self.capacity, now, within)
        return np.where((rows >= 0)[:, np.newaxis], counts[rows], 0.0) if len(counts) else np.zeros((len(rows), 0))

    def candidates(self, requests: Array, chosen: str) -> tuple[list[str], Rows]:
        """Nodes that could hold one pod more that requests this, as far as placements tell; and the chosen one.

        The chosen one is left out when it is not known, or none is chosen (empty).
        """
        fitting = fits(self._table.room, requests)
        if (row := self._rows.get(chosen)) is not None:
            fitting[row] = True
        found = [(name, row) for name, row in self._rows.items() if fitting[row]]
        return [name for name, _ in found], np.array([row for _, row in found], np.intp)

    def current_load(self, now: float) -> tuple[list[str], Array]:
        """Every node's name, and nodes × resources: its load in the shortest window that it has measured."""
        names = list(self._rows)
        return names, shortest_known(self.loads(names, self.rows(names), now).load)

    def fresh_count(self, now: float) -> int:
        """Nodes with a load that may be used."""
        return self.snapshot(now).fresh

    def last_words(self, node: str) -> tuple[NodeUtilization | None, NodePlacement | None]:
        """What was last heard of a node; None for what never was, or not of the machine that bears its name now."""
        utilization, placement = self._utilizations.get(node), self._placements.get(node)
        if placement is not None and placement.removed:
            return None, None
        same = utilization is None or placement is None or utilization.uid == placement.uid
        return utilization if same else None, placement

    def find(self, namespace: str, name: str) -> tuple[str, PlacedPod] | None:
        """The pod of this name and its node; of several the one that stays, then the youngest."""
        found = [
            (node, pod)
            for node, placement in self._placements.items()
            for pod in placement.pods
            if pod.name == name and pod.namespace == namespace and not placement.removed
        ]
        return max(found, key=lambda each: (not each[1].terminating, each[1].placed_at), default=None)

    def pod_usage(self, now: float) -> UsageOf:
        """A function that tells what a pod uses: as measured, else as expected."""
        return pod_usage(self._workloads, load=self._settings, chain=self._chain, now=now)

    def without(self, node: str, pod: PlacedPod, now: float) -> "Fleet":
        """The fleet as it would be without this pod on this node, to ask as if the pod had no node yet.

        A copy for one question; what is heard goes to this fleet.
        """
        utilization, placement = self._utilizations.get(node), self._placements.get(node)
        row = self._rows.get(node)
        if row is None or utilization is None or placement is None:
            return self
        other = copy.copy(self)
        other._table = self._table.own_copy()
        if self._days is not None:
            other._days = self._days.own_copy()
        other._arrivals = self._arrivals.without(row, pod.placed_at)
        rest = [each for each in placement.pods if each.uid != pod.uid]
        other._placements = self._placements | {node: msgspec.structs.replace(placement, pods=rest)}
        other._refresh(node, now)
        other._snapshot_at = -np.inf
        part = measured_part(pod, utilization, self.pod_usage(now), load=self._settings, statistics=self._statistics)
        other._table.load[row] = np.maximum(other._table.load[row] - part, 0.0)
        return other

    def why_unknown(self, node: str, now: float) -> str:
        """Why this node's load is not known; empty when it is."""
        utilization, placement = self._utilizations.get(node), self._placements.get(node)
        if utilization is None:
            return "no utilization was heard of it"
        if placement is None or placement.removed:
            return "no placement was heard of it"
        if placement.uid != utilization.uid:
            return "its utilization is that of another machine of this name"
        if not utilization.windows:
            return "samples cover none of its windows"
        if not self._usable(now)[self._rows[node]].any():
            return f"its newest sample is {now - utilization.sampled_at:.1f} s old"
        return ""

    def _usable(self, now: float) -> Flags:
        usable: Flags = (self._table.since <= now) & (now <= self._table.until)
        return usable

    # rows

    def _refresh(self, node: str, now: float) -> None:
        """Work out a node's row from its last messages. A node of which one half is missing is unknown."""
        self._changes += 1
        utilization, placement = self._utilizations.get(node), self._placements.get(node)
        if utilization is None or placement is None or placement.removed or placement.uid != utilization.uid:
            self._clear(node)
            return
        if node not in self._rows:
            self._count(self._row(node), placement.pods, now)
        row = self._rows[node]
        rows = compensated_load(
            utilization,
            placement,
            self._workloads,
            load=self._settings,
            chain=self._chain,
            now=now,
            statistics=self._statistics,
        )
        table = self._table
        table.load[row], table.base[row] = rows, base_of(utilization)
        if self._sized.get(node) is not placement:
            table.requested[row], table.limited[row] = requested_and_limited(placement)
            table.room[row] = room_of(placement, table.requested[row])
            self._sized[node] = placement
        if self._days is not None:
            usage_of = pod_usage(self._workloads, load=self._settings, chain=self._chain, now=now)
            self._days.take(row, utilization, placement, usage_of, table.base[row])
        means, newest = rows[0].tolist(), utilization.sampled_at + self._settings.freshness.score
        for index, (window, life) in enumerate(self._lives):
            value = utilization.windows.get(window.name)
            if value is None or all(map(math.isnan, means[index])):
                table.since[row, index], table.until[row, index] = math.inf, -math.inf
                continue
            table.since[row, index] = max(value.sampled_at, utilization.sampled_at) - FUTURE_TOLERANCE
            table.until[row, index] = min(value.sampled_at + life, newest)

    def _count(self, row: int, pods: Sequence[PlacedPod], now: float) -> None:
        for pod in pods:
            self._arrivals.add(row, pod.placed_at, now)

    def _row(self, node: str) -> int:
        if not self._free:
            self._grow()
        row = self._rows[node] = self._free.pop()
        return row

    def _clear(self, node: str) -> None:
        row = self._rows.pop(node, None)
        self._sized.pop(node, None)
        if row is not None:
            self._table.clear(row)
            self._arrivals.drop(row)
            if self._days is not None:
                self._days.drop(row)
            self._free.append(row)

    def _grow(self) -> None:
        added = self._table.grow()
        # Copies of the names, one after the other in memory: a look-up compares with the name that is held, and those
        # of the messages lie scattered among all pods. It halves the time of 500 look-ups in 5,000 nodes.
        self._rows = {name[:1] + name[1:]: row for name, row in self._rows.items()}
        if self._days is not None:
            self._days.grow(len(self._table))
        self._free.extend(reversed(added))
