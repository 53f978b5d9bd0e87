"""The usage and capacity of a further resource on each node, each with the reason if it is unknown."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.query import Sample, SourceError
from equipoise.collector.state.placement import PodName
from equipoise.contracts.bounds import MAX_BYTES
from equipoise.contracts.load.correction import FUTURE_TOLERANCE

MAX_SERIES_PER_NODE = 4
"""A result with more series than this times the nodes is no result with one series per node."""

SPARE_SERIES = 100
"""Series of nodes that were removed, or of another cluster, that are ignored without an error."""


class FurtherReading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The usage of one further resource of a node in one window."""

    mean: float | None = None
    sampled_at: float = 0.0
    """Time of the newest raw sample; 0 if there is none."""

    unknown: str = ""
    """Why the mean is unknown; empty if it is known."""


class ByNode(NamedTuple):
    """The values of a result by node."""

    values: Mapping[str, Sequence[float]]
    strangers: tuple[str, ...] = ()
    """The series that name no node of this cluster."""


class WindowSamples(msgspec.Struct, frozen=True, kw_only=True):
    """The results of the queries about one resource and window."""

    mean: Sequence[Sample]
    newest: Sequence[Sequence[Sample]]
    """The newest samples of each selector of the query. A node has several of one selector if the labels of its series
    changed, such as `instance` when an exporter was restarted."""

    oldest: Sequence[Sequence[Sample]]


def by_node(samples: Iterable[Sample], nodes: Mapping[str, float], names: NodeNames, expected: int | None) -> ByNode:
    """The values of each of these nodes. Raises SourceError if there are far more series than nodes.

    `expected`: the number of nodes of the cluster that have the resource; None: these are all.
    """
    listed = list(samples)
    expected = len(nodes) if expected is None else expected
    if len(listed) > MAX_SERIES_PER_NODE * expected + SPARE_SERIES:
        raise SourceError(f"{len(listed)} series for {expected} nodes: aggregate by node, as in sum by (node) (…)")
    values: dict[str, list[float]] = {}
    strangers = []
    for sample in listed:
        node = names.of(sample.node)
        if node in nodes:
            values.setdefault(node, []).append(sample.value)
        elif not names.has(node):
            strangers.append(sample.series)
    return ByNode(values, tuple(strangers))


def readings(
    samples: WindowSamples,
    nodes: Mapping[str, float],
    names: NodeNames,
    *,
    expected: int | None = None,
    at: float,
    length: float,
    coverage: float,
    max_age: float,
) -> tuple[dict[str, FurtherReading], tuple[str, ...]]:
    """A reading for every node, and the series of no node.

    `nodes`: their creation times; `expected`: the number of nodes of the cluster that have the resource, None: these
    are all; `coverage`: the least share (0..1) of the window between its oldest and its newest sample; other arguments
    in seconds.
    """
    means = by_node(samples.mean, nodes, names, expected)
    newest = [by_node(of_selector, nodes, names, expected).values for of_selector in samples.newest]
    oldest = [by_node(of_selector, nodes, names, expected).values for of_selector in samples.oldest]

    def reading(node: str, created_at: float) -> FurtherReading:
        # With several selectors, the value is as old as the oldest of them, and covered as far as each of them. One
        # without a sample in the window adds nothing to the value, as one side of `or`.
        used = [
            (new.get(node, ()), old.get(node, ()))
            for new, old in zip(newest, oldest, strict=True)
            if node in new or node in old
        ]
        newest_at = _lowest([max(times, default=math.nan) for times, _ in used])
        oldest_at = -_lowest([-min(times, default=math.nan) for _, times in used])
        if not math.isfinite(newest_at):
            return FurtherReading(unknown="no sample")
        if newest_at > at + FUTURE_TOLERANCE:
            return FurtherReading(unknown=f"newest sample lies {newest_at - at:.0f} s in the future")
        if newest_at < created_at:
            return FurtherReading(unknown="newest sample is older than the node")
        mean, why = single_amount(means.values.get(node, ()))
        since = max(oldest_at, at - length, created_at) if math.isfinite(oldest_at) else newest_at
        share = max(newest_at - since, 0.0) / length
        if at - newest_at > max_age:
            mean, why = None, f"newest sample is {at - newest_at:.0f} s old"
        elif share < coverage:
            mean, why = None, f"samples cover {share:.0%} of a window of {length:g} s"
        return FurtherReading(mean=mean, sampled_at=newest_at, unknown=why)

    return {node: reading(node, created_at) for node, created_at in nodes.items()}, means.strangers


def _lowest(values: Sequence[float]) -> float:
    """The lowest of these times; NaN if one of them is unknown, or if there is none."""
    return min(values, default=math.nan) if not any(map(math.isnan, values)) else math.nan


def single_amount(values: Sequence[float]) -> tuple[float | None, str]:
    """The amount if there is exactly one valid value, else None and why."""
    if not values:
        return None, "no series of the result names this node"
    if len(values) > 1:
        return None, f"{len(values)} series claim to be this node"
    if not 0 <= values[0] <= MAX_BYTES:  # NaN is not, either
        return None, f"value is {values[0]:g}"
    return values[0] + 0.0, ""


def capacities(
    samples: Iterable[Sample], nodes: Mapping[str, float], names: NodeNames, *, expected: int | None = None
) -> dict[str, tuple[float | None, str]]:
    """The capacity of every node, or None and why it is unknown."""
    known = by_node(samples, nodes, names, expected).values

    def capacity(node: str) -> tuple[float | None, str]:
        amount, why = single_amount(known.get(node, ()))
        if amount == 0:
            return None, "its capacity is 0"
        return amount, f"its capacity is unknown: {why}" if why else ""

    return {node: capacity(node) for node in nodes}


def pod_amounts(samples: Iterable[Sample], pods: Mapping[PodName, str]) -> dict[str, float]:
    """The usage of each of these pods by UID. A pod with no valid value or several is left out. `pods`: their UIDs."""
    values: dict[str, list[float]] = {}
    for sample in samples:
        if (uid := pods.get((sample.namespace, sample.pod))) is not None:
            values.setdefault(uid, []).append(sample.value)
    amounts = ((uid, single_amount(of_pod)[0]) for uid, of_pod in values.items())
    return {uid: amount for uid, amount in amounts if amount is not None}
