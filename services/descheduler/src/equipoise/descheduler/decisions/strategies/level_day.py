"""Evens out the forecast day: moves pods so that the 24-hour load of every node, CPU and memory, is the cluster's.

`low_node_load` relieves nodes that are hot now. This strategy uses the daily profiles of workloads, and the current
load as far as profiles are not trusted. The gain of a move is by how much it reduces the sum of the squared distances
between the nodes and the cluster.

An hour counts only if it was measured on most nodes; with fewer than 20 measured hours nothing is planned. A node or
pod that was not measured in an hour that counts takes no part (docs/decisions/0048).

Of batch work only a part counts (`load.batchWorkWeight`), and it is not moved: it
ends within hours. Where memory is almost fully requested, single moves find no target. Then two moves
are planned, one of which makes room for the other: the first is proposed at once, the second once the first is done.

Planned on a trace of 100 nodes (Alibaba 2018, 82 % of the memory requested) with 10 % of the pods moved: single moves
leave a spread of 60 percentage points, pairs of moves 25 to 30.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, partial
from typing import Annotated

import msgspec
from msgspec import Meta

from equipoise.contracts.configuration.settings import Percent, Section, Share
from equipoise.contracts.load.correction import RESOURCES, amounts, uncounted_batch_work
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.contracts.numeric import Array, Flags, np
from equipoise.descheduler.decisions.cluster import ClusterView, MovePlan
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod
from equipoise.descheduler.decisions.planning.node_arrays import MEASURED, row
from equipoise.descheduler.decisions.planning.pools import Selector, Weight
from equipoise.descheduler.decisions.planning.thresholds import shares_of
from equipoise.descheduler.state.day_gain_table import DayGainTable, MovePair, SingleMove
from equipoise.descheduler.state.draft import MOVES_OF_NODE, PlanDraft, name_of_pod
from equipoise.descheduler.state.projection import Projection

_MAX_CELLS = 4_000_000
"""Pods times nodes that a plan considers: in a larger cluster the most uneven nodes come first."""

_BATCH = 200
"""Pods for which pairs are searched at a time, and pairs that are tried for them."""

_MAX_LOAD = 0.95
"""Load (0..1) up to which a node may be filled beyond its high threshold."""

_BATCH_WORK = "it is batch work, which ends within hours"

MEASURED_NODES = 0.8
"""The least share of the nodes of known load on which an hour that counts was measured."""

MEASURED_HOURS = 20
"""The least number of hours that count."""

_SAME_DISTANCE = 0.01
"""Differences between the hours of a day, in load (0..1), below which a reason names no hour."""


class DayWeights(Section, frozen=True, kw_only=True):
    """How much a squared percentage point of each counts."""

    cpu: Weight = 1.0
    memory: Weight = 0.1

    def __post_init__(self) -> None:
        if not self.cpu and not self.memory:
            raise ValueError("weights needs at least one above 0")


class LevelDay(Section, frozen=True, kw_only=True, tag_field="name", tag="level_day"):
    """Its fields are its settings."""

    windows: tuple[str, ...] = ()
    """Windows of the current load; the first predicts. Default: the shortest."""

    node_selector: Selector = Selector()
    """The nodes that are evened out. Others are neither source nor target, and do not count for the mean."""

    threshold: Percent = 3.0
    """A node is hot when its day is this many points above the cluster's: root mean square over hours and resources."""

    current_load_weight: Share = 0.0
    """Weight of the current load; the forecast day has the remainder. Use 0.5 or more where days differ from each
    other. Where days are alike, that makes three times as many moves, because moves then follow the load of every hour.
    """

    min_gain: Annotated[float, Meta(ge=0)] = 15.0
    """Least reduction of the sum of squared distances by a move, in squared points: 11 is the reduction of a node that
    comes from 6 to 5 points above the cluster.
    """

    max_above_mean: Percent = 15.0
    """Points above the cluster's load of an hour up to which a node may be filled, where that is more than its high
    threshold: a busy cluster is evened out too. Never above 95 %, and always as high as the source.
    """

    paired_moves: bool = True
    """Whether a pod may be moved so that another fits in its place."""

    weights: DayWeights = DayWeights()

    def windows_of(self, cluster: ClusterView) -> Sequence[str]:
        """The windows that it uses."""
        return self.windows or (cluster.windows[0],)

    def classify(self, cluster: ClusterView) -> list[NodeClassification]:
        """Every selected node as hot, idle, between or unknown, with its load over the first window."""
        pool = _DayPool(self, cluster, Projection(cluster, self.windows_of(cluster)[0]), with_room=False)
        return [pool.classification(index) for index, node in enumerate(cluster.nodes) if self.selects(node)]

    def selects(self, node: ClusterNode) -> bool:
        return self.node_selector.matches(node.labels)

    def plan(self, cluster: ClusterView, abnormal: Collection[str]) -> MovePlan:
        """The moves with the largest gain from hot nodes among `abnormal`, and moves that make room for them."""
        cluster = msgspec.structs.replace(cluster, nodes=sorted(cluster.nodes, key=lambda node: node.name))
        draft = PlanDraft(cluster, self.windows_of(cluster))
        pool = _DayPool(self, cluster, draft.projection, with_room=True)
        if pool.unmeasured:
            return MovePlan(why=f"not planned: {pool.unmeasured}")
        above = pool.hot()
        if not above:
            return MovePlan(why=f"no node's day is above the cluster's{pool.not_measured_yet()}")
        hot = [index for index in above if cluster.nodes[index].name in abnormal]
        if not hot:
            return MovePlan(why="no node's day has been above the cluster's for long enough")
        return _DayPlanner(self, draft, pool, hot).plan()


class _DayPool:
    """The forecast days of the selected nodes, and which are above the cluster's."""

    def __init__(self, strategy: LevelDay, cluster: ClusterView, projection: Projection, *, with_room: bool) -> None:
        """`projection`: without a move; it is only read.

        `with_room`: whether moves are planned with it. To know what is not requested takes as long as everything else.
        """
        self._strategy = strategy
        self.cluster = cluster
        self.window = strategy.windows_of(cluster)[0]
        self._hours = self._measured_hours()
        """The measured hours of selected nodes of known load, by their index."""

        current = strategy.current_load_weight
        self._counted = _counted_hours(self._hours.values()) if current < 1.0 else np.zeros(SLOTS, dtype=np.bool_)
        """The hours that count."""

        count = int(self._counted.sum())
        too_few = current < 1.0 and bool(self._hours) and count < MEASURED_HOURS
        self.unmeasured = f"the day is not measured yet ({count} of {SLOTS} hours)" if too_few else ""
        """Why no node has a forecast; "" when nodes may have one."""

        self.slots = np.append(self._counted * ((1.0 - current) / count if count else 0.0), current)
        self.resources = np.array([strategy.weights.cpu, strategy.weights.memory])
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
        threshold = self.cluster.thresholds.high.pods
        if threshold is not None:
            column = MEASURED.index("pods")
            allowed = threshold / 100 * projection.base[:, column] - projection.amounts[:, column]
            room[:, column] = np.minimum(room[:, column], np.nan_to_num(allowed))
        return room

    def _measured_hours(self) -> dict[int, Flags]:
        nodes, days = self.cluster.nodes, self.cluster.days
        known = [index for index, node in enumerate(nodes) if not node.unknown and self._strategy.selects(node)]
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
        nodes = self.cluster.nodes
        used = np.full((len(nodes), len(RESOURCES), SLOTS + 1), np.nan)
        explained = used.copy()
        known = [] if self.unmeasured else [index for index, hours in self._hours.items() if self._covers(hours)]
        if known and self.cluster.days is not None:
            names = [nodes[index].name for index in known]
            used[known, :, :SLOTS] = self.cluster.days.of_nodes(names)
            explained[known, :, :SLOTS] = self.cluster.days.explained_of_nodes(names)
            now = projection.amounts[known, : len(RESOURCES)] - self._yielding(known)
            used[known, :, SLOTS] = np.maximum(now, 0.0)
            explained[known, :, SLOTS] = np.maximum(now - projection.expected[known, : len(RESOURCES)], 0.0)
        return used, explained

    def _yielding(self, indexes: Sequence[int]) -> Array:
        """nodes × resources: the part of the current usage of batch work that does not count."""
        weight, nodes = self.cluster.batch_work_weight, self.cluster.nodes
        return np.array(
            [amounts(uncounted_batch_work(nodes[index].batch_work_usages(), weight)) for index in indexes]
        ).reshape(-1, len(RESOURCES))

    def day_of(self, pod: MovablePod) -> tuple[Array, Array] | str:
        """resources × (hours and the current usage): everything, and the part that measurements explain.

        Why it has none when the pod was not measured.
        """
        days, now = self.cluster.days, np.array(amounts(pod.usage))
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
        indexes = np.flatnonzero(self.table.known & (self.above > self._strategy.threshold))
        return [int(index) for index in sorted(indexes, key=lambda index: (-self.above[index], index))]

    def classification(self, index: int) -> NodeClassification:
        node = self.cluster.nodes[index]
        load = node.load(self.window)
        if node.unknown or not self.table.known[index]:
            return NodeClassification(
                node=node.name, state="unknown", load=load, why=node.unknown or self._without_forecast(index)
            )
        if self.above[index] > self._strategy.threshold:
            return NodeClassification(node=node.name, state="hot", load=load, why=self.reason(index))
        idle = self._below[index] > self._strategy.threshold
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


class _DayPlanner:
    """Makes one plan: the table finds the move with the largest gain, the draft whether it is allowed."""

    def __init__(self, strategy: LevelDay, draft: PlanDraft, pool: _DayPool, hot: Sequence[int]) -> None:
        cluster = draft.cluster
        self._strategy = strategy
        self._pool = pool
        self._table = pool.table
        self._nodes = cluster.nodes
        self._draft = draft
        self._min_gain = strategy.min_gain / 1e4
        thresholds = row(shares_of(cluster.thresholds.high), missing=np.inf)[: len(RESOURCES)]
        above_mean = np.minimum(self._table.mean + strategy.max_above_mean / 100, _MAX_LOAD)
        self._ceiling = np.maximum(thresholds[:, np.newaxis], above_mean)
        """resources × slots: no target is filled beyond it, unless the source is as high at that time."""

        self._allowed = np.array([not (node.target_refusal or node.unknown) for node in cluster.nodes], dtype=np.bool_)
        self._unchanged: Callable[[], Projection] = cache(partial(Projection, cluster, pool.window))
        """The cluster without the moves of this plan; computed only when it is needed."""

        pods = max(1, _MAX_CELLS // max(1, len(cluster.nodes)))
        self._add_pods(hot, pods // 2 if strategy.paired_moves else pods)
        self._hot_rows = np.arange(len(self._table.pods))
        if strategy.paired_moves:
            self._add_pods(self._promising_targets(), pods - len(self._table.pods))

    def plan(self) -> MovePlan:
        while self._draft.room > 0 and self._add_best():
            pass
        return self._draft.plan(
            f"no move of their pods would have a gain of {self._strategy.min_gain:g} squared points"
        )

    # which pods are considered

    def _add_pods(self, indexes: Sequence[int], most: int) -> None:
        """Add the pods of these nodes to the table, node by node, at most this many."""
        added: list[MovablePod] = []
        days: list[tuple[Array, Array]] = []
        locations: list[int] = []
        known = set(self._table.location.tolist())
        for index in indexes:
            node = self._nodes[index]
            if index in known or node.unknown:
                continue
            if node.source_refusal:
                self._draft.refuse(node, node.source_refusal)
                continue
            pods, theirs = self._movable(node)
            if added and len(added) + len(pods) > most:
                break
            added += pods
            days += theirs
            locations += [index] * len(pods)
        # All at once: to add to a table is to copy it.
        if added:
            everything, explained = np.array(days).swapaxes(0, 1)
            self._table.add(added, locations, everything, explained, self._allowed)

    def _movable(self, node: ClusterNode) -> tuple[list[MovablePod], list[tuple[Array, Array]]]:
        pods, days = [], []
        for pod in sorted(node.pods, key=lambda pod: (pod.namespace, pod.name, pod.uid)):
            why = pod.protection or (_BATCH_WORK if pod.batch_work else "")
            day = why or self._pool.day_of(pod)
            if isinstance(day, str):
                self._draft.protect(pod, day)
            else:
                pods.append(pod)
                days.append(day)
        return pods, days

    def _promising_targets(self) -> list[int]:
        """Nodes to which a move from a hot node would have a gain, whether the pod fits or not, the largest first."""
        gains = self._table.best_gains(self._hot_rows)
        ordered = np.argsort(-gains, kind="stable")
        return [int(index) for index in ordered if gains[index] > self._min_gain]

    # which moves are planned

    def _add_best(self) -> bool:
        """Plan the move with the largest gain per pod moved; False when none has enough."""
        single = self._best_single()
        min_gain = 2.0 * max(self._min_gain, single.gain if single is not None else 0.0)
        if self._strategy.paired_moves and self._draft.room > 1 and self._add_pair(min_gain):
            return True
        if single is None:
            return False
        source, target = self._node_of(single.pod), self._nodes[single.target]
        self._draft.add(self._table.pods[single.pod], source, target, self._reason_of(single.pod))
        self._table.move(single.pod, single.target)
        return True

    def _best_single(self) -> SingleMove | None:
        while (single := self._table.best_single(self._hot_rows)) is not None and single.gain > self._min_gain:
            if self._may_move(single.pod, single.target, single.pod):
                return single
        return None

    def _add_pair(self, min_gain: float) -> bool:
        """Plan the best pair of moves with a gain above `min_gain`."""
        for pair in self._pairs(min_gain):
            first, second, target = pair.first, pair.second, pair.target
            if not (self._table.valid(pair) and self._may_move(first, pair.elsewhere, second)):
                continue
            after = self._table.used[target] - self._table.day[first] + self._table.day[second]
            # The table checked its requests without the first pod. Host ports cannot be checked that way.
            if self._table.pods[second].info.host_ports or not self._may_leave(second):
                self._table.keep(second)
                continue
            if self._refuses(second, target, after, self._highest(second)):
                continue
            pod, why = self._table.pods[second], self._reason_of(second)
            name, node = name_of_pod(pod), self._nodes[target]
            self._draft.add(
                self._table.pods[first],
                node,
                self._nodes[pair.elsewhere],
                f"makes room on {node.name} for {name} of {pod.node}: {why}",
                makes_room_for=name,
            )
            self._draft.add(pod, self._node_of(second), node, why, later=True)
            self._table.move(first, pair.elsewhere)
            self._table.move(second, target)
            return True
        return False

    def _pairs(self, min_gain: float) -> Iterator[MovePair]:
        """The pairs of the most promising pods first; the others are computed only when those are not allowed."""
        promising = self._table.promising(self._hot_rows)
        for begin in range(0, len(promising), _BATCH):
            seconds = promising[begin : begin + _BATCH]
            yield from self._table.best_pairs(seconds, most=_BATCH, min_gain=min_gain)

    # which moves are allowed

    def _may_move(self, row: int, target: int, relieved: int) -> bool:
        """Checked with the moves planned so far. A move that is not allowed is excluded from the table.

        `relieved`: the pod of the hot node for which the move is planned.
        """
        if not self._may_leave(row):
            return False
        if self._too_high(row, target, self._table.used[target] + self._table.day[row], self._highest(relieved)):
            return False
        pod, fit = self._table.pods[row], self._draft.projection.fit
        if fit.refuses(pod, target):
            if not self._excluded_by_constraints(row, target):
                self._table.exclude(row, target)
            return False
        # What pods of this plan free on a node is not available yet.
        if self._draft.moves_from(self._nodes[target]) and self._unchanged().fit.refuses(pod, target):
            self._table.exclude(row, target)
            return False
        outscored = self._draft.projection.outscored(pod, target)
        if outscored is None:
            self._table.keep(row)
            return False
        if outscored[target]:
            self._table.exclude(row, outscored)
            return False
        return True

    def _may_leave(self, row: int) -> bool:
        pod, node = self._table.pods[row], self._node_of(row)
        if self._draft.room_from(node) <= 0:
            for other in np.flatnonzero(self._table.location == self._table.location[row]):
                self._table.keep(int(other))
            self._draft.refuse(node, MOVES_OF_NODE)
            return False
        if self._draft.busy(pod):
            self._table.keep(row)
            self._draft.refuse(node, "another pod of its workload moves first", pod)
            return False
        return True

    def _refuses(self, row: int, target: int, after: Array, highest: Array) -> bool:
        """Whether the node would be too high, or refuses the pod for other reasons than requests. Then excludes it."""
        return self._too_high(row, target, after, highest) or self._excluded_by_constraints(row, target)

    def _too_high(self, row: int, target: int, after: Array, highest: Array) -> bool:
        """Then the node is excluded."""
        load = after / self._table.base[target][:, np.newaxis] + self._pool.terminating[target][:, np.newaxis]
        if not (load > highest).any():
            return False
        self._table.exclude(row, target)
        return True

    def _excluded_by_constraints(self, row: int, target: int) -> bool:
        """Whether the node refuses the pod for other reasons than requests: then all nodes that do are excluded."""
        fit, pod = self._draft.projection.fit, self._table.pods[row]
        if not fit.refuses(pod, target, constraints=True):
            return False
        self._table.exclude(row, fit.constraint_refusals(pod))
        return True

    def _highest(self, row: int) -> Array:
        """resources × slots: how high a target may be after a move that relieves the pod's node."""
        source = self._table.location[row]
        load: Array = self._table.explained[source] / self._table.base[source][:, np.newaxis]
        highest: Array = np.maximum(self._ceiling, load)
        return highest

    def _node_of(self, row: int) -> ClusterNode:
        return self._nodes[int(self._table.location[row])]

    def _reason_of(self, row: int) -> str:
        return self._pool.reason(int(self._table.location[row]))
