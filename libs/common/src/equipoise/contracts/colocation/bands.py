"""The bands of reclaimed resources, their names in a node's status, and how pods ask for them.

The names begin with `kubernetes.io/`, as in Koordinator and Volcano. With a domain of ours they would be extended
resources: a kubelet that starts without a checkpoint of its device manager sets these to 0, and rejects the running
pods that request them.
"""

from collections.abc import Mapping
from typing import Literal

from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.requests import pod_limit
from equipoise.contracts.messages.values.resources import Resources

Band = Literal["mid", "batch", "free"]
"""The bands. An amount of mid is expected to last for a day, one of batch for some hours. Free is what is idle now."""

OfferedBand = Literal["mid", "batch"]
"""The bands whose amounts are resources of a node; free is only in an annotation."""

OFFERED_BANDS: tuple[OfferedBand, ...] = ("mid", "batch")

RESOURCE_NAMES: Mapping[OfferedBand, tuple[str, str]] = {
    "mid": ("kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"),
    "batch": ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"),
}
"""The resource names of each band: cpu in whole milli-cores, memory in whole bytes."""


def amounts_of_band(amounts: Mapping[str, float], band: OfferedBand) -> Resources:
    """Cores and bytes of the band. `amounts` are by resource name; a missing amount is unknown."""
    cpu, memory = (amounts.get(name) for name in RESOURCE_NAMES[band])
    return Resources(cpu=None if cpu is None else cpu / 1_000, memory=memory)


def limits_of_band(pod: Pod, band: OfferedBand) -> Resources:
    """The limits of a pod for the resources of the band, in cores and bytes. Raises ValueError like `pod_limit`."""
    cpu, memory = (pod_limit(pod, name) for name in RESOURCE_NAMES[band])
    return Resources(cpu=None if cpu is None else cpu / 1_000, memory=memory)


OFFERED_NAMES = tuple(name for names in RESOURCE_NAMES.values() for name in names)
"""The resource names of all bands."""

_NAMES = frozenset(OFFERED_NAMES)

_NO_REQUESTS = Resources()


def band_of(requests: Mapping[str, float]) -> OfferedBand | None:
    """The band whose resources are requested (by resource name): mid if it is both bands, None if it is neither."""
    if _NAMES.isdisjoint(requests):  # nearly all pods
        return None
    return next(band for band in OFFERED_BANDS if not requests.keys().isdisjoint(RESOURCE_NAMES[band]))


def offered_band(priority_class: str, requests: Resources) -> OfferedBand | None:
    """The band of a pod of this class that requests these reclaimed resources; None if it requests none."""
    if requests == _NO_REQUESTS:
        return None
    return next((band for band in OFFERED_BANDS if band == priority_class), None)


def requests_reclaimed(requests: Mapping[str, float]) -> bool:
    """Whether resources of a band are requested (by resource name)."""
    return not _NAMES.isdisjoint(requests)
