"""The mean usage of pods in a window. Pods whose usage is unknown are left out."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.query import Origin, ResourceName
from equipoise.collector.decisions.scrape_choice import Scrapes, choose_scrapes
from equipoise.collector.decisions.validation.usage import usage_of
from equipoise.collector.decisions.validation.window import (
    MeasurementTarget,
    Samples,
    WindowCriteria,
    is_short,
    min_samples,
)
from equipoise.collector.state.placement import PodName
from equipoise.contracts.bounds import MAX_BYTES


def validate_pods(
    targets: Mapping[PodName, MeasurementTarget], resource: ResourceName, samples: Samples, criteria: WindowCriteria
) -> tuple[dict[PodName, float], Scrapes]:
    """Mean usage of the targets that were measured, and what measured the pods of each node; others are left out.

    Without samples of `count`, the source has already left out the series with too few samples.
    A pod that was created again under its name on another node has a series on both: the one of its node counts.
    """
    scrapes = choose_scrapes(samples.get("mean", ()), criteria.names, criteria.scrapes.get(resource, {}))
    counted = "count" in samples
    counts: dict[str, float] = {}
    for sample in samples.get("count", ()):
        counts[sample.series] = math.nan if sample.series in counts else sample.value
    begin = criteria.at - criteria.coverage * criteria.length
    # By node. Determined again only if the next sample has another origin, which is rare.
    accepted: dict[str, _AcceptedPods] = {}
    measured: dict[PodName, float] = {}  # NaN: unknown
    for sample in samples.get("mean", ()):
        name = (sample.namespace, sample.pod)
        pod = targets.get(name)
        if pod is None:
            continue
        bounds = accepted.get(pod.node)
        if bounds is None or bounds.origin is not sample.origin:
            bounds = accepted[pod.node] = _accepted_pods(pod, resource, sample.origin, scrapes, criteria)
        if not bounds.is_accepted:
            continue
        if name in measured:
            measured[name] = math.nan
            continue
        covered = pod.since <= begin
        if covered and counted:
            covered = bounds.required <= counts.get(sample.series, 0.0) < math.inf
        if not covered or bounds.required == math.inf:
            usage = None
        elif 0.0 < sample.value <= bounds.most and not sample.share_of_capacity:  # nearly always
            usage = sample.value
        else:
            usage = usage_of(sample, bounds.capacity)[0]
        measured[name] = math.nan if usage is None else usage
    for name in [name for name, usage in measured.items() if math.isnan(usage)]:
        del measured[name]
    return measured, scrapes


class _AcceptedPods(NamedTuple):
    """The criteria by which samples of a node's pods are measurements."""

    origin: Origin
    is_accepted: bool
    """Whether samples of this origin count."""

    required: float
    """The required number of samples in the window; infinite if no number suffices."""

    capacity: float | None

    most: float
    """A positive value up to this one is a usage."""


def _accepted_pods(
    pod: MeasurementTarget, resource: ResourceName, origin: Origin, scrapes: Scrapes, criteria: WindowCriteria
) -> _AcceptedPods:
    node, interval = pod.node, criteria.intervals.of(pod.node)
    capacity: float | None = getattr(pod.capacity, resource)
    is_of_node = not origin.node or origin.node == node or not _is_elsewhere(origin.node, node, criteria.names)
    return _AcceptedPods(
        origin=origin,
        is_accepted=is_of_node and scrapes.get(node, origin.scrape) == origin.scrape,
        required=_required(criteria, interval),
        capacity=capacity,
        most=MAX_BYTES if capacity is None else min(capacity, MAX_BYTES),
    )


def _required(criteria: WindowCriteria, interval: float | None) -> float:
    if interval is None or is_short(criteria.length, interval):
        return math.inf
    return min_samples(criteria, interval)


def _is_elsewhere(text: str, node: str, names: NodeNames) -> bool:
    """Whether the text names another node. One that names no node at all, such as the address of a proxy, does not,
    unless no names are known."""
    named = names.of(text)
    return named != node and (names.has(named) or not names.by_text)
