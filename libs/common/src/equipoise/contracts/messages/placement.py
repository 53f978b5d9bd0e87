"""`placement.>`: the pods on each node, as the collector reads them from the API server, and hints for new pods."""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal, Self

from msgspec import Meta
from msgspec.structs import replace

from equipoise.contracts.bounds import Count, Number, Time
from equipoise.contracts.colocation.bands import OfferedBand
from equipoise.contracts.kubernetes.nodes.taints import CONTROL_PLANE
from equipoise.contracts.kubernetes.nodes.virtual_nodes import virtual_node
from equipoise.contracts.kubernetes.objects.node import NodeSelector, Taint
from equipoise.contracts.kubernetes.objects.pod import Toleration
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
"""How the hint of a placed pod rates its node; none: the pod was created without a hint."""


class PlacedHint(Value, frozen=True, kw_only=True):
    """The placement hint with which a pod was created. Without nodes if it was created without a hint."""

    preferred: Count = 0
    """The number of preferred nodes."""

    avoided: Count = 0
    weight: Number = 0
    """The weight of the node of the pod. Negative if the node is avoided, 0 if it is neither preferred nor avoided."""

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
    """The time at which the pod was bound (condition PodScheduled)."""

    running_since: Time | None = None
    """The time since which the pod is Ready, or its start time. None if it does not run yet."""

    has_been_ready: bool = False
    """Whether the pod is or was Ready. Then its images run on the platform of its node."""

    terminating: bool = False
    terminates_at: Time | None = None
    """The end of the grace period of a terminating pod. Finalizers, or a node that does not respond, may delay its
    end."""

    preempted_at: Time | None = None
    """The time at which kube-scheduler preempted it for a pod of higher priority."""

    detached: bool = False
    """Whether the controller of the pod has released it, as in a move without a gap. The workload is then the one that
    the pod belonged to before. A collector that was started later does not know it, and reports no workload."""

    exclusive: bool = False
    """Whether the pod has cores of its own (Koordinator's QoS class LSE). Other pods cannot use them even while they
    are idle."""

    hint: PlacedHint | None = None
    """The placement hint of the pod. None if it is unknown: the collector must have received the pod before it ran."""

    tolerations: tuple[Toleration, ...] = ()
    """The tolerations, without those that Kubernetes adds to every pod."""

    node_selector: NodeSelector | None = None
    """The node selector and the required node affinity of the pod. None if it can run on any node.

    For pods of DaemonSets, neither this nor tolerations are published, because they do not move.
    """


class GonePod(PodRequests, frozen=True, kw_only=True):
    """A pod that left the node within the longest window, so that the means still contain its usage."""

    running_since: Time
    gone_at: Time
    preempted_at: Time | None = None
    usage: Resources = Resources()
    """The last measured usage of the pod; unknown if it was never measured."""


class NodeColocation(Value, frozen=True, kw_only=True):
    """The reclaimed resources of a node (cores, bytes). Empty without co-location."""

    amounts: dict[OfferedBand, Resources] = {}
    """The allocatable amounts of each band in the node's status."""

    capacity_amounts: dict[OfferedBand, Resources] = {}
    reserved: Resources = Resources()
    """The amounts reserved for the node itself, by Koordinator's annotation of the node."""

    third_party: dict[OfferedBand, Resources] = {}
    """The amounts allocated by programs outside of pods, by Koordinator's annotation of the node."""

    invalid: str = ""
    """Which of these annotations cannot be read, and why. The amounts in it are then unknown. Empty if all can be
    read."""


class NodePlacement(Message, frozen=True, kw_only=True):
    """`placement.node.<node>`: a node and all of its pods. It is complete unless that would be too large for the
    bus."""

    node: str
    uid: str
    labels: dict[str, str] = {}
    taints: list[Taint] = []
    ready: bool = False
    ready_since: Time | None = None
    """The time since which the condition Ready has its current status."""

    cordoned: bool = False
    created_at: Time = 0.0
    """The creation time of the node, 0 if it is unknown. It distinguishes the node from an earlier one of the same
    name, also in the message about its removal."""

    allocatable: Resources = Resources()
    capacity: Resources = Resources()
    colocation: NodeColocation = NodeColocation()
    pod_capacity: Count = 110
    pods: list[PlacedPod] = []
    gone: list[GonePod] = []
    """The pods that left the node, in the order in which they left."""

    unreadable: str = ""
    """Which object cannot be read, and why: the node, or one of its pods. Its amounts are unknown then, so the node is
    no target of moves. Empty if all can be read."""

    removed: bool = False
    """Whether the node was deleted. Readers then forget it."""

    epoch: Count
    sequence: Count

    @property
    def set_apart(self) -> str:
        """Why the scheduler places no ordinary pods on the node, so that the spread ignores it. Empty if it places
        pods."""
        if any(taint.key in CONTROL_PLANE for taint in self.taints):
            return "control plane"
        if virtual := virtual_node(self.labels, self.taints):
            return virtual
        if self.cordoned:
            return "cordoned"
        return "" if self.ready else "not Ready"

    @property
    def max_age(self) -> float | None:
        """A removal is kept for a day, for subscribers that are disconnected meanwhile."""
        return 86_400 if self.removed else None

    def smaller(self) -> Iterator[tuple[Self, str]]:
        """Smaller and smaller messages. The first ones lack the pods that left earliest. Their usage is then not
        subtracted, so the load appears higher. The last one also lacks the constraints of pods, which only placement
        hints use.

        All present pods remain, with their workloads.
        """
        gone = len(self.gone)
        for kept in (gone // 2, gone // 4, 0) if gone else ():
            yield replace(self, gone=self.gone[gone - kept :]), f"the {gone - kept} pods that left first"
        pods = [replace(pod, tolerations=(), node_selector=None) for pod in self.pods]
        lacking = "the tolerations and node selectors of all pods"
        yield replace(self, pods=pods, gone=[]), f"{lacking} and the {gone} pods that left" if gone else lacking


class WeightedNodes(Value, frozen=True, kw_only=True):
    """Nodes with the same weight: one preferred term of the node affinity of a pod."""

    weight: Annotated[int, Meta(ge=1, le=100)]
    hostnames: Annotated[tuple[str, ...], Meta(min_length=1, max_length=MAX_HOSTNAMES)]
    """Values of the label `kubernetes.io/hostname`, which can differ from the names of the nodes."""


class WorkloadHint(Value, frozen=True, kw_only=True):
    """The nodes where new pods of a workload should run. No node is both preferred and avoided."""

    prefer: tuple[WeightedNodes, ...] = ()
    """The terms with preferred nodes, the best nodes of each first. The weight of a node is the sum over its terms."""

    avoid: WeightedNodes | None = None

    @property
    def weights(self) -> Counter[str]:
        """The weights by hostname, negative for nodes to avoid."""
        weights = Counter[str]()
        for term in self.prefer:
            weights.update(dict.fromkeys(term.hostnames, term.weight))
        if self.avoid is not None:
            weights.subtract(dict.fromkeys(self.avoid.hostnames, self.avoid.weight))
        return weights


class PlacementHints(Message, frozen=True, kw_only=True):
    """`placement.hint.<namespace>`: the hints of all workloads of a namespace.

    Without sufficient data there are no hints. The message is published again within a minute, even if nothing changed.
    An older message is of a scorer that no longer runs.
    """

    namespace: str
    computed_at: Time
    hints: dict[str, WorkloadHint]
    """The hints that one workload alone has, by key (`hint_key`). Workloads that will most likely get pods next are
    first."""

    shared: tuple[WorkloadHint, ...] = ()
    """The hints that several workloads have."""

    workloads: dict[str, Count] = {}
    """The index in `shared` of the hint of each other workload, by key, in the same order."""

    replacing: bool = False
    """Whether pods were or will be evicted. Their replacements are created at once, so changed hints must be written at
    once."""

    @property
    def by_workload(self) -> dict[str, WorkloadHint]:
        """The hints of all workloads by key."""
        shared = dict(enumerate(self.shared))
        others = {key: shared[index] for key, index in self.workloads.items() if index in shared}
        return {**self.hints, **{key: hint for key, hint in others.items() if key not in self.hints}}

    @property
    def max_age(self) -> float | None:
        """Long enough for an annotator that starts. After that, nothing remains of a removed namespace."""
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
