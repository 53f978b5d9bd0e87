"""The points for a pod of a band: the amount of the band that is left after the pod is placed, as a share of the
node."""

from equipoise.contracts.colocation.bands import OFFERED_BANDS, OfferedBand
from equipoise.contracts.numeric import Array, np
from equipoise.scorer.decisions.arrays import BandRoom, Demand


def band_points(bands: BandRoom, demand: Demand) -> Array:
    """The points of each node, 0..100, by the scarcer resource; 0 if the band does not suffice, or if what is left is
    unknown.

    A resource that the pod does not request of its band does not count.
    """
    share = share_left(bands, demand)
    counted = ~np.isnan(demand.band_requests)
    scarcer = share[:, counted].min(axis=1)
    points: Array = 100.0 * np.clip(np.nan_to_num(scarcer, nan=0.0), 0.0, 1.0)
    return points


def share_left(bands: BandRoom, demand: Demand) -> Array:
    """nodes × resources: what is left of the pod's band with the pod, as a share of the capacity of the node."""
    assert demand.band is not None
    left = bands.left[:, OFFERED_BANDS.index(demand.band)] - np.nan_to_num(demand.band_requests)
    share: Array = left / bands.capacity
    return share


def why_unusable(band: OfferedBand) -> str:
    """Why no node can be chosen for a pod of this band."""
    return f"no node is known to have enough left of the band {band}"
