"""Pods and nodes with only the fields that the rules of kube-scheduler read."""

from collections.abc import Sequence
from functools import cached_property

import msgspec

from equipoise.contracts.kubernetes import objects
from equipoise.contracts.kubernetes.objects import (
    NodeSelector,
    PodAffinityTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from equipoise.contracts.kubernetes.requests import Amounts, amounts_of, pod_requests
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.resources import Resources


class HostPort(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A host port of a container."""

    port: int
    protocol: str = "TCP"
    address: str = "0.0.0.0"  # noqa: S104  the address in the manifest, nothing listens

    def conflicts(self, other: "HostPort") -> bool:
        everywhere = "0.0.0.0"  # noqa: S104
        return (
            self.port == other.port
            and self.protocol == other.protocol
            and (self.address == other.address or everywhere in (self.address, other.address))
        )


class FitPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields of a pod that decide where it fits."""

    uid: str
    namespace: str
    name: str
    labels: dict[str, str] = {}
    requests: Amounts = {}
    tolerations: Sequence[Toleration] = ()
    node_selector: dict[str, str] = {}
    node_affinity: NodeSelector | None = None
    pod_affinity: Sequence[PodAffinityTerm] = ()
    pod_anti_affinity: Sequence[PodAffinityTerm] = ()
    host_ports: Sequence[HostPort] = ()
    spread: Sequence[TopologySpreadConstraint] = ()
    """Only with DoNotSchedule."""

    volume_nodes: Sequence[NodeSelector] = ()
    """One selector per volume with the nodes from which it is reachable; all of them must match."""

    terminating: bool = False


class FitNode(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A node and the pods that occupy it: bound ones, and those nominated to it."""

    name: str
    labels: dict[str, str] = {}
    taints: list[Taint] = []
    cordoned: bool = False
    allocatable: Amounts = {}
    """With "pods"."""

    pods: list[FitPod] = []

    @cached_property
    def requested(self) -> Amounts:
        """Requests of its pods, by resource."""
        total: Amounts = {}
        for pod in self.pods:
            for resource, amount in pod.requests.items():
                total[resource] = total.get(resource, 0.0) + amount
        return total

    @cached_property
    def active_pods(self) -> int:
        """Number of its pods that are not terminating."""
        return sum(not pod.terminating for pod in self.pods)


def fit_pod(pod: objects.Pod, volume_nodes: Sequence[NodeSelector] = ()) -> FitPod:
    """Converts a Pod. Raises ValueError for an invalid quantity."""
    spec = pod.spec
    affinity = spec.affinity or objects.Affinity()
    containers = [*(spec.containers or ()), *(c for c in spec.init_containers if c.restart_policy == "Always")]
    return FitPod(
        uid=pod.metadata.uid,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        labels=pod.metadata.labels,
        requests=pod_requests(pod),
        tolerations=spec.tolerations,
        node_selector=spec.node_selector,
        node_affinity=affinity.node_affinity.required if affinity.node_affinity else None,
        pod_affinity=affinity.pod_affinity.required if affinity.pod_affinity else (),
        pod_anti_affinity=affinity.pod_anti_affinity.required if affinity.pod_anti_affinity else (),
        host_ports=tuple(
            HostPort(port=port.host_port, protocol=port.protocol, address=port.host_ip or "0.0.0.0")  # noqa: S104
            for container in containers
            for port in container.ports
            if port.host_port
        ),
        spread=tuple(rule for rule in spec.topology_spread_constraints if rule.when_unsatisfiable == "DoNotSchedule"),
        volume_nodes=tuple(volume_nodes),
        terminating=pod.metadata.deletion_timestamp is not None,
    )


def fit_node(node: objects.Node, pods: Sequence[FitPod]) -> FitNode:
    """Converts a Node. `pods`: those that occupy it, with nominated ones, without finished ones."""
    return FitNode(
        name=node.metadata.name,
        labels=node.metadata.labels,
        taints=node.spec.taints,
        cordoned=node.spec.unschedulable,
        allocatable=amounts_of(node.status.allocatable),
        pods=list(pods),
    )


def _amounts(resources: Resources) -> Amounts:
    pairs = (("cpu", resources.cpu), ("memory", resources.memory))
    return {resource: amount for resource, amount in pairs if amount is not None}


def placed_node(placement: NodePlacement) -> FitNode:
    """A node from its placement message: only cpu, memory and pod count; of its pods only their requests."""
    return FitNode(
        name=placement.node,
        labels=placement.labels,
        taints=placement.taints,
        cordoned=placement.cordoned,
        allocatable=_amounts(placement.allocatable) | {"pods": float(placement.pod_capacity)},
        pods=[
            FitPod(
                uid=pod.uid,
                namespace=pod.namespace,
                name=pod.name,
                requests=_amounts(pod.requests),
                terminating=pod.terminating,
            )
            for pod in placement.pods
        ],
    )
