"""A pod with the data that plugins need, parsed once."""

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from weakref import WeakValueDictionary

import msgspec
import numpy as np

from equipoise.contracts.kubernetes.labels import required_nodes, selects
from equipoise.contracts.kubernetes.objects.metadata import Condition, LabelSelector, SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import NodeSelector
from equipoise.contracts.kubernetes.objects.pod import (
    Affinity,
    Container,
    NodeAffinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodes,
    Volume,
)
from equipoise.contracts.kubernetes.requests import with_actual_resources
from equipoise.contracts.kubernetes.resizes import ResizeReason, with_pending_resize
from equipoise.scheduling.model.amounts import (
    CPU,
    MEMORY,
    PODS,
    STORAGE,
    Amounts,
    requested,
    requested_by_containers,
    requested_or_assumed,
)
from equipoise.scheduling.model.arrays import Ints

GroupKey = tuple[str, frozenset[tuple[str, str]], bytes, bool]
"""Namespace, labels, affinity terms, and whether the pod is terminating."""

PREEMPTED = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
"""The condition of a victim of a preemption, while it terminates."""

_LESS_THAN_ANY = -(2**63)

ANY_ADDRESS = "0.0.0.0"  # noqa: S104  the address in a manifest, nothing listens


class AffinityTerm(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A term of a pod's affinity or anti-affinity to other pods."""

    selector: LabelSelector | None
    """The selector of the other pods; None selects no pods."""

    namespaces: frozenset[str]
    """The namespaces that the term names, or that of the pod if it has neither names nor a namespace selector."""

    namespace_selector: LabelSelector | None
    """Selects further namespaces by their labels. An empty selector selects all."""

    topology_key: str
    weight: int = 0
    """The weight of a preferred term; negative for anti-affinity."""

    @cached_property
    def key(self) -> bytes:
        """A key that is equal for terms with the same meaning."""
        return msgspec.json.encode(
            [self.selector, sorted(self.namespaces), self.namespace_selector, self.topology_key, self.weight]
        )

    def in_namespace(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether the term applies to a namespace with these labels."""
        if namespace in self.namespaces:
            return True
        return self.namespace_selector is not None and selects(self.namespace_selector, labels)

    def selects(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        """Whether the term selects a pod with these labels in this namespace."""
        return self.in_namespace(namespace, namespace_labels) and selects(self.selector, labels)


class PodHostPort(msgspec.Struct, frozen=True, kw_only=True):
    """A port of the node that a container occupies."""

    port: int
    protocol: str
    address: str

    def conflicts(self, other: "PodHostPort") -> bool:
        return (
            self.port == other.port
            and self.protocol == other.protocol
            and (self.address == other.address or ANY_ADDRESS in (self.address, other.address))
        )


class PodShape:
    """The data of a pod that all pods of a workload have in common. Immutable."""

    def __init__(self, pod: Pod) -> None:
        """Raises ValueError for an invalid quantity."""
        self.pod = pod
        """One of the pods with this shape."""

        self.namespace = pod.metadata.namespace or "default"
        self.labels = pod.metadata.labels
        self.terminating = pod.metadata.deletion_timestamp is not None
        self.requests: Amounts = requested(pod)
        self.assumed_cpu, self.assumed_memory = requested_or_assumed(pod)

    @cached_property
    def container_requests(self) -> Amounts:
        spec = msgspec.structs.replace(self.pod.spec, resources=None)
        return requested_by_containers(msgspec.structs.replace(self.pod, spec=spec))

    @cached_property
    def container_cpu_and_memory(self) -> Ints:
        """Millicores and bytes of `container_requests`, as a 2 × 1 array that can be added to the amounts of several
        nodes."""
        return np.array([[self.container_requests.get(CPU, 0)], [self.container_requests.get(MEMORY, 0)]], np.int64)

    @cached_property
    def cpu_and_memory(self) -> Ints:
        """Millicores and bytes of `requests`, as a 2 × 1 array."""
        return np.array([[self.requests.get(CPU, 0)], [self.requests.get(MEMORY, 0)]], dtype=np.int64)

    @cached_property
    def basic_requests(self) -> Ints | None:
        """The requests of cpu, memory, storage and 1 pod, as a 4 × 1 array. A resource that is not requested has the
        lowest possible value, so that every node has enough of it.

        None if the pod requests other resources, too.
        """
        if not self.requests.keys() <= {CPU, MEMORY, STORAGE, PODS}:
            return None
        # A sum that overflowed may be negative. It counts as no request.
        requests = (self.requests.get(name, 0) for name in (CPU, MEMORY, STORAGE))
        amounts = [[amount if amount > 0 else _LESS_THAN_ANY] for amount in requests]
        return np.array([*amounts, [1]], dtype=np.int64)

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        sidecars = (container for container in self.pod.spec.init_containers if container.restart_policy == "Always")
        return (*(self.pod.spec.containers or ()), *sidecars)

    @cached_property
    def host_ports(self) -> tuple[PodHostPort, ...]:
        return tuple(
            PodHostPort(port=port.host_port, protocol=port.protocol or "TCP", address=port.host_ip or ANY_ADDRESS)
            for container in self.containers
            for port in container.ports
            if port.host_port > 0
        )

    @cached_property
    def required_nodes(self) -> NodeSelector | None:
        return required_nodes(self.pod.spec)

    @cached_property
    def required_nodes_key(self) -> bytes:
        """A short key that is equal for pods that require the same nodes; the requirements themselves can have a
        megabyte."""
        return msgspec.json.encode(self.required_nodes)

    @cached_property
    def required_affinity(self) -> tuple[AffinityTerm, ...]:
        return self._required(self._affinity.pod_affinity)

    @cached_property
    def required_anti_affinity(self) -> tuple[AffinityTerm, ...]:
        return self._required(self._affinity.pod_anti_affinity)

    @cached_property
    def preferred(self) -> tuple[AffinityTerm, ...]:
        return (
            *self._preferred(self._affinity.pod_affinity, 1),
            *self._preferred(self._affinity.pod_anti_affinity, -1),
        )

    @cached_property
    def group_key(self) -> GroupKey:
        return self.namespace, frozenset(self.labels.items()), self._affinity_key, self.terminating

    @cached_property
    def deleted(self) -> "PodShape":
        """The shape of the same pods while they terminate."""
        shape = copy(self)
        shape.terminating = True
        shape.__dict__.pop("group_key", None)
        return shape

    def without_label(self, name: str) -> "PodShape":
        """The shape of the same pods after this label was removed. The terms of their affinity remain."""
        shape = copy(self)
        shape.required_affinity, shape.required_anti_affinity = self.required_affinity, self.required_anti_affinity
        shape.preferred = self.preferred
        shape.labels = {key: value for key, value in self.labels.items() if key != name}
        shape.__dict__.pop("group_key", None)
        return shape

    @property
    def _affinity_key(self) -> bytes:
        """A key that is equal for pods whose terms have the same meaning; empty without terms."""
        if self._affinity.pod_affinity is None and self._affinity.pod_anti_affinity is None:
            return b""
        parts = (self.required_affinity, self.required_anti_affinity, self.preferred)
        return b"|".join(b",".join(term.key for term in terms) for terms in parts)

    @property
    def _affinity(self) -> Affinity:
        return self.pod.spec.affinity or _NO_AFFINITY

    def _required(self, affinity: PodAffinity | None) -> tuple[AffinityTerm, ...]:
        return tuple(self._term(term) for term in affinity.required) if affinity else ()

    def _preferred(self, affinity: PodAffinity | None, sign: int) -> Sequence[AffinityTerm]:
        if affinity is None:
            return ()
        return [self._term(term.pod_affinity_term, sign * term.weight) for term in affinity.preferred if term.weight]

    def _term(self, term: PodAffinityTerm, weight: int = 0) -> AffinityTerm:
        names = frozenset(term.namespaces)
        if not names and term.namespace_selector is None:
            names = frozenset({self.namespace})
        return AffinityTerm(
            selector=with_label_keys(term.label_selector, self.labels, term.match_label_keys, term.mismatch_label_keys),
            namespaces=names,
            namespace_selector=term.namespace_selector,
            topology_key=term.topology_key,
            weight=weight,
        )


class PodInfo:
    """A pod. Immutable. PodInfos with the same uid are versions of the same pod."""

    __slots__ = (
        "assumed_cpu", "assumed_memory", "labels", "name", "namespace", "pod", "priority", "requests", "shape",
        "terminating", "uid",
    )  # fmt: skip

    def __init__(self, pod: Pod, shape: PodShape | None = None, *, uid: str = "") -> None:
        """`shape`: the shape of a pod of the same workload, if it is known. `uid`: a uid that replaces that of the pod.

        Raises ValueError for an invalid quantity.
        """
        self.pod = pod
        self.shape = shape = shape or PodShape(pod)
        self.namespace = shape.namespace
        self.name = pod.metadata.name
        self.uid = uid or pod.metadata.uid or f"{self.namespace}/{self.name}"
        self.labels = shape.labels
        self.priority = pod.spec.priority
        self.terminating = shape.terminating
        self.requests = shape.requests
        self.assumed_cpu = shape.assumed_cpu
        self.assumed_memory = shape.assumed_memory

    def __repr__(self) -> str:
        return f"PodInfo({self.namespace}/{self.name})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PodInfo) and self.uid == other.uid and self.pod == other.pod

    def __hash__(self) -> int:
        return hash(self.uid)

    def replica(self, name: str, uid: str) -> "PodInfo":
        """Another pod of the same template. Its attribute `pod` remains the pod of the template."""
        other = PodInfo(self.pod, self.shape, uid=uid)
        other.name = name
        return other

    def updated(self, pod: Pod) -> "PodInfo":
        """The same pod after a change. Its shape is kept if nothing in it changed. Raises ValueError for an invalid
        quantity."""
        old, new = self.pod.metadata, pod.metadata
        # Actual resources depend on the status, which is not compared.
        same_shape = (
            with_actual_resources(pod) is pod
            and with_actual_resources(self.pod) is self.pod
            and pod.spec == self.pod.spec
            and (new.labels, new.deletion_timestamp) == (old.labels, old.deletion_timestamp)
            and (new.uid, new.namespace, new.name) == (old.uid, old.namespace, old.name)
        )
        return PodInfo(pod, self.shape if same_shape else None)

    def with_pending_resize(self, reason: ResizeReason) -> "PodInfo":
        """The same pod as if its resize were pending for this reason: see `with_pending_resize`. Raises ValueError for
        an invalid quantity."""
        return PodInfo(with_pending_resize(self.pod, reason), uid=self.uid)

    def on_node(self, node: str) -> "PodInfo":
        """The same pod with this node."""
        spec = msgspec.structs.replace(self.pod.spec, node_name=node)
        other = PodInfo(msgspec.structs.replace(self.pod, spec=spec), self.shape, uid=self.uid)
        other.name = self.name
        return other

    def with_preferred_nodes(self, preferred: Sequence[PreferredNodes]) -> "PodInfo":
        """The same pod with these terms of preferred node affinity in addition."""
        affinity = self.pod.spec.affinity or _NO_AFFINITY
        nodes = affinity.node_affinity or NodeAffinity()
        nodes = msgspec.structs.replace(nodes, preferred=[*nodes.preferred, *preferred])
        spec = msgspec.structs.replace(self.pod.spec, affinity=msgspec.structs.replace(affinity, node_affinity=nodes))
        # A shape does not depend on preferred nodes.
        other = PodInfo(msgspec.structs.replace(self.pod, spec=spec), self.shape, uid=self.uid)
        other.name = self.name
        return other

    def deleted(self, *, preempted: bool = False) -> "PodInfo":
        """The same pod while it terminates: it occupies its node, but topology spread constraints do not count it.

        `preempted`: whether kube-scheduler preempted it. The preempting pod then waits, and preempts no other pod.
        """
        pod = self.pod
        if preempted:
            status = msgspec.structs.replace(pod.status, conditions=[*pod.status.conditions, PREEMPTED])
            pod = msgspec.structs.replace(pod, status=status)
        other = PodInfo(pod, self.shape.deleted, uid=self.uid)
        other.name = self.name
        return other

    def without_label(self, name: str) -> "PodInfo":
        """The same pod after this label was removed. Its attribute `pod` remains that of before."""
        other = PodInfo(self.pod, self.shape.without_label(name), uid=self.uid)
        other.name = self.name
        return other

    def request(self, resource: str) -> int:
        return 1 if resource == PODS else self.requests.get(resource, 0)

    @property
    def container_requests(self) -> Amounts:
        """The requests for scores of NodeResourcesFit: with MISSING for containers, without pod-level resources."""
        return self.shape.container_requests

    @property
    def containers(self) -> tuple[Container, ...]:
        """The containers that run at the same time: containers and sidecars."""
        return self.shape.containers

    @property
    def claim_volumes(self) -> tuple[Volume, ...]:
        """The volumes of the pod with a PersistentVolumeClaim, including ephemeral volumes."""
        volumes = self.pod.spec.volumes
        if not volumes:
            return ()
        return tuple(
            volume for volume in volumes if volume.persistent_volume_claim is not None or volume.ephemeral is not None
        )

    @property
    def host_ports(self) -> tuple[PodHostPort, ...]:
        return self.shape.host_ports

    @property
    def required_nodes(self) -> NodeSelector | None:
        """The node selector and the required node affinity of the pod. None if it can run on every node."""
        return self.shape.required_nodes

    @property
    def required_affinity(self) -> tuple[AffinityTerm, ...]:
        return self.shape.required_affinity

    @property
    def required_anti_affinity(self) -> tuple[AffinityTerm, ...]:
        return self.shape.required_anti_affinity

    @property
    def preferred(self) -> tuple[AffinityTerm, ...]:
        """Preferred terms of affinity and, with negative weights, of anti-affinity."""
        return self.shape.preferred

    @property
    def terms(self) -> tuple[AffinityTerm, ...]:
        """The required and preferred terms of affinity and anti-affinity."""
        return (*self.required_affinity, *self.required_anti_affinity, *self.preferred)

    @property
    def group_key(self) -> GroupKey:
        """A key that is equal for pods that no selector and no affinity term distinguishes."""
        return self.shape.group_key


class PodReader:
    """Creates PodInfos. Pods that share their values, as a reflector makes them do, also share their shape.

    A shape is kept as long as a PodInfo refers to it.
    """

    def __init__(self) -> None:
        self._shapes: WeakValueDictionary[tuple[object, ...], PodShape] = WeakValueDictionary()

    def __len__(self) -> int:
        """The number of shapes."""
        return len(self._shapes)

    def read(self, pod: Pod) -> PodInfo:
        """Raises ValueError for an invalid quantity."""
        if with_actual_resources(pod) is not pod:  # its requests depend on its status
            return PodInfo(pod)
        spec = pod.spec
        # The shape keeps a pod with these values alive, so that no other value gets the same id meanwhile.
        parts = (
            pod.metadata.labels, spec.containers, spec.init_containers, spec.overhead, spec.resources,
            spec.node_selector, spec.affinity,
        )  # fmt: skip
        key = (pod.metadata.namespace, pod.metadata.deletion_timestamp is not None, *map(id, parts))
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = PodShape(pod)
        return PodInfo(pod, shape)


_NO_AFFINITY = Affinity()


def with_label_keys(
    selector: LabelSelector | None, labels: Mapping[str, str], match: Sequence[str], mismatch: Sequence[str] = ()
) -> LabelSelector | None:
    """The selector with requirements for the pod's own labels. A key that the pod does not have is ignored.

    An API server of 1.34 or newer adds these requirements when a pod is created. They are not added twice.
    """
    if selector is None or not (match or mismatch):
        return selector
    added = [
        SelectorRequirement(key=key, operator=operator, values=[labels[key]])
        for keys, operator in ((match, "In"), (mismatch, "NotIn"))
        for key in keys
        if key in labels
    ]
    added = [requirement for requirement in added if requirement not in selector.match_expressions]
    return msgspec.structs.replace(selector, match_expressions=[*selector.match_expressions, *added])
