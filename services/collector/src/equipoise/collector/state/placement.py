"""Who is on which node: watched objects folded into one placement per node.

A pod that left stays listed while any window's mean still shows it, with the usage it was last measured at, so that
readers can take it off. Times come in as arguments.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import msgspec

from equipoise.collector.state.pod_times import FINISHED, placed, seconds
from equipoise.contracts.kubernetes.objects import Node, OwnerReference, Pod
from equipoise.contracts.kubernetes.owners import workload_from_pod, workload_of
from equipoise.contracts.kubernetes.quantity import parse_quantity
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import PodLifetime, share_measured
from equipoise.contracts.messages.placement import GonePod, NodePlacement, PlacedPod, Taint
from equipoise.contracts.messages.resources import Resources

NEGLIGIBLE = 0.01
"""A gone pod that ran in less than this share of every window is dropped: short jobs would fill the message."""

GONE_LIMIT = 500
"""Gone pods told per node at most (the latest ones): a message must stay below 1 MiB."""

REMOVED_LIMIT = 1_000
"""Deleted nodes remembered at most, to be told again by the next leader."""

ROUNDS = 2
"""How many rounds' usage of pods is kept: in one of them a pod's target may have missed a scrape."""

PodName = tuple[str, str]
"""Namespace and name."""

OwnerOf = Callable[[Workload], OwnerReference | None]
"""The controller of a ReplicaSet or a Job; raises LookupError when that object is not known."""


class Tracked(msgspec.Struct, frozen=True, kw_only=True):
    """A pod on a node. Its workload is looked up when it is told: its owner may be seen later than the pod."""

    pod: Pod
    placed: PlacedPod


class Fleet:
    """Nodes and their pods, as the watches tell them, and which nodes have news."""

    def __init__(
        self,
        *,
        windows: Iterable[float],
        start_limit: float,
        memory: float,
        owner_of: OwnerOf,
        selector: Mapping[str, str],
    ) -> None:
        """`windows` are the lengths in which a gone pod still shows; `memory` is for how long owners are known.

        Both in seconds, as `start_limit`, after which a pod counts as started.
        """
        self._windows = tuple(windows)
        self._start_limit = start_limit
        self._memory = memory
        self._owner_of = owner_of
        self._selector = selector
        self._nodes: dict[str, Node] = {}
        self._removed: dict[str, str] = {}
        self._pods: dict[str, dict[str, Tracked]] = {}
        self._gone: dict[str, dict[str, GonePod]] = {}
        self._left: dict[PodName, tuple[float, Workload | None, str]] = {}
        self._usage: tuple[Mapping[str, Resources], ...] = ()
        """By pod UID what the last rounds measured, the newest first."""

        self.news: set[str] = set()
        """Names of nodes whose placement may have changed since it was last told."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        """This collector's nodes by name."""
        return self._nodes

    @property
    def removed(self) -> Mapping[str, str]:
        """UIDs of deleted nodes by name, the latest ones."""
        return self._removed

    def tracked(self, node: str) -> Iterator[Tracked]:
        """The pods on a node."""
        return iter(self._pods.get(node, {}).values())

    def capacities(self) -> dict[str, Resources]:
        """Of every node, each quantity read once and not for every pod on it."""
        return {name: amounts(node.status.capacity) for name, node in self._nodes.items()}

    def workload_of(self, pod: Pod) -> Workload | None:
        """Its workload, from its owner where that is known, else from the pod alone."""
        try:
            return workload_of(pod, self._owner_of)
        except LookupError:
            return workload_from_pod(pod)

    def workloads_now(self) -> Callable[[Pod], Workload | None]:
        """As `workload_of`, for many pods at one moment: each owner is looked up once."""
        known: dict[str, Workload | None] = {}

        def workload_of_pod(pod: Pod) -> Workload | None:
            owner = pod.metadata.controller
            if owner is None:
                return None
            if owner.uid not in known:
                known[owner.uid] = self.workload_of(pod)
            return known[owner.uid]

        return workload_of_pod

    @property
    def left(self) -> dict[PodName, tuple[Workload | None, str]]:
        """Workload and node of the pods that left of late: their samples are still there."""
        return {name: (workload, node) for name, (_, workload, node) in self._left.items()}

    def measured(self, usage: Mapping[str, Resources]) -> None:
        """By pod UID what a round measured; a pod that leaves takes along what it was last measured at."""
        self._usage = (usage, *self._usage[: ROUNDS - 1])

    def on_node(self, before: Node | None, after: Node | None) -> None:
        """A node came (before is None), changed, or went (after is None)."""
        known = after if after is not None else before
        if known is None:
            return
        name = known.metadata.name
        here = self._nodes.get(name)
        if after is None or not self.mine(after.metadata.labels):
            if here is not None:
                del self._nodes[name]
                self._gone.pop(name, None)
                self.remove(name, here.metadata.uid)
            return
        if here is not None and here.metadata.uid != after.metadata.uid:
            self._gone.pop(name, None)
        self._nodes[name] = after
        self._removed.pop(name, None)
        self.news.add(name)

    def remove(self, name: str, uid: str) -> None:
        """Have it told that this node is no more."""
        self._removed[name] = uid
        if len(self._removed) > REMOVED_LIMIT:
            del self._removed[next(iter(self._removed))]
        self.news.add(name)

    def mine(self, labels: Mapping[str, str]) -> bool:
        """Is a node with these labels this collector's?"""
        return all(labels.get(label) == value for label, value in self._selector.items())

    def on_pod(self, before: Pod | None, after: Pod | None, now: float) -> None:
        """A pod came, changed, or went; a namesake with another UID is another pod."""
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            self._leave(before, now)
        if after is None or not after.spec.node_name:
            return
        if after.status.phase in FINISHED:
            self._leave(after, now)
            return
        node, uid = after.spec.node_name, after.metadata.uid
        here = self._pods.setdefault(node, {})
        known = here.get(uid)
        here[uid] = Tracked(pod=after, placed=placed(after, known.placed if known else None, now, self._start_limit))
        self._gone.get(node, {}).pop(uid, None)
        self.news.add(node)

    def _leave(self, pod: Pod, now: float) -> None:
        node = pod.spec.node_name
        tracked = self._pods.get(node, {}).pop(pod.metadata.uid, None)
        if tracked is None:
            return
        self.news.add(node)
        here = tracked.placed
        usage = next((known[here.uid] for known in self._usage if here.uid in known), Resources())
        workload = self.workload_of(tracked.pod)
        self._left.pop((here.namespace, here.name), None)  # in order of time: forgotten from the front
        self._left[here.namespace, here.name] = (now, workload, node)
        if here.running_since is not None and node in self._nodes:
            self._gone.setdefault(node, {})[here.uid] = GonePod(
                uid=here.uid,
                namespace=here.namespace,
                name=here.name,
                workload=workload,
                running_since=here.running_since,
                gone_at=now,
                preempted_at=here.preempted_at,
                requests=here.requests,
                limits=here.limits,
                usage=usage,
            )

    def forget(self, now: float) -> None:
        """Drop the owners of pods that left long ago, and lists of nodes that are no more."""
        self._pods = {node: pods for node, pods in self._pods.items() if pods}
        while self._left and now - next(iter(self._left.values()))[0] > self._memory:
            del self._left[next(iter(self._left))]

    @property
    def left_from(self) -> Collection[str]:
        """Nodes that pods have left of late."""
        return self._gone.keys()

    def forget_gone(self, node: str, now: float) -> None:
        """Drop the gone pods of a node that no window shows any more."""
        kept = {uid: pod for uid, pod in self._gone.get(node, {}).items() if self._shows(pod, now)}
        latest = sorted(kept.values(), key=lambda pod: pod.gone_at)[-GONE_LIMIT:]
        self._gone[node] = {pod.uid: pod for pod in latest}
        if not latest:
            del self._gone[node]

    def _shows(self, pod: GonePod, now: float) -> bool:
        stay = PodLifetime(
            placed_at=pod.running_since, running_since=pod.running_since, gone_at=pod.gone_at, usage=pod.usage
        )
        return any(share_measured(stay, now, length) >= NEGLIGIBLE for length in self._windows)

    def placement(self, name: str) -> NodePlacement | None:
        """What is to be told of a node (epoch and sequence are the speaker's); None when it was never here."""
        node = self._nodes.get(name)
        if node is None:
            uid = self._removed.get(name)
            return None if uid is None else NodePlacement(node=name, uid=uid, removed=True, epoch=0, sequence=0)
        ready, since = readiness(node)
        return NodePlacement(
            node=name,
            uid=node.metadata.uid,
            labels=node.metadata.labels,
            taints=[Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in node.spec.taints],
            ready=ready,
            ready_since=since,
            cordoned=node.spec.unschedulable,
            created_at=seconds(node.metadata.creation_timestamp) or 0.0,
            allocatable=amounts(node.status.allocatable),
            capacity=amounts(node.status.capacity),
            pod_capacity=int(amount(node.status.allocatable.get("pods")) or 0),
            pods=[
                msgspec.structs.replace(tracked.placed, workload=self.workload_of(tracked.pod))
                for tracked in self.tracked(name)
            ],
            gone=sorted(self._gone.get(name, {}).values(), key=lambda pod: pod.gone_at),
            epoch=0,
            sequence=0,
        )


def readiness(node: Node) -> tuple[bool, float | None]:
    """Is it Ready, and since when is that so?"""
    ready = next((condition for condition in node.status.conditions if condition.type == "Ready"), None)
    return (False, None) if ready is None else (ready.status == "True", seconds(ready.last_transition_time))


def amount(text: str | None) -> float | None:
    """A quantity, or None for what is none."""
    try:
        return None if text is None else parse_quantity(text)
    except ValueError:
        return None


def amounts(quantities: Mapping[str, str]) -> Resources:
    return Resources(cpu=amount(quantities.get("cpu")), memory=amount(quantities.get("memory")))
