"""The usage and requests of the pods of each node. They are computed when a message arrives, so that evaluations only
compute arrays.
"""

import msgspec

from equipoise.contracts.bounds import MAX_BYTES, MAX_CORES
from equipoise.contracts.colocation.bands import OFFERED_BANDS, OfferedBand
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import RESOURCES, amounts, known
from equipoise.contracts.load.daily_profile import SLOTS, system_usage, workload_profile
from equipoise.contracts.load.demand import requests_and_limits
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array, Flags, np

_UNKNOWN = Resources()

_MOST = (MAX_CORES, MAX_BYTES)


class NodeUsage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Arrays are per resource, cores and bytes. Pods of the bands batch and free are not part of any usage."""

    requests: Array
    """resources × pods: the requests of high-priority and mid pods. 0 without a request."""

    usage: Array
    """The usage, shaped as `requests`; NaN: not measured."""

    exclusive: Flags
    """pods: whether each pod has exclusive cores."""

    unplaced: Array
    """Usage of measured pods that the placement does not contain."""

    system: Array
    """Usage outside pods."""

    used: Array
    """Usage of high-priority pods and of the system, now. A pod that is not measured counts with its request."""

    typical: Array
    """resources × hours of the day (UTC): the usage of `used` on a typical day."""

    typical_or_requested: Array
    """The same as `typical`, with the request of each pod where that is more than its usage."""

    constant: Array
    """The part of `typical` that is present usage: that of the system and of pods without a profile."""

    batch_pods: Array
    """Batch pods × (Unix seconds when it was bound, requested cores, bytes)."""

    mid: Array
    """The higher of usage and requests of the mid pods."""


def node_usage(placement: NodePlacement, utilization: NodeUtilization, profiles: "WorkloadProfiles") -> NodeUsage:
    """Usage and requests of one node. Terminating pods count until they are gone."""
    high, mid, _ = _by_importance(placement.pods)
    measured, pods = utilization.pods, (*high, *mid)
    usage = np.array([amounts(measured.get(pod.uid, _UNKNOWN)) for pod in pods]).reshape(-1, len(RESOURCES)).T
    requests = np.array([_known(requests_and_limits(pod)[0]) for pod in pods]).reshape(-1, len(RESOURCES)).T
    # A request beyond the node is of a pod that somebody bound by hand, or of a node that became smaller.
    requests = np.fmin(requests, np.array(amounts(placement.allocatable))[:, np.newaxis])
    exclusive = np.array([pod.exclusive for pod in pods], np.bool_)
    # Pods that left are still measured for a while: they must not count as pods of unknown importance.
    placed = {pod.uid for pod in placement.pods} | {pod.uid for pod in placement.gone}
    unplaced = np.zeros(len(RESOURCES))
    for uid, amount in measured.items():
        if uid not in placed:
            unplaced += [known(amount.cpu) or 0.0, known(amount.memory) or 0.0]
    system = system_usage(utilization)
    counted = np.where(np.isnan(usage), requests, usage)
    # No other pod gets the cores of an exclusive pod. What it uses beyond them counts as used, too.
    in_use = counted.copy()
    in_use[0, exclusive] = np.maximum(counted, requests)[0, exclusive]
    counted[0, exclusive] = requests[0, exclusive]
    ordinary = counted[:, : len(high)]
    days, profiled = profiles.days_of(high, ordinary)
    outside = (unplaced + system)[:, np.newaxis]
    batch = [(pod.placed_at, *_known(pod.reclaimed_requests)) for pod in placement.pods if _requests_batch(pod)]
    requested_or_used = np.where(exclusive, np.maximum(in_use, requests), requests)[:, : len(high)].T[:, :, np.newaxis]
    return NodeUsage(
        requests=requests,
        usage=usage,
        exclusive=exclusive,
        unplaced=unplaced,
        system=system,
        used=in_use[:, : len(high)].sum(axis=1) + unplaced + system,
        typical=days.sum(axis=0) + outside,
        typical_or_requested=np.maximum(days, requested_or_used).sum(axis=0) + outside,
        constant=unplaced + system + ordinary[:, ~profiled].sum(axis=1),
        batch_pods=np.array(batch).reshape(-1, 1 + len(RESOURCES)),
        mid=np.maximum(in_use[:, len(high) :].sum(axis=1), requests[:, len(high) :].sum(axis=1)),
    )


class BandRequests(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The requests of the pods of a node, by band and resource, in cores and bytes."""

    bound: dict[OfferedBand, list[float]]
    """The requests of all pods that are bound to the node."""

    running: dict[OfferedBand, list[float]]
    """The requests of the bound pods that run."""


def band_requests(placement: NodePlacement) -> BandRequests:
    """The requests of the pods of a placement, each sum at most the largest amount that a message may contain."""
    bound, running = ({band: [0.0] * len(RESOURCES) for band in OFFERED_BANDS} for _ in range(2))
    for pod in placement.pods:
        if (band := pod.band) is not None:
            requests = _known(pod.reclaimed_requests)
            for total in (bound,) if pod.running_since is None else (bound, running):
                total[band] = list(map(min, _MOST, map(sum, zip(total[band], requests, strict=True))))
    return BandRequests(bound=bound, running=running)


def _requests_batch(pod: PlacedPod) -> bool:
    return pod.priority_class == "batch" and pod.reclaimed_requests != _UNKNOWN


def _known(amount: Resources) -> list[float]:
    return [known(amount.cpu) or 0.0, known(amount.memory) or 0.0]


def _by_importance(pods: list[PlacedPod]) -> tuple[list[PlacedPod], list[PlacedPod], list[PlacedPod]]:
    """High-priority pods, mid pods, and those of the bands batch and free."""
    high: list[PlacedPod] = []
    mid: list[PlacedPod] = []
    low: list[PlacedPod] = []
    for pod in pods:
        (low if pod.batch_work else mid if pod.priority_class == "mid" else high).append(pod)
    return high, mid, low


class WorkloadProfiles:
    """The typical day of one replica of each workload."""

    def __init__(self) -> None:
        self._days: dict[Workload, tuple[float, Array]] = {}
        """Unix seconds of the measurement, and the day."""

    def on_workload(self, message: WorkloadUtilization) -> None:
        day = workload_profile(message)
        if day is None:
            self._days.pop(message.workload, None)
        else:
            self._days[message.workload] = message.queried_at, day

    def prune(self, before: float) -> None:
        """Drop the profiles of workloads that were last measured before this time."""
        for workload in [workload for workload, (at, _) in self._days.items() if at < before]:
            del self._days[workload]

    def days_of(self, pods: list[PlacedPod], usage: Array) -> tuple[Array, Flags]:
        """pods × resources × hours, and which pods have a profile. The others use all day what they use now.

        `usage`: resources × pods.
        """
        days = np.empty((len(pods), len(RESOURCES), SLOTS))
        profiled = np.zeros(len(pods), np.bool_)
        days[:] = usage.T[:, :, np.newaxis]
        for index, pod in enumerate(pods):
            if pod.workload is not None and not pod.exclusive and (found := self._days.get(pod.workload)) is not None:
                _, days[index] = found
                profiled[index] = True
        return days, profiled
