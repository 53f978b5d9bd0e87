"""The node to which a pod should be moved."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec

from equipoise.contracts.numeric import Array, Flags, Indexes, np
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod, Resource
from equipoise.descheduler.decisions.planning.classification import within
from equipoise.descheduler.decisions.planning.node_arrays import row
from equipoise.descheduler.decisions.planning.thresholds import AppliedThresholds
from equipoise.descheduler.state.projection import Projection

TOLERANCE = 1e-9
"""The tolerance of a load: sums of shares are not exact."""


OUTSCORED = "kube-scheduler would prefer another node for the replacement"
NOT_EXAMINED = "not examined: kube-scheduler would place the replacements of too many other pods elsewhere"


class TargetChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The target, or why there is none."""

    target: ClusterNode | None = None
    why: str = ""
    too_large: bool = False
    """Whether no target can hold the pod within its limits, whatever the source is. Then none can hold a larger pod."""


class TargetNodes(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes to which pods may be moved, and how far each may be filled."""

    nodes: Sequence[ClusterNode]
    rows: Indexes
    """The rows of the nodes in the projection, in the order of names."""

    limits: Array
    """Nodes × resources: load (0..1) that must not be exceeded; infinite without a limit."""

    widest: Array
    """The limits for pods whose source is hotter after the move than the target."""

    production: Array
    """The same as `limits`, for the usage of production pods."""

    idle: Flags
    """Whether each node was at or below the idle thresholds when the plan began."""


def target_nodes(
    nodes: Sequence[ClusterNode],
    projection: Projection,
    applied: AppliedThresholds,
    production: AppliedThresholds | None = None,
    *,
    target_threshold: float,
    leveling: bool = False,
) -> TargetNodes:
    """The nodes of known load to which pods may be moved. What terminating pods use counts here.

    Idle ones may be filled up to the ceiling, the others only up to `target_threshold` (0..1) of the distance between
    the idle threshold and the ceiling. With `leveling`, the others may also be filled up to the ceiling if the source
    remains hotter than the target becomes.
    """
    all_loads = (projection.amounts + projection.terminating) / projection.base
    columns = projection.columns
    limited = [resource in applied.ceiling for resource in columns]
    has_known_load = np.asarray(~np.isnan(all_loads[:, limited]).any(axis=1), dtype=np.bool_)
    chosen = [
        node
        for node in sorted(nodes, key=lambda node: node.name)
        if has_known_load[projection.positions[node.name]] and not (node.target_refusal or node.unknown)
    ]
    rows = np.array([projection.positions[node.name] for node in chosen], dtype=np.int64)
    load = all_loads[rows]
    limits, idle = _limits(load, applied, target_threshold, columns)
    widest, _ = _limits(load, applied, 1.0, columns) if leveling and target_threshold else (limits, idle)
    caps = np.full(load.shape, np.inf)
    if production is not None:
        used = (projection.production + projection.terminating_production)[rows] / projection.base[rows]
        caps, prod_idle = _limits(used, production, target_threshold, columns)
        caps[~projection.production_complete[rows]] = -np.inf
        if production.idle:  # without a low threshold of production no node counts as idle by its production
            idle = idle | (prod_idle & projection.production_complete[rows])
    return TargetNodes(nodes=chosen, rows=rows, limits=limits, widest=widest, production=caps, idle=idle)


def _limits(
    load: Array, applied: AppliedThresholds, target_threshold: float, columns: Sequence[Resource]
) -> tuple[Array, Flags]:
    """How far each node may be filled, and which are idle."""
    idle = within(load, applied.idle, columns)
    ceiling = row(applied.ceiling, missing=np.inf, columns=columns)
    low = row({name: applied.idle.get(name, 0.0) for name in applied.ceiling}, missing=0.0, columns=columns)
    unlimited = np.where(np.isinf(ceiling), np.inf, low)
    partly = low + (ceiling - low) * target_threshold if target_threshold else unlimited
    return np.where(idle[:, np.newaxis], ceiling, partly), idle


def least_loaded_target(
    pod: MovablePod,
    source: ClusterNode,
    targets: TargetNodes,
    projection: Projection,
    *,
    hot: Collection[Resource],
    weights: Mapping[Resource, float],
    production: bool = False,
    min_reduction: float | None = None,
) -> TargetChoice:
    """The node with the lowest load including the pod, of those on which it fits within their limits.

    `hot`: the resources in which the source is hot. They are compared first: memory must not decide when CPU is
    leveled. `production`: it is hot by its production pods. With `min_reduction`, pods may move to idle nodes, and to
    others only if the pod reduces the load of the source by this much (0..1) and the source stays hotter than the
    target.
    """
    columns = [projection.columns.index(resource) for resource in hot]
    source_row = projection.positions[source.name]
    refusals: Counter[str] = Counter()
    candidates, after, used = _within_limits(pod, source_row, targets, targets.widest, projection, refusals)
    if not candidates.any():
        return TargetChoice(why=summary(refusals), too_large=True)
    candidates &= targets.rows != source_row
    by_production = production and used is not None
    compared = used if by_production and used is not None else after
    before = projection.production[source_row] if by_production else projection.measured(source_row)
    source_load = before[columns] / projection.base[source_row, columns]
    source_load_after = source_load - projection.amount_of(pod)[columns] / projection.base[source_row, columns]
    becomes_hotter = (compared[:, columns] >= source_load).any(axis=1)
    exceeds_source = (compared[:, columns] > source_load_after + TOLERANCE).any(axis=1)
    over_limit = after > targets.limits + TOLERANCE
    # Only the hot resources are leveled: no other is a reason to fill a target further.
    others_over_limit = np.delete(over_limit, columns, axis=1).any(axis=1)
    over_threshold = others_over_limit | (over_limit[:, columns].any(axis=1) & (exceeds_source | production))
    excluded = [
        (becomes_hotter, "the target would become hotter than the source is"),
        (over_threshold, "it would be above the threshold for targets that are not idle"),
    ]
    if min_reduction is not None:
        too_small = bool((source_load - source_load_after < min_reduction - TOLERANCE).any())
        excluded.append(
            (~targets.idle & (exceeds_source | too_small), "it is not idle, and the reduction would be too small")
        )
    for mask, why in excluded:
        refusals[why] += int((candidates & mask).sum())
        candidates &= ~mask
    if not candidates.any():
        return TargetChoice(why=summary(refusals))
    weight = row(weights, missing=1.0, columns=projection.columns)
    by_hot = (compared[:, columns] * weight[columns]).sum(axis=1)
    by_all = np.nansum(after * weight, axis=1)
    order = np.flatnonzero(candidates)
    ranked = order[np.lexsort((by_all[order], by_hot[order]))]
    return first_that_fits(pod, ranked, targets, projection, refusals)


def fullest_target(
    pod: MovablePod,
    source: ClusterNode,
    targets: TargetNodes,
    projection: Projection,
    *,
    weights: Mapping[Resource, float],
) -> TargetChoice:
    """The node that is fullest with the pod, by usage and requests, of those on which it fits within their limits."""
    refusals: Counter[str] = Counter()
    source_row = projection.positions[source.name]
    candidates, after, _ = _within_limits(pod, source_row, targets, targets.limits, projection, refusals)
    candidates &= targets.rows != source_row
    if not candidates.any():
        return TargetChoice(why=summary(refusals))
    order = np.flatnonzero(candidates)
    weight = row(weights, missing=1.0, columns=projection.columns)
    requested = projection.fit.requested[targets.rows[order]]
    fullness = np.nansum(after[order] * weight, axis=1) + requested @ weight[:2]
    return first_that_fits(pod, order[np.argsort(-fullness, kind="stable")], targets, projection, refusals)


def _within_limits(
    pod: MovablePod,
    source_row: int,
    targets: TargetNodes,
    limits: Array,
    projection: Projection,
    refusals: Counter[str],
) -> tuple[Flags, Array, Array | None]:
    """Whether each target, the pod's own node included, stays within these limits with the pod; and their loads and
    production loads."""
    after, used = _with_pod(pod, targets.rows, projection)
    candidates: Flags = np.ones(len(targets.nodes), dtype=np.bool_)
    elsewhere = targets.rows != source_row
    for mask, why in _above(after, used, limits, targets.production, projection.columns):
        refusals[why] += int((candidates & elsewhere & mask).sum())
        candidates &= ~mask
    return candidates, after, used


def is_within_limits(
    pod: MovablePod, place: int, targets: TargetNodes, projection: Projection, *, leaving: MovablePod | None = None
) -> bool:
    """Whether one target, by its place in `targets`, stays within its limits with the pod. `leaving`: a pod that leaves
    it before."""
    at = targets.rows[place : place + 1]
    nothing = np.zeros(len(projection.columns))
    left = nothing if leaving is None else projection.amount_of(leaving)
    of_production = left if leaving is not None and leaving.production else nothing
    after, used = _with_pod(pod, at, projection, left, of_production)
    limits, caps = targets.limits[place : place + 1], targets.production[place : place + 1]
    return not any(mask.any() for mask, _ in _above(after, used, limits, caps, projection.columns))


def _with_pod(
    pod: MovablePod,
    rows: Indexes,
    projection: Projection,
    left: Array | float = 0.0,
    of_production: Array | float = 0.0,
) -> tuple[Array, Array | None]:
    """The loads of these rows with the pod, and those of production if it is a production pod.

    `left`, `of_production`: amounts that leave the rows before.
    """
    amount, base = projection.amount_of(pod), projection.base[rows]
    after: Array = (projection.amounts[rows] + projection.terminating[rows] - left + amount) / base
    if not pod.production:
        return after, None
    production = projection.production[rows] + projection.terminating_production[rows]
    return after, (production - of_production + amount) / base


def _above(
    after: Array, production: Array | None, limits: Array, caps: Array, columns: Sequence[Resource]
) -> list[tuple[Flags, str]]:
    """The targets that would be above a limit with the pod, and the reason, by resource."""
    excluded = [
        (after[:, column] > limits[:, column] + TOLERANCE, f"{resource} would be above the target's threshold")
        for column, resource in enumerate(columns)
    ]
    if production is not None:
        # The limit of unknown production usage is −∞, and comparisons with NaN are false.
        excluded += [
            (
                ~(production[:, column] <= caps[:, column] + TOLERANCE) & ~np.isposinf(caps[:, column]),
                f"{resource} of production would be above the target's threshold",
            )
            for column, resource in enumerate(columns)
        ]
    return excluded


def first_that_fits(
    pod: MovablePod, ranked: Indexes, targets: TargetNodes, projection: Projection, refusals: Counter[str]
) -> TargetChoice:
    """The first of `ranked` (rows of `targets`) on which kube-scheduler would place the replacement."""
    refusing = projection.fit.refusals(pod)
    rows = targets.rows[ranked]
    fitting = ~refusing.refused[rows]
    if fitting.any():
        outscored = projection.outscored(pod, rows[fitting])
        if outscored is None:
            return TargetChoice(why=NOT_EXAMINED)
        chosen = np.flatnonzero(fitting & ~outscored[rows])
        if len(chosen):
            return TargetChoice(target=targets.nodes[int(ranked[chosen[0]])])
        refusals[OUTSCORED] += int(fitting.sum())
    refusals.update(refusing.reasons(rows))
    return TargetChoice(why=summary(refusals))


def summary(refusals: Mapping[str, int]) -> str:
    """The most frequent refusals, with the number of nodes."""
    counts = {why: count for why, count in refusals.items() if count}
    if not counts:
        return "no node to move to"
    most = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:3]
    return "no target: " + "; ".join(f"{why} ({count} {'node' if count == 1 else 'nodes'})" for why, count in most)
