"""Usage of nodes as arrays over nodes and resources, because it is compared on thousands of nodes for each pod.

The columns are `MEASURED`, then the further resources that the caller names. A node that does not have a further
resource uses nothing of an unlimited amount: it is neither hot in it nor filled.
"""

import math
from collections.abc import Mapping, Sequence

from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array, Flags, np
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod, Resource

MEASURED: tuple[Resource, ...] = ("cpu", "memory", "pods")
"""The columns. The number of pods is a share of those that the node allows."""

REQUEST_TOLERANCE = (1e-9, 1.0, 0.0)
"""Cores, bytes and pods by which a request may exceed what is free: requests are sums of decimal fractions."""


def row(
    values: Mapping[Resource, float], missing: float = math.nan, *, columns: Sequence[Resource] = MEASURED
) -> Array:
    """The values in the order of the columns."""
    return np.array([values.get(resource, missing) for resource in columns])


def _known(values: Array) -> Array:
    """The values; NaN for those that are unknown, infinite or negative."""
    return np.where(np.isfinite(values) & (values >= 0), values, np.nan)


def _with_further(values: Array, further: Sequence[Sequence[float | None]]) -> Array:
    """The values with columns of further resources. `further`: a row per node; empty if there are no such columns."""
    if not further or not further[0]:
        return values
    return np.concatenate([values, np.array(further, dtype=np.float64)], axis=1)


def bases(nodes: Sequence[ClusterNode], further: Sequence[str] = ()) -> Array:
    """Nodes × resources: the amounts that are 100 % load; NaN where there is none."""
    known = [(node.base.cpu, node.base.memory, node.allocatable.get("pods")) for node in nodes]
    values = _known(np.array(known, dtype=np.float64).reshape(-1, len(MEASURED)))
    values = np.where(values > 0, values, np.nan)
    return _with_further(
        values,
        [
            [node.base.amount(name) or None if name in node.resources else math.inf for name in further]
            for node in nodes
        ],
    )


def amounts(nodes: Sequence[ClusterNode], window: str, *, projected: bool, further: Sequence[str] = ()) -> Array:
    """Nodes × resources: cores, bytes and pods; NaN where unknown.

    `projected`: once the pending moves are done and the terminating pods have ended.
    """
    nothing = Resources()
    known: list[tuple[float | None, float | None, float | None]] = []
    further_known: list[list[float | None]] = []
    for node in nodes:
        usage = nothing if node.unknown else node.projected(window) if projected else node.usage.get(window, nothing)
        known.append((usage.cpu, usage.memory, None if node.unknown else node.pod_count))
        if further:
            further_known.append([usage.amount(name) if name in node.resources else 0.0 for name in further])
    return _known(_with_further(np.array(known, dtype=np.float64).reshape(-1, len(MEASURED)), further_known))


def expected_amounts(nodes: Sequence[ClusterNode], window: str, further: Sequence[str] = ()) -> Array:
    """Nodes × resources: the part of `amounts` that is only expected, because pods are not measured yet. The number of
    pods is known.

    This part limits where pods may be moved to. It is no reason to move pods away.
    """
    nothing = Resources()
    usages = [node.expected.get(window, nothing) for node in nodes]
    values = [(usage.cpu, usage.memory, 0.0) for usage in usages]
    return _without_unknown(values, usages, further)


def _without_unknown(
    values: Sequence[tuple[float | None, float | None, float]], usages: Sequence[Resources], further: Sequence[str]
) -> Array:
    """The values of each node with those of further resources. What is unknown is left out of a sum."""
    of_further = [[usage.amount(name) for name in further] for usage in usages] if further else []
    fixed = np.array(values, dtype=np.float64).reshape(-1, len(MEASURED))
    return np.nan_to_num(_known(_with_further(fixed, of_further)))


def production_amounts(nodes: Sequence[ClusterNode], further: Sequence[str] = ()) -> tuple[Array, Flags]:
    """Nodes × resources: known usage of production pods, and whether that of all of them is known. Further resources
    have no thresholds of production: their columns are 0.

    If some are unknown, the sum is a lower bound: it can prove that a node is hot, and never that it is idle.
    """
    columns = len(MEASURED) + len(further)
    sums, complete = np.zeros((len(nodes), columns)), np.ones(len(nodes), dtype=np.bool_)
    for position, node in enumerate(nodes):
        usages = node.production_usages()
        values = _known(np.array([(usage.cpu, usage.memory) for usage in usages], dtype=np.float64).reshape(-1, 2))
        sums[position, : len(MEASURED)] = (*np.nansum(values, axis=0), len(usages))
        complete[position] = not node.unknown and not np.isnan(values).any()
    return sums, complete


def terminating_amounts(
    nodes: Sequence[ClusterNode], *, production: bool = False, further: Sequence[str] = ()
) -> Array:
    """Nodes × resources: what terminating pods still use. Their number is 0 here, because no projection contains it."""
    usages = [node.terminating_production if production else node.terminating for node in nodes]
    values = [(usage.cpu, usage.memory, 0.0) for usage in usages]
    return _without_unknown(values, usages, further)


def batch_work_amount(node: ClusterNode, further: Sequence[str] = ()) -> Array:
    """The usage of the pods that give way to others. Unknown usage counts as none, so that no pod is moved because of
    load of which batch work may be only a part."""
    usages = node.batch_work_usages()
    if not usages:
        return np.zeros(len(MEASURED) + len(further))
    values = _known(np.array([(usage.cpu, usage.memory) for usage in usages], dtype=np.float64).reshape(-1, 2))
    of_further = [sum(usage.amount(name) or 0.0 for usage in usages) for name in further]
    return np.array([*np.nansum(values, axis=0), len(usages), *of_further])


def amount_of(pod: MovablePod, further: Sequence[str] = ()) -> Array:
    """What moves with a pod: cores, bytes, and one pod. Unknown usage moves nothing."""
    of_further = [pod.usage.amount(name) for name in further]
    values = np.array([pod.usage.cpu, pod.usage.memory, 1.0, *of_further], dtype=np.float64)
    return np.nan_to_num(_known(values))
