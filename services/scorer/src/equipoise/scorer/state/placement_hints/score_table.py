"""The points of every workload on every node.

They are kept in blocks of workloads, so that an update is done in short steps; only what changed is computed again.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from operator import is_not

import msgspec

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.numeric import Array, Rows, Singles, np
from equipoise.scorer.decisions.arrays import Demand, Demands, with_more_load
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.ranking import points_of_pods
from equipoise.scorer.state.placement_hints.node_snapshot import NodeSnapshot

BLOCK = 100
"""Workloads."""

_SLOPE_NODES = 16
_SLOPE_STEP = 0.05
"""Share (0..1) of the base."""

_CELLS_PER_STEP = 500_000

_LOAD_TOLERANCE = 0.01
"""Share (0..1) of a node by which its load must change before its points are computed again."""

_DEMAND_TOLERANCE = 0.02
"""Part (0..1) of the expected usage of a pod by which it must change before its points are computed again."""


class Block(msgspec.Struct, kw_only=True, eq=False):
    """The points of some workloads, one row each. A block is kept as long as its workloads stay the same."""

    workloads: list[Workload]
    demands: Demands
    """The demands of the workloads' pods, as they were when the points were computed."""

    points: Singles
    """workloads × nodes. Single precision needs half of the memory."""

    slopes: Array
    """workloads × resources: points that a node loses per share (0..1) of its base that is used in addition."""


class ScoreTable:
    """The blocks, and the nodes as they were when points were computed."""

    def __init__(self, policy: ScoringPolicy) -> None:
        self._policy = policy
        self.blocks: list[Block] = []
        self.names: Sequence[str] = ()
        """The nodes by column."""

        self._inputs: Array = np.zeros((0, 0))

    def clear(self) -> None:
        """Removes all points: without sufficient data nothing is known."""
        self.blocks, self.names = [], ()

    def update(
        self, snapshot: NodeSnapshot, workloads: Sequence[Workload], demand_of: Callable[[Workload], Demand]
    ) -> Iterator[None]:
        """Compute the points of what changed, in steps."""
        changed = self._changed_nodes(snapshot)
        blocks: list[Block] = []
        existing: list[Block] = []
        for before, members in self._assigned(workloads):
            demands = [demand_of(workload) for workload in members]
            if before is None or before.workloads != members:
                block = self._new_block(members, demands, snapshot)
            elif changed is None:
                block, new = before, self._new_block(members, demands, snapshot)
                block.demands, block.points, block.slopes = new.demands, new.points, new.slopes
            else:
                block = before
                existing.append(block)
                self._update_demands(block, demands, snapshot)
            blocks.append(block)
            yield
        self.blocks = blocks
        if changed is not None and len(changed) and existing:
            yield from self._update_nodes(existing, changed, snapshot)

    def _assigned(self, workloads: Sequence[Workload]) -> list[tuple[Block | None, list[Workload]]]:
        """The workloads of each block: where they were, new ones where there is room."""
        new = dict.fromkeys(workloads)
        assigned: list[tuple[Block | None, list[Workload]]] = []
        for block in self.blocks:
            members = [workload for workload in block.workloads if workload in new]
            for workload in members:
                del new[workload]
            assigned.append((block, members))
        left = iter(new)
        for _, members in assigned:
            members.extend(islice(left, BLOCK - len(members)))
        while members := list(islice(left, BLOCK)):
            assigned.append((None, members))
        return [(block, members) for block, members in assigned if members]

    def _changed_nodes(self, snapshot: NodeSnapshot) -> Rows | None:
        """Columns whose points must be computed again; None: all."""
        names, inputs = snapshot.nodes.names, snapshot.inputs
        if self.names == names and self._inputs.shape == inputs.shape:
            changed = _differing(self._inputs, inputs, _LOAD_TOLERANCE)
            # The last row is the cluster, which all points depend on.
            if len(changed) <= len(names) // 2 and not (len(changed) and changed[-1] == len(names)):
                self._inputs[changed] = inputs[changed]
                return changed
        self.names, self._inputs = names, inputs
        return None

    def _new_block(self, workloads: list[Workload], demands: list[Demand], snapshot: NodeSnapshot) -> Block:
        all_demands = Demands.of(demands)
        points = points_of_pods(self._policy, snapshot.nodes, all_demands).astype(np.float32)
        return Block(
            workloads=workloads, demands=all_demands, points=points, slopes=_slopes(self._policy, snapshot, all_demands)
        )

    def _update_demands(self, block: Block, demands: list[Demand], snapshot: NodeSnapshot) -> None:
        before = block.demands
        # A demand that has not changed is the same object.
        new = [row for row, differs in enumerate(map(is_not, before.each, demands)) if differs]
        if not new:
            return
        now = Demands.of([demands[row] for row in new])
        changed = _differing(
            np.array([_amounts(before.each[row], before.daily[row]) for row in new]),
            np.array([_amounts(each, daily) for each, daily in zip(now.each, now.daily, strict=True)]),
            _DEMAND_TOLERANCE,
        )
        if not len(changed):
            return
        each = list(before.each)
        for index in changed.tolist():
            each[new[index]] = now.each[index]
        block.demands = Demands.of(each)
        rows = [new[index] for index in changed.tolist()]
        points = points_of_pods(self._policy, snapshot.nodes, Demands.of([each[row] for row in rows]))
        block.points[rows] = points
        block.slopes = _slopes(self._policy, snapshot, block.demands)

    def _update_nodes(self, blocks: Sequence[Block], changed: Rows, snapshot: NodeSnapshot) -> Iterator[None]:
        demands = Demands(
            each=list(chain.from_iterable(block.demands.each for block in blocks)),
            usage=np.concatenate([block.demands.usage for block in blocks]),
            daily=np.concatenate([block.demands.daily for block in blocks]),
        )
        step = max(1, _CELLS_PER_STEP // len(demands))
        for first in range(0, len(changed), step):
            columns = changed[first : first + step]
            points = points_of_pods(self._policy, snapshot.nodes.take(columns), demands)
            end = 0
            for block in blocks:
                start, end = end, end + len(block.workloads)
                block.points[:, columns] = points[start:end]
            yield


def _slopes(policy: ScoringPolicy, snapshot: NodeSnapshot, demands: Demands) -> Array:
    """The means of some nodes (see `Block.slopes`). Nodes with the lowest or highest possible score are not counted,
    because more load may not change it."""
    count = len(snapshot.hostnames)
    some = snapshot.nodes.take(np.unique(np.linspace(0, count - 1, min(count, _SLOPE_NODES)).astype(np.intp)))
    points = policy.score_pods(some, demands)
    found = np.zeros((len(demands), len(RESOURCES)))
    for resource in range(len(RESOURCES)):
        fuller = policy.score_pods(with_more_load(some, resource, _SLOPE_STEP), demands)
        counted = (points > 1.0) & (points < 100.0) & (fuller > 1.0) & (fuller < 100.0)
        difference = np.where(counted, points - fuller, 0.0).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)
        found[:, resource] = difference / _SLOPE_STEP
    found[demands.of_bands] = 0.0  # their points do not depend on the load
    return found


def _amounts(demand: Demand, daily: Array) -> Array:
    """The logarithms of the amounts of a demand: a difference of them is a relative change."""
    found = np.concatenate([demand.usage.ravel(), daily.ravel(), demand.requests, demand.limits, demand.band_requests])
    amounts: Array = np.log(np.fmax(found, 1e-9))
    return amounts


def _differing(before: Array, after: Array, tolerance: float) -> Rows:
    """Rows with any value that changed by more than `tolerance`, or became known or unknown."""
    with np.errstate(invalid="ignore"):
        same = (np.abs(after - before) <= tolerance) | (np.isnan(before) & np.isnan(after)) | (before == after)
    rows: Rows = np.flatnonzero(~same.all(axis=1))
    return rows
