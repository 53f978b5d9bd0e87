"""Is a node hot, idle, between, or of unknown load?"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.descheduler.decisions.planning.node_arrays import (
    MEASURED,
    Array,
    Flags,
    amounts,
    bases,
    production_amounts,
    row,
)
from equipoise.descheduler.decisions.planning.thresholds import Levels
from equipoise.descheduler.state.cluster import FleetNode, Resource

State = Literal["hot", "idle", "between", "unknown"]
Scope = Literal["node", "prod"]
"""Whose usage is over a mark: everything on the node, or its production pods."""


class Present(msgspec.Struct, frozen=True, kw_only=True):
    """What nodes use now, over every window that decides. Arrays of nodes × resources, load (0..1), NaN unknown."""

    least: Array
    most: Array
    first: Array
    """Over the first window."""

    production: Array
    production_whole: Flags
    """Per node: the usage of all its production pods is known."""

    base: Array


def present(nodes: Sequence[FleetNode], windows: Sequence[str], *, production: bool) -> Present:
    """`production`: whether marks of production are looked at; if not, its loads are left unknown."""
    base = bases(nodes)
    loads = np.stack([amounts(nodes, window, projected=False) / base for window in windows])
    used, whole = production_amounts(nodes) if production else (np.full(base.shape, np.nan), np.zeros(len(nodes), bool))
    return Present(
        least=loads.min(axis=0),
        most=loads.max(axis=0),
        first=loads[0],
        production=used / base,
        production_whole=whole,
        base=base,
    )


class Classes(msgspec.Struct, frozen=True, kw_only=True):
    """What each node of a pool is."""

    hot: Flags
    """Nodes × resources: over the mark."""

    prod_hot: Flags
    """Nodes × resources: production is over its mark, on nodes that are not hot as a whole."""

    idle: Flags
    missing: Flags
    """Nodes × resources: looked at, and not known over some window."""


def classified(present: Present, levels: Levels, production: Levels | None) -> Classes:
    """Hot: over the hot mark in any resource, over every window. Idle: not over the idle mark in any, over any window.

    A node whose memory is not known may be hot in CPU: each resource speaks for itself.
    """
    hot: Flags = present.least > row(levels.hot)
    looked_at = np.array([resource in levels.looked_at for resource in MEASURED])
    missing = looked_at & np.isnan(present.most)
    idle = within(present.most, levels.idle)
    idle[missing.any(axis=1) | hot.any(axis=1)] = False
    prod_hot = np.zeros_like(hot)
    if production is not None:
        prod_hot = (present.production > row(production.hot)) & ~hot.any(axis=1, keepdims=True)
    return Classes(hot=hot, prod_hot=prod_hot, idle=idle, missing=missing)


def within(load: Array, marks: Mapping[Resource, float]) -> Flags:
    """Per node: at or below the mark in every resource that has one. Unknown is not."""
    looked_at = [resource in marks for resource in MEASURED]
    return np.asarray((load <= row(marks))[:, looked_at].all(axis=1), dtype=np.bool_)


def verdict(
    node: FleetNode, place: int, seen: Present, classes: Classes, windows: Sequence[str], texts: "Texts"
) -> NodeClassification:
    """What is said of one node. `load` is that of the first window; `why` tells what made it hot, or is unknown."""
    over: list[Resource] = []
    state: State = "idle" if classes.idle[place] else "between"
    why = ""
    if node.unknown:
        state, why = "unknown", node.unknown
    elif classes.hot[place].any():
        state, over, why = "hot", _names(classes.hot[place]), texts.of("node", place)
    elif classes.prod_hot[place].any():
        state, over, why = "hot", _names(classes.prod_hot[place]), texts.of("prod", place)
    elif classes.missing[place].any():
        state = "unknown"
        why = f"no {' and '.join(sorted(_names(classes.missing[place])))} usage over {', '.join(windows)}"
    return NodeClassification(
        node=node.name,
        state=state,
        load=node.load(windows[0]),
        why=why,
        over=list(over),
        sampled_at=node.oldest_sample(windows),
    )


class Texts(msgspec.Struct, frozen=True, kw_only=True):
    """Says why nodes are hot."""

    seen: Present
    levels: Levels
    production: Levels | None

    def of(self, scope: Scope, place: int) -> str:
        levels = self.levels if scope == "node" else self.production
        assert levels is not None
        loads = (self.seen.first if scope == "node" else self.seen.production)[place]
        return excess_text(dict(zip(MEASURED, loads.tolist(), strict=True)), levels.hot, scope)


def excess_text(load: Mapping[Resource, float], marks: Mapping[Resource, float], scope: Scope = "node") -> str:
    """`node is overutilized, cpu usage(68.53%)>threshold(50.00%)`, with the threshold as applied."""
    whose = "prod " if scope == "prod" else ""
    parts = [
        f"{whose}{resource} usage({100 * load[resource]:.2f}%)>threshold({100 * mark:.2f}%)"
        for resource, mark in sorted(marks.items())
        if resource in load and load[resource] > mark
    ]
    return "node is overutilized, " + ", ".join(parts)


def _names(flags: Flags) -> list[Resource]:
    return [resource for resource, flag in zip(MEASURED, flags, strict=True) if flag]
