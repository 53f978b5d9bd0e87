"""The expected usage of a pod that was not measured on its node yet."""

import math
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from equipoise.contracts.configuration.settings import LoadSettings, Section
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import RESOURCES, UsageOf, known, usable_window
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.utilization import WorkloadUtilization
from equipoise.contracts.messages.values.resources import Resources, cpu_and_memory

Factor = Annotated[float, Meta(gt=0)]
"""Percent, above 0."""


class Estimate(Section, frozen=True, kw_only=True):
    """An estimate source: a percentage of the limit. It gives an estimate for every pod.

    The percentage is taken of the limit, or of the request if that is higher. The result is at most the limit. Source:
    koordinator, pkg/scheduler/plugins/loadaware/estimator/default_estimator.go.
    """

    cpu: Factor = 85.0
    memory: Factor = 70.0

    def __str__(self) -> str:
        return "estimate"

    def of(self, resource: Literal["cpu", "memory"], *, request: float | None, limit: float | None) -> float:
        """The estimate in cores or bytes. `request` and `limit` are None if the pod has none."""
        whole = max(request or 0.0, limit or 0.0)
        if whole == 0.0:
            return _ESTIMATE_OF_NOTHING[resource]
        estimate = min(whole * (getattr(self, resource) / 100.0), limit or math.inf)
        return estimate if math.isfinite(estimate) else whole


_ESTIMATE_OF_NOTHING = {"cpu": 0.25, "memory": 200.0 * 2**20}

EstimateSource = Literal["measured", "limit", "request", "request×1.5", "default"] | Estimate

WATER_LEVEL: tuple[EstimateSource, ...] = ("measured", "limit", "request", "default")
"""The sources of the water-level scheduler: measured usage of the workload, else the limit."""

TARGET_LOAD_PACKING: tuple[EstimateSource, ...] = ("limit", "request×1.5", "default")
"""The sources of Trimaran."""

MEASURED_FIRST: tuple[EstimateSource, ...] = ("measured", "request", "limit", "default")

DEFAULT = Resources(cpu=0.1, memory=200.0 * 2**20)
"""kube-scheduler's defaults for a container without requests (non-zero requests)."""


_NO_AMOUNTS = Resources()


def requests_and_limits(pod: PodDemand | PlacedPod) -> tuple[Resources, Resources]:
    """The requests and limits of a pod, in cores and bytes, from which its usage is estimated.

    A pod of the bands mid and batch requests amounts of its band instead of cpu and memory, and these are used. For a
    resource without an amount of the band, the ordinary request and limit are used. Source: koordinator,
    apis/extension/resource.go (TranslateResourceNameByPriorityClass).
    """
    requests, limits = pod.reclaimed_requests, pod.reclaimed_limits
    if requests == _NO_AMOUNTS and limits == _NO_AMOUNTS:  # nearly all pods
        return pod.requests, pod.limits
    cpu_of_band = requests.cpu is not None or limits.cpu is not None
    memory_of_band = requests.memory is not None or limits.memory is not None

    def amounts(of_band: Resources, ordinary: Resources) -> Resources:
        return Resources(
            cpu=of_band.cpu if cpu_of_band else ordinary.cpu,
            memory=of_band.memory if memory_of_band else ordinary.memory,
        )

    return amounts(requests, pod.requests), amounts(limits, pod.limits)


def fresh_windows(
    workload: WorkloadUtilization | None, settings: LoadSettings, now: float
) -> WorkloadUtilization | None:
    """The workload's usage without outdated windows; None if all are outdated."""
    if workload is None:
        return None
    windows = {
        window.name: value
        for window in settings.windows
        if (value := usable_window(workload, window, settings, now)) is not None
    }
    return msgspec.structs.replace(workload, windows=windows) if windows else None


def expected_usage(
    *,
    requests: Resources,
    limits: Resources,
    workload: WorkloadUtilization | None,
    window: str,
    chain: tuple[EstimateSource, ...] = MEASURED_FIRST,
    default: Resources = DEFAULT,
) -> tuple[Resources, dict[str, EstimateSource]]:
    """Expected cores and bytes, and per resource the source of the estimate: the first of `chain` that is known.

    Pass `workload` through `fresh_windows` first. "measured" is the mean usage of the workload over `window`, or over
    its first window with a known value. A limit of 0 means no limit, as in Kubernetes.
    """
    amounts: dict[str, float] = {}
    sources: dict[str, EstimateSource] = {}
    for resource in RESOURCES:
        request = known(getattr(requests, resource))
        limit = known(getattr(limits, resource)) or None
        for source in chain:
            match source:
                case "measured":
                    amount = _measured(workload, window, resource)
                case "limit":
                    amount = limit
                case "request":
                    amount = request
                case "request×1.5":
                    amount = None if request is None else known(request * 1.5)
                case "default":
                    amount = getattr(default, resource)
                case Estimate():
                    amount = source.of(resource, request=request, limit=limit)
            if amount is not None:
                amounts[resource], sources[resource] = amount, source
                break
    return cpu_and_memory(amounts), sources


def _measured(workload: WorkloadUtilization | None, window: str, resource: str) -> float | None:
    if workload is None:
        return None
    usage = workload.windows.get(window)
    if usage is not None and (amount := known(getattr(usage.mean, resource))) is not None:
        return amount
    values = workload.windows.values()
    return next((amount for value in values if (amount := known(getattr(value.mean, resource))) is not None), None)


def pod_usage(
    workloads: Mapping[Workload, WorkloadUtilization],
    *,
    load: LoadSettings,
    now: float,
    chain: tuple[EstimateSource, ...] = MEASURED_FIRST,
) -> UsageOf:
    """A function that returns a pod's usage: as measured, else as expected."""

    def usage_of(pod: PlacedPod, measured: Resources) -> Resources:
        cpu, memory = known(measured.cpu), known(measured.memory)
        if cpu is not None and memory is not None:
            return measured
        message = None if pod.workload is None else workloads.get(pod.workload)
        if message is not None and chain[:1] == ("measured",):
            # For nearly all pods, the usage in the shortest window is known: no other window is read.
            shortest = usable_window(message, load.shortest, load, now)
            if (
                shortest is not None
                and known(shortest.mean.cpu) is not None
                and known(shortest.mean.memory) is not None
            ):
                mean = shortest.mean
                return Resources(
                    cpu=mean.cpu if cpu is None else cpu,
                    memory=mean.memory if memory is None else memory,
                    further=measured.further or mean.further,
                )
        requests, limits = requests_and_limits(pod)
        expected, _ = expected_usage(
            requests=requests,
            limits=limits,
            workload=fresh_windows(message, load, now),
            window=load.shortest.name,
            chain=chain,
        )
        return Resources(cpu=expected.cpu if cpu is None else cpu, memory=expected.memory if memory is None else memory)

    return usage_of
