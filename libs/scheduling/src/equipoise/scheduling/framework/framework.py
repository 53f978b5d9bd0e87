"""Calls the plugins of one profile, in the order and with the rules of kube-scheduler's framework."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.diagnosis import FilterDiagnosis, passed_all
from equipoise.scheduling.framework.nominated import Nominated
from equipoise.scheduling.framework.plugin import (
    SKIPPED,
    Filter,
    FilterNode,
    Plugin,
    PostFilter,
    PostFiltered,
    PreEnqueue,
    PreFilter,
    PreFilterExtensions,
    PreScore,
    QueueSort,
    Refusal,
    Reserve,
    Score,
    ScoreNode,
)
from equipoise.scheduling.framework.plugin_calls import Measure, PluginFailed, fail, measured
from equipoise.scheduling.framework.scoring import Scoring
from equipoise.scheduling.framework.status import SUCCESS, Code, PluginStatus, unresolvable
from equipoise.scheduling.model.arrays import Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot

T = TypeVar("T")

POINTS: Mapping[str, tuple[type, ...]] = {
    "preEnqueue": (PreEnqueue,),
    "queueSort": (QueueSort,),
    "preFilter": (PreFilter,),
    "filter": (Filter, FilterNode),
    "postFilter": (PostFilter,),
    "preScore": (PreScore,),
    "score": (Score, ScoreNode),
    "reserve": (Reserve,),
}
"""The extension points of the scheduling cycle, by their names in a KubeSchedulerConfiguration."""


class Framework:
    """The plugins of a profile."""

    def __init__(
        self,
        points: Mapping[str, Sequence[Plugin]],
        weights: Mapping[str, int],
        *,
        measure: Measure | None = None,
    ) -> None:
        """`points`: the plugins of each extension point, in the order of calls. `weights`: the weights of scores, by
        plugin.
        """
        self._points: dict[str, list[Any]] = {
            name: list(points.get(name, ())) for name in (*POINTS, *(points.keys() - POINTS.keys()))
        }
        self._weights = weights
        self._measure = measure
        # Found once: isinstance of a protocol takes microseconds, and each attempt would ask for every plugin.
        points = self._points
        self._pre_enqueues = self._calls("preEnqueue", PreEnqueue, "pre_enqueue")
        self._pre_filters = self._calls("preFilter", PreFilter, "pre_filter")
        self._extending: list[Any] = [each for each, _ in self._pre_filters if isinstance(each, PreFilterExtensions)]
        self._filters: list[tuple[Any, Callable[..., Any] | None]] = [
            (each, measured(self._measure, each, "filter", each.filter) if isinstance(each, Filter) else None)
            for each in points["filter"]
        ]
        """None: the plugin answers for one node."""

        self.score = Scoring(points["preScore"], points["score"], self.weight, measure).score

    def _calls(self, point: str, kind: type, method: str) -> list[tuple[Any, Callable[..., Any]]]:
        """The plugins of this kind at the extension point, each with its method."""
        return [
            (each, measured(self._measure, each, point, getattr(each, method)))
            for each in self._points[point]
            if isinstance(each, kind)
        ]

    def plugins(self, point: str) -> Sequence[Plugin]:
        """The plugins in the order of calls; none of an extension point that the framework was made without."""
        return self._points.get(point, ())

    def weight(self, plugin: str) -> int:
        return self._weights.get(plugin) or 1

    # Queue

    def pre_enqueue(self, pod: PodInfo) -> PluginStatus:
        """Success, or the status of the first plugin that holds the pod back."""
        for plugin, pre_enqueue in self._pre_enqueues:
            try:
                status = pre_enqueue(pod)
            except Exception as error:
                fail(plugin, "preEnqueue", error)
            if not status.is_success:
                return _attributed(plugin, status)
        return SUCCESS

    # Filter

    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot
    ) -> tuple[PluginStatus, frozenset[str] | None]:
        """Success, or why no node is possible; and the names of the only possible nodes (None: all).

        A plugin that returns UNSCHEDULABLE does not keep the others from being called: their state is needed for
        preemption.
        """
        skipped: set[str] = set()
        nodes: frozenset[str] | None = None
        restricting: list[str] = []
        status = SUCCESS
        for plugin, pre_filter in self._pre_filters:
            try:
                result = pre_filter(state, pod, snapshot)
            except Exception as error:
                fail(plugin, "preFilter", error)
            if result is SKIPPED or result.status.code == Code.SKIP:
                skipped.add(plugin.name)
                continue
            if result.status.is_rejected:
                if result.status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    return _attributed(plugin, result.status), nodes
                status = _attributed(plugin, result.status)
                continue
            if not result.status.is_success:
                raise PluginFailed(plugin.name, "preFilter", "; ".join(result.status.reasons))
            if result.nodes is not None:
                restricting.append(plugin.name)
                nodes = result.nodes if nodes is None else nodes & result.nodes
                if not nodes:
                    several = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(restricting))}] simultaneously"
                    one = f"node(s) didn't satisfy plugin {restricting[0]}"
                    return _attributed(plugin, unresolvable(several if len(restricting) > 1 else one)), nodes
        state.skipped_filters, state.restricted_by = frozenset(skipped), tuple(restricting)
        return status, nodes

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> FilterDiagnosis:
        """Filters these nodes, without regard to nominated pods. Stops when no node is left."""
        diagnosis = passed_all(rows)
        if not len(rows):
            return diagnosis
        skipped = state.skipped_filters
        for plugin, filter_all in self._filters:
            if plugin.name in skipped:
                continue
            if filter_all is not None:
                try:
                    refusals = _checked(filter_all(state, pod, snapshot, rows), len(rows))
                except Exception as error:
                    fail(plugin, "filter", error)
            else:
                refusals = self._each_node(plugin, state, pod, snapshot, diagnosis)
            if refusals and not diagnosis.add(plugin.name, refusals):
                break
        return diagnosis

    def filter_with_nominated(
        self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows, nominated: Nominated
    ) -> FilterDiagnosis:
        """A node passes if it does with and without the nominated pods that have at least this priority."""
        diagnosis = self.filter(state, pod, snapshot, rows)
        if not nominated:
            return diagnosis
        competing = {}
        for name in nominated.nodes:
            row = snapshot.row(name)
            if row is not None and (others := nominated.competing(pod, name)):
                competing[row] = others
        if not competing:
            return diagnosis
        places = [place for place, row in enumerate(rows.tolist()) if row in competing]
        trial = snapshot.clone() if places else snapshot
        # A plugin with `add_pod` may count pods of several nodes, so the nominated pods of each node are tried alone.
        steps = [[place] for place in places] if self._extensions(state) else [places]
        for step in steps:
            nodes = rows[step]
            added = [(other, row) for row in nodes.tolist() for other in competing[row]]
            diagnosis.replace(step, self._with_pods(state, pod, trial, nodes, added))
        return diagnosis

    def _with_pods(
        self, state: CycleState, pod: PodInfo, trial: ClusterSnapshot, rows: Rows, added: Sequence[tuple[PodInfo, int]]
    ) -> FilterDiagnosis:
        """`trial`: a clone, which is changed meanwhile. `added`: pods, and the rows of their nodes."""
        state = state.clone()
        for other, row in added:
            trial.add_pod(other, row)
            self.add_pod(state, pod, other, row, trial)
        found = self.filter(state, pod, trial, rows)
        for other, row in added:
            trial.remove_pod(other, row)
        return found

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, row: int, snapshot: ClusterSnapshot) -> None:
        """Calls the plugins after the pod was added to the snapshot."""
        for plugin in self._extensions(state):
            self._call(plugin, "preFilter", plugin.add_pod, state, pod, added, row, snapshot)

    def remove_pod(
        self, state: CycleState, pod: PodInfo, removed: PodInfo, row: int, snapshot: ClusterSnapshot
    ) -> None:
        """Calls the plugins after the pod was removed from the snapshot."""
        for plugin in self._extensions(state):
            self._call(plugin, "preFilter", plugin.remove_pod, state, pod, removed, row, snapshot)

    def _extensions(self, state: CycleState) -> list[Any]:
        return [plugin for plugin in self._extending if plugin.name not in state.skipped_filters]

    def _each_node(
        self, plugin: Any, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, diagnosis: FilterDiagnosis
    ) -> list[Refusal]:
        """The refusals by a plugin that answers for one node."""
        refusals = []
        for place in diagnosis.passed.nonzero()[0].tolist():
            row = int(diagnosis.rows[place])
            status = self._call(plugin, "filter", plugin.filter_node, state, pod, snapshot, row)
            if status.is_success:
                continue
            if not status.is_rejected:
                raise PluginFailed(plugin.name, "filter", "; ".join(status.reasons))
            nodes = np.zeros(len(diagnosis.rows), dtype=np.bool_)
            nodes[place] = True
            reasons = status.reasons or (f"node(s) were refused by plugin {plugin.name}",)
            refusals += [Refusal(nodes=nodes, reason=reason, code=status.code) for reason in reasons]
        return refusals

    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, refused: Mapping[int, PluginStatus]
    ) -> PostFiltered:
        """The result of the first plugin that succeeds; otherwise the reasons of all."""
        reasons: list[str] = []
        clear = False
        for plugin in self._points["postFilter"]:
            found = self._call(plugin, "postFilter", plugin.post_filter, state, pod, snapshot, refused)
            clear |= found.clear_nomination
            status = _attributed(plugin, found.status)
            if not status.is_rejected or status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return PostFiltered(
                    status=status, node=found.node, victims=found.victims, clear_nomination=found.clear_nomination
                )
            reasons += status.reasons
        return PostFiltered(
            status=PluginStatus(code=Code.UNSCHEDULABLE, reasons=tuple(reasons)), clear_nomination=clear
        )

    # Reserve

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> PluginStatus:
        """Success, or the status of the first plugin that refuses; then all plugins were called to unreserve."""
        for plugin in self._points["reserve"]:
            try:
                status = self._call(plugin, "reserve", plugin.reserve, state, pod, node)
            except PluginFailed:
                self.unreserve(state, pod, node)
                raise
            if not status.is_success:
                self.unreserve(state, pod, node)
                return _attributed(plugin, status)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> list[PluginFailed]:
        """Calls the plugins in reverse order. Returns their errors: none keeps another from being called."""
        errors = []
        for plugin in reversed(self._points["reserve"]):
            try:
                self._call(plugin, "reserve", plugin.unreserve, state, pod, node)
            except PluginFailed as error:
                errors.append(error)
        return errors

    def _call(self, plugin: Plugin, point: str, function: Callable[..., T], *arguments: Any) -> T:
        try:
            return measured(self._measure, plugin, point, function)(*arguments)
        except Exception as error:
            fail(plugin, point, error)


def _checked(refusals: Iterable[Refusal], length: int) -> list[Refusal]:
    """Raises ValueError if they are not about this number of nodes."""
    found = list(refusals)
    for refusal in found:
        if len(refusal.nodes) != length:
            raise ValueError(f"a refusal has {len(refusal.nodes)} nodes, not {length}")
        if refusal.nodes.dtype != np.bool_:
            raise TypeError(f"the nodes of a refusal are true or false, not {refusal.nodes.dtype}")
    return found


def _attributed(plugin: Plugin, status: PluginStatus) -> PluginStatus:
    """The status with the name of the plugin that returned it."""
    return msgspec.structs.replace(status, plugin=plugin.name)
