"""What the pods of messages have in common: their requests and limits, and how important they are."""

from equipoise.contracts.bounds import Number
from equipoise.contracts.colocation.bands import OfferedBand, offered_band
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.pod_priority import PriorityClass, Qos, is_batch_work
from equipoise.contracts.messages.message import Value
from equipoise.contracts.messages.values.resources import Resources


class PodRequests(Value, frozen=True, kw_only=True):
    """A pod, and what it requests."""

    uid: str
    namespace: str
    name: str
    workload: Workload | None = None
    requests: Resources = Resources()
    limits: Resources = Resources()
    reclaimed_requests: Resources = Resources()
    """The requests of a pod of the bands mid and batch, in its band (cores, bytes), in place of cpu and memory."""

    reclaimed_limits: Resources = Resources()


class PrioritizedPod(PodRequests, frozen=True, kw_only=True):
    """A pod with its requests, QoS class and priority."""

    qos: Qos = "BestEffort"
    priority: Number = 0
    priority_class: PriorityClass = "prod"
    """Koordinator's class, from its labels, the priority or the QoS class."""

    @property
    def batch_work(self) -> bool:
        return is_batch_work(self.priority_class, self.priority, reclaimed=self.reclaimed_requests != Resources())

    @property
    def band(self) -> OfferedBand | None:
        """The band that it requests amounts of."""
        return offered_band(self.priority_class, self.reclaimed_requests)
