"""A pool of nodes as a strategy finds it: what they use, which marks apply, and what each node is."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from equipoise.contracts.configuration.settings import ResourceThresholds
from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.descheduler.decisions.planning.classification import (
    Classes,
    Present,
    Scope,
    Texts,
    classified,
    present,
    verdict,
)
from equipoise.descheduler.decisions.planning.node_arrays import MEASURED, Array
from equipoise.descheduler.decisions.planning.pools import Members
from equipoise.descheduler.decisions.planning.thresholds import Known, Levels, deviating, fixed
from equipoise.descheduler.state.cluster import FleetNode, Resource

SCOPES: tuple[Scope, ...] = ("node", "prod")
"""In the order in which nodes are relieved: one that is hot as a whole is not looked at for its production."""


class Judgement:
    """Made once for a plan."""

    def __init__(self, members: Members, windows: Sequence[str], *, margin: float) -> None:
        """`margin`: load (0..1) below its mark that a hot node should come to."""
        self.members = members
        self.windows = windows
        marks, spans = members.thresholds, members.deviation
        with_production = _any(marks.prod_high, marks.prod_low)
        with_production |= spans is not None and _any(spans.prod_high, spans.prod_low)
        self.seen: Present = present(members.nodes, windows, production=with_production)
        levels, production = fixed(marks.high, marks.low, margin), fixed(marks.prod_high, marks.prod_low, margin)
        if spans is not None:
            floor, whole = spans.floor / 100, self.seen.production_whole[:, np.newaxis]
            used = np.where(whole, self.seen.production, np.nan)
            levels = deviating(self._known(self.seen.first), spans.high, spans.low, floor, levels)
            production = deviating(self._known(used), spans.prod_high, spans.prod_low, floor, production)
        self.levels: Levels = levels
        self.production: Levels | None = production if with_production else None
        self.classes: Classes = classified(self.seen, levels, self.production)
        self.texts = Texts(seen=self.seen, levels=levels, production=self.production)

    def verdicts(self) -> list[NodeClassification]:
        """Every node, in its order."""
        return [
            verdict(node, place, self.seen, self.classes, self.windows, self.texts)
            for place, node in enumerate(self.members.nodes)
        ]

    def sources(self, scope: Scope, abnormal: Collection[str]) -> list[tuple[int, FleetNode]]:
        """The hot nodes among `abnormal`, with their places; unknown ones are none."""
        flags = (self.classes.hot if scope == "node" else self.classes.prod_hot).any(axis=1)
        nodes = self.members.nodes
        found = [(place, nodes[place]) for place in np.flatnonzero(flags).tolist()]
        return [(place, node) for place, node in found if node.name in abnormal and not node.unknown]

    def hot(self, scope: Scope, place: int) -> list[Resource]:
        """The resources in which a node is over its mark."""
        flags = (self.classes.hot if scope == "node" else self.classes.prod_hot)[place]
        return [resource for resource, flag in zip(MEASURED, flags, strict=True) if flag]

    def weights(self) -> Mapping[Resource, float]:
        """The number of pods counts only where it has a mark."""
        weights = dict(self.members.weights.shares())
        if "pods" not in self.levels.looked_at:
            weights["pods"] = 0.0
        return weights

    def _known(self, load: Array) -> Known:
        nodes = self.members.nodes
        return Known(
            load=load,
            base=self.seen.base,
            source=np.array([not node.source_refusal for node in nodes], dtype=np.bool_),
            target=np.array([not node.target_refusal for node in nodes], dtype=np.bool_),
        )


def _any(*marks: ResourceThresholds) -> bool:
    return any(getattr(one, resource) is not None for one in marks for resource in MEASURED)
