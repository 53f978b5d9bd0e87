"""Is there a node for the replacement, by what the bus reports of the nodes?

Rules between pods (affinity, topology spread, host ports) are checked by the descheduler, which reads whole pods: a
placement on the bus has requests only, and only those of cpu, memory and the bands of reclaimed resources.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

import msgspec
import numpy as np

from equipoise.binder.state.cluster_state import NodeState
from equipoise.contracts.configuration.settings import LoadSettings, Thresholds
from equipoise.contracts.eviction.node_eligibility import closed_reason, unsettled_reason
from equipoise.contracts.kubernetes.nodes.placed_objects import REPORTED
from equipoise.contracts.kubernetes.nodes.platforms import OTHER_PLATFORM, Platform, platform_of, runs_on
from equipoise.contracts.load.correction import (
    RESOURCES,
    UsageOf,
    corrected,
    is_fresh,
    known,
    load_of,
    measured_usage,
    partial_lifetimes,
    plus,
    total_of,
    usable_window,
)
from equipoise.contracts.load.further_load import resource_problems, with_fresh_resources
from equipoise.contracts.load.pressure import fresh_pressure, target_problem
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.values.resources import Resources
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.model.volumes import Volumes
from equipoise.scheduling.replacement import ReplacementFilters


class Obstacle(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pod does not fit on a node, or on none."""

    why: str
    unknown: bool = False
    """Whether the reason is a message that has not arrived yet, or a pod that is not measured yet. That ends without a
    change in the cluster."""


def source_refusal(placement: NodePlacement, load: LoadSettings, now: float) -> str:
    """Why no pod may leave the node; "" when pods may."""
    return unsettled_reason(
        taints=placement.taints,
        created_at=placement.created_at,
        ready=placement.ready,
        ready_since=placement.ready_since,
        now=now,
        period=load.coverage.node_settling_period,
    )


def _target_refusal(placement: NodePlacement, load: LoadSettings, now: float) -> str:
    """Why no pod may come to the node; "" when pods may."""
    if why := source_refusal(placement, load, now):
        return why
    if placement.unreadable:
        return f"an object cannot be read: {placement.unreadable}"
    return closed_reason(cordoned=placement.cordoned, labels=placement.labels, taints=placement.taints)


def predicted_load(
    node: NodeState, added: Resources, usage_of: UsageOf, load: LoadSettings, now: float, skew: float
) -> Resources | None:
    """The node's load (0..1) with the pod on it; None when it is unknown or not fresh enough for an eviction.

    `usage_of`: the usage of the other pods that ran in a part of the window only.
    """
    utilization = node.utilization
    if utilization is None or utilization.uid != node.placement.uid:
        return None
    fresh = load.freshness
    if not is_fresh(utilization.sampled_at, now, fresh.eviction, skew=skew, skew_limit=fresh.skew_unknown):
        return None
    for window in load.windows:
        value = usable_window(utilization, window, load, now, skew=skew)
        if value is not None:
            usage = corrected(
                with_fresh_resources(value.mean, utilization, now, fresh.eviction),
                (lifetime for _, lifetime in partial_lifetimes(utilization, node.placement, usage_of, load=load)),
                sampled_at=value.sampled_at,
                length=window.length,
                load=load,
                least=measured_usage(utilization, node.placement),
            )
            return load_of(plus(usage, added), utilization.base)
    return None


def _load_to_leave(node: NodeState, usage_of: UsageOf, load: LoadSettings, now: float, skew: float) -> Resources | None:
    """The load of the node without terminating pods, which leave anyway: it decides whether more pods must leave."""
    if node.utilization is None:
        return None
    measured = node.utilization.pods
    ending = total_of(measured.get(pod.uid, Resources()) for pod in node.placement.pods if pod.terminating)
    leaving = Resources(
        cpu=-(ending.cpu or 0.0),
        memory=-(ending.memory or 0.0),
        further={name: -amount for name, amount in (ending.further or {}).items()} or None,
    )
    return predicted_load(node, leaving, usage_of, load, now, skew)


def _limited(thresholds: Thresholds, resources: Collection[str]) -> dict[str, float]:
    """The high thresholds by resource. `resources`: the further resources that the node has."""
    limits = ((name, getattr(thresholds.high, name)) for name in RESOURCES)
    further = {name: limit.high for name, limit in thresholds.resources.items() if name in resources}
    return {**{name: limit for name, limit in limits if limit is not None}, **further}


def _too_hot(predicted: Resources | None, source: Resources | None, thresholds: Mapping[str, float]) -> Obstacle | None:
    """Why the target is too hot: above the high threshold, and not cooler than the node that the pod leaves.

    One of the two is allowed: in a busy cluster the descheduler levels around the mean, which may be above the
    threshold.
    """
    if predicted is None:
        return Obstacle(why="its load is unknown", unknown=True)
    unknown = None
    for resource, threshold in thresholds.items():
        load = known(predicted.amount(resource))
        if load is None:
            unknown = Obstacle(why=f"its {resource} load is unknown", unknown=True)
            continue
        source_load = known(source.amount(resource)) if source is not None else None
        above = f"its {resource} load would be {load:.0%}: above {threshold:g}% (high threshold)"
        if load * 100 <= threshold:
            continue
        if source_load is None:
            unknown = Obstacle(why=f"{above}, and the load of the pod's node is unknown", unknown=True)
        elif load >= source_load:
            return Obstacle(why=f"{above} and the pod's node")
    return unknown


def _measured(_: object, measured: Resources) -> Resources:
    """The usage of a pod without what is expected of it."""
    return measured


Refusals = Callable[[Sequence[NodeState]], Mapping[str, str]]
"""Why the replacement may not run on nodes, by name. Nodes on which it may run are absent."""


def refused_by_filters(pod: PodInfo, snapshot: ClusterSnapshot, volumes: Volumes) -> Refusals:
    """The reasons of kube-scheduler's filters. `volumes`: claims and volumes of the pod."""
    unknown = [resource for resource in pod.requests if resource not in REPORTED]
    filters = ReplacementFilters(volumes, unknown_resources=unknown, pods_known=False)

    def refused(nodes: Sequence[NodeState]) -> Mapping[str, str]:
        rows = [row for node in nodes if (row := snapshot.row(node.placement.node)) is not None]
        diagnosis = filters.refusals(pod, snapshot, np.array(rows, dtype=np.intp), current=None)
        return {snapshot.name(row): "; ".join(status.reasons) for row, status in diagnosis.by_node().items()}

    return refused


def refused_by_platform(pod: PodInfo, proven: Collection[Platform]) -> Refusals:
    """Nodes on which the images of the replacement may not run. `proven`: empty if all nodes are alike."""

    def refused(nodes: Sequence[NodeState]) -> Mapping[str, str]:
        required = pod.required_nodes
        return {
            node.placement.node: OTHER_PLATFORM
            for node in nodes
            if proven and not runs_on(platform_of(node.placement.labels), proven, required)
        }

    return refused


LARGEST_BATCH = 1_000
"""The most nodes that are examined in one step, which takes some 25 ms."""


def _batches(names: Iterable[str]) -> Iterator[Sequence[str]]:
    """The first name alone, then ten times as many in each batch: most pods fit on their target, or on one of the next
    nodes."""
    remaining, size = iter(names), 1
    while batch := list(islice(remaining, size)):
        yield batch
        size = min(10 * size, LARGEST_BATCH)


DestinationSearch = Generator[None, None, Obstacle | None]
"""A search that yields after each step. Most end in the first one."""


def destination_search(
    source: str,
    target: str,
    reduction: Resources,
    nodes: Mapping[str, NodeState],
    refusals: Sequence[Refusals],
    *,
    target_removed: bool = False,
    usage_of: UsageOf,
    load: LoadSettings,
    thresholds: Thresholds,
    now: float,
    skew: float,
) -> DestinationSearch:
    """Why the pod fits on no node but `source` without making it too hot; None when it fits on one.

    `reduction`: the load that moves with the pod. The intended `target` is checked first, and its reason is returned.
    `nodes`: all nodes, by name, which may change between two steps. `refusals`: the last one of them that refuses a
    node has the reason. `usage_of`: see `predicted_load`.
    """
    source_node = nodes.get(source)
    source_load = _load_to_leave(source_node, usage_of, load, now, skew) if source_node is not None else None

    def obstacle(node: NodeState, refused: str) -> Obstacle | None:
        why = _target_refusal(node.placement, load, now) or refused
        if not why and node.utilization is not None:
            pressure = fresh_pressure(node.utilization, load.freshness, now, skew=skew)
            why = target_problem(pressure, thresholds.pressure)
        if why:
            return Obstacle(why=why)
        utilization, labels = node.utilization, node.placement.labels
        limits = _limited(thresholds, () if utilization is None else resource_problems(utilization, labels, load, now))
        too_hot = _too_hot(predicted_load(node, reduction, usage_of, load, now, skew), source_load, limits)
        if too_hot is None or too_hot.unknown:
            return too_hot
        as_measured = predicted_load(node, reduction, _measured, load, now, skew)
        if _too_hot(as_measured, source_load, limits) is None:
            return Obstacle(why=f"{too_hot.why}, with pods that are not measured yet", unknown=True)
        return too_hot

    def others() -> Iterator[str]:
        yield from [name for name in nodes if name not in (source, target)]

    first = None
    for names in _batches(chain([target] if target in nodes and target != source else [], others())):
        batch = [nodes[name] for name in names if name in nodes]
        refused = {name: why for refusals_of in refusals for name, why in refusals_of(batch).items()}
        for node in batch:
            name = node.placement.node
            found = obstacle(node, refused.get(name, ""))
            if found is None:
                return None
            first = first or msgspec.structs.replace(found, why=f"{name}: {found.why}")
        yield
    if first is None:
        first = Obstacle(why="no other node is known", unknown=not target_removed)
    elif target not in nodes:
        why = "the node was removed" if target_removed else "the node is unknown"
        first = Obstacle(why=f"{target}: {why}", unknown=not target_removed)
    return msgspec.structs.replace(first, why=f"no node for the replacement: {first.why}")


def concluded(search: DestinationSearch) -> Obstacle | None:
    """The result of a search, without pauses between its steps."""
    while True:
        try:
            next(search)
        except StopIteration as end:
            result: Obstacle | None = end.value
            return result
