"""The pods of a snapshot, by the node on which they count.

The pods of a large cluster are far apart in memory: everything that concerns all of them is read in one pass.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from equipoise.contracts.colocation.bands import requests_reclaimed
from equipoise.contracts.kubernetes.nodes.occupied_nodes import occupies_node
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.load.pod_priority import is_batch_work, priority_class_of, qos_of
from equipoise.contracts.unreadable.known_amounts import unknown_pod, unknown_requests, with_known_amounts
from equipoise.descheduler.decisions.evaluation.snapshot import Snapshot
from equipoise.descheduler.state.moves.pending_moves import TrackedMove, dry_runs
from equipoise.scheduling.model.pod_info import PodInfo, PodReader

ByNode = Mapping[str, Sequence[Pod]]
"""Pods by node. Nodes without any may be absent."""


class PodsByNode(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that was moved in a dry run counts on the target of the move."""

    infos: Mapping[str, PodInfo]
    """Requests and constraints, by UID."""

    dry_runs: Mapping[str, TrackedMove]
    """The moves of dry runs, by UID."""

    present: ByNode
    requesting: Mapping[str, Sequence[PodInfo]]
    """The pods of each node, and those nominated to it."""

    unknown_requests: Mapping[str, str]
    """Why it is not known what one of the pods of a node requests."""

    moved_off: ByNode
    """The pods that a dry run moved to another node, by the node that they left."""

    moved_to: ByNode
    """The same pods, by their targets."""

    batch_work: ByNode
    """The pods that give way to others."""

    terminating: ByNode
    """Terminating pods, which run until they end."""

    unscheduled: Sequence[PodInfo]
    """The pods without a node, also without a nominated one."""


def pods_by_node(snapshot: Snapshot) -> PodsByNode:
    """A pod that cannot be read requests an unknown amount; it is no error."""
    infos, reader, moves = dict(snapshot.watched.infos), PodReader(), dry_runs(snapshot.pending)
    names = {node.metadata.name for node in snapshot.watched.nodes}
    present, requesting = defaultdict[str, list[Pod]](list), defaultdict[str, list[PodInfo]](list)
    moved_off, moved_to = defaultdict[str, list[Pod]](list), defaultdict[str, list[Pod]](list)
    batch_work, terminating = defaultdict[str, list[Pod]](list), defaultdict[str, list[Pod]](list)
    unscheduled: list[PodInfo] = []
    unknown: dict[str, str] = {}
    for watched_pod in snapshot.watched.pods:
        uid = watched_pod.metadata.uid
        pod = watched_pod
        if uid not in infos:
            pod, infos[uid] = _read(reader, watched_pod)
        if occupies_node(pod):
            meta, node = pod.metadata, pod.spec.node_name
            move = moves.get(uid)
            if (
                move is not None
                and node == move.node
                and meta.deletion_timestamp is None
                and {node, move.target} <= names  # otherwise the move is outdated
            ):
                moved_off[node].append(pod)
                node = move.target
                moved_to[node].append(pod)
            present[node].append(pod)
            if meta.unreadable and (why := unknown_requests(pod)):
                unknown.setdefault(node, why)
            if meta.deletion_timestamp is not None:
                terminating[node].append(pod)
            if _is_batch_work(pod, infos[uid]):
                batch_work[node].append(pod)
        else:
            node = pod.status.nominated_node_name
            if not node and not pod.spec.node_name:
                unscheduled.append(infos[uid])
        if node:
            requesting[node].append(infos[uid])
    return PodsByNode(
        infos=infos,
        dry_runs=moves,
        present=present,
        requesting=requesting,
        unknown_requests=unknown,
        moved_off=moved_off,
        moved_to=moved_to,
        batch_work=batch_work,
        terminating=terminating,
        unscheduled=unscheduled,
    )


def _read(reader: PodReader, pod: Pod) -> tuple[Pod, PodInfo]:
    try:
        return pod, reader.read(pod)
    except Exception as error:  # whatever it is, it concerns this pod only
        without_unknown = with_known_amounts(pod)
        pod = unknown_pod(pod, str(error)) if without_unknown is pod else without_unknown
        return pod, reader.read(pod)


def _is_batch_work(pod: Pod, info: PodInfo) -> bool:
    reclaimed = requests_reclaimed(info.requests)
    if not reclaimed and not pod.spec.priority:
        return False  # most pods: there may be a hundred thousand of them
    priority_class = priority_class_of(pod.metadata.labels, pod.spec.priority, qos_of(pod.status.qos_class))
    return is_batch_work(priority_class, pod.spec.priority, reclaimed=reclaimed)
