"""The moves that even out the forecast day: single moves, and pairs in which one move makes room for the other."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

import msgspec

from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.numeric import Array, np
from equipoise.descheduler.decisions.cluster import MovePlan
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod
from equipoise.descheduler.decisions.planning.day_pool import DayPool
from equipoise.descheduler.decisions.planning.node_arrays import row
from equipoise.descheduler.decisions.planning.target_selection import TargetNodes, is_within_limits, target_nodes
from equipoise.descheduler.decisions.planning.thresholds import filling, shares_of
from equipoise.descheduler.state.day_gain_table import MovePair, SingleMove
from equipoise.descheduler.state.draft import MOVES_OF_NODE, PlanDraft, name_of_pod
from equipoise.descheduler.state.projection import Projection

_MAX_CELLS = 4_000_000
"""The maximum number of pods times nodes that a plan considers. In a larger cluster the most uneven nodes come
first."""

_BATCH = 200
"""The number of pods for which pairs are searched at a time, and the maximum number of pairs that are tried for
them."""

_MAX_LOAD = 0.95
"""Load (0..1) up to which a node may be filled beyond its high threshold."""

_BATCH_WORK = "it is batch work, which ends within hours"


class DayPlanner:
    """Makes one plan: the table finds the move with the largest gain, and the draft decides whether it is allowed."""

    def __init__(
        self,
        draft: PlanDraft,
        pool: DayPool,
        hot: Sequence[int],
        *,
        window: str,
        min_gain: float,
        max_above_mean: float,
        paired_moves: bool,
    ) -> None:
        """`hot`: indexes of nodes, the highest first. `window`: the window whose usage is the current load.

        `min_gain` is in squared points, `max_above_mean` in points.
        """
        cluster = draft.cluster
        self._paired_moves = paired_moves
        self._pool = pool
        self._table = pool.table
        self._nodes = cluster.nodes
        self._draft = draft
        self._min_gain = min_gain / 1e4
        thresholds = row(shares_of(cluster.thresholds.high), missing=np.inf)[: len(RESOURCES)]
        above_mean = np.minimum(self._table.mean + max_above_mean / 100, _MAX_LOAD)
        self._ceiling = np.maximum(thresholds[:, np.newaxis], above_mean)
        """resources × slots: the highest load of a target, unless the load of the source is higher at that time."""

        self._targets = _present_targets(draft)
        self._place = {int(row): place for place, row in enumerate(self._targets.rows)}
        self._allowed = np.zeros(len(cluster.nodes), dtype=np.bool_)
        self._allowed[self._targets.rows] = True
        self._unchanged: Callable[[], Projection] = cache(partial(Projection, cluster, window))
        """The cluster without the moves of this plan; computed only when it is needed."""

        pods = max(1, _MAX_CELLS // max(1, len(cluster.nodes)))
        self._add_pods(hot, pods // 2 if paired_moves else pods)
        self._hot_rows = np.arange(len(self._table.pods))
        if paired_moves:
            self._add_pods(self._promising_targets(), pods - len(self._table.pods))

    def plan(self) -> MovePlan:
        while self._draft.room > 0 and self._add_best():
            pass
        return self._draft.plan(f"no move of their pods would have a gain of {self._min_gain * 1e4:g} squared points")

    # which pods are considered

    def _add_pods(self, indexes: Sequence[int], most: int) -> None:
        """Adds the pods of these nodes to the table, node by node, at most `most` pods."""
        added: list[MovablePod] = []
        days: list[tuple[Array, Array]] = []
        locations: list[int] = []
        in_table = set(self._table.location.tolist())
        for index in indexes:
            node = self._nodes[index]
            if index in in_table or node.unknown:
                continue
            if node.source_refusal:
                self._draft.refuse(node, node.source_refusal)
                continue
            pods, days_of_pods = self._movable(node)
            if added and len(added) + len(pods) > most:
                break
            added += pods
            days += days_of_pods
            locations += [index] * len(pods)
        # All pods are added at once, because each addition copies the table.
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
        """Plans the move, or pair of moves, with the largest gain per moved pod; False if none has enough."""
        single = self._best_single()
        min_gain = 2.0 * max(self._min_gain, single.gain if single is not None else 0.0)
        if self._paired_moves and self._draft.room > 1 and self._add_pair(min_gain):
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
            if self._exceeds_present_limits(second, target, leaving=self._table.pods[first]):
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
        """Whether a move is allowed after the moves planned so far. If it is not, it is excluded from the table.

        `relieved`: the pod of the hot node for which the move is planned.
        """
        if not self._may_leave(row):
            return False
        if self._too_high(row, target, self._table.used[target] + self._table.day[row], self._highest(relieved)):
            return False
        pod, fit = self._table.pods[row], self._draft.projection.fit
        if self._exceeds_present_limits(row, target):
            return False
        if fit.refuses(pod, target):
            if not self._excluded_by_constraints(row, target):
                self._table.exclude(row, target)
            return False
        # The room that pods of this plan leave on a node is not available yet.
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
        """Whether the target would be above its ceiling, or refuses the pod for other reasons than requests. If so, it
        is excluded."""
        return self._too_high(row, target, after, highest) or self._excluded_by_constraints(row, target)

    def _too_high(self, row: int, target: int, after: Array, highest: Array) -> bool:
        """Whether the target would be above its ceiling. If so, it is excluded."""
        load = after / self._table.base[target][:, np.newaxis] + self._pool.terminating[target][:, np.newaxis]
        if not (load > highest).any():
            return False
        self._table.exclude(row, target)
        return True

    def _exceeds_present_limits(self, row: int, target: int, *, leaving: MovablePod | None = None) -> bool:
        """Whether the target would be above a threshold of what has no days. If so, it is excluded."""
        place, pod, projection = self._place[target], self._table.pods[row], self._draft.projection
        if is_within_limits(pod, place, self._targets, projection, leaving=leaving):
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


def _present_targets(draft: PlanDraft) -> TargetNodes:
    """The nodes to which pods may be moved, with the thresholds of what has no days: the present usage of further
    resources and of production pods."""
    cluster = draft.cluster
    applied, production = filling(cluster.thresholds)
    ceiling = {name: limit for name, limit in applied.ceiling.items() if name in cluster.further}
    applied = msgspec.structs.replace(applied, ceiling=ceiling)
    return target_nodes(cluster.nodes, draft.projection, applied, production, target_threshold=1.0)
