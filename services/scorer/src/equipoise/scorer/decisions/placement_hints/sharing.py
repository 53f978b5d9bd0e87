"""Which workloads of a namespace share a hint, so that one object has space for the hints of all of them.

The nodes that are best for a workload depend on when its pods use which resource, and on what they require. Most
workloads of a namespace are alike in this, so few hints suffice for many of them.
"""

from equipoise.contracts.hints.hints_object import MAX_BYTES
from equipoise.contracts.numeric import Array, Flags, Rows, Singles, np
from equipoise.scorer.decisions.placement_hints.sampling import most_preferred
from equipoise.scorer.decisions.placement_hints.selection import Selection
from equipoise.scorer.decisions.placement_hints.settings import HintSettings

_BYTES_OF_INDEX = 4
_BYTES_OF_TERMS = 30
"""The weights of a hint, with colons and spaces."""

_BYTES_OF_KEY = 45
"""The name of a workload, and the place of its hint, usually or less."""


def bytes_of_hints(selection: Selection) -> Rows:
    """The bytes of the hint of each workload in an object, without the names of nodes. A preferred node is in one term
    for each binary digit of its grade."""
    entries = np.bitwise_count(selection.grades).sum(axis=1) + (selection.worst >= 0).sum(axis=1)
    sizes: Rows = (_BYTES_OF_TERMS + _BYTES_OF_INDEX * entries).astype(np.intp)
    return sizes


def space_for_hints(workloads: int) -> int:
    """The bytes for nodes and their weights in the object of a namespace with this many workloads: what their names
    leave, but at least half of it. So the names of about 700 workloads have space, of more only those of the first."""
    return max(MAX_BYTES // 2, MAX_BYTES - _BYTES_OF_KEY * workloads)


def must_share(workloads: int, name_bytes: Rows, settings: HintSettings) -> bool:
    """Whether an object may have no space for a hint of each of these workloads. `name_bytes`: those of the name of
    each node."""
    nodes = len(name_bytes)
    preferred = min(settings.preferred_share * nodes, most_preferred(settings.preferred_nodes, nodes))
    avoided = min(settings.avoided_share * nodes, settings.avoided_nodes)
    indexes = preferred * settings.terms / 2 + avoided
    named = min(nodes, workloads * (preferred + avoided))
    names = name_bytes.sum() / max(1, nodes) * named
    return bool(names + workloads * (_BYTES_OF_KEY + _BYTES_OF_TERMS + _BYTES_OF_INDEX * indexes) > MAX_BYTES)


def points_lost(points: Singles, candidates: Flags, own: Selection, offered: Selection) -> Array:
    """The points that a workload loses with each offered selection, compared with its own (one row).

    The larger of two means counts: what preferred nodes have less, by their grades, and what avoided nodes have more.
    A node that its pods cannot use counts as none.
    """
    # Where there is no node (−1), the grade is 0.
    best = (points[offered.best] * candidates[offered.best] * offered.grades).sum(axis=1)
    own_grades = own.grades[0].sum()
    own_best = (points[own.best[0]] * own.grades[0]).sum() / max(own_grades, 1)
    lost: Array = own_best - best / np.maximum(np.maximum(offered.grades.sum(axis=1), own_grades), 1)
    if avoided := (own.worst[0] >= 0).sum():
        known = (offered.worst >= 0) & candidates[offered.worst]
        missing = np.maximum(avoided - known.sum(axis=1), 0)
        # An avoided node that is missing is as harmful as one of the best in its place.
        worst = np.where(known, points[offered.worst], 0.0).sum(axis=1) + missing * own_best
        own_worst = points[own.worst[0][own.worst[0] >= 0]].mean()
        lost = np.maximum(lost, worst / (known.sum(axis=1) + missing) - own_worst)
    return lost
