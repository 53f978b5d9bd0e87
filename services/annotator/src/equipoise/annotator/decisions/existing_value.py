"""Reads what stands on an object already: another replica may have written it, or this one before it was restarted."""

from collections.abc import Mapping

import msgspec

from equipoise.annotator.decisions.annotation_target import Target
from equipoise.annotator.decisions.write_decision import Written
from equipoise.contracts.kubernetes.annotations import LOAD, USAGE, means, read_node_load, read_workload_usage

BELIEVED_AHEAD = 15.0
"""Seconds that a sample may lie ahead of us: clocks of Prometheus and replicas differ. Further ahead it is a forgery,
which would keep true values out for ever."""

NEAR = 2.0
"""Seconds for which an object's version is likely to last: a kubelet reports its node's status every 10 s at most."""


def standing(target: Target, annotations: Mapping[str, str], now: float) -> Written | None:
    """What stands there, as written when it was sampled. None: nothing to keep.

    It does not tell when it was written. That was seconds later as a rule; to wait for longer than that would leave a
    change unwritten for up to 98 s after its writer was lost.
    """
    read = read_node_load if target.kind == "Node" else read_workload_usage
    value, _ = read(annotations)
    if value is None or value.sampled_at.timestamp() > now + BELIEVED_AHEAD:
        return None
    sampled_at = value.sampled_at.timestamp()
    return Written(at=sampled_at, sampled_at=sampled_at, means=means(value))


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """What an object must still be for a write on it: as it was read, or saying what we know to stand there."""

    uid: str
    version: str = ""
    """Its resourceVersion: nobody has written to it since, not even a heartbeat."""

    text: Mapping[str, str] = {}
    """Our annotation of it."""

    read_at: float = 0.0
    """When the version was read (monotonic seconds)."""

    def lasts(self, now: float) -> bool:
        """Whether a write may go by it at this monotonic time: our text stands until it is changed, a version falls."""
        return not self.version or now - self.read_at <= NEAR


def basis(uid: str, annotations: Mapping[str, str]) -> Basis | None:
    """For a write on an object that has these annotations, heartbeats or not; None: ours is not among them."""
    text = {key: annotations[key] for key in (LOAD, USAGE) if key in annotations}
    return Basis(uid=uid, text=text) if text else None
