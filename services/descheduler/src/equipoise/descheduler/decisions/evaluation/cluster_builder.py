"""From what is watched and heard to the fleet that strategies judge."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Protocol

import msgspec

from equipoise.contracts.eviction.protection import Candidate, Rules, of_daemon_set, protection, static
from equipoise.contracts.fit import FitNode, FitPod, fit_node, fit_pod
from equipoise.contracts.kubernetes.labels import selects
from equipoise.contracts.kubernetes.objects import (
    Namespace,
    Node,
    NodeSelector,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    WorkloadObject,
)
from equipoise.contracts.kubernetes.owners import controller_of, workload_of
from equipoise.contracts.kubernetes.requests import Amounts
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.pod_priority import priority_class_of, qos_of
from equipoise.contracts.messages.resources import Resources
from equipoise.descheduler.decisions.evaluation.node_conditions import source_refusal, target_refusal
from equipoise.descheduler.decisions.evaluation.node_usage import Measures
from equipoise.descheduler.decisions.evaluation.obstacles import obstacle
from equipoise.descheduler.state.cluster import FleetNode, MovablePod
from equipoise.descheduler.state.cool_downs import CoolDowns, resting, resting_node
from equipoise.descheduler.state.lazy import Later
from equipoise.descheduler.state.pending_moves import Arrival, Flight, Flights
from equipoise.descheduler.state.pod_lifetimes import takes_room
from equipoise.descheduler.state.pod_priority import DELETION_COST, EVICTION_COST, cost_of


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server tells."""

    nodes: Sequence[Node]
    pods: Sequence[Pod]
    namespaces: Mapping[str, Namespace]
    budgets: Sequence[PodDisruptionBudget] = ()
    workloads: Mapping[Workload, WorkloadObject] = {}
    """Of every watched kind, ReplicaSets of Deployments too."""

    volume_nodes: Mapping[tuple[str, str], NodeSelector | None] = {}
    """By namespace and claim: where the claim's volume can be reached; None anywhere. Unbound claims are absent."""

    fits: Mapping[str, FitPod] = {}
    """By UID, of pods that were read before: reading one takes longer than anything else about it."""

    def owner_of(self, workload: Workload) -> OwnerReference | None:
        """Who controls a ReplicaSet. Raises KeyError for one that is not watched (yet)."""
        return self.workloads[workload].metadata.controller

    def workload_of(self, pod: Pod) -> Workload | None:
        """The pod's workload; None when it has none or it is not known."""
        try:
            return workload_of(pod, self.owner_of)
        except KeyError:
            return None

    def candidate(self, pod: Pod, workload: Workload | None) -> Candidate:
        """The pod with what is around it, `workload` being its own."""
        owners: tuple[WorkloadObject, ...] = ()
        if workload is not None and workload in self.workloads:
            owners = (self.workloads[workload],)
            controller = controller_of(pod)
            if controller is not None and controller != workload:
                owners = (self.workloads[controller], *owners)
        namespace = self.namespaces.get(pod.metadata.namespace)
        return Candidate(pod=pod, namespace=namespace, workload=workload, owners=owners)


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """What the descheduler itself knows of its doing."""

    flights: Flights = {}
    cool_downs: CoolDowns = {}


class _Moving:
    """The moves under way by what they touch."""

    def __init__(self, flights: Flights) -> None:
        self.flights = flights
        self.by_uid = {flight.pod_uid: flight for flight in flights.values()}
        self.off: dict[str, list[Flight]] = {}
        self.to: dict[str, list[Flight]] = {}
        for flight in flights.values():
            self.off.setdefault(flight.node, []).append(flight)
            self.to.setdefault(flight.target, []).append(flight)


class Picture:
    """One moment, put together node by node."""

    def __init__(
        self, watched: Watched, measures: Measures, remembered: Remembered, rules: Rules, *, now: float
    ) -> None:
        self._watched = watched
        self._measures = measures
        self._cool_downs = remembered.cool_downs
        self._moving = _Moving(remembered.flights)
        self._rules = rules
        self._now = now
        self._fits = dict(watched.fits)
        self._made: dict[str, FleetNode] = {}
        self._workloads: dict[tuple[str, int], Workload | None] = {}
        self._budgets: dict[str, list[PodDisruptionBudget]] = {}
        for budget in watched.budgets:
            self._budgets.setdefault(budget.metadata.namespace, []).append(budget)
        self._pods: dict[str, list[Pod]] = {}
        self._taking_room: dict[str, list[FitPod]] = {}
        """By node: its pods, and those that are nominated to it."""

        self._changing: dict[str, list[Pod]] = {}
        """By node: its pods that are recent or leaving."""

        recent = measures.recent(now)
        # The pods of a big cluster lie far apart in memory: what is asked of all of them is asked in one go.
        for pod in watched.pods:
            uid, node = pod.metadata.uid, ""
            if pod.spec.volumes or uid not in self._fits:
                self._fits[uid] = self._fit(pod)
            if takes_room(pod):
                node = pod.spec.node_name
                self._pods.setdefault(node, []).append(pod)
                if uid in recent or pod.metadata.deletion_timestamp is not None:
                    self._changing.setdefault(node, []).append(pod)
            else:
                node = pod.status.nominated_node_name
            if node:
                self._taking_room.setdefault(node, []).append(self._fits[uid])

    @property
    def flights(self) -> Flights:
        """The moves that are under way in it."""
        return self._moving.flights

    def nodes(self, *, settling: float) -> list[FleetNode]:
        """Every node with its pods, in the order of names. `settling`: seconds that a node needs to be trusted."""
        for node in self._watched.nodes:
            name = node.metadata.name
            if name not in self._made:
                self._made[name] = self._node(node, settling)
        return [self._made[name] for name in sorted(self._made)]

    def after(self, flights: Flights) -> tuple["Picture", set[str]]:
        """The same moment with these moves under way, and the nodes that are not as they were."""
        changed = touched(self.flights, flights)
        other = copy(self)
        other._moving = _Moving(flights)
        other._made = {name: node for name, node in self._made.items() if name not in changed}
        return other, changed

    def staying(self, node: str) -> Iterator[tuple[str, Workload | None]]:
        """UIDs and workloads of the pods on a node that are not terminating."""
        for pod in self._pods.get(node, ()):
            if pod.metadata.deletion_timestamp is None:
                yield pod.metadata.uid, self._workload_of(pod)

    def _fit(self, pod: Pod) -> FitPod:
        known = self._watched.fits.get(pod.metadata.uid) or fit_pod(pod)
        if not pod.spec.volumes:
            return known
        volume_nodes = self._volume_nodes(pod)
        return msgspec.structs.replace(known, volume_nodes=volume_nodes) if volume_nodes else known

    def _workload_of(self, pod: Pod) -> Workload | None:
        """Finding it takes longer than anything else about a pod. Those of one controller share the list of owners."""
        key = pod.metadata.namespace, id(pod.metadata.owner_references)
        try:
            return self._workloads[key]
        except KeyError:
            workload = self._workloads[key] = self._watched.workload_of(pod)
            return workload

    def _requests_of(self, pod: Pod) -> Amounts:
        return self._fits[pod.metadata.uid].requests

    def _node(self, node: Node, settling: float) -> FleetNode:
        name = node.metadata.name
        pods = self._pods.get(name, [])
        seen = self._measures.of_node(
            node, self._changing.get(name, ()), self._workload_of, self._requests_of, self._now
        )
        going = self._going(name, pods)
        return FleetNode(
            name=name,
            base=seen.base,
            usage=seen.usage,
            sampled_at=seen.sampled_at,
            coming=self._coming(name, going),
            source_refusal=source_refusal(node, now=self._now, settling=settling)
            or resting_node(self._cool_downs, name, self._now),
            target_refusal=target_refusal(node, now=self._now, settling=settling),
            unknown=seen.unknown,
            pods=Later(lambda: [self._movable(pod, seen.pods.get(pod.metadata.uid, Resources())) for pod in pods]),
            production=Later(lambda: self._production(name, pods, seen.pods)),
            leaving=len(self._moving.off.get(name, ())),
            going=len(going),
            fit=self._fit_node(node),
        )

    def _production(self, node: str, pods: Sequence[Pod], usages: Mapping[str, Resources]) -> list[Resources]:
        """What production pods use that stay, and what is on its way here, whatever its class."""
        staying = [
            usages.get(pod.metadata.uid, Resources())
            for pod in pods
            if pod.metadata.deletion_timestamp is None
            and pod.metadata.uid not in self._moving.by_uid
            and priority_class_of(pod.metadata.labels, pod.spec.priority, qos_of(pod.status.qos_class)) == "prod"
        ]
        return staying + [flight.relief for flight in self._moving.to.get(node, ())]

    def _going(self, node: str, pods: Sequence[Pod]) -> list[Flight]:
        """The moves from a node of which nothing is to be seen yet.

        A pod that is already terminating or gone is taken off its source by the correction of the window's mean.
        """
        off = self._moving.off.get(node, ())
        there = {pod.metadata.uid for pod in pods if pod.metadata.deletion_timestamp is None} if off else ()
        return [flight for flight in off if flight.pod_uid in there]

    def _coming(self, node: str, going: Sequence[Flight]) -> Resources:
        """What moves under way bring to the node, less what they take from it."""
        coming = Resources(cpu=0.0, memory=0.0)
        for flight in self._moving.to.get(node, ()):
            coming = _sum(coming, flight.relief, 1.0)
        for flight in going:
            coming = _sum(coming, flight.relief, -1.0)
        return coming

    def _fit_node(self, node: Node) -> FitNode:
        name = node.metadata.name
        expected = [_replacement(flight) for flight in self._moving.to.get(name, ()) if flight.fit]
        return fit_node(node, [*self._taking_room.get(name, ()), *expected])

    def _movable(self, pod: Pod, usage: Resources) -> MovablePod:
        meta = pod.metadata
        workload = self._workload_of(pod)
        return MovablePod(
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
            node=pod.spec.node_name,
            workload=workload,
            usage=usage,
            priority=pod.spec.priority,
            qos=qos_of(pod.status.qos_class),
            deletion_cost=cost_of(meta.annotations, DELETION_COST),
            eviction_cost=cost_of(meta.annotations, EVICTION_COST),
            created_at=meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0,
            protection=self._protection(pod, workload),
            belongs_to_node=self._belongs_to_node(pod, workload),
            fit=self._fits[meta.uid],
        )

    def _belongs_to_node(self, pod: Pod, workload: Workload | None) -> bool:
        candidate = self._watched.candidate(pod, workload)
        return bool(static(candidate, self._rules, self._now) or of_daemon_set(candidate, self._rules, self._now))

    def _protection(self, pod: Pod, workload: Workload | None) -> str:
        meta = pod.metadata
        if meta.uid in self._moving.by_uid:
            return "its move is under way"
        candidate = self._watched.candidate(pod, workload)
        budgets = [
            budget for budget in self._budgets.get(meta.namespace, ()) if selects(budget.spec.selector, meta.labels)
        ]
        rest = resting(
            self._cool_downs,
            uid=meta.uid,
            namespace=meta.namespace,
            workload=workload,
            node=pod.spec.node_name,
            now=self._now,
        )
        return (
            protection(candidate, self._rules, self._now)
            or obstacle(candidate, budgets, volumes_known=self._volume_nodes(pod) is not None)
            or rest
        )

    def _volume_nodes(self, pod: Pod) -> list[NodeSelector] | None:
        """Where the pod's claims can be reached; None when that is not known."""
        selectors = []
        for volume in pod.spec.volumes:
            claim = f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else ""
            if volume.persistent_volume_claim is not None:
                claim = volume.persistent_volume_claim.claim_name
            if not claim:
                continue
            key = (pod.metadata.namespace, claim)
            if key not in self._watched.volume_nodes:
                return None
            selector = self._watched.volume_nodes[key]
            if selector is not None:
                selectors.append(selector)
        return selectors


def _replacement(flight: Flight) -> FitPod:
    """The pod that is expected at the flight's target: like the one that leaves, but another."""
    assert flight.fit is not None
    return msgspec.structs.replace(flight.fit, uid=f"{flight.pod_uid}/replacement", terminating=False)


def _sum(left: Resources, right: Resources, sign: float) -> Resources:
    """Unlike `plus` it may go below 0: it is a difference."""
    return Resources(
        cpu=(left.cpu or 0.0) + sign * (right.cpu or 0.0), memory=(left.memory or 0.0) + sign * (right.memory or 0.0)
    )


class Way(Protocol):
    """From a node to another."""

    @property
    def node(self) -> str: ...

    @property
    def target(self) -> str: ...


def touched(before: Mapping[str, Way], after: Mapping[str, Way]) -> set[str]:
    """The nodes at the ends of the ways that are in one of these only, or are another there."""
    differing = [key for key in {**before, **after} if before.get(key) is not after.get(key)]
    ways = (way for key in differing for way in (before.get(key), after.get(key)) if way is not None)
    return {name for way in ways for name in (way.node, way.target)}


def pods_of(watched: Watched, workloads: Iterable[Workload]) -> dict[Workload, list[Pod]]:
    """The pods of some workloads, wherever they are."""
    wanted = set(workloads)
    found: dict[Workload, list[Pod]] = {workload: [] for workload in wanted}
    if wanted:
        for pod in watched.pods:
            workload = watched.workload_of(pod)
            if workload in wanted and workload is not None:
                found[workload].append(pod)
    return found


def arrivals_of(watched: Watched, workloads: Iterable[Workload]) -> list[Arrival]:
    """The pods of some workloads as far as they may be replacements."""
    return [
        Arrival(
            uid=pod.metadata.uid,
            workload=workload,
            node=pod.spec.node_name,
            created_at=pod.metadata.creation_timestamp.timestamp() if pod.metadata.creation_timestamp else 0.0,
            name=pod.metadata.name,
        )
        for workload, pods in pods_of(watched, workloads).items()
        for pod in pods
    ]
