"""Which nodes a pod may not use because they would be too hot. Never all of them: a pod must be able to run."""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from equipoise.contracts.configuration.settings import ResourceThresholds
from equipoise.contracts.load.correction import RESOURCES
from equipoise.scorer.state.arrays import CandidateNodes, Demand, expected_load


class FilteredNodes(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that a pod may use, and the refused ones with the reason."""

    nodes: list[str]
    refused: dict[str, str] = {}


def without_refused(names: Sequence[str], refused: Mapping[str, str]) -> FilteredNodes:
    """All nodes except the refused ones; all nodes if none would be left."""
    if len(refused) == len(names):
        return FilteredNodes(nodes=list(names))
    return FilteredNodes(nodes=[name for name in names if name not in refused], refused=dict(refused))


def above_thresholds(nodes: CandidateNodes, demand: Demand, high: ResourceThresholds) -> dict[str, str]:
    """Nodes above a high threshold with the pod, in the shortest window that is known, and why.

    A node of unknown load is not refused: a pod must be able to run without measurements.
    """
    expected = 100.0 * expected_load(nodes, demand)
    refused: dict[str, str] = {}
    for index, name in enumerate(nodes.names):
        known = expected[index][~np.isnan(expected[index]).all(axis=1)]
        if not len(known):
            continue
        for position, resource in enumerate(RESOURCES):
            threshold = getattr(high, resource)
            if threshold is not None and known[0][position] > threshold:
                refused[name] = f"{resource} load would be {known[0][position]:.1f}%, above {threshold:g}%"
                break
    return refused
