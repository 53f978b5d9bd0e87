"""`placement.>`: the pods on each node, as the collector reads them from the API server, and hints for new pods."""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal, Self

from msgspec import Meta
from msgspec.structs import replace

from equipoise.contracts.bounds import Count, Number, Time
from equipoise.contracts.colocation.bands import OfferedBand
from equipoise.contracts.kubernetes.objects.node import NodeSelector, Taint
from equipoise.contracts.kubernetes.objects.pod import Toleration
from equipoise.contracts.kubernetes.taints import CONTROL_PLANE
from equipoise.contracts.kubernetes.virtual_nodes import virtual_node
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.example import (
    COLLECTOR_EPOCH,
    GIB,
    HOT_NODE,
    IDLE_NODE,
    NOW,
    POD,
    POD_UID,
    REQUESTS,
    WORKLOAD,
)
from equipoise.contracts.messages.message import Message, Value
from equipoise.contracts.messages.values.pod_requests import PodRequests, PrioritizedPod
from equipoise.contracts.messages.values.resources import Resources

MAX_HOSTNAMES = 50
"""The maximum number of hostnames in one term of a hint."""


NodeInHint = Literal["preferred", "neither", "avoided", "none"]
"""What the hint of a placed pod is for its node; none: the pod was created without a hint."""


class PlacedHint(Value, frozen=True, kw_only=True):
    """The placement hint with which a pod was created. Without nodes: it was created without one."""

    preferred: Count = 0
    """Nodes."""

    avoided: Count = 0
    weight: Number = 0
    """The weight of the pod's node: negative if it is avoided, 0 if it is neither preferred nor avoided."""

    @property
    def node(self) -> NodeInHint:
        if not self.preferred and not self.avoided:
            return "none"
        if not self.weight:
            return "neither"
        return "preferred" if self.weight > 0 else "avoided"


class PlacedPod(PrioritizedPod, frozen=True, kw_only=True):
    """A pod on a node."""

    placed_at: Time
    """The time at which it was bound (condition PodScheduled)."""

    running_since: Time | None = None
    """The time since which it is Ready, or its start time; None: it does not run yet."""

    has_been_ready: bool = False
    """Whether it is Ready or was at some time, so that its images run on the platform of its node."""

    terminating: bool = False
    terminates_at: Time | None = None
    """The end of the grace period of a terminating pod. Finalizers, or a node that does not respond, keep it longer."""

    preempted_at: Time | None = None
    """The time at which kube-scheduler preempted it for a pod of higher priority."""

    exclusive: bool = False
    """Whether it has cores of its own (Koordinator's QoS class LSE), which no other pod gets while they are idle."""

    hint: PlacedHint | None = None
    """None: unknown. The collector knows it if it received the pod before it ran."""
    tolerations: tuple[Toleration, ...] = ()
    """The tolerations, without those that Kubernetes adds to every pod."""

    node_selector: NodeSelector | None = None
    """Its node selector and its required node affinity, together. None: any node.

    Neither this nor tolerations are published for pods of DaemonSets: each has its own node.
    """


class GonePod(PodRequests, frozen=True, kw_only=True):
    """A pod that left within the longest window: its usage is still in the means."""

    running_since: Time
    gone_at: Time
    preempted_at: Time | None = None
    usage: Resources = Resources()
    """Its last measured usage; unknown when it was never measured."""


class NodeColocation(Value, frozen=True, kw_only=True):
    """Reclaimed resources of a node, cores and bytes. Without co-location it is empty."""

    amounts: dict[OfferedBand, Resources] = {}
    """The allocatable amounts of each band in the node's status."""

    capacity_amounts: dict[OfferedBand, Resources] = {}
    reserved: Resources = Resources()
    """The amounts reserved for the node itself, by Koordinator's annotation of the node."""

    third_party: dict[OfferedBand, Resources] = {}
    """Allocated by programs that are no pods, by Koordinator's annotation of the node."""

    invalid: str = ""
    """Which of these annotations cannot be read, and why; what it reserves is then unknown. Empty: none."""


class NodePlacement(Message, frozen=True, kw_only=True):
    """`placement.node.<node>`: a node and all of its pods. Complete, unless that is larger than the bus takes."""

    node: str
    uid: str
    labels: dict[str, str] = {}
    taints: list[Taint] = []
    ready: bool = False
    ready_since: Time | None = None
    """The time since which the condition Ready has its current status."""

    cordoned: bool = False
    created_at: Time = 0.0
    """The creation time of the node, which distinguishes it from an earlier node of the same name, also in its removal.
    0: unknown."""

    allocatable: Resources = Resources()
    capacity: Resources = Resources()
    colocation: NodeColocation = NodeColocation()
    pod_capacity: Count = 110
    pods: list[PlacedPod] = []
    gone: list[GonePod] = []
    """The pods that left, in the order in which they did."""

    unreadable: str = ""
    """Which object cannot be read, and why: the node, or one of its pods, whose requests are then unknown. It is no
    target of moves. Empty: all can be read."""

    removed: bool = False
    """The node was deleted: readers drop it."""

    epoch: Count
    sequence: Count

    @property
    def set_apart(self) -> str:
        """Why the scheduler places no ordinary pods on the node: it does not count for the spread. Empty: it counts."""
        if any(taint.key in CONTROL_PLANE for taint in self.taints):
            return "control plane"
        if virtual := virtual_node(self.labels, self.taints):
            return virtual
        if self.cordoned:
            return "cordoned"
        return "" if self.ready else "not Ready"

    @property
    def max_age(self) -> float | None:
        """A removal is read by subscribers that were disconnected for less than a day."""
        return 86_400 if self.removed else None

    def smaller(self) -> Iterator[tuple[Self, str]]:
        """Messages with less and less: first without the pods that left earliest, whose usage is then not subtracted,
        so that the load appears higher; then without the constraints of pods, which only placement hints use.

        All present pods stay, with their workloads.
        """
        gone = len(self.gone)
        for kept in (gone // 2, gone // 4, 0) if gone else ():
            yield replace(self, gone=self.gone[gone - kept :]), f"the {gone - kept} pods that left first"
        pods = [replace(pod, tolerations=(), node_selector=None) for pod in self.pods]
        lacking = "the tolerations and node selectors of all pods"
        yield replace(self, pods=pods, gone=[]), f"{lacking} and the {gone} pods that left" if gone else lacking


class WeightedNodes(Value, frozen=True, kw_only=True):
    """Nodes of one weight: one preferred term of a pod's node affinity."""

    weight: Annotated[int, Meta(ge=1, le=100)]
    hostnames: Annotated[tuple[str, ...], Meta(min_length=1, max_length=MAX_HOSTNAMES)]
    """Values of the label `kubernetes.io/hostname`, which can differ from the names of the nodes."""


class WorkloadHint(Value, frozen=True, kw_only=True):
    """The nodes where new pods of a workload should run. No node is both preferred and avoided."""

    prefer: tuple[WeightedNodes, ...] = ()
    """The weight of a node is the sum of the terms that name it. The best nodes are first in each term."""

    avoid: WeightedNodes | None = None

    @property
    def weights(self) -> Counter[str]:
        """The weights, by hostname; negative: to avoid."""
        weights = Counter[str]()
        for term in self.prefer:
            weights.update(dict.fromkeys(term.hostnames, term.weight))
        if self.avoid is not None:
            weights.subtract(dict.fromkeys(self.avoid.hostnames, self.avoid.weight))
        return weights


class PlacementHints(Message, frozen=True, kw_only=True):
    """`placement.hint.<namespace>`: the hints of all workloads of a namespace. Always complete.

    Without sufficient data it has no hints. It is published again before it is a minute old, also when nothing changed:
    an old one is of a scorer that does not run any more.
    """

    namespace: str
    computed_at: Time
    hints: dict[str, WorkloadHint]
    """The hints, by key (`hint_key`), ordered: first those of the workloads that most likely get pods next."""

    replacing: bool = False
    """Pods were or will be evicted, and their replacements are created at once: so a change must be written at once."""

    @property
    def max_age(self) -> float | None:
        """Long enough for an annotator that starts; a removed namespace leaves no message behind."""
        return 900


def hint_key(workload: Workload) -> str:
    """The key of a workload in its namespace, as the admission policy derives it from a pod: `Deployment.web`."""
    return f"{workload.kind}.{workload.name}"


NODE_PLACEMENT = NodePlacement(
    node=HOT_NODE,
    uid="7b1c",
    labels={"topology.kubernetes.io/zone": "a"},
    ready=True,
    ready_since=NOW - 90_000,
    created_at=NOW - 90_100,
    allocatable=Resources(cpu=8, memory=32 * GIB),
    capacity=Resources(cpu=8, memory=32 * GIB),
    pods=[
        PlacedPod(
            uid=POD_UID,
            namespace="shop",
            name=POD,
            workload=WORKLOAD,
            placed_at=NOW - 7_200,
            running_since=NOW - 7_195,
            qos="Burstable",
            requests=REQUESTS,
            limits=Resources(cpu=2),
            hint=PlacedHint(preferred=20, avoided=10, weight=25),
        )
    ],
    epoch=COLLECTOR_EPOCH,
    sequence=41,
)

PLACEMENT_HINTS = PlacementHints(
    namespace=WORKLOAD.namespace,
    computed_at=NOW,
    hints={
        hint_key(WORKLOAD): WorkloadHint(
            prefer=(WeightedNodes(weight=50, hostnames=(IDLE_NODE,)),),
            avoid=WeightedNodes(weight=50, hostnames=(HOT_NODE,)),
        )
    },
)
