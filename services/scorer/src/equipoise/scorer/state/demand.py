"""What the pod of a question asks for and is expected to use."""

from collections.abc import Sequence

import numpy as np

from equipoise.contracts.kubernetes.objects import Pod
from equipoise.contracts.kubernetes.owners import workload_from_pod
from equipoise.contracts.kubernetes.requests import pod_limit, pod_requests
from equipoise.contracts.load.correction import amounts
from equipoise.contracts.load.demand import EstimateSource, expected_usage
from equipoise.contracts.load.pod_priority import priority_class_of, qos_of
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import WorkloadUtilization
from equipoise.scorer.state.arrays import Array, Demand


def pod_demand(pod: Pod) -> PodDemand:
    """All that the scorer keeps of a Pod. Raises ValueError for a quantity that is none."""
    requests = pod_requests(pod)
    qos = qos_of(pod.status.qos_class)
    return PodDemand(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        workload=workload_from_pod(pod),
        qos=qos,
        priority=pod.spec.priority,
        priority_class=priority_class_of(pod.metadata.labels, pod.spec.priority, qos),
        requests=Resources(cpu=requests.get("cpu"), memory=requests.get("memory")),
        limits=Resources(cpu=pod_limit(pod, "cpu"), memory=pod_limit(pod, "memory")),
    )


def expected_demand(
    pod: PodDemand,
    workload: WorkloadUtilization | None,
    *,
    windows: Sequence[str],
    chain: tuple[EstimateSource, ...],
    day: Array | None = None,
) -> Demand:
    """The pod's expected usage over each window; `workload` and `day` are its workload's, as far as it is fresh."""
    expected = [
        expected_usage(requests=pod.requests, limits=pod.limits, workload=workload, window=window, chain=chain)
        for window in windows
    ]
    requests = np.nan_to_num(amounts(pod.requests))
    return Demand(
        usage=np.array([amounts(usage) for usage, _ in expected]),
        sources=expected[0][1],
        requests=requests,
        limits=np.fmax(requests, np.nan_to_num(amounts(pod.limits))),
        day=day,
        production=pod.priority_class == "prod",
        daemon=pod.workload is not None and pod.workload.kind == "DaemonSet",
    )
