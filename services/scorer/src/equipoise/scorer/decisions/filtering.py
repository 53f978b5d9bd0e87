"""Which nodes a pod may not use because they would be too hot. Never the last one: a pod must be able to run."""

from collections.abc import Mapping, Sequence

import numpy as np

from equipoise.contracts.configuration.settings import ResourceThresholds
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.messages.score import Filtering
from equipoise.scorer.state.arrays import Demand, NodeLoads, expected_load


def filtered(names: Sequence[str], refused: Mapping[str, str]) -> Filtering:
    """All but the refused; all of them when none would be left."""
    if len(refused) == len(names):
        return Filtering(nodes=list(names))
    return Filtering(nodes=[name for name in names if name not in refused], refused=dict(refused))


def above_marks(nodes: NodeLoads, demand: Demand, high: ResourceThresholds) -> dict[str, str]:
    """Nodes that would be above their high mark with the pod, in the shortest window they have measured, and why.

    A node of unknown load stays: not knowing is no reason to keep a pod from running.
    """
    expected = 100.0 * expected_load(nodes, demand)
    refused: dict[str, str] = {}
    for index, name in enumerate(nodes.names):
        measured = expected[index][~np.isnan(expected[index]).all(axis=1)]
        if not len(measured):
            continue
        for position, resource in enumerate(RESOURCES):
            mark = getattr(high, resource)
            if mark is not None and measured[0][position] > mark:
                refused[name] = f"{resource} load would be {measured[0][position]:.1f}%, above {mark:g}%"
                break
    return refused
