"""A pod that waits for a node, as the scorer knows it."""

from equipoise.contracts.bounds import Number
from equipoise.contracts.colocation.bands import OfferedBand, offered_band
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.pod_priority import PriorityClass, Qos, is_batch_work
from equipoise.contracts.messages.example import POD, POD_UID, REQUESTS, WORKLOAD
from equipoise.contracts.messages.message import Message
from equipoise.contracts.messages.resources import Resources


class PodDemand(Message, frozen=True, kw_only=True):
    """The fields of a waiting pod that the bus may carry. Never the whole Pod: its env values are secrets."""

    namespace: str
    name: str
    uid: str
    workload: Workload | None = None
    qos: Qos = "BestEffort"
    priority: Number = 0
    priority_class: PriorityClass = "prod"
    """Koordinator's class, from its labels, the priority or the QoS class."""

    requests: Resources = Resources()
    limits: Resources = Resources()
    reclaimed_requests: Resources = Resources()
    """The requests of a pod of the bands mid and batch, in its band (cores, bytes), in place of cpu and memory."""

    reclaimed_limits: Resources = Resources()

    @property
    def batch_work(self) -> bool:
        return is_batch_work(self.priority_class, self.priority, reclaimed=self.reclaimed_requests != Resources())

    @property
    def band(self) -> OfferedBand | None:
        """The band that it requests amounts of."""
        return offered_band(self.priority_class, self.reclaimed_requests)


POD_DEMAND = PodDemand(namespace="shop", name=POD, uid=POD_UID, workload=WORKLOAD, qos="Burstable", requests=REQUESTS)
