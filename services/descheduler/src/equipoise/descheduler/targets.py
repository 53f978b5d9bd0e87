"""Where a pod that leaves a hot node should go."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from equipoise.contracts.fit import Neighbours
from equipoise.descheduler.fleet import FleetNode, MovablePod, Resource
from equipoise.descheduler.marks import Levels
from equipoise.descheduler.projection import Projection


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A node that pods may be moved to, and how far it may be filled."""

    node: FleetNode
    limits: Mapping[Resource, float]
    """Load (0..1) that it must stay below."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Where to, or why nowhere."""

    target: FleetNode | None = None
    why: str = ""


def is_idle(load: Mapping[Resource, float], levels: Levels) -> bool:
    """At or below the idle mark in every resource that has one; unknown is not idle."""
    return all(resource in load and load[resource] <= mark for resource, mark in levels.idle.items())


def targets_of(
    nodes: Sequence[FleetNode], projection: Projection, levels: Levels, *, target_mark: float
) -> list[Target]:
    """The nodes of known load that are open to pods.

    Idle ones may be filled up to the ceiling; the others only to `target_mark` (0..1) of the way from idle to there.
    """
    found = []
    for node in nodes:
        load = projection.load(node)
        if node.target_refusal or node.unknown or not levels.ceiling.keys() <= load.keys():
            continue
        limits = levels.ceiling
        if not is_idle(load, levels):
            low = {resource: levels.idle.get(resource, 0.0) for resource in limits}
            limits = {name: low[name] + (ceiling - low[name]) * target_mark for name, ceiling in limits.items()}
        found.append(Target(node=node, limits=limits))
    return found


def best_target(
    pod: MovablePod,
    source: FleetNode,
    targets: Sequence[Target],
    projection: Projection,
    *,
    hot: Sequence[Resource],
    weights: Mapping[Resource, float],
) -> Found:
    """The node that is least loaded with the pod on it, of those it fits on and that stay within their limits.

    `hot`: the resources the source has too much of. They decide first: memory must not choose where CPU is levelled.
    """
    before = projection.load(source)
    ranked: list[tuple[float, float, str, FleetNode]] = []
    refusals: Counter[str] = Counter()
    for target in targets:
        if target.node.name == source.name:
            continue
        after = projection.load_with(target.node, pod)
        why = _too_hot(after, before, hot, target.limits)
        if why:
            refusals[why] += 1
            continue
        by_hot = sum(after[name] * weights.get(name, 1.0) for name in hot)
        by_all = sum(value * weights.get(name, 1.0) for name, value in after.items())
        ranked.append((by_hot, by_all, target.node.name, target.node))
    around = projection.around(pod) if ranked else Neighbours()
    for _, _, _, node in sorted(ranked, key=lambda entry: entry[:3]):
        why = projection.refusal(pod, node, around)
        if not why:
            return Found(target=node)
        refusals[why] += 1
    return Found(why=_summary(refusals))


def _too_hot(
    after: Mapping[Resource, float],
    before: Mapping[Resource, float],
    hot: Sequence[Resource],
    limits: Mapping[Resource, float],
) -> str:
    for resource, limit in limits.items():
        if after[resource] >= limit:
            return f"{resource} would come above the target's mark"
    if any(after[resource] >= before[resource] for resource in hot):
        return "the target would be hotter than the source is"
    return ""


def _summary(refusals: Mapping[str, int]) -> str:
    """The commonest refusals, with the number of nodes."""
    if not refusals:
        return "no node to move to"
    commonest = sorted(refusals.items(), key=lambda entry: (-entry[1], entry[0]))[:3]
    return "no target: " + "; ".join(f"{why} ({count} {'node' if count == 1 else 'nodes'})" for why, count in commonest)
