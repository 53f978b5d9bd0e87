"""The scores of nodes by the plugins of a profile, with their weights."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np

from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.plugin import MAX_SCORE, NormalizeScore, Plugin, PreScore, Score
from equipoise.scheduling.framework.plugin_calls import Measure, PluginFailed, fail, measured
from equipoise.scheduling.framework.status import Code, PluginStatus
from equipoise.scheduling.model.arrays import Ints, Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot


class NodeScores(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of the feasible nodes."""

    rows: Rows
    raw: Mapping[str, Ints]
    """The scores by plugin, before they were normalized. Plugins that skipped the pod are missing."""

    normalized: Ints
    """The normalized scores (0..100), as an array of plugins × nodes. Plugins are in the order of `raw`."""

    weights: Ints
    """The weights of the plugins, in the order of `raw`."""

    total: Ints
    """The sum of the weighted scores."""

    @property
    def weighted(self) -> Mapping[str, Ints]:
        """The scores 0..100 by plugin, multiplied by its weight."""
        return dict(zip(self.raw, self.weights[:, np.newaxis] * self.normalized, strict=True))


class _ScorePlugin(msgspec.Struct, frozen=True, kw_only=True):
    """The functions and the weight of a plugin at the extension point score."""

    plugin: Plugin
    name: str
    weight: int
    score: Callable[..., Any]
    normalize: Callable[..., Any] | None


class Scoring:
    """The plugins at the extension points preScore and score."""

    def __init__(
        self,
        pre_score: Sequence[Any],
        score: Sequence[Plugin],
        weight: Callable[[str], int],
        measure: Measure | None,
    ) -> None:
        """The plugins are given in the order of calls. `weight` returns the weight of a plugin by its name."""
        self._pre_scores: list[tuple[Any, Callable[..., PluginStatus]]] = [
            (plugin, measured(measure, plugin, "preScore", plugin.pre_score))
            for plugin in pre_score
            if isinstance(plugin, PreScore)
        ]
        self._plugins = [_score_plugin(plugin, weight(plugin.name), measure) for plugin in score]
        self._by_skipped: dict[frozenset[str], tuple[list[_ScorePlugin], Ints]] = {}
        """The plugins that score, and their weights, by the set of skipped plugins. Most pods skip the same plugins."""

    def score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> NodeScores:
        """The scores of the feasible nodes. Raises PluginFailed for a score that is not within 0..100."""
        self._pre_score(state, pod, snapshot, rows)
        scoring, weights = self._without(state.skipped_scores)
        raw: dict[str, Ints] = {}
        normalized = np.empty((len(scoring), len(rows)), dtype=np.int64)
        for index, scorer in enumerate(scoring):
            try:
                scores = _integers(scorer.plugin, scorer.score(state, pod, snapshot, rows), len(rows))
                raw[scorer.name] = scores
                if scorer.normalize is not None:
                    scores = scorer.normalize(state, pod, snapshot, rows, scores.copy())
                    scores = _integers(scorer.plugin, scores, len(rows))
                normalized[index] = scores
            except Exception as error:
                fail(scorer.plugin, "score", error)
        # Read as unsigned integers, negative numbers are higher than all others. argmax is faster than max.
        unsigned = normalized.view(np.uint64)
        if normalized.size and unsigned.item(unsigned.argmax()) > MAX_SCORE:
            raise _out_of_range(scoring, normalized)
        return NodeScores(rows=rows, raw=raw, normalized=normalized, weights=weights, total=weights.dot(normalized))

    def _without(self, skipped: frozenset[str]) -> tuple[list[_ScorePlugin], Ints]:
        """The plugins that are not skipped, and their weights."""
        plugins = self._by_skipped.get(skipped)
        if plugins is None:
            scoring = [plugin for plugin in self._plugins if plugin.name not in skipped]
            weights = np.array([plugin.weight for plugin in scoring], dtype=np.int64)
            plugins = self._by_skipped[skipped] = scoring, weights
        return plugins

    def _pre_score(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> None:
        skipped = set()
        for plugin, pre_score in self._pre_scores:
            try:
                status = pre_score(state, pod, snapshot, rows)
            except Exception as error:
                fail(plugin, "preScore", error)
            if status.code == Code.SKIP:
                skipped.add(plugin.name)
            elif not status.is_success:
                raise PluginFailed(plugin.name, "preScore", "; ".join(status.reasons))
        state.skipped_scores = frozenset(skipped)


def _score_plugin(plugin: Any, weight: int, measure: Measure | None) -> _ScorePlugin:
    score: Callable[..., Any]
    if isinstance(plugin, Score):
        score = measured(measure, plugin, "score", plugin.score)
    else:
        score = partial(_scores_node_by_node, measured(measure, plugin, "score", plugin.score_node))
    return _ScorePlugin(
        plugin=plugin,
        name=plugin.name,
        weight=weight,
        score=score,
        normalize=measured(measure, plugin, "score", plugin.normalize) if isinstance(plugin, NormalizeScore) else None,
    )


def _scores_node_by_node(
    score_node: Callable[..., int], state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows
) -> list[int]:
    """The scores by a plugin that scores a single node."""
    return [score_node(state, pod, snapshot, row) for row in rows.tolist()]


def _out_of_range(scoring: Sequence[_ScorePlugin], normalized: Ints) -> PluginFailed:
    """The error for the first score outside of 0..100. `normalized`: plugins × nodes."""
    plugin, wrong = next(
        (scorer.plugin, scores[(scores < 0) | (scores > MAX_SCORE)])
        for scorer, scores in zip(scoring, normalized, strict=True)
        if scores.min() < 0 or scores.max() > MAX_SCORE
    )
    return PluginFailed(plugin.name, "score", f"the score {int(wrong[0])} is not within 0 and {MAX_SCORE}")


_INTEGERS = np.dtype(np.int64)


def _integers(plugin: Plugin, scores: Any, length: int) -> Ints:
    """The scores as integers. Raises PluginFailed for anything that is not a whole number, such as NaN."""
    if type(scores) is np.ndarray and scores.dtype is _INTEGERS and scores.shape == (length,):
        return scores  # what the plugins of kube-scheduler return
    array = np.asarray(scores)
    if array.shape != (length,):
        raise PluginFailed(plugin.name, "score", f"{length} scores were expected, one per node, not {array.shape}")
    if array.dtype == np.int64:
        return array
    if not np.issubdtype(array.dtype, np.integer):
        invalid = [value for value in array.tolist() if not isinstance(value, int | float) or not math.isfinite(value)]
        if invalid:
            raise PluginFailed(plugin.name, "score", f"{invalid[0]!r} is not a number")
        if not np.array_equal(array, np.trunc(array.astype(np.float64))):
            raise PluginFailed(plugin.name, "score", "scores are whole numbers")
    integers: Ints = array.astype(np.int64)
    return integers
