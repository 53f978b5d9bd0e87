"""The forecast days of nodes, and which of them are above the cluster's."""

from collections.abc import Callable, Collection, Sequence

from equipoise.contracts.load.correction import RESOURCES, amounts, uncounted_batch_work
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.contracts.numeric import Array, Flags, np
from equipoise.descheduler.decisions.cluster import ClusterView
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod
from equipoise.descheduler.decisions.planning.node_arrays import MEASURED
from equipoise.descheduler.state.day_gain_table import DayGainTable
from equipoise.descheduler.state.projection import Projection

MEASURED_NODES = 0.8
"""The least share of the nodes of known load on which an hour that counts was measured."""

MEASURED_HOURS = 20
"""The least number of hours that count."""

_SAME_DISTANCE = 0.01
"""Differences between the hours of a day, in load (0..1), below which a reason names no hour."""


class DayPool:
    """The forecast days of the selected nodes, and which are above the cluster's."""

    def __init__(
        self,
        cluster: ClusterView,
        projection: Projection,
        *,
        window: str,
        selects: Callable[[ClusterNode], bool],
        threshold: float,
        current_load_weight: float,
        weights: Sequence[float],
        with_room: bool,
    ) -> None:
        """`projection`: the cluster without a move; it is only read.

        `window`: the window whose usage is the current load. `selects`: whether a node belongs to the pool.
        `threshold`: points above and below the cluster's day. `weights`: the weights of the resources.
        `with_room`: whether moves are planned with the pool, for which it computes what is not requested on each node.
        That takes as long as everything else.
        """
        self._cluster = cluster
        self._window = window
        self._selects = selects
        self._threshold = threshold
        self._hours = self._measured_hours()
        """The measured hours of selected nodes of known load, by their index."""

        current = current_load_weight
        self._counted = _counted_hours(self._hours.values()) if current < 1.0 else np.zeros(SLOTS, dtype=np.bool_)
        """The hours that count."""

        count = int(self._counted.sum())
        too_few = current < 1.0 and bool(self._hours) and count < MEASURED_HOURS
        self.unmeasured = f"the day is not measured yet ({count} of {SLOTS} hours)" if too_few else ""
        """Why no node has a forecast; "" when nodes may have one."""

        self.slots = np.append(self._counted * ((1.0 - current) / count if count else 0.0), current)
        self.resources = np.array(weights)
        base = projection.base[:, : len(RESOURCES)]
        self.terminating: Array = projection.terminating[:, : len(RESOURCES)] / base
        """nodes × resources: the load of terminating pods. It counts for targets, at all hours: its end is unknown."""

        used, explained = self._used(projection)
        room = self._room(projection) if with_room else np.zeros((len(base), len(MEASURED)))
        self.table = DayGainTable(used, explained, base, room, slots=self.slots, resources=self.resources)
        self._distance = self.table.distance(self.table.explained)
        above = np.maximum(self._distance, 0.0) ** 2 @ self.slots @ self.resources
        below = np.minimum(self.table.distance(self.table.used), 0.0) ** 2 @ self.slots @ self.resources
        self.above: Array = 100.0 * np.sqrt(above / self.resources.sum())
        """Points per node: how far its day is above the cluster's, in the hours in which it is."""

        self._below: Array = 100.0 * np.sqrt(below / self.resources.sum())

    def _room(self, projection: Projection) -> Array:
        """nodes × (cores, bytes, pods) that may still be requested, within the threshold on the number of pods."""
        room = projection.fit.room
        threshold = self._cluster.thresholds.high.pods
        if threshold is not None:
            column = MEASURED.index("pods")
            allowed = threshold / 100 * projection.base[:, column] - projection.amounts[:, column]
            room[:, column] = np.minimum(room[:, column], np.nan_to_num(allowed))
        return room

    def _measured_hours(self) -> dict[int, Flags]:
        nodes, days = self._cluster.nodes, self._cluster.days
        known = [index for index, node in enumerate(nodes) if not node.unknown and self._selects(node)]
        if not known or days is None:
            return {}
        hours = days.measured_hours_of_nodes([nodes[index].name for index in known])
        return dict(zip(known, hours, strict=True))

    def _covers(self, hours: Flags) -> bool:
        """Whether all hours that count are among these."""
        return bool(hours[self._counted].all())

    def not_measured_yet(self) -> str:
        """`; the day of 3 nodes is not measured yet`, or nothing."""
        count = sum(not self._covers(hours) for hours in self._hours.values())
        return f"; the day of {count} {'node' if count == 1 else 'nodes'} is not measured yet" if count else ""

    def _used(self, projection: Projection) -> tuple[Array, Array]:
        """nodes × resources × (hours and the current load): everything, and the part that measurements explain."""
        nodes = self._cluster.nodes
        used = np.full((len(nodes), len(RESOURCES), SLOTS + 1), np.nan)
        explained = used.copy()
        known = [] if self.unmeasured else [index for index, hours in self._hours.items() if self._covers(hours)]
        if known and self._cluster.days is not None:
            names = [nodes[index].name for index in known]
            used[known, :, :SLOTS] = self._cluster.days.of_nodes(names)
            explained[known, :, :SLOTS] = self._cluster.days.explained_of_nodes(names)
            now = projection.amounts[known, : len(RESOURCES)] - self._yielding(known)
            used[known, :, SLOTS] = np.maximum(now, 0.0)
            explained[known, :, SLOTS] = np.maximum(now - projection.expected[known, : len(RESOURCES)], 0.0)
        return used, explained

    def _yielding(self, indexes: Sequence[int]) -> Array:
        """nodes × resources: the part of the current usage of batch work that does not count."""
        weight, nodes = self._cluster.batch_work_weight, self._cluster.nodes
        return np.array(
            [amounts(uncounted_batch_work(nodes[index].batch_work_usages(), weight)) for index in indexes]
        ).reshape(-1, len(RESOURCES))

    def day_of(self, pod: MovablePod) -> tuple[Array, Array] | str:
        """resources × (hours and the current usage): everything, and the part that measurements explain.

        Why it has none when the pod was not measured.
        """
        days, now = self._cluster.days, np.array(amounts(pod.usage))
        day = None if days is None else days.of_pod(pod.workload, pod.usage)
        explained = None if days is None else days.explained_of_pod(pod.workload, pod.usage, pod.node)
        if days is None or day is None or explained is None or np.isnan(now).any():
            return "its usage is not known"
        hours = days.measured_hours_of_pod(pod.workload)
        if not self._covers(hours):
            return _not_measured(hours)
        return _with_present(day, now), _with_present(explained, now)

    def hot(self) -> list[int]:
        """Indexes of the hot nodes, the highest first."""
        indexes = np.flatnonzero(self.table.known & (self.above > self._threshold))
        return [int(index) for index in sorted(indexes, key=lambda index: (-self.above[index], index))]

    def classification(self, index: int) -> NodeClassification:
        node = self._cluster.nodes[index]
        load = node.load(self._window)
        if node.unknown or not self.table.known[index]:
            return NodeClassification(
                node=node.name, state="unknown", load=load, why=node.unknown or self._without_forecast(index)
            )
        if self.above[index] > self._threshold:
            return NodeClassification(node=node.name, state="hot", load=load, why=self.reason(index))
        idle = self._below[index] > self._threshold
        return NodeClassification(node=node.name, state="idle" if idle else "between", load=load)

    def _without_forecast(self, index: int) -> str:
        hours = self._hours.get(index)
        measured = hours is None or (not self.unmeasured and self._covers(hours))
        return "it has no forecast" if hours is None or measured else _not_measured(hours)

    def reason(self, index: int) -> str:
        """`its day is 12.3 points above the cluster's, most in cpu at 14:00 UTC: 78.1% against 51.0%`.

        Without the time if all times that count have about the same distance.
        """
        times = np.flatnonzero(self.slots)
        weighted = self._distance[index][:, times] * self.resources[:, np.newaxis]
        resource, time = np.unravel_index(int(weighted.argmax()), weighted.shape)
        slot = int(times[time])
        when = f" at {slot:02}:00 UTC" if slot < SLOTS else " now"
        if np.ptp(self._distance[index, resource, times]) < _SAME_DISTANCE:
            when = ""
        mean = self.table.mean[resource, slot]
        load = mean + self._distance[index, resource, slot]
        return (
            f"its day is {self.above[index]:.1f} points above the cluster's, most in {RESOURCES[resource]}{when}: "
            f"{load:.1%} against {mean:.1%}"
        )


def _counted_hours(measured: Collection[Flags]) -> Flags:
    """The hours that were measured on most nodes, from the measured hours of each node."""
    if not measured:
        return np.zeros(SLOTS, dtype=np.bool_)
    return np.asarray(np.mean(list(measured), axis=0) >= MEASURED_NODES, dtype=np.bool_)


def _with_present(day: Array, now: Array) -> Array:
    """resources × (hours and the current usage)."""
    both: Array = np.empty((len(RESOURCES), SLOTS + 1))
    both[:, :SLOTS], both[:, SLOTS] = day, now
    return both


def _not_measured(hours: Flags) -> str:
    return f"its day is not measured yet ({int(hours.sum())} of {SLOTS} hours)"
