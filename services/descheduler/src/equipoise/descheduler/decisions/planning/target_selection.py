"""Where a pod that leaves its node should go."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from equipoise.contracts.fit import FitPod, Neighbours, capacity_refusal, constraint_refusal, neighbour_refusal
from equipoise.descheduler.decisions.planning.classification import within
from equipoise.descheduler.decisions.planning.node_arrays import (
    MEASURED,
    REQUEST_TOLERANCE,
    Array,
    Flags,
    amount_of,
    row,
)
from equipoise.descheduler.decisions.planning.projection import Projection
from equipoise.descheduler.decisions.planning.thresholds import Levels
from equipoise.descheduler.state.cluster import FleetNode, MovablePod, Resource

TOLERANCE = 1e-9
"""Of a load: sums of shares are not exact."""

Places = npt.NDArray[np.int64]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Where to, or why nowhere."""

    target: FleetNode | None = None
    why: str = ""
    too_big: bool = False
    """No target could hold it below its limits, from wherever it came: the same is true of every bigger pod."""


class Targets(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that pods may be moved to, and how far each may be filled."""

    nodes: Sequence[FleetNode]
    places: Places
    """Their rows in the projection, in the order of names."""

    limits: Array
    """Nodes × resources: load (0..1) that must not be exceeded; infinite where none is set."""

    widest: Array
    """As `limits`, for what leaves a node that stays hotter than the target becomes."""

    production: Array
    """As `limits`, of what production pods use there."""

    idle: Flags
    """Per node: at or below the idle marks when the plan began."""

    closed: dict[bytes, "Closed"] = {}
    """By what pods ask of a node that moves do not change: which nodes were found to refuse that."""

    def of(self, chosen: Flags) -> "Targets":
        """Only those."""
        return Targets(
            nodes=[node for node, flag in zip(self.nodes, chosen, strict=True) if flag],
            places=self.places[chosen],
            limits=self.limits[chosen],
            widest=self.widest[chosen],
            production=self.production[chosen],
            idle=self.idle[chosen],
        )


class Closed(msgspec.Struct, kw_only=True):
    """Which targets refuse pods of one kind, found out as they are asked."""

    reasons: list[str]
    codes: npt.NDArray[np.int16]
    """Per target: the index of its reason; 0 while it has refused nothing."""


def targets_of(
    nodes: Sequence[FleetNode],
    projection: Projection,
    levels: Levels,
    production: Levels | None = None,
    *,
    target_mark: float,
    levelling: bool = False,
) -> Targets:
    """The nodes of known load that are open to pods.

    Idle ones may be filled up to the ceiling; the others only to `target_mark` (0..1) of the way from idle to there.
    `levelling`: these too up to the ceiling, by nodes that stay hotter than they become.
    """
    ordered = sorted(nodes, key=lambda node: node.name)
    rows = [projection.positions[node.name] for node in ordered]
    load = projection.amounts[rows] / projection.base[rows]
    open_to = np.array([not (node.target_refusal or node.unknown) for node in ordered], dtype=np.bool_)
    counted = [resource in levels.ceiling for resource in MEASURED]
    open_to &= ~np.isnan(load[:, counted]).any(axis=1)
    limits, idle = _limits(load, levels, target_mark)
    widest, _ = _limits(load, levels, 1.0) if levelling and target_mark else (limits, idle)
    caps = np.full(load.shape, np.inf)
    if production is not None:
        used = projection.production[rows] / projection.base[rows]
        caps, prod_idle = _limits(used, production, target_mark)
        caps[~projection.production_whole[rows]] = -np.inf
        if production.idle:  # a high mark alone says of no node that it holds little production
            idle = idle | (prod_idle & projection.production_whole[rows])
    places = np.array(rows, dtype=np.int64)
    found = Targets(nodes=ordered, places=places, limits=limits, widest=widest, production=caps, idle=idle)
    return found.of(open_to)


def _limits(load: Array, levels: Levels, target_mark: float) -> tuple[Array, Flags]:
    """How far each node may be filled, and which are idle."""
    idle = within(load, levels.idle)
    ceiling = row(levels.ceiling, missing=np.inf)
    low = row({resource: levels.idle.get(resource, 0.0) for resource in levels.ceiling}, missing=0.0)
    partly = low + (ceiling - low) * target_mark if target_mark else np.where(np.isinf(ceiling), np.inf, low)
    return np.where(idle[:, np.newaxis], ceiling, partly), idle


def best_target(
    pod: MovablePod,
    source: FleetNode,
    targets: Targets,
    projection: Projection,
    *,
    hot: Collection[Resource],
    weights: Mapping[Resource, float],
    production: bool = False,
    least: float | None = None,
) -> Found:
    """The node that is least loaded with the pod on it, of those it fits on and that stay within their limits.

    `hot`: the resources the source has too much of. They decide first: memory must not choose where CPU is levelled.
    `production`: they are those of its production pods. `least`: the source gives to idle nodes; to others only a pod
    that takes so much load (0..1) off it, and while it stays hotter than they become.
    """
    columns = [MEASURED.index(resource) for resource in hot]
    here = projection.positions[source.name]
    refusals: Counter[str] = Counter()
    candidates, after, used = _below_limits(pod, here, targets, targets.widest, projection, refusals)
    if not candidates.any():
        return Found(why=summary(refusals), too_big=True)
    candidates &= targets.places != here
    compared, before = (used, projection.production) if production and used is not None else (after, projection.amounts)
    load = before[here, columns] / projection.base[here, columns]
    left = load - amount_of(pod)[columns] / projection.base[here, columns]
    hotter = (compared[:, columns] >= load).any(axis=1)
    above = (compared[:, columns] > left + TOLERANCE).any(axis=1)
    beyond = after > targets.limits + TOLERANCE
    # Only what the source has too much of is levelled: nothing else is a reason to fill a target further.
    too_far = (beyond[:, columns].any(axis=1) & (above | production)) | np.delete(beyond, columns, axis=1).any(axis=1)
    closed = [
        (hotter, "the target would be hotter than the source is"),
        (too_far, "it would come above the mark for targets that are not idle"),
    ]
    if least is not None:
        crumb = bool((load - left < least - TOLERANCE).any())
        closed.append((~targets.idle & (above | crumb), "it is not idle, and would level too little"))
    for mask, why in closed:
        refusals[why] += int((candidates & mask).sum())
        candidates &= ~mask
    if not candidates.any():
        return Found(why=summary(refusals))
    weight = row(weights, missing=1.0)
    by_hot = (compared[:, columns] * weight[columns]).sum(axis=1)
    by_all = np.nansum(after * weight, axis=1)
    order = np.flatnonzero(candidates)
    ranked = order[np.lexsort((by_all[order], by_hot[order]))]
    return first_that_fits(pod, ranked, targets, projection, refusals)


def fullest_target(
    pod: MovablePod, source: FleetNode, targets: Targets, projection: Projection, *, weights: Mapping[Resource, float]
) -> Found:
    """The node that is fullest with the pod on it, by what is used and by what is requested, within its limits."""
    refusals: Counter[str] = Counter()
    here = projection.positions[source.name]
    candidates, after, _ = _below_limits(pod, here, targets, targets.limits, projection, refusals)
    candidates &= targets.places != here
    if not candidates.any():
        return Found(why=summary(refusals))
    order = np.flatnonzero(candidates)
    weight = row(weights, missing=1.0)
    requested = projection.requested[targets.places[order]]
    fullness = np.nansum(after[order] * weight, axis=1) + requested @ weight[:2]
    return first_that_fits(pod, order[np.argsort(-fullness, kind="stable")], targets, projection, refusals)


def _below_limits(
    pod: MovablePod, here: int, targets: Targets, limits: Array, projection: Projection, refusals: Counter[str]
) -> tuple[Flags, Array, Array | None]:
    """Which targets, its own node among them, stay within these limits with the pod, and the loads they would have.

    As a whole, and by their production pods if this is one.
    """
    amount = amount_of(pod)
    base = projection.base[targets.places]
    after: Array = (projection.amounts[targets.places] + amount) / base
    used: Array | None = (projection.production[targets.places] + amount) / base if pod.production else None
    candidates: Flags = np.ones(len(targets.nodes), dtype=np.bool_)
    elsewhere = targets.places != here
    for mask, why in _over(after, used, limits, targets.production):
        refusals[why] += int((candidates & elsewhere & mask).sum())
        candidates &= ~mask
    return candidates, after, used


def _over(after: Array, production: Array | None, limits: Array, caps: Array) -> list[tuple[Flags, str]]:
    """Per resource: the targets that would come above a limit with the pod."""
    found = [
        (after[:, column] > limits[:, column] + TOLERANCE, f"{resource} would come above the target's mark")
        for column, resource in enumerate(MEASURED)
    ]
    if production is not None:
        # Unknown production use is limited by −∞: it must not compare as fine.
        found += [
            (
                ~(production[:, column] <= caps[:, column] + TOLERANCE) & ~np.isposinf(caps[:, column]),
                f"production's {resource} would come above the target's mark",
            )
            for column, resource in enumerate(MEASURED)
        ]
    return found


def first_that_fits(
    pod: MovablePod, ranked: Places, targets: Targets, projection: Projection, refusals: Counter[str]
) -> Found:
    """The first of `ranked` (rows of `targets`) that kube-scheduler's filters would let the replacement onto."""
    closed = _closed_to(pod.fit, targets)
    for code, count in zip(*np.unique(closed.codes[ranked], return_counts=True), strict=True):
        if code:
            refusals[closed.reasons[code]] += int(count)
    ranked = ranked[closed.codes[ranked] == 0]
    short = (projection.room[targets.places[ranked]] + REQUEST_TOLERANCE < _request(pod.fit)).any(axis=1)
    if short.any():
        refusals["not enough is left to request"] += int(short.sum())
        ranked = ranked[~short]
    around: Neighbours | None = None
    for place in ranked.tolist():
        fit = projection.fits[int(targets.places[place])]
        why = constraint_refusal(pod.fit, fit)
        if why:
            _close(closed, place, why)
        else:
            why = capacity_refusal(pod.fit, fit)
        if not why:
            around = around or projection.around(pod)
            why = neighbour_refusal(fit, around)
        if not why:
            return Found(target=targets.nodes[place])
        refusals[why] += 1
    return Found(why=summary(refusals))


def _request(pod: FitPod) -> Array:
    """Nothing is asked for: a node that has less than nothing left takes it all the same."""
    asked = [pod.requests.get("cpu", 0.0), pod.requests.get("memory", 0.0), 1.0]
    return np.array([amount if amount > 0 else -np.inf for amount in asked])


def _closed_to(pod: FitPod, targets: Targets) -> Closed:
    asked = msgspec.json.encode((pod.tolerations, pod.node_selector, pod.node_affinity, pod.volume_nodes))
    if asked not in targets.closed:
        targets.closed[asked] = Closed(reasons=[""], codes=np.zeros(len(targets.nodes), dtype=np.int16))
    return targets.closed[asked]


def _close(closed: Closed, place: int, why: str) -> None:
    if why not in closed.reasons:
        closed.reasons.append(why)
    closed.codes[place] = closed.reasons.index(why)


def summary(refusals: Mapping[str, int]) -> str:
    """The commonest refusals, with the number of nodes."""
    told = {why: count for why, count in refusals.items() if count}
    if not told:
        return "no node to move to"
    commonest = sorted(told.items(), key=lambda entry: (-entry[1], entry[0]))[:3]
    return "no target: " + "; ".join(f"{why} ({count} {'node' if count == 1 else 'nodes'})" for why, count in commonest)
