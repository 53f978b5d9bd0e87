"""Is a node hot, idle, between, or of unknown load?"""

from collections.abc import Mapping, Sequence
from typing import Literal

from equipoise.contracts.load import RESOURCES
from equipoise.contracts.messages import NodeVerdict
from equipoise.descheduler.fleet import FleetNode, Resource, shares
from equipoise.descheduler.marks import Levels

State = Literal["hot", "idle", "between", "unknown"]


def _over_windows(node: FleetNode, windows: Sequence[str]) -> dict[Resource, list[float]]:
    """Loads per resource, only where every window knows them."""
    loads = [shares(node.usage[window], node.base) if window in node.usage else {} for window in windows]
    return {name: [load[name] for load in loads] for name in RESOURCES if all(name in load for load in loads)}


def _state(node: FleetNode, windows: Sequence[str], levels: Levels) -> tuple[State, str]:
    if node.unknown:
        return "unknown", node.unknown
    loads = _over_windows(node, windows)
    # A node whose memory is not known may be hot in CPU: each resource speaks for itself.
    if any(resource in loads and min(loads[resource]) > mark for resource, mark in levels.hot.items()):
        return "hot", excess_text(node, windows[0], levels.hot)
    missing = sorted((levels.hot.keys() | levels.idle.keys()) - loads.keys())
    if missing:
        return "unknown", f"no {' and '.join(missing)} usage over {', '.join(windows)}"
    if all(max(loads[resource]) <= mark for resource, mark in levels.idle.items()):
        return "idle", ""
    return "between", ""


def verdict(node: FleetNode, windows: Sequence[str], levels: Levels) -> NodeVerdict:
    """Hot: over the hot mark in any resource, over every window. Idle: not over the idle mark in any, over any window.

    `load` is that of the first window; `why` tells what made a node hot, or what is not known.
    """
    state, why = _state(node, windows, levels)
    return NodeVerdict(node=node.name, state=state, load=node.load(windows[0]), why=why)


def excess_text(node: FleetNode, window: str, marks: Mapping[Resource, float]) -> str:
    """`node is overutilized, cpu usage(68.53%)>threshold(50.00%)`, with the threshold as applied."""
    load = shares(node.usage[window], node.base)
    parts = [
        f"{resource} usage({100 * load[resource]:.2f}%)>threshold({100 * mark:.2f}%)"
        for resource, mark in sorted(marks.items())
        if resource in load and load[resource] > mark
    ]
    return "node is overutilized, " + ", ".join(parts)
