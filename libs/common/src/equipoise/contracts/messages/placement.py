"""`placement.>`: what stands on each node, as the collector reads it from the API server."""

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.pod_priority import PriorityClass, Qos
from equipoise.contracts.messages.message import Message, Value
from equipoise.contracts.messages.resources import Resources


class Taint(Value, frozen=True, kw_only=True):
    key: str
    value: str = ""
    effect: str = ""


class PlacedPod(Value, frozen=True, kw_only=True):
    """A pod on a node, as placement tells it."""

    uid: str
    namespace: str
    name: str
    workload: Workload | None = None
    placed_at: float
    """When it was bound (condition PodScheduled)."""

    running_since: float | None = None
    terminating: bool = False
    preempted_at: float | None = None
    """When kube-scheduler took its place for a pod of higher priority."""

    qos: Qos = "BestEffort"
    priority: int = 0
    priority_class: PriorityClass = "prod"
    """Koordinator's class, from its labels, the priority or the QoS class."""

    requests: Resources = Resources()
    limits: Resources = Resources()


class GonePod(Value, frozen=True, kw_only=True):
    """A pod that left within the longest window; its usage is still in the means."""

    uid: str
    namespace: str
    name: str
    workload: Workload | None = None
    running_since: float
    gone_at: float
    preempted_at: float | None = None
    requests: Resources = Resources()
    limits: Resources = Resources()
    usage: Resources = Resources()
    """Last measured usage; unknown when it never was."""


class NodePlacement(Message, frozen=True, kw_only=True):
    """`placement.node.<node>`: the node's whole placement."""

    node: str
    uid: str
    labels: dict[str, str] = {}
    taints: list[Taint] = []
    ready: bool = False
    ready_since: float | None = None
    """Since when the condition Ready has had its present value."""

    cordoned: bool = False
    created_at: float = 0.0
    allocatable: Resources = Resources()
    capacity: Resources = Resources()
    pod_capacity: int = 110
    pods: list[PlacedPod] = []
    gone: list[GonePod] = []
    removed: bool = False
    """The node itself is gone: forget it."""

    epoch: int
    sequence: int
