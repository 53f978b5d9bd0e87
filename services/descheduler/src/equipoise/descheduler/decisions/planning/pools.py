"""Groups of nodes with marks of their own: pods stay in their group, and every node is in one at most."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from equipoise.contracts.configuration.settings import ResourceThresholds, Section, Thresholds
from equipoise.descheduler.decisions.planning.selection import Selector
from equipoise.descheduler.decisions.planning.thresholds import Deviation
from equipoise.descheduler.state.cluster import FleetNode, Resource

Weight = Annotated[float, Meta(ge=0)]

IdleNodes = Annotated[int, Meta(ge=-1)]


class Weights(Section, frozen=True, kw_only=True):
    """How much each resource counts where several are compared; the number of pods only where it has a mark."""

    cpu: Weight = 1.0
    memory: Weight = 1.0
    pods: Weight = 1.0

    def shares(self) -> Mapping[Resource, float]:
        return {"cpu": self.cpu, "memory": self.memory, "pods": self.pods}


class NodePool(Section, frozen=True, kw_only=True):
    """Nodes with settings of their own; what is null is that of the strategy and of the shared thresholds."""

    name: str
    node_selector: Selector
    """A node belongs to the first pool that takes it; one that none takes is kept by the strategy's own settings."""

    high: ResourceThresholds | None = None
    low: ResourceThresholds | None = None
    prod_high: ResourceThresholds | None = None
    prod_low: ResourceThresholds | None = None

    deviation: Deviation | Literal["off"] | None = None
    """off: these nodes are kept by fixed marks though the strategy has a deviation."""

    weights: Weights | None = None
    number_of_nodes: IdleNodes | None = None

    def thresholds(self, shared: Thresholds) -> Thresholds:
        """The pool's marks. Raises ValueError for marks that contradict the shared ones: refused when it is read."""
        own = {name: value for name in _THRESHOLDS if (value := getattr(self, name)) is not None}
        merged: Thresholds = msgspec.structs.replace(shared, **own)
        return merged


_THRESHOLDS = ("high", "low", "prod_high", "prod_low")


class Members(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a pool, and what applies to them."""

    pool: str
    """Its name; empty for the nodes that no pool takes."""

    nodes: Sequence[FleetNode]
    thresholds: Thresholds
    deviation: Deviation | None
    weights: Weights
    number_of_nodes: int


def split(nodes: Sequence[FleetNode], selector: Selector, pools: Sequence[NodePool]) -> list[list[FleetNode]]:
    """The nodes of each pool, in their order, and last those of none. Nodes beside `selector` are nowhere."""
    groups: list[list[FleetNode]] = [[] for _ in range(len(pools) + 1)]
    for node in nodes:
        labels = node.fit.labels
        if selector.takes(labels):
            place = next((i for i, pool in enumerate(pools) if pool.node_selector.takes(labels)), len(pools))
            groups[place].append(node)
    return groups
