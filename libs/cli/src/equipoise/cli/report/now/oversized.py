"""Workloads that request many times what they use, so that other pods cannot use what they reserve. Pure."""

from collections.abc import Mapping, Sequence

import msgspec

from equipoise.cli.cluster_now.causes import Resource
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import RESOURCES, known
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization
from equipoise.contracts.messages.values.resources import Resources

OVERSTATED = 3.0
"""A request is too high if it is at least this multiple of the highest usage."""

MIN_HOURS = 20
"""The minimum number of measured hours in the past day. In an hour that was not measured, the workload may have used
all that it requests."""

MARGIN = 1.25
"""The proposed request as a multiple of the highest usage."""

MIN_RESERVED = {"cpu": 0.5, "memory": 2.0**29}
"""The smallest unused amounts, in cores and bytes of all pods of a workload, that are worth a change."""


class OversizedWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """A workload that requests much more than it uses."""

    workload: Workload
    resource: Resource
    pods: int
    request: float
    """The mean request of a pod, in cores or bytes."""

    highest: float
    """The highest usage: of a pod now, or of the mean pod in an hour of the past day."""

    reserved: float
    """What all pods of the workload together request above `wanted`, in cores or bytes."""

    @property
    def wanted(self) -> float:
        """The request of a pod that would be sufficient, in cores or bytes."""
        return self.highest * MARGIN


def oversized(
    placements: Mapping[str, NodePlacement],
    utilization: Mapping[str, NodeUtilization],
    workloads: Mapping[Workload, WorkloadUtilization],
    total: Resources,
    limit: int,
) -> list[OversizedWorkload]:
    """The oversized workloads, those with the largest unused share of `total` first. `total`: what all nodes offer.

    Terminating pods do not count: no request of theirs can be changed.
    """
    groups: dict[Workload, list[tuple[PlacedPod, Resources]]] = {}
    for name, placement in placements.items():
        measured = utilization[name].pods if name in utilization else {}
        for pod in placement.pods:
            if pod.workload is not None and pod.uid in measured and not pod.terminating:
                groups.setdefault(pod.workload, []).append((pod, measured[pod.uid]))
    shares: list[tuple[float, OversizedWorkload]] = []
    for workload, pods in groups.items():
        for resource in RESOURCES:
            result = _oversized(workload, pods, resource, workloads.get(workload))
            offered = known(getattr(total, resource))
            if result is not None and offered:
                shares.append((result.reserved / offered, result))
    shares.sort(key=lambda entry: (-entry[0], entry[1].workload, entry[1].resource))
    return [result for _, result in shares[:limit]]


def _oversized(
    workload: Workload,
    pods: Sequence[tuple[PlacedPod, Resources]],
    resource: Resource,
    usage: WorkloadUtilization | None,
) -> OversizedWorkload | None:
    profile = usage.profile.get(resource, ()) if usage else ()
    hours = [hour for value in profile if (hour := known(value)) is not None]
    now = [known(getattr(measured, resource)) for _, measured in pods]
    if len(hours) < MIN_HOURS or None in now:
        return None
    highest = max(*hours, *(value for value in now if value is not None))
    request = sum(known(getattr(pod.requests, resource)) or 0.0 for pod, _ in pods) / len(pods)
    reserved = len(pods) * (request - highest * MARGIN)
    if request < OVERSTATED * highest or reserved < MIN_RESERVED[resource]:
        return None
    return OversizedWorkload(
        workload=workload, resource=resource, pods=len(pods), request=request, highest=highest, reserved=reserved
    )
