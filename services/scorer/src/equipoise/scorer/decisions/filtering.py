"""Decides which nodes a pod may not use because they would be too hot. All nodes are never refused: a pod must be able
to run.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from equipoise.contracts.configuration.settings import ResourceThresholds
from equipoise.contracts.load.correction import RESOURCES
from equipoise.scorer.decisions.arrays import CandidateNodes, Demand, expected_load, shortest_known
from equipoise.scorer.decisions.policies.policy import above


class FilteredNodes(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that a pod may use, and the refused ones with the reason."""

    nodes: list[str]
    refused: dict[str, str] = {}


def without_refused(names: Sequence[str], refused: Mapping[str, str]) -> FilteredNodes:
    """All nodes except the refused ones; all nodes if none would be left."""
    if len(refused) == len(names):
        return FilteredNodes(nodes=list(names))
    return FilteredNodes(nodes=[name for name in names if name not in refused], refused=dict(refused))


def above_thresholds(
    nodes: CandidateNodes, demand: Demand, high: ResourceThresholds, limits: Mapping[str, float] = MappingProxyType({})
) -> dict[str, str]:
    """Nodes above a high threshold with the pod, in the shortest window that is known, and why.

    `limits`: the high thresholds of further resources in percent. What the pod uses of these is not added. A node of
    unknown load is not refused: a pod must be able to run without measurements.
    """
    percent = 100.0 * shortest_known(expected_load(nodes, demand))
    return above(
        nodes.names,
        [
            (f"{resource} load would be", percent[:, position], threshold)
            for position, resource in enumerate(RESOURCES)
            if (threshold := getattr(high, resource)) is not None
        ]
        + [
            (f"{name} load is", 100.0 * nodes.further.column(name).load, limit)
            for name, limit in limits.items()
            if nodes.further is not None
        ],
    )
