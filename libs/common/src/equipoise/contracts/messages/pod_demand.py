"""A pod that waits for a node, as the scorer knows it."""

from equipoise.contracts.messages.example import POD, POD_UID, REQUESTS, WORKLOAD
from equipoise.contracts.messages.message import Message
from equipoise.contracts.messages.values.pod_requests import PrioritizedPod


class PodDemand(PrioritizedPod, Message, frozen=True, kw_only=True, omit_defaults=False):
    """The fields of a waiting pod that may be published. The whole Pod may not, because its env values may be
    secrets."""


POD_DEMAND = PodDemand(namespace="shop", name=POD, uid=POD_UID, workload=WORKLOAD, qos="Burstable", requests=REQUESTS)
