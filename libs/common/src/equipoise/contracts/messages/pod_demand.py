"""A pod that waits for a node, as scores are asked for it."""

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.pod_priority import PriorityClass, Qos
from equipoise.contracts.messages.message import Message
from equipoise.contracts.messages.resources import Resources


class PodDemand(Message, frozen=True, kw_only=True):
    """What the bus may know of a pod that waits for a node. Never the Pod: its env values are secrets."""

    namespace: str
    name: str
    uid: str
    workload: Workload | None = None
    qos: Qos = "Burstable"
    priority: int = 0
    priority_class: PriorityClass = "prod"
    requests: Resources = Resources()
    limits: Resources = Resources()
