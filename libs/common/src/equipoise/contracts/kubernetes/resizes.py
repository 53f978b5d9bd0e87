"""Pods whose resize in place is pending: the kubelet has postponed or refused it (KEP-1287)."""

from typing import Literal

import msgspec

from equipoise.contracts.kubernetes.objects.metadata import Condition
from equipoise.contracts.kubernetes.objects.pod import Pod, PodStatus

ResizeReason = Literal["Deferred", "Infeasible"]

DEFERRED: ResizeReason = "Deferred"
"""The node has no room for the resize now. The kubelet tries again; kube-scheduler counts the desired amounts
meanwhile (kubernetes/kubernetes#135107)."""

INFEASIBLE: ResizeReason = "Infeasible"
"""The node can never provide the desired amounts. kube-scheduler ignores them."""

_RESIZE_PENDING = "PodResizePending"


def pending_resize(status: PodStatus) -> Condition | None:
    """The condition PodResizePending; None without it."""
    for condition in status.conditions:  # called for every pod of a cluster
        if condition.type == _RESIZE_PENDING:
            return condition
    return None


def with_pending_resize(pod: Pod, reason: ResizeReason) -> Pod:
    """The pod as if its resize were pending for this reason: `pod_requests` counts the desired amounts if it is
    Deferred, and only what the pod holds if it is Infeasible."""
    others = [condition for condition in pod.status.conditions if condition.type != _RESIZE_PENDING]
    conditions = [*others, Condition(type=_RESIZE_PENDING, status="True", reason=reason)]
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, conditions=conditions))
