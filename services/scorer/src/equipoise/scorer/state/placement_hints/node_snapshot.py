"""A snapshot of all nodes, from which hints are computed."""

from collections.abc import Collection, Mapping

import msgspec

from equipoise.contracts.kubernetes.nodes.platforms import Platform
from equipoise.contracts.kubernetes.objects.node import Taint
from equipoise.contracts.numeric import Array, Flags, Rows, np
from equipoise.scorer.decisions.arrays import CandidateNodes
from equipoise.scorer.decisions.placement_hints.hint_nodes import HintNode, unknown_node
from equipoise.scorer.state.scoring_state import ScoringState


class NodeSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes by column, in the order of their names. The arrays are never changed."""

    nodes: CandidateNodes
    hostnames: tuple[str, ...]
    """Values of the label `kubernetes.io/hostname`; empty for a node that no hint can name."""

    usable: Flags
    """The nodes whose load of both resources is known, that remain, and that a hint can name."""

    headroom: Array
    """nodes × (resources, pods): what further pods can request; −∞ if the node is cordoned or not ready."""

    taints: tuple[frozenset[Taint], ...]
    """The distinct sets of taints that repel pods."""

    taint_set: Rows
    """The set of taints of each node, an index of `taints`."""

    labels: tuple[Mapping[str, str], ...]
    platforms: tuple[Platform, ...]

    inputs: Array
    """(nodes, then the cluster) × numbers: the inputs of the points."""


def node_snapshot(
    scoring: ScoringState, hint_nodes: Mapping[str, HintNode], emptied: Collection[str], now: float
) -> NodeSnapshot:
    """The snapshot of the nodes with a measured load, whether it is fresh or not. `emptied`: the nodes that
    consolidation is emptying."""
    table = scoring.nodes
    names = sorted(table.names)
    rows = table.rows(names)
    reserved = scoring.reserved(now, without="")
    nodes = table.candidates(names, rows, now, reserved, spans=scoring.policy.placement_spans)
    if (bands := scoring.band_room(rows, now)) is not None:
        nodes = msgspec.structs.replace(nodes, bands=bands)
    absent = unknown_node()
    ordered = [hint_nodes.get(name, absent) for name in names]
    sets: dict[frozenset[Taint], int] = {}
    taint_set = [sets.setdefault(node.taints, len(sets)) for node in ordered]
    unknown = np.any(np.isnan(nodes.load).all(axis=1), axis=1)
    remain = [node.remains and name not in emptied for name, node in zip(names, ordered, strict=True)]
    usable = np.array(remain, np.bool_) & np.array([bool(node.hostname) for node in ordered], np.bool_)
    return NodeSnapshot(
        nodes=nodes,
        hostnames=tuple(node.hostname for node in ordered),
        usable=usable & ~unknown,
        headroom=np.array([node.headroom for node in ordered]).reshape(len(names), -1),
        taints=tuple(sets),
        taint_set=np.array(taint_set, np.intp),
        labels=tuple(node.labels for node in ordered),
        platforms=tuple(node.platform for node in ordered),
        inputs=_inputs(nodes),
    )


def _inputs(nodes: CandidateNodes) -> Array:
    """(nodes, then the cluster) × numbers: the inputs of the points."""
    count = len(nodes.load)
    parts = [nodes.load, *nodes.statistics.values(), nodes.requests / nodes.base, nodes.limits / nodes.base]
    cluster = [nodes.cluster.mean, *(np.zeros(part.shape[1:]) for part in parts[1:])]
    if nodes.daily is not None:
        daily = nodes.daily
        parts += [daily.share, daily.reserved, np.log(nodes.base)]
        cluster += [daily.mean, np.zeros(2), np.zeros(2)]
    if nodes.bands is not None:
        parts.append(nodes.bands.left / nodes.bands.capacity[:, np.newaxis])
        cluster.append(np.zeros(nodes.bands.left.shape[1:]))
    parts.append(nodes.recent_placements)
    cluster.append(np.zeros(nodes.recent_placements.shape[1]))
    by_node = np.concatenate([part.reshape(count, -1) for part in parts], axis=1)
    return np.vstack([by_node, np.concatenate([part.reshape(-1) for part in cluster])])
