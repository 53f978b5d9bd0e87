"""Is there a node that a replacement could go to, by what the bus says of the fleet?

Whether other pods would mind (affinity, spread) is judged by the descheduler, which sees whole pods; placement on the
bus tells requests only.
"""

import math
from collections.abc import Sequence

import msgspec

from equipoise.contracts.configuration.settings import LoadSettings, Thresholds
from equipoise.contracts.fit import FitNode, FitPod, node_refusal, placed_node
from equipoise.contracts.kubernetes.autoscaler_taints import being_removed, may_be_removed
from equipoise.contracts.load.correction import (
    RESOURCES,
    PodLifetime,
    corrected,
    is_fresh,
    known,
    load_of,
    plus,
    usable_window,
)
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization


class FleetNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node, as its last messages tell it."""

    placement: NodePlacement
    fit: FitNode
    utilization: NodeUtilization | None = None


def fleet_node(placement: NodePlacement) -> FleetNode:
    return FleetNode(placement=placement, fit=placed_node(placement))


def unsettled(node: FleetNode, load: LoadSettings, now: float) -> str:
    """ "" when the node may lose or get pods, else why neither."""
    placement = node.placement
    settling = load.coverage.node_settling_period
    if not placement.ready or placement.ready_since is None:
        return "it is not Ready"
    if now - placement.ready_since < settling:
        return f"it is Ready for {max(0.0, now - placement.ready_since):.0f} s only"
    if now - placement.created_at < settling:
        return "it is new"
    taint = being_removed(placement.taints)
    return f"an autoscaler is removing it (taint {taint})" if taint else ""


def _closed(node: FleetNode) -> str:
    """ "" when pods may be sent to a settled node, else why not."""
    if node.placement.cordoned:
        return "it is cordoned"
    taint = may_be_removed(node.placement.taints)
    return f"an autoscaler would like to remove it (taint {taint})" if taint else ""


def predicted_load(node: FleetNode, relief: Resources, load: LoadSettings, now: float, skew: float) -> Resources | None:
    """The node's load (0..1) with the pod on it; None when it is not known well enough for an eviction."""
    utilization = node.utilization
    if utilization is None or utilization.uid != node.placement.uid:
        return None
    fresh = load.freshness
    if not is_fresh(utilization.sampled_at, now, fresh.eviction, skew=skew, skew_limit=fresh.skew_unknown):
        return None
    for window in load.windows:
        value = usable_window(utilization, window, load, now, skew=skew)
        if value is not None:
            stays = _stays(node.placement, utilization)
            usage = corrected(
                value.mean,
                stays,
                sampled_at=value.sampled_at,
                length=window.length,
                mode=load.compensation,
                pod_start_timeout=load.pod_start_timeout,
            )
            return load_of(plus(usage, relief), utilization.base)
    return None


def _stays(placement: NodePlacement, utilization: NodeUtilization) -> list[PodLifetime]:
    present = [
        PodLifetime(
            placed_at=pod.placed_at,
            running_since=pod.running_since,
            gone_at=math.inf if pod.terminating else None,
            usage=utilization.pods.get(pod.uid, pod.requests),
        )
        for pod in placement.pods
    ]
    left = [
        PodLifetime(placed_at=pod.running_since, running_since=pod.running_since, gone_at=pod.gone_at, usage=pod.usage)
        for pod in placement.gone
    ]
    return present + left


def _too_hot(predicted: Resources | None, source: Resources | None, thresholds: Thresholds) -> str:
    """Above the high mark, and no cooler than the node that the pod leaves.

    Either is enough: in a fleet that is busy everywhere the descheduler levels around the mean, above the mark.
    """
    if predicted is None:
        return "its load is unknown"
    for resource in RESOURCES:
        mark = getattr(thresholds.high, resource)
        if mark is None:
            continue
        value = known(getattr(predicted, resource))
        if value is None:
            return f"its {resource} load is unknown"
        there = known(getattr(source, resource)) if source is not None else None
        if value * 100 > mark and (there is None or value >= there):
            return f"its {resource} load would be {value:.0%}, {mark:g}% is the high mark, and no less than here"
    return ""


def no_target(
    pod: FitPod,
    source: str,
    intended: str,
    relief: Resources,
    nodes: Sequence[FleetNode],
    *,
    load: LoadSettings,
    thresholds: Thresholds,
    now: float,
    skew: float,
) -> str:
    """ "" when the pod fits on a node other than its own without making it too hot, else why on none.

    The intended target is asked first, and its refusal is the one that is told.
    """
    told = ""
    here = next((node for node in nodes if node.placement.node == source), None)
    now_here = predicted_load(here, Resources(), load, now, skew) if here is not None else None
    for node in sorted(nodes, key=lambda node: node.placement.node != intended):
        name = node.placement.node
        if name == source:
            continue
        why = (
            unsettled(node, load, now)
            or _closed(node)
            or _too_hot(predicted_load(node, relief, load, now, skew), now_here, thresholds)
            or node_refusal(pod, node.fit)
        )
        if not why:
            return ""
        told = told or f"{name}: {why}"
    return f"no node to go to: {told}" if told else "no node to go to: no other node is known"
