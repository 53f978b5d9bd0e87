"""The nodes that a cluster could do without, and why the others stay."""

from collections.abc import Mapping

import msgspec

from equipoise.contracts.messages.consolidation import Bound
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod, Resource


class NodeObstacle(msgspec.Struct, frozen=True, kw_only=True):
    """Why a node stays."""

    why: str
    bound: Bound = ""
    unknown: bool = False
    """Whether the reason is that something is not known at present."""


class EmptiedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that can be emptied whole, after those before it."""

    node: ClusterNode
    moves: tuple[tuple[MovablePod, ClusterNode], ...] = ()
    """Its pods with their targets."""

    excess: float
    """The highest expected load of a target minus its threshold (0..1) once these pods are on it, in any hour.
    Negative: below the threshold. −∞ without moves."""

    price: float | None = None
    """The price per hour; None if it is unknown."""


class HottestHour(msgspec.Struct, frozen=True, kw_only=True):
    """The highest forecast load of any node in any hour."""

    node: str
    resource: Resource
    hour: int
    """UTC"""

    load: float
    """0..1 of the base."""


class ConsolidationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The largest set of nodes that was found."""

    nodes: tuple[EmptiedNode, ...] = ()
    """The nodes in the order in which they are emptied."""

    staying: Mapping[str, NodeObstacle] = {}
    """Why the other nodes stay, by name."""

    hottest_before: HottestHour | None = None
    """The hottest hour of all nodes whose day is measured; None if there is none."""

    hottest_after: HottestHour | None = None
    """The hottest hour of the nodes that remain."""

    above: Mapping[str, str] = {}
    """The nodes that are forecast or measured above a threshold without any change, with the hour, by name."""

    bound: Bound = ""
    """What prevents most of the candidates from being emptied."""

    requests: Mapping[Resource, tuple[float, float]] = {}
    """What all pods of the remaining nodes request (cores, bytes), and what they may request at most so that as many
    nodes more as MORE_NODES could go: estimated, with the remaining nodes as full by requests as now. Only while
    requests are the bound."""

    unrecorded: int = 0
    """The number of workloads whose profiles have no recorded error yet: a share of their mean counts instead."""
