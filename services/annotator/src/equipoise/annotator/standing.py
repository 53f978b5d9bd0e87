"""Reads what stands on an object already: another replica may have written it, or this one before it was restarted."""

from collections.abc import Mapping

from equipoise.annotator.dead_band import Written
from equipoise.annotator.targets import Target
from equipoise.contracts.annotations import means, read_node_load, read_workload_usage

BELIEVED_AHEAD = 15.0
"""Seconds that a sample may lie ahead of us: clocks of Prometheus and replicas differ. Further ahead it is a forgery,
which would keep true values out for ever."""


def standing(target: Target, annotations: Mapping[str, str], now: float) -> Written | None:
    """What stands there, as written when it was sampled: it does not tell when it was. None: nothing to keep."""
    read = read_node_load if target.kind == "Node" else read_workload_usage
    value, _ = read(annotations)
    if value is None or value.sampled_at.timestamp() > now + BELIEVED_AHEAD:
        return None
    sampled_at = value.sampled_at.timestamp()
    return Written(at=sampled_at, sampled_at=sampled_at, means=means(value))
