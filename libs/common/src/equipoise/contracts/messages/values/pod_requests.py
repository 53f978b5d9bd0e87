"""The fields that pods in messages have in common: requests, limits, priority and QoS class."""

from equipoise.contracts.bounds import Number
from equipoise.contracts.colocation.bands import OfferedBand, offered_band
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.pod_priority import PriorityClass, Qos, is_batch_work
from equipoise.contracts.messages.message import Value
from equipoise.contracts.messages.values.resources import Resources

_NO_REQUESTS = Resources()


class PodRequests(Value, frozen=True, kw_only=True):
    """A pod with its requests and limits."""

    uid: str
    namespace: str
    name: str
    workload: Workload | None = None
    requests: Resources = Resources()
    limits: Resources = Resources()
    reclaimed_requests: Resources = Resources()
    """The amounts of its band (cores, bytes) that a pod of the bands mid and batch requests instead of cpu and
    memory."""

    reclaimed_limits: Resources = Resources()


class PrioritizedPod(PodRequests, frozen=True, kw_only=True):
    """A pod with its requests, QoS class and priority."""

    qos: Qos = "BestEffort"
    priority: Number = 0
    priority_class: PriorityClass = "prod"
    """Koordinator's class, from its labels, the priority or the QoS class."""

    @property
    def batch_work(self) -> bool:
        return is_batch_work(self.priority_class, self.priority, reclaimed=self.reclaimed_requests != _NO_REQUESTS)

    @property
    def band(self) -> OfferedBand | None:
        """The band of which the pod requests amounts; None if there is none."""
        return offered_band(self.priority_class, self.reclaimed_requests)
