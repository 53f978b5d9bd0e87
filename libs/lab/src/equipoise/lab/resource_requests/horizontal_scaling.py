"""What a HorizontalPodAutoscaler does with other requests, if it aims at a percentage of the CPU request."""

import msgspec
import numpy as np

from equipoise.lab.model.replicas.autoscaling import replicas_by_step, stabilization_steps
from equipoise.lab.model.resource_requests import ResourceRequests
from equipoise.lab.model.trace import Trace

KINDS = frozenset({"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"})
"""The kinds that a HorizontalPodAutoscaler scales."""

_MOST = 10_000


class ReplicasOfDay(msgspec.Struct, frozen=True, kw_only=True):
    """The replicas of a workload through a day."""

    mean: float
    highest: int


class ScalingChange(msgspec.Struct, frozen=True, kw_only=True):
    """The replicas for the same target, with the present and with the proposed request."""

    before: ReplicasOfDay
    after: ReplicasOfDay
    target: int
    """The target, in percent of the proposed request, that has the effect of the present target."""


def scaling_change(
    day: Trace, number: int, present: ResourceRequests, proposed: ResourceRequests, *, target: int
) -> ScalingChange | None:
    """The change for workload `number` of the trace; None if it cannot be scaled, or has no CPU request.

    Nothing is known about the autoscalers of a trace: every workload of KINDS counts as if it had one that aims at
    `target` percent, from 1 replica on. Together the pods use as much as in the trace.
    """
    if day.workloads[number].kind not in KINDS or not (present.cpu_milli and proposed.cpu_milli):
        return None
    pods = int(day.replicas()[number])
    usage = day.cpu_milli[number] * pods

    def replicas(request: int) -> ReplicasOfDay:
        needed = usage / (request * target / 100.0)
        by_step = replicas_by_step(needed, max(1, pods), stabilization_steps(day), most=_MOST)
        return ReplicasOfDay(mean=round(float(np.mean(by_step)), 2), highest=int(by_step.max()))

    return ScalingChange(
        before=replicas(present.cpu_milli),
        after=replicas(proposed.cpu_milli),
        target=max(1, round(target * present.cpu_milli / proposed.cpu_milli)),
    )
