"""Which nodes kube-scheduler's filters allow for the replacement of a pod once the moves planned so far are done.

It needs numpy: modules that the program `equipoise` imports with the settings must not import it (docs/decisions/0021).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

import msgspec
import numpy as np

from equipoise.contracts.eviction.surge import TEMPLATE_HASH
from equipoise.contracts.kubernetes.nodes.platforms import OTHER_PLATFORM, Platform, runs_on
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.numeric import Array, Flags, Indexes
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod
from equipoise.scheduling.framework.diagnosis import FilterDiagnosis
from equipoise.scheduling.framework.plugin import Refusal
from equipoise.scheduling.model.amounts import CPU, MEMORY, PODS
from equipoise.scheduling.model.arrays import Ints
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.replacement import ReplacementFilters

_UNITS = np.array([1_000.0, 1.0, 1.0])
"""How many units of the snapshot one core, one byte and one pod are."""


class RefusedNodes(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that refuse a pod, by position."""

    diagnosis: FilterDiagnosis

    @property
    def refused(self) -> Flags:
        """Whether each node refuses the pod."""
        return ~self.diagnosis.passed

    def reasons(self, positions: Indexes) -> Counter[str]:
        """The number of these nodes by reason. A node that lacks several resources counts for each of them."""
        counts: Counter[str] = Counter()
        for _, refusal in self.diagnosis.refusals:
            counts[refusal.reason] += int(refusal.nodes[positions].sum())
        return +counts


class NodeFit:
    """A working copy of the cluster. Nodes are given by their position in `names`."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        names: Sequence[str],
        filters: ReplacementFilters,
        *,
        target_points: int,
        platforms: Sequence[Platform] = (),
    ) -> None:
        """`snapshot` is changed by `move`. `target_points`: see `DeschedulerSettings`.

        `platforms`: those of the nodes; without them no node is refused because of its platform.
        """
        self._snapshot = snapshot
        self._filters = filters
        self._target_points = target_points
        self._positions = {name: position for position, name in enumerate(names)}
        self._rows = np.array([snapshot.row(name) for name in names], dtype=np.intp)
        self._everywhere = np.arange(len(names))
        self._platforms = platforms
        self._moved: dict[str, int] = {}
        """The position of the node to which a pod was moved, by UID."""

    @property
    def room(self) -> Array:
        """nodes × (cores, bytes, pods) that are not requested; negative where more is requested than the node has."""
        snapshot = self._snapshot
        free = [snapshot.resource(snapshot.allocatable, name) - snapshot.resource(snapshot.requested, name)
                for name in (CPU, MEMORY, PODS)]  # fmt: skip
        room: Array = np.array(free)[:, self._rows].T / _UNITS
        return room

    @property
    def requested(self) -> Array:
        """nodes × (cpu, memory): the share of the allocatable amount that is requested; 1 if nothing is allocatable."""
        offered = np.array([self._snapshot.allocatable[index, self._rows] for index in (0, 1)]).T / _UNITS[:2]
        with np.errstate(divide="ignore", invalid="ignore"):
            shares: Array = np.where(offered > 0, 1.0 - self.room[:, :2] / offered, 1.0)
        return shares

    def refusals(self, pod: MovablePod) -> RefusedNodes:
        """The nodes that refuse the pod by any filter. The pod's own requests count as free."""
        return RefusedNodes(diagnosis=self._refusals(pod, self._everywhere))

    def constraint_refusals(self, pod: MovablePod) -> Flags:
        """Whether each node refuses the pod for other reasons than requests and host ports."""
        return ~self._refusals(pod, self._everywhere, constraints=True).passed

    def refuses(self, pod: MovablePod, position: int, *, constraints: bool = False) -> bool:
        """Whether one node refuses the pod. `constraints`: consider only other reasons than requests and host ports."""
        return not self._refusals(pod, np.array([position]), constraints=constraints).passed[0]

    def preferred(self, pod: MovablePod) -> Indexes:
        """The nodes that kube-scheduler's own scores prefer, without the scores of Equipoise. Empty if no node is
        feasible."""
        feasible, totals = self._totals(pod)
        best: Indexes = feasible[totals == totals.max(initial=0)]
        return best

    def outscored(self, pod: MovablePod) -> Flags:
        """Whether each node is feasible, but would not get the replacement as the target of a move.

        Another node, which may be the pod's own, has an equal or a higher total even if the target has the points that
        Equipoise's scores give it. kube-scheduler chooses at random among nodes with equal totals.
        """
        feasible, totals = self._totals(pod)
        outscored = np.zeros(len(self._rows), dtype=np.bool_)
        if len(feasible) > 1:
            second, highest = np.partition(totals, -2)[-2:]
            best_other = np.where(totals == highest, second, highest)
            outscored[feasible] = totals + self._target_points <= best_other
        return outscored

    def move(self, pod: MovablePod, target: int) -> None:
        """Moves a pod to another node, even if it does not fit there."""
        row = self._current(pod)
        if row is not None:
            self._snapshot.remove_pod(pod.info, row)
        self._snapshot.add_pod(pod.info, int(self._rows[target]))
        self._moved[pod.uid] = target

    def _refusals(self, pod: MovablePod, positions: Indexes, *, constraints: bool = False) -> FilterDiagnosis:
        """The refusals of kube-scheduler's filters, and of platforms on which the pod's images are not known to run."""
        diagnosis = self._filters.refusals(
            pod.info,
            self._snapshot,
            self._rows[positions],
            current=self._current(pod),
            constraints=constraints,
            detached=_detached(pod),
        )
        if pod.platforms and self._platforms:
            runs = cache(lambda platform: runs_on(platform, pod.platforms, pod.info.required_nodes))
            others = [not runs(self._platforms[position]) for position in positions.tolist()]
            diagnosis.add("Platform", [Refusal(nodes=np.array(others, dtype=np.bool_), reason=OTHER_PLATFORM)])
        return diagnosis

    def _totals(self, pod: MovablePod) -> tuple[Indexes, Ints]:
        """Feasible nodes, and the total of kube-scheduler's own scores of each."""
        rows, totals = self._filters.totals(
            pod.info, self._snapshot, self._rows, current=self._current(pod), detached=_detached(pod)
        )
        return np.flatnonzero(np.isin(self._rows, rows)), totals

    def _current(self, pod: MovablePod) -> int | None:
        """The row of the node on which the pod is now."""
        position = self._moved.get(pod.uid, self._positions.get(pod.node))
        row = None if position is None else int(self._rows[position])
        return row if row is not None and self._snapshot.has_pod(pod.info, row) else None


def _detached(pod: MovablePod) -> PodInfo | None:
    """The pod as it runs while its replacement is placed; None if it is evicted before."""
    return pod.info.without_label(TEMPLATE_HASH) if pod.without_gap else None


def placed_pods(nodes: Iterable[ClusterNode], namespaces: Iterable[Namespace] = ()) -> ClusterSnapshot:
    """The nodes with all pods that occupy them."""
    snapshot = ClusterSnapshot()
    for namespace in namespaces:
        snapshot.put_namespace(namespace)
    snapshot.add_pods([(snapshot.put_node(node.object), node.occupying) for node in nodes])
    return snapshot
