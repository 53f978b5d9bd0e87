"""The points of every workload on every node, and the nodes that are chosen from them for hints.

Points are kept in blocks of workloads: an update is done in steps of some milliseconds, and computes again only what
changed. One after the other, each block chooses nodes with the load that the hints of all others will send there, so
that not all workloads choose the same nodes, and a burst between two updates is distributed.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from equipoise.contracts.kubernetes.objects import Taint
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.numeric import Array, Flags, Rows, np
from equipoise.scorer.decisions.placement_hints.expected_pods import expected_pods
from equipoise.scorer.decisions.placement_hints.node_snapshot import NodeSnapshot, node_snapshot
from equipoise.scorer.decisions.placement_hints.selection import Selection, select
from equipoise.scorer.decisions.placement_hints.settings import HintSettings
from equipoise.scorer.decisions.ranking import points_of_pods
from equipoise.scorer.decisions.scoring_state import ScoringState
from equipoise.scorer.state.arrays import Demand, Demands
from equipoise.scorer.state.demand import demand_of_placed, expected_demand
from equipoise.scorer.state.workload_pods import WorkloadPods

HINTED_KINDS = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("argoproj.io", "Rollout"),
        ("batch", "CronJob"),
        ("batch", "Job"),
    }
)
"""(group, kind). A controller of another kind might compare its pods with what it wrote, and create them again."""

BLOCK = 100
"""Workloads."""

_LOAD_TOLERANCE = 0.01
"""Share (0..1) of a node by which its load must change before its points are computed again."""

_DEMAND_TOLERANCE = 0.02
"""Share (0..1) by which the expected usage of a pod must change before its points are computed again."""

_RECENT = 60.0
"""Seconds."""


class _Block(msgspec.Struct, kw_only=True):
    """Some workloads, one row each."""

    workloads: list[Workload]
    usage: Array
    """workloads × windows × resources, as it was when the points were computed; `daily` alike."""

    daily: Array
    points: Array
    """workloads × nodes."""

    sent: Array
    """workloads × resources: the usage of all pods that are created until the next update."""

    selection: Selection


class ChosenNodes(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that were chosen for one workload."""

    selection: Selection
    row: int
    """Of the selection."""

    hostnames: tuple[str, ...]
    """By column of the selection."""

    @property
    def best(self) -> list[str]:
        return self._hostnames(self.selection.best)

    @property
    def worst(self) -> list[str]:
        return self._hostnames(self.selection.worst)

    def _hostnames(self, columns: Rows) -> list[str]:
        return [self.hostnames[column] for column in columns[self.row].tolist() if column >= 0]


class HintTable:
    """The hints of all workloads. Times are arguments."""

    def __init__(self, scoring: ScoringState, settings: HintSettings) -> None:
        self._scoring = scoring
        self._settings = settings
        self._pods = WorkloadPods(max(_RECENT, settings.interval))
        self._blocks: list[_Block] = []
        self.chosen: Mapping[Workload, ChosenNodes] = {}
        self._names: Sequence[str] = ()
        self._inputs: Array = np.zeros((0, 0))
        """As they were when points were computed."""

        self.problem = "no hints were computed yet"
        """Why there are no hints; empty when there are."""

    def on_placement(self, message: NodePlacement, placed: Sequence[PlacedPod]) -> None:
        """Use a node's placement; `placed` are the pods that are new on it."""
        self._pods.on_placement(message, placed)

    def update(self, now: float) -> Iterator[None]:
        """Compute all hints again, in steps: without sufficient data there are none."""
        self.problem = self._scoring.coverage_problem(now)
        if self.problem:
            self._blocks, self.chosen, self._names = [], {}, ()
            return
        snapshot = node_snapshot(self._scoring, now)
        sent = self._sent(snapshot)
        changed = self._changed_nodes(snapshot)
        yield
        workloads = self._hinted_workloads()
        self._pods.retain(workloads)
        factor = self._settings.interval / self._pods.span
        expected = expected_pods(workloads, self._pods.replicas, self._pods.recent(now), factor)
        number_of = dict(zip(workloads, expected.tolist(), strict=True))
        tolerated = self._pods.tolerated()
        yield
        blocks = []
        for block, members in self._assigned(workloads):
            demands = Demands.of([self._demand(workload, now) for workload in members])
            if block is None or block.workloads != members or changed is None:
                updated = self._new_block(members, demands, snapshot)
            else:
                updated = block
                self._update_points(block, demands, snapshot, changed)
            if block is not None:
                self._add(sent, block, -1.0)
            updated.sent = demands.usage[:, 0] * np.array([number_of[each] for each in members])[:, np.newaxis]
            updated.selection = self._select(updated, demands, snapshot, tolerated, sent)
            self._add(sent, updated, 1.0)
            blocks.append(updated)
            yield
        self._blocks = blocks
        self.chosen = {
            workload: ChosenNodes(selection=block.selection, row=row, hostnames=snapshot.hostnames)
            for block in blocks
            for row, workload in enumerate(block.workloads)
        }

    # workloads

    def _hinted_workloads(self) -> list[Workload]:
        known = {*self._pods.replicas, *self._scoring.nodes.measured_workloads}
        return [workload for workload in known if (workload.group, workload.kind) in HINTED_KINDS]

    def _assigned(self, workloads: Sequence[Workload]) -> list[tuple[_Block | None, list[Workload]]]:
        """The workloads of each block: where they were, new ones where there is room."""
        new = dict.fromkeys(workloads)
        assigned: list[tuple[_Block | None, list[Workload]]] = []
        for block in self._blocks:
            kept = [workload for workload in block.workloads if workload in new]
            for workload in kept:
                del new[workload]
            assigned.append((block, kept))
        left = iter(sorted(new))
        for _, members in assigned:
            members.extend(islice(left, BLOCK - len(members)))
        while members := list(islice(left, BLOCK)):
            assigned.append((None, members))
        return [(block, members) for block, members in assigned if members]

    def _demand(self, workload: Workload, now: float) -> Demand:
        nodes, latest = self._scoring.nodes, self._pods.latest.get(workload)
        pod = demand_of_placed(latest) if latest is not None else _unknown_pod(workload)
        return expected_demand(
            pod,
            nodes.workload_usage(workload, now),
            windows=nodes.windows,
            chain=self._scoring.policy.demand_chain,
            daily=nodes.daily_profile(workload),
        )

    # points

    def _changed_nodes(self, snapshot: NodeSnapshot) -> Rows | None:
        """Columns whose points must be computed again; None: all."""
        names, inputs = snapshot.nodes.names, snapshot.inputs
        if self._names != names or self._inputs.shape != inputs.shape:
            self._names, self._inputs = names, inputs
            return None
        changed = _differing(self._inputs, inputs, _LOAD_TOLERANCE)
        if len(changed) and changed[-1] == len(names):  # the cluster, which all points depend on
            self._inputs = inputs
            return None
        self._inputs[changed] = inputs[changed]
        return changed

    def _new_block(self, workloads: list[Workload], demands: Demands, snapshot: NodeSnapshot) -> _Block:
        points = points_of_pods(self._scoring.policy, snapshot.nodes, demands)
        none = np.zeros((len(workloads), 0), np.intp)
        return _Block(
            workloads=workloads,
            usage=demands.usage,
            daily=demands.daily,
            points=points.astype(np.float32),
            sent=np.zeros((len(workloads), 2)),
            selection=Selection(best=none, worst=none),
        )

    def _update_points(self, block: _Block, demands: Demands, snapshot: NodeSnapshot, changed: Rows) -> None:
        policy, nodes = self._scoring.policy, snapshot.nodes
        if len(changed):
            block.points[:, changed] = points_of_pods(policy, nodes.take(changed), demands)
        before, after = (
            np.log(np.maximum(each, 1e-9))
            for each in (_flat(block.usage, block.daily), _flat(demands.usage, demands.daily))
        )
        rows = _differing(before, after, _DEMAND_TOLERANCE)
        if len(rows):
            block.points[rows] = points_of_pods(policy, nodes, demands.take(rows))
            block.usage[rows], block.daily[rows] = demands.usage[rows], demands.daily[rows]

    # selection

    def _select(
        self,
        block: _Block,
        demands: Demands,
        snapshot: NodeSnapshot,
        tolerated: Mapping[Workload, set[Taint]],
        sent: Array,
    ) -> Selection:
        share = (sent / snapshot.nodes.base).max(axis=1)
        points = block.points - (100.0 * np.nan_to_num(share)).astype(np.float32)
        candidates = snapshot.usable & _fit(demands, snapshot.headroom)
        blocked = _blocked(block.workloads, snapshot, tolerated)
        if blocked is not None:
            candidates &= ~blocked
        return select(points, candidates, self._settings, min_spread=self._scoring.settings.min_spread)

    def _sent(self, snapshot: NodeSnapshot) -> Array:
        """nodes × resources: what the current hints send to each node until the next update."""
        names = snapshot.nodes.names
        sent = np.zeros((len(names), 2))
        if self._names != names:
            columns = {name: column for column, name in enumerate(names)}
            moved = np.array([*(columns.get(name, -1) for name in self._names), -1], np.intp)
            for block in self._blocks:
                block.selection = Selection(best=moved[block.selection.best], worst=moved[block.selection.worst])
        for block in self._blocks:
            self._add(sent, block, 1.0)
        return sent

    def _add(self, sent: Array, block: _Block, sign: float) -> None:
        """The pods of a workload go to the nodes of its first term, in equal parts."""
        first = block.selection.best[:, : -(-self._settings.nodes // len(self._settings.weights))]
        named = first >= 0
        share = sign * block.sent / np.maximum(named.sum(axis=1), 1)[:, np.newaxis]
        for resource in range(2):
            amount = np.repeat(share[:, resource, np.newaxis], first.shape[1], axis=1)[named]
            sent[:, resource] += np.bincount(first[named], weights=amount, minlength=len(sent))


def _unknown_pod(workload: Workload) -> PodDemand:
    return PodDemand(namespace=workload.namespace, name="", uid="", workload=workload)


def _flat(*parts: Array) -> Array:
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


def _differing(before: Array, after: Array, tolerance: float) -> Rows:
    """Rows with any value that changed by more than `tolerance`, or became known or unknown."""
    with np.errstate(invalid="ignore"):
        same = (np.abs(after - before) <= tolerance) | (np.isnan(before) & np.isnan(after)) | (before == after)
    rows: Rows = np.flatnonzero(~same.all(axis=1))
    return rows


def _fit(demands: Demands, headroom: Array) -> Flags:
    """pods × nodes: see `node_table.fits`. A pod whose requests are not known requests what it uses."""
    requests = np.array([each.requests for each in demands.each])
    unknown = ~requests.any(axis=1)
    requests[unknown] = demands.usage[unknown, 0]
    fit: Flags = np.broadcast_to(headroom[:, -1] >= 1.0, (len(requests), len(headroom))).copy()
    for resource in range(requests.shape[1]):
        needed, left = requests[:, resource, np.newaxis], headroom[:, resource]
        fit &= (left >= needed) | ((needed == 0.0) & (left > -np.inf))
    return fit


def _blocked(
    workloads: Sequence[Workload], snapshot: NodeSnapshot, tolerated: Mapping[Workload, set[Taint]]
) -> Flags | None:
    """workloads × nodes: whether taints keep the pods away; None: there are no such taints."""
    if not any(snapshot.taints):
        return None
    by_set = np.array(
        [[not taints <= tolerated.get(workload, set()) for taints in snapshot.taints] for workload in workloads],
        np.bool_,
    )
    blocked: Flags = by_set[:, snapshot.taint_set]
    return blocked
