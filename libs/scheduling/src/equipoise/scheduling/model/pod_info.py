"""A pod with what plugins need of it, parsed once."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from equipoise.contracts.kubernetes.labels import required_nodes, selects
from equipoise.contracts.kubernetes.objects import (
    Affinity,
    Condition,
    Container,
    LabelSelector,
    NodeAffinity,
    NodeSelector,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodes,
    SelectorRequirement,
    Volume,
)
from equipoise.contracts.kubernetes.requests import pod_requests
from equipoise.scheduling.model.amounts import (
    MISSING,
    PODS,
    Amounts,
    requested,
    requested_or_assumed,
    whole,
)

GroupKey = tuple[str, frozenset[tuple[str, str]], bytes, bool]
"""Namespace, labels, affinity terms, and whether the pod is terminating."""

PREEMPTED = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
"""Of a victim of a preemption, while it terminates."""

ANY_ADDRESS = "0.0.0.0"  # noqa: S104  the address in a manifest, nothing listens


class AffinityTerm(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A term of a pod's affinity or anti-affinity to other pods."""

    selector: LabelSelector | None
    """None selects no pods."""

    namespaces: frozenset[str]
    """Those named, or that of the pod if the term has neither names nor a selector."""

    namespace_selector: LabelSelector | None
    """Selects further namespaces by their labels; an empty one selects all."""

    topology_key: str
    weight: int = 0
    """Of a preferred term; negative for anti-affinity."""

    @cached_property
    def key(self) -> bytes:
        """Equal for terms that mean the same."""
        return msgspec.json.encode(
            [self.selector, sorted(self.namespaces), self.namespace_selector, self.topology_key, self.weight]
        )

    def in_namespace(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """`labels`: those of the namespace."""
        if namespace in self.namespaces:
            return True
        return self.namespace_selector is not None and selects(self.namespace_selector, labels)

    def selects(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        """Whether it selects a pod with these labels in this namespace."""
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


class PodInfo:
    """Immutable. Two of the same uid are the same pod."""

    def __init__(self, pod: Pod) -> None:
        """Raises ValueError for an invalid quantity."""
        self.pod = pod
        self.namespace = pod.metadata.namespace or "default"
        self.name = pod.metadata.name
        self.uid = pod.metadata.uid or f"{self.namespace}/{self.name}"
        self.labels = pod.metadata.labels
        self.priority = pod.spec.priority
        self.terminating = pod.metadata.deletion_timestamp is not None
        self.requests: Amounts = requested(pod)
        self.assumed_cpu, self.assumed_memory = requested_or_assumed(pod)

    def __repr__(self) -> str:
        return f"PodInfo({self.namespace}/{self.name})"

    def replica(self, name: str, uid: str) -> "PodInfo":
        """Another pod of the same template: everything else is shared, and nothing is parsed again.

        `pod` remains that of the template.
        """
        if "group_key" not in self.__dict__:
            for each in _PARSED:
                getattr(self, each)
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.name, copy.uid = name, uid
        return copy

    def with_preferred_nodes(self, preferred: Sequence[PreferredNodes]) -> "PodInfo":
        """The same pod with these terms of preferred node affinity in addition."""
        affinity = self._affinity
        nodes = affinity.node_affinity or NodeAffinity()
        nodes = msgspec.structs.replace(nodes, preferred=[*nodes.preferred, *preferred])
        affinity = msgspec.structs.replace(affinity, node_affinity=nodes)
        copy = self.replica(self.name, self.uid)
        spec = msgspec.structs.replace(self.pod.spec, affinity=affinity)
        copy.pod = msgspec.structs.replace(self.pod, spec=spec)
        return copy

    def deleted(self, *, preempted: bool = False) -> "PodInfo":
        """The same pod while it terminates: it occupies its node, but topology spread constraints do not count it.

        `preempted`: by kube-scheduler. The pod for which it is removed then waits, and preempts no other.
        """
        copy = self.replica(self.name, self.uid)
        copy.terminating = True
        if preempted:
            status = msgspec.structs.replace(self.pod.status, conditions=[*self.pod.status.conditions, PREEMPTED])
            copy.pod = msgspec.structs.replace(self.pod, status=status)
        del copy.group_key
        return copy

    def request(self, resource: str) -> int:
        return 1 if resource == PODS else self.requests.get(resource, 0)

    @cached_property
    def container_requests(self) -> Amounts:
        """As NodeResourcesFit scores the pod: with MISSING for containers, without pod-level resources."""
        spec = msgspec.structs.replace(self.pod.spec, resources=None)
        return whole(pod_requests(msgspec.structs.replace(self.pod, spec=spec), missing=MISSING))

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """All that run at the same time: containers and sidecars."""
        sidecars = (each for each in self.pod.spec.init_containers if each.restart_policy == "Always")
        return (*(self.pod.spec.containers or ()), *sidecars)

    @cached_property
    def claim_volumes(self) -> tuple[Volume, ...]:
        """Its volumes with a PersistentVolumeClaim, ephemeral ones included."""
        return tuple(
            each
            for each in self.pod.spec.volumes
            if each.persistent_volume_claim is not None or each.ephemeral is not None
        )

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
        """Its node selector and its required node affinity. None: every node."""
        return required_nodes(self.pod.spec)

    @cached_property
    def required_affinity(self) -> tuple[AffinityTerm, ...]:
        return self._required(self._affinity.pod_affinity)

    @cached_property
    def required_anti_affinity(self) -> tuple[AffinityTerm, ...]:
        return self._required(self._affinity.pod_anti_affinity)

    @cached_property
    def preferred(self) -> tuple[AffinityTerm, ...]:
        """Preferred terms of affinity and, with negative weights, of anti-affinity."""
        return (
            *self._preferred(self._affinity.pod_affinity, 1),
            *self._preferred(self._affinity.pod_anti_affinity, -1),
        )

    @property
    def terms(self) -> tuple[AffinityTerm, ...]:
        """All of them."""
        return (*self.required_affinity, *self.required_anti_affinity, *self.preferred)

    @cached_property
    def affinity_key(self) -> bytes:
        """Equal for pods whose terms mean the same; empty without terms."""
        if self._affinity.pod_affinity is None and self._affinity.pod_anti_affinity is None:
            return b""
        parts = (self.required_affinity, self.required_anti_affinity, self.preferred)
        return b"|".join(b",".join(term.key for term in terms) for terms in parts)

    @cached_property
    def group_key(self) -> GroupKey:
        """Equal for pods that every selector and every other pod treat alike."""
        return self.namespace, frozenset(self.labels.items()), self.affinity_key, self.terminating

    @property
    def _affinity(self) -> Affinity:
        return self.pod.spec.affinity or _NO_AFFINITY

    def _required(self, affinity: PodAffinity | None) -> tuple[AffinityTerm, ...]:
        return tuple(self._term(each) for each in affinity.required) if affinity else ()

    def _preferred(self, affinity: PodAffinity | None, sign: int) -> Sequence[AffinityTerm]:
        if affinity is None:
            return ()
        return [self._term(each.pod_affinity_term, sign * each.weight) for each in affinity.preferred if each.weight]

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


_NO_AFFINITY = Affinity()

_PARSED = tuple(name for name, value in vars(PodInfo).items() if isinstance(value, cached_property))
"""What is parsed when it is read first. `group_key` needs most of it, and is the last."""


def with_label_keys(
    selector: LabelSelector | None, labels: Mapping[str, str], match: Sequence[str], mismatch: Sequence[str] = ()
) -> LabelSelector | None:
    """The selector with requirements for the pod's own labels. A key that the pod does not have is ignored.

    An API server of 1.34 or newer has already added them when the pod was created; they are not added twice.
    """
    if selector is None or not (match or mismatch):
        return selector
    added = [
        SelectorRequirement(key=key, operator=operator, values=[labels[key]])
        for keys, operator in ((match, "In"), (mismatch, "NotIn"))
        for key in keys
        if key in labels
    ]
    added = [each for each in added if each not in selector.match_expressions]
    return msgspec.structs.replace(selector, match_expressions=[*selector.match_expressions, *added])
