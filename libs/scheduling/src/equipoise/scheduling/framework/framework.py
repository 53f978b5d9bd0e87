"""Calls the plugins of one profile, in the order and with the rules of kube-scheduler's framework."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.diagnosis import FilterDiagnosis, passed_all
from equipoise.scheduling.framework.nominated import Nominated
from equipoise.scheduling.framework.plugin import (
    MAX_SCORE,
    Filter,
    FilterNode,
    NormalizeScore,
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
from equipoise.scheduling.framework.status import SUCCESS, Code, PluginStatus, unresolvable
from equipoise.scheduling.model.arrays import Ints, Rows
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


class PluginFailed(Exception):
    """A plugin raised an error, or its result cannot be used."""

    def __init__(self, plugin: str, point: str, why: str) -> None:
        super().__init__(f"plugin {plugin} failed in {point}: {why}")
        self.plugin = plugin


class NodeScores(msgspec.Struct, frozen=True, kw_only=True):
    """Of the feasible nodes."""

    rows: Rows
    raw: Mapping[str, Ints]
    """By plugin, before they were normalized. Plugins that skipped the pod are missing."""

    weighted: Mapping[str, Ints]
    """By plugin: 0..100, multiplied by its weight."""

    total: Ints


class Framework:
    """The plugins of a profile."""

    def __init__(
        self,
        points: Mapping[str, Sequence[Plugin]],
        weights: Mapping[str, int],
        *,
        measure: Callable[[str, str, Callable[[], Any]], Any] | None = None,
    ) -> None:
        """`points`: by extension point, in the order of calls. `weights`: of scores, by plugin.

        `measure(plugin, point, call)` returns the result of `call()`, for example after its duration was recorded.
        """
        self._points: dict[str, list[Any]] = {
            name: list(points.get(name, ())) for name in (*POINTS, *(points.keys() - POINTS.keys()))
        }
        self._weights = weights
        self._measure = measure
        # Found once: isinstance of a protocol takes microseconds, and an attempt would ask a hundred times.
        for name, protocols in POINTS.items():
            assert all(isinstance(each, protocols) for each in self._points[name]), name
        self._extending: list[Any] = [
            each for each in self._points["preFilter"] if isinstance(each, PreFilterExtensions)
        ]
        self._filters = [(each, isinstance(each, Filter)) for each in self._points["filter"]]
        self._scorers = [
            (each, isinstance(each, Score), isinstance(each, NormalizeScore)) for each in self._points["score"]
        ]

    def plugins(self, point: str) -> Sequence[Plugin]:
        """In the order of calls; none of an extension point that the framework was made without."""
        return self._points.get(point, ())

    def weight(self, plugin: str) -> int:
        return self._weights.get(plugin) or 1

    # Queue

    def pre_enqueue(self, pod: PodInfo) -> PluginStatus:
        """Success, or the status of the first plugin that holds the pod back."""
        for plugin in self._points["preEnqueue"]:
            status = self._call(plugin, "preEnqueue", plugin.pre_enqueue, pod)
            if not status.is_success:
                return _of(plugin, status)
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
        for plugin in self._points["preFilter"]:
            found = self._call(plugin, "preFilter", plugin.pre_filter, state, pod, snapshot)
            if found.status.code == Code.SKIP:
                skipped.add(plugin.name)
                continue
            if found.status.is_rejected:
                if found.status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    return _of(plugin, found.status), nodes
                status = _of(plugin, found.status)
                continue
            if not found.status.is_success:
                raise PluginFailed(plugin.name, "preFilter", "; ".join(found.status.reasons))
            if found.nodes is not None:
                restricting.append(plugin.name)
                nodes = found.nodes if nodes is None else nodes & found.nodes
                if not nodes:
                    several = f"node(s) didn't satisfy plugin(s) [{' '.join(restricting)}] simultaneously"
                    one = f"node(s) didn't satisfy plugin {restricting[0]}"
                    return _of(plugin, unresolvable(several if len(restricting) > 1 else one)), nodes
        state.skipped_filters, state.restricted_by = frozenset(skipped), tuple(restricting)
        return status, nodes

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> FilterDiagnosis:
        """Of these nodes, without regard to nominated pods. Stops when no node is left."""
        diagnosis = passed_all(rows)
        for plugin, in_arrays in self._filters:
            if plugin.name in state.skipped_filters:
                continue
            if not diagnosis.passed.any():
                break
            if in_arrays:
                refusals = list(self._call(plugin, "filter", plugin.filter, state, pod, snapshot, rows))
            else:
                refusals = self._each_node(plugin, state, pod, snapshot, diagnosis)
            diagnosis.add(plugin.name, refusals)
        return diagnosis

    def filter_with_nominated(
        self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows, nominated: Nominated
    ) -> FilterDiagnosis:
        """A node passes if it does with and without the nominated pods that have at least this priority."""
        diagnosis = self.filter(state, pod, snapshot, rows)
        for name in nominated.nodes:
            row = snapshot.row(name)
            places = [] if row is None else np.flatnonzero(rows == row).tolist()
            if row is None or not places:
                continue
            if others := nominated.competing(pod, name):
                with_others = self._with_pods(state, pod, snapshot, row, others)
                if not with_others.passed[0]:
                    diagnosis.replace(places[0], with_others)
        return diagnosis

    def _with_pods(
        self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, row: int, others: Iterable[PodInfo]
    ) -> FilterDiagnosis:
        state, snapshot = state.clone(), snapshot.clone()
        for other in others:
            snapshot.add_pod(other, row)
            self.add_pod(state, pod, other, row, snapshot)
        return self.filter(state, pod, snapshot, np.array([row], dtype=np.intp))

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, row: int, snapshot: ClusterSnapshot) -> None:
        """After the pod was added to the snapshot."""
        for plugin in self._extensions(state):
            self._call(plugin, "preFilter", plugin.add_pod, state, pod, added, row, snapshot)

    def remove_pod(
        self, state: CycleState, pod: PodInfo, removed: PodInfo, row: int, snapshot: ClusterSnapshot
    ) -> None:
        """After the pod was removed from the snapshot."""
        for plugin in self._extensions(state):
            self._call(plugin, "preFilter", plugin.remove_pod, state, pod, removed, row, snapshot)

    def _extensions(self, state: CycleState) -> list[Any]:
        return [plugin for plugin in self._extending if plugin.name not in state.skipped_filters]

    def _each_node(
        self, plugin: Any, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, diagnosis: FilterDiagnosis
    ) -> list[Refusal]:
        """Of a plugin that answers for one node."""
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
        """Of the first plugin that succeeds; otherwise the reasons of all."""
        reasons: list[str] = []
        clear = False
        for plugin in self._points["postFilter"]:
            found = self._call(plugin, "postFilter", plugin.post_filter, state, pod, snapshot, refused)
            clear |= found.clear_nomination
            status = _of(plugin, found.status)
            if not status.is_rejected or status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return PostFiltered(
                    status=status, node=found.node, victims=found.victims, clear_nomination=found.clear_nomination
                )
            reasons += status.reasons
        return PostFiltered(
            status=PluginStatus(code=Code.UNSCHEDULABLE, reasons=tuple(reasons)), clear_nomination=clear
        )

    # Score

    def score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> NodeScores:
        """Of the feasible nodes. Raises PluginFailed for a score that is not within 0..100."""
        self._pre_score(state, pod, snapshot, rows)
        raw: dict[str, Ints] = {}
        weighted: dict[str, Ints] = {}
        total = np.zeros(len(rows), dtype=np.int64)
        for plugin, in_arrays, normalizes in self._scorers:
            if plugin.name in state.skipped_scores:
                continue
            call = self._in_arrays if in_arrays else self._score_nodes
            raw[plugin.name] = scores = _integers(plugin, call(plugin, state, pod, snapshot, rows), len(rows))
            if normalizes:
                normalize = plugin.normalize
                scores = self._call(plugin, "score", normalize, state, pod, snapshot, rows, scores.copy())
                scores = _integers(plugin, scores, len(rows))
            if len(scores) and not (scores.min() >= 0 and scores.max() <= MAX_SCORE):
                wrong = int(scores[(scores < 0) | (scores > MAX_SCORE)][0])
                raise PluginFailed(plugin.name, "score", f"the score {wrong} is not within 0 and {MAX_SCORE}")
            weighted[plugin.name] = scores * self.weight(plugin.name)
            total += weighted[plugin.name]
        return NodeScores(rows=rows, raw=raw, weighted=weighted, total=total)

    def _pre_score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> None:
        skipped = set()
        for plugin in self._points["preScore"]:
            status = self._call(plugin, "preScore", plugin.pre_score, state, pod, snapshot, rows)
            if status.code == Code.SKIP:
                skipped.add(plugin.name)
            elif not status.is_success:
                raise PluginFailed(plugin.name, "preScore", "; ".join(status.reasons))
        state.skipped_scores = frozenset(skipped)

    def _in_arrays(self, plugin: Any, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Any:
        return self._call(plugin, "score", plugin.score, state, pod, snapshot, rows)

    def _score_nodes(self, plugin: Any, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Any:
        """Of a plugin that answers for one node."""
        return [self._call(plugin, "score", plugin.score_node, state, pod, snapshot, row) for row in rows.tolist()]

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
                return _of(plugin, status)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> list[PluginFailed]:
        """In reverse order. Returns the errors of plugins: none keeps another from being called."""
        errors = []
        for plugin in reversed(self._points["reserve"]):
            try:
                self._call(plugin, "reserve", plugin.unreserve, state, pod, node)
            except PluginFailed as error:
                errors.append(error)
        return errors

    def _call(self, plugin: Plugin, point: str, function: Callable[..., T], *arguments: Any) -> T:
        """Raises PluginFailed whatever the plugin raises: a plugin of a user must not end the scheduler."""
        try:
            if self._measure is None:
                return function(*arguments)
            result: T = self._measure(plugin.name, point, lambda: function(*arguments))
        except PluginFailed:
            raise
        except Exception as error:
            raise PluginFailed(plugin.name, point, f"{type(error).__name__}: {error}") from error
        return result


def _of(plugin: Plugin, status: PluginStatus) -> PluginStatus:
    return msgspec.structs.replace(status, plugin=plugin.name)


def _integers(plugin: Plugin, scores: Any, length: int) -> Ints:
    """Raises PluginFailed for anything else, such as NaN."""
    found = np.asarray(scores)
    if found.shape != (length,):
        raise PluginFailed(plugin.name, "score", f"{length} scores were expected, one per node, not {found.shape}")
    if found.dtype == np.int64:
        return found
    if not np.issubdtype(found.dtype, np.integer):
        invalid = [value for value in found.tolist() if not isinstance(value, int | float) or not math.isfinite(value)]
        if invalid:
            raise PluginFailed(plugin.name, "score", f"{invalid[0]!r} is not a number")
        if not np.array_equal(found, np.trunc(found.astype(np.float64))):
            raise PluginFailed(plugin.name, "score", "scores are whole numbers")
    integers: Ints = found.astype(np.int64)
    return integers
