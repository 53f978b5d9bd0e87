"""The requests and the expected usage of the pod in a request."""

from collections.abc import Sequence

import msgspec

from equipoise.contracts.colocation.bands import OFFERED_NAMES, amounts_of_band, band_of, limits_of_band
from equipoise.contracts.kubernetes.objects.metadata import ResourceRequirements
from equipoise.contracts.kubernetes.objects.pod import Container, ContainerStatus, Pod, PodStatus
from equipoise.contracts.kubernetes.owners import workload_from_pod
from equipoise.contracts.kubernetes.quantity import NO_QUANTITY
from equipoise.contracts.kubernetes.requests import pod_limit, pod_requests
from equipoise.contracts.load.correction import amounts
from equipoise.contracts.load.demand import EstimateSource, expected_usage, requests_and_limits
from equipoise.contracts.load.pod_priority import priority_class_of, qos_of
from equipoise.contracts.messages.message import converted
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.utilization import WorkloadUtilization
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array, np
from equipoise.contracts.unreadable.known_amounts import with_known_amounts
from equipoise.scorer.decisions.arrays import Demand


def pod_demand(pod: Pod) -> PodDemand:
    """The parts of a Pod that the scorer uses, without amounts that no machine has.

    Raises ValueError for an invalid quantity.
    """
    pod = with_known_amounts(_without_other_resources(pod))
    if NO_QUANTITY in pod.metadata.unreadable:
        raise ValueError(pod.metadata.unreadable)
    requests, qos = pod_requests(pod), qos_of(pod.status.qos_class)
    band = band_of(requests)
    return PodDemand(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        workload=workload_from_pod(pod),
        qos=qos,
        priority=pod.spec.priority,
        priority_class=band or priority_class_of(pod.metadata.labels, pod.spec.priority, qos),
        requests=Resources(cpu=requests.get("cpu"), memory=requests.get("memory")),
        limits=Resources(cpu=pod_limit(pod, "cpu"), memory=pod_limit(pod, "memory")),
        reclaimed_requests=Resources() if band is None else amounts_of_band(requests, band),
        reclaimed_limits=Resources() if band is None else limits_of_band(pod, band),
    )


_RESOURCES = ("cpu", "memory", *OFFERED_NAMES)


def _without_other_resources(pod: Pod) -> Pod:
    """The pod with the resources of _RESOURCES only.

    The number of resource names in a pod is not limited, and the sums over its containers take time for each.
    """
    spec, replace = pod.spec, msgspec.structs.replace
    return replace(
        pod,
        spec=replace(
            spec,
            containers=[_reduced(container) for container in spec.containers or ()],
            init_containers=[_reduced(container) for container in spec.init_containers],
            overhead=_amounts(spec.overhead),
            resources=_requirements(spec.resources),
        ),
        status=_reduced_status(pod.status),
    )


def _reduced_status(status: PodStatus) -> PodStatus:
    reported = (*status.container_statuses, *status.init_container_statuses)
    if not (reported or status.resources or status.allocated_resources):
        return status  # every pending pod has such a status
    return msgspec.structs.replace(
        status,
        container_statuses=tuple(map(_reduced_container_status, status.container_statuses)),
        init_container_statuses=tuple(map(_reduced_container_status, status.init_container_statuses)),
        resources=_requirements(status.resources),
        allocated_resources=_amounts(status.allocated_resources or {}),
    )


def _reduced(container: Container) -> Container:
    return Container(
        name=container.name,
        restart_policy=container.restart_policy,
        resources=_requirements(container.resources) or ResourceRequirements(),
    )


def _reduced_container_status(status: ContainerStatus) -> ContainerStatus:
    return ContainerStatus(
        name=status.name,
        resources=_requirements(status.resources),
        allocated_resources=_amounts(status.allocated_resources or {}),
    )


def _requirements(resources: ResourceRequirements | None) -> ResourceRequirements | None:
    if resources is None:
        return None
    return ResourceRequirements(requests=_amounts(resources.requests), limits=_amounts(resources.limits))


def _amounts(quantities: dict[str, str]) -> dict[str, str]:
    return {name: quantities[name] for name in _RESOURCES if name in quantities}


def demand_of_placed(pod: PlacedPod) -> PodDemand:
    """The demand of a pod that already has a node, as if it were pending."""
    return converted(pod, PodDemand)


def expected_demand(
    pod: PodDemand,
    workload: WorkloadUtilization | None,
    *,
    windows: Sequence[str],
    chain: tuple[EstimateSource, ...],
    daily: Array | None = None,
) -> Demand:
    """The pod's expected usage in each window.

    `workload` (with fresh windows only) and `daily` describe the usage of the pod's workload.
    """
    requested, limits = requests_and_limits(pod)
    expected = [
        expected_usage(requests=requested, limits=limits, workload=workload, window=window, chain=chain)
        for window in windows
    ]
    band_requests = np.array(amounts(pod.reclaimed_requests))
    return Demand(
        usage=np.array([amounts(usage) for usage, _ in expected]),
        sources=expected[0][1],
        requests=np.nan_to_num(amounts(pod.requests)),
        limits=np.fmax(np.nan_to_num(amounts(requested)), np.nan_to_num(amounts(limits))),
        daily=daily,
        production=pod.priority_class == "prod",
        daemon=pod.workload is not None and pod.workload.kind == "DaemonSet",
        batch_work=pod.batch_work,
        band=None if np.isnan(band_requests).all() else pod.band,
        band_requests=band_requests,
    )
