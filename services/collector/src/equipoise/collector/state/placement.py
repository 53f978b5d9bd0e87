"""Which pods are on which node: makes one placement message per node from the watched objects.

A gone pod remains listed, with its last measured usage, while the mean of any window still contains it, so that
subscribers can subtract it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from equipoise.collector.decisions.node_colocation import node_colocation
from equipoise.collector.decisions.pod_times import placed_pod, unix_seconds, with_owner_of
from equipoise.collector.state.node_addresses import NodeAddresses
from equipoise.contracts.bus.decoding import refusal
from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.contracts.kubernetes.nodes.occupied_nodes import FINISHED
from equipoise.contracts.kubernetes.objects.metadata import OwnerReference, ready_condition
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.owners import workload_from_pod, workload_lookup, workload_of
from equipoise.contracts.kubernetes.quantity import known_quantity
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import FUTURE_TOLERANCE, PodLifetime, share_measured
from equipoise.contracts.messages.message import converted
from equipoise.contracts.messages.placement import GonePod, NodePlacement, PlacedPod
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.unreadable.known_amounts import unknown_pod, unknown_requests

NEGLIGIBLE = 0.01
"""A gone pod that ran for less than this share of every window is left out: short jobs would fill the message."""

MAX_GONE = 500
"""Maximum number of gone pods per node (the latest ones). With usual names, a message stays below 1 MiB."""

REMOVAL_PUBLISHED = 86_400.0
"""Seconds for which the removal of a node is published again. The stream keeps its last message for as long."""

MAX_REMOVED = 1_000
"""Maximum number of deleted nodes that are kept, so that the next holder of their shard can publish them again."""

USAGE_ROUNDS = 2
"""The number of rounds for which the usage of pods is kept: the scrape of a round may have failed."""

_replace = msgspec.structs.replace

PodName = tuple[str, str]
"""Namespace and name."""

OwnerOf = Callable[[Workload], OwnerReference | None]
"""The controller of a ReplicaSet or a Job; raises LookupError when that object is not known."""


class TrackedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod on a node. Its workload is looked up when the message is made: its owner may be received after the pod.

    A pod that its controller has released keeps the owner with which it was watched (`with_owner_of`).
    """

    pod: Pod
    placed: PlacedPod


@dataclass(kw_only=True)
class ClusterPlacement:
    """The watched nodes and their pods, and the nodes whose placement may have changed."""

    windows: Sequence[float]
    """Lengths in seconds. A gone pod is kept as long as one of these windows contains it."""

    start_timeout: float
    """Seconds after which a pod counts as started."""

    owner_retention: float
    """Seconds for which the owner of a gone pod is kept."""

    owner_of: OwnerOf
    selector: Mapping[str, str]

    def __post_init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        """This collector's nodes by name."""

        self.addresses = NodeAddresses()
        """The addresses of all nodes of the cluster."""

        self.removed: dict[str, NodePlacement] = {}
        """The messages about deleted nodes by name, the latest ones."""

        self._pruned_at = 0.0
        self._removed_since: dict[str, float] = {}
        """The time at which each deleted node was found (Unix seconds)."""

        self._pods: dict[str, dict[str, TrackedPod]] = {}
        self._gone: dict[str, dict[str, GonePod]] = {}
        self.departed: dict[PodName, tuple[float, Workload | None, str]] = {}
        """The time at which a pod left recently, its workload and its node: the source still has samples of it."""

        self._usage: tuple[Mapping[str, Resources], ...] = ()
        """Usage by pod UID in the last rounds, the newest first."""

        self.changed: set[str] = set()
        """Names of nodes whose placement may have changed since it was last published."""

    def tracked(self, node: str) -> Iterator[TrackedPod]:
        return iter(self._pods.get(node, {}).values())

    def capacities(self) -> dict[str, Resources]:
        """The capacity of every node. Each quantity is parsed once and not again for every pod on the node."""
        return {name: amounts(node.status.capacity) for name, node in self.nodes.items()}

    def workload_of(self, pod: Pod) -> Workload | None:
        """The workload of a pod: from its owner if that is known, else from the pod alone."""
        try:
            return workload_of(pod, self.owner_of)
        except LookupError:
            return workload_from_pod(pod)

    def workload_lookup(self) -> Callable[[Pod], Workload | None]:
        """The same as `workload_of`, for many pods: each owner is looked up once."""
        return workload_lookup(self.workload_of)

    def record_usage(self, *usage: Mapping[str, Resources]) -> None:
        """Keep the usage of a round by pod UID, in one or several parts: a gone pod is published with its last
        usage."""
        self._usage = (*usage, *self._usage)[: USAGE_ROUNDS * len(usage)]

    def on_node(self, before: Node | None, after: Node | None) -> None:
        """A node was added (before is None), changed, or deleted (after is None)."""
        node = after if after is not None else before
        if node is None:
            return
        self.addresses.on_node(before, after)
        name = node.metadata.name
        current = self.nodes.get(name)
        if after is None or not self.selects(after.metadata.labels):
            if current is not None:
                del self.nodes[name]
                self._gone.pop(name, None)
                self.remove(name, current.metadata.uid, _created_at(current))
            return
        if current is not None and current.metadata.uid != after.metadata.uid:
            self._gone.pop(name, None)
        self.nodes[name] = after
        self.removed.pop(name, None)
        self.changed.add(name)

    def remove(self, name: str, uid: str, created_at: float) -> None:
        """Record that this node was deleted; that is published with the next placements."""
        self.removed[name] = NodePlacement(node=name, uid=uid, created_at=created_at, removed=True, epoch=0, sequence=0)
        if len(self.removed) > MAX_REMOVED:
            del self.removed[next(iter(self.removed))]
        self.changed.add(name)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """True for the labels of this collector's nodes."""
        return all(labels.get(label) == value for label, value in self.selector.items())

    def on_pod(self, before: Pod | None, after: Pod | None, now: float) -> None:
        """A pod was added, changed, or deleted; one with the same name and another UID is another pod.

        Raises ValueError for a pod that a message cannot contain. It is then listed with its name only.
        """
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            self._depart(before, now)
        if after is None or not after.spec.node_name:
            return
        if after.status.phase in FINISHED:
            self._depart(after, now)
            return
        node, uid = after.spec.node_name, after.metadata.uid
        pods = self._pods.setdefault(node, {})
        tracked = pods.get(uid)
        previous = None if tracked is None else tracked.placed
        detached = False
        if tracked is not None and after.metadata.controller is None and tracked.pod.metadata.controller is not None:
            after, detached = with_owner_of(tracked.pod, after), not after.metadata.unreadable
        placed = placed_pod(after, previous, now, self.start_timeout, self._hostname(node))
        if detached:
            placed = _replace(placed, detached=True)
        # Each pod is checked once. Nobody could read a message with one that is out of bounds, about any pod.
        if why := refusal(placed):
            after = unknown_pod(after, why)
            placed = PlacedPod(uid=uid, namespace=placed.namespace, name=placed.name, placed_at=now)
        pods[uid] = TrackedPod(pod=after, placed=placed)
        self._gone.get(node, {}).pop(uid, None)
        self.changed.add(node)
        if why:
            raise ValueError(why)

    def _hostname(self, node: str) -> str | None:
        """The hostname label of a node; empty if it has none, None if the node is not known."""
        watched = self.nodes.get(node)
        return None if watched is None else watched.metadata.labels.get(HOSTNAME, "")

    def _depart(self, pod: Pod, now: float) -> None:
        node = pod.spec.node_name
        tracked = self._pods.get(node, {}).pop(pod.metadata.uid, None)
        if tracked is None:
            return
        self.changed.add(node)
        placed = tracked.placed
        usage = next((by_uid[placed.uid] for by_uid in self._usage if placed.uid in by_uid), Resources())
        workload = self.workload_of(tracked.pod)
        self.departed.pop((placed.namespace, placed.name), None)  # in order of time: `prune` deletes from the front
        self.departed[placed.namespace, placed.name] = (now, workload, node)
        if placed.running_since is not None and node in self.nodes:
            gone = converted(placed, GonePod, workload=workload, gone_at=now, usage=usage)
            self._gone.setdefault(node, {})[placed.uid] = gone

    def prune(self, now: float) -> None:
        """Delete the owners of pods that left long ago, nodes without pods, and nodes that were deleted long ago."""
        if now < self._pruned_at - FUTURE_TOLERANCE:
            self._set_clock_back(now)
        self._pruned_at = now
        self._pods = {node: pods for node, pods in self._pods.items() if pods}
        while self.departed and now - next(iter(self.departed.values()))[0] > self.owner_retention:
            del self.departed[next(iter(self.departed))]
        self._removed_since = {name: self._removed_since.get(name, now) for name in self.removed}
        for name, since in self._removed_since.items():
            if now - since > REMOVAL_PUBLISHED:
                del self.removed[name]

    def _set_clock_back(self, now: float) -> None:
        """Sets the times that are in the future, because this clock was ahead, to `now`. Otherwise pods would count as
        new, and gone pods would be published, until those times."""

        def earlier(time: float) -> float:
            return min(time, now)

        for node, pods in self._pods.items():
            for uid, tracked in pods.items():
                placed, running = tracked.placed, tracked.placed.running_since
                if placed.placed_at > now or (running is not None and running > now):
                    running = None if running is None else earlier(running)
                    placed = _replace(placed, placed_at=earlier(placed.placed_at), running_since=running)
                    pods[uid] = TrackedPod(pod=tracked.pod, placed=placed)
                    self.changed.add(node)
        for node, gone in self._gone.items():
            self._gone[node] = {
                uid: _replace(pod, running_since=earlier(pod.running_since), gone_at=earlier(pod.gone_at))
                for uid, pod in gone.items()
            }
            self.changed.add(node)
        self.departed = {name: (earlier(left), owner, node) for name, (left, owner, node) in self.departed.items()}
        self._removed_since = {name: earlier(since) for name, since in self._removed_since.items()}

    @property
    def nodes_with_gone_pods(self) -> Collection[str]:
        return self._gone.keys()

    def left_at(self, node: str) -> float:
        """The time at which the last pod left a node; 0 if none is known."""
        return max((pod.gone_at for pod in self._gone.get(node, {}).values()), default=0.0)

    def prune_gone(self, node: str, now: float) -> None:
        """Delete those gone pods of a node that no window contains any more."""
        kept = [pod for pod in self._gone.pop(node, {}).values() if self._in_any_window(pod, now)]
        if kept:
            self._gone[node] = {pod.uid: pod for pod in sorted(kept, key=lambda pod: pod.gone_at)[-MAX_GONE:]}

    def _in_any_window(self, pod: GonePod, now: float) -> bool:
        lifetime = PodLifetime(
            placed_at=pod.running_since, running_since=pod.running_since, gone_at=pod.gone_at, usage=pod.usage
        )
        return any(share_measured(lifetime, now, length) >= NEGLIGIBLE for length in self.windows)

    def placement(self, name: str) -> NodePlacement | None:
        """The message of a node, whose epoch and sequence the publisher sets; None if the node is not known."""
        node = self.nodes.get(name)
        if node is None:
            return self.removed.get(name)
        ready, since = readiness(node)
        return NodePlacement(
            node=name,
            uid=node.metadata.uid,
            labels=node.metadata.labels,
            taints=node.spec.taints,
            ready=ready,
            ready_since=since,
            cordoned=node.spec.unschedulable,
            created_at=_created_at(node),
            allocatable=amounts(node.status.allocatable),
            capacity=amounts(node.status.capacity),
            colocation=node_colocation(node),
            pod_capacity=int(_amount(node.status.allocatable, "pods") or 0),
            pods=[
                msgspec.structs.replace(tracked.placed, workload=self.workload_of(tracked.pod))
                for tracked in self.tracked(name)
            ],
            gone=sorted(self._gone.get(name, {}).values(), key=lambda pod: pod.gone_at),
            unreadable=self._unreadable(node),
            epoch=0,
            sequence=0,
        )

    def _unreadable(self, node: Node) -> str:
        if node.metadata.unreadable:
            return node.metadata.unreadable
        pods = (tracked.pod for tracked in self.tracked(node.metadata.name))
        return next((why for pod in pods if pod.metadata.unreadable and (why := unknown_requests(pod))), "")


def _created_at(node: Node) -> float:
    """Unix seconds; 0: unknown."""
    return unix_seconds(node.metadata.creation_timestamp) or 0.0


def readiness(node: Node) -> tuple[bool, float | None]:
    """Whether a node is Ready, and since when (Unix seconds) that has not changed."""
    ready = ready_condition(node.status.conditions)
    return (False, None) if ready is None else (ready.status == "True", unix_seconds(ready.last_transition_time))


def amounts(quantities: Mapping[str, str]) -> Resources:
    """The amounts of CPU and memory; unknown where a quantity is missing or implausible."""
    return Resources(cpu=_amount(quantities, "cpu"), memory=_amount(quantities, "memory"))


def _amount(quantities: Mapping[str, str], resource: str) -> float | None:
    try:
        return known_quantity(resource, quantities[resource]) if resource in quantities else None
    except ValueError:
        return None
