"""Pools: groups of nodes with thresholds of their own. Pods stay in their pool. A node is in at most one pool."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from equipoise.contracts.configuration.settings import ResourceThresholds, Section, Thresholds
from equipoise.contracts.kubernetes.labels import satisfies
from equipoise.descheduler.decisions.cluster_node import ClusterNode, Resource
from equipoise.descheduler.decisions.planning.thresholds import Deviation

Weight = Annotated[float, Meta(ge=0)]

IdleNodes = Annotated[int, Meta(ge=-1)]


class Requirement(Section, frozen=True, kw_only=True):
    """One expression over a label."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.operator in ("In", "NotIn")) != bool(self.values):
            raise ValueError(f"{self.operator} of {self.key} must {'' if not self.values else 'not '}name values")


class Selector(Section, frozen=True, kw_only=True):
    """Selects objects that have all of these labels and satisfy all of these expressions. An empty selector selects
    all."""

    match_labels: dict[str, str] = msgspec.field(default_factory=dict)
    match_expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            satisfies(labels.get(rule.key), rule.operator, rule.values) for rule in self.match_expressions
        )


class PodSelector(Section, frozen=True, kw_only=True):
    """A group of pods that may be moved."""

    name: str = ""
    selector: Selector


class ComparisonWeights(Section, frozen=True, kw_only=True):
    """How much each resource counts in a comparison; the number of pods only where it has a threshold."""

    cpu: Weight = 1.0
    memory: Weight = 1.0
    pods: Weight = 1.0

    def shares(self) -> Mapping[Resource, float]:
        return {"cpu": self.cpu, "memory": self.memory, "pods": self.pods}


class NodePool(Section, frozen=True, kw_only=True):
    """Nodes with settings of their own. A null setting is that of the strategy or of the shared thresholds."""

    name: str
    node_selector: Selector
    """A node belongs to the first pool that selects it. The strategy's own settings apply to the nodes of no pool."""

    high: ResourceThresholds | None = None
    low: ResourceThresholds | None = None
    prod_high: ResourceThresholds | None = None
    prod_low: ResourceThresholds | None = None

    deviation: Deviation | Literal["off"] | None = None
    """off: fixed thresholds, even if the strategy has a deviation."""

    weights: ComparisonWeights | None = None
    number_of_nodes: IdleNodes | None = None

    def thresholds(self, shared: Thresholds) -> Thresholds:
        """The pool's thresholds. Raises ValueError when they contradict the shared ones."""
        own = {name: value for name in _THRESHOLDS if (value := getattr(self, name)) is not None}
        merged: Thresholds = msgspec.structs.replace(shared, **own)
        return merged


_THRESHOLDS = ("high", "low", "prod_high", "prod_low")


class PoolMembers(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a pool, and the settings that apply to them."""

    pool: str
    """Empty for the nodes of no pool."""

    nodes: Sequence[ClusterNode]
    thresholds: Thresholds
    deviation: Deviation | None
    weights: ComparisonWeights
    number_of_nodes: int
    require_pressure: bool = False
    """Whether a node of known pressure is hot only if its pods wait for others."""

    further: Sequence[str] = ()
    """The further resources with a threshold."""


def split(nodes: Sequence[ClusterNode], selector: Selector, pools: Sequence[NodePool]) -> list[list[ClusterNode]]:
    """The nodes of each pool, in their order, and last those of no pool. Nodes outside `selector` are in none."""
    groups: list[list[ClusterNode]] = [[] for _ in range(len(pools) + 1)]
    for node in nodes:
        labels = node.labels
        if selector.matches(labels):
            index = next((i for i, pool in enumerate(pools) if pool.node_selector.matches(labels)), len(pools))
            groups[index].append(node)
    return groups
