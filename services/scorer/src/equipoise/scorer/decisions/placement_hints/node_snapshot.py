"""All nodes at one time, as hints are computed from them."""

import msgspec

from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.contracts.kubernetes.objects import Taint
from equipoise.contracts.kubernetes.taints import being_removed, may_be_removed
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.numeric import Array, Flags, Rows, np
from equipoise.scorer.decisions.scoring_state import ScoringState
from equipoise.scorer.state.arrays import CandidateNodes
from equipoise.scorer.state.node_table import headroom
from equipoise.scorer.state.workload_pods import blocking_taints


class NodeSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes by column, in the order of their names. The arrays do not change any more."""

    nodes: CandidateNodes
    hostnames: tuple[str, ...]
    """Values of the label `kubernetes.io/hostname`; empty for a node that no hint can name."""

    usable: Flags
    """Per node: its load is known, it is ready and not cordoned, it remains, and a hint can name it."""

    headroom: Array
    """nodes × (resources, pods): what pods can request in addition; see `node_table.headroom`."""

    taints: tuple[frozenset[Taint], ...]
    """The different sets of taints that keep pods away."""

    taint_set: Rows
    """Per node: its set of taints, an index of `taints`."""

    inputs: Array
    """(nodes, then the cluster) × numbers: what points are computed from."""


def node_snapshot(scoring: ScoringState, now: float) -> NodeSnapshot:
    """The nodes of known and of unknown load."""
    table = scoring.nodes
    names = sorted(table.names)
    rows = table.rows(names)
    nodes = table.candidates(names, rows, now, scoring.reserved(now, without=""), spans=scoring.policy.placement_spans)
    if nodes.daily is not None:
        nodes = msgspec.structs.replace(nodes, daily=nodes.daily.detached())
    placements = [table.placement(name) for name in names]
    requests = nodes.requests
    sets: dict[frozenset[Taint], int] = {}
    taint_set = [sets.setdefault(blocking_taints(each.taints), len(sets)) for each in placements]
    hostnames = tuple(each.labels.get(HOSTNAME, "") for each in placements)
    usable = np.array(
        [_remains(each) and bool(name) for each, name in zip(placements, hostnames, strict=True)], np.bool_
    )
    replace = msgspec.structs.replace
    left = [headroom(replace(each, taints=[]), requests[column]) for column, each in enumerate(placements)]
    return NodeSnapshot(
        nodes=nodes,
        hostnames=hostnames,
        usable=usable & ~np.isnan(nodes.load).all(axis=(1, 2)),
        headroom=np.array(left).reshape(len(names), -1),
        taints=tuple(sets),
        taint_set=np.array(taint_set, np.intp),
        inputs=_inputs(nodes),
    )


def _remains(placement: NodePlacement) -> bool:
    return (
        placement.ready
        and not placement.cordoned
        and not (being_removed(placement.taints) or may_be_removed(placement.taints))
    )


def _inputs(nodes: CandidateNodes) -> Array:
    """(nodes, then the cluster) × numbers: what points are computed from."""
    count = len(nodes.load)
    parts = [nodes.load, *nodes.statistics.values(), nodes.requests / nodes.base, nodes.limits / nodes.base]
    cluster = [nodes.cluster.mean, *(np.zeros(part.shape[1:]) for part in parts[1:])]
    if nodes.daily is not None:
        daily = nodes.daily
        parts += [daily.share[:, daily.rows].transpose(1, 0, 2), daily.reserved[:, daily.rows].T, np.log(nodes.base)]
        cluster += [daily.mean, np.zeros(2), np.zeros(2)]
    parts.append(nodes.recent_placements)
    cluster.append(np.zeros(nodes.recent_placements.shape[1]))
    by_node = np.concatenate([part.reshape(count, -1) for part in parts], axis=1)
    return np.vstack([by_node, np.concatenate([part.reshape(-1) for part in cluster])])
