"""The figures of moves without a gap."""

import msgspec

from equipoise.cli.terminal import count


class SurgeResult(msgspec.Struct, frozen=True, kw_only=True):
    """Moves are those of the audit log, ready endpoints those of the EndpointSlices in it."""

    mode: str
    """`surge.mode`."""

    moved: int
    without_gap: int
    """The pods of `moved` that were detached first, and evicted when their replacement was ready."""

    services: int
    """Services that had as many ready endpoints as replicas at some time: one for each workload."""

    shortages: int
    """How often one of them had fewer afterwards."""

    seconds_with_fewer_ready: float
    """The time of all shortages."""

    detached_left_over: int
    """Pods that no move restored or evicted."""


def surge_sentence(result: SurgeResult) -> str:
    """What the demo prints at its end."""
    return (
        f"{count(result.moved, 'pod')} moved, {result.without_gap} of them without a gap: "
        f"{result.seconds_with_fewer_ready:g} s with fewer ready endpoints than replicas, in all "
        f"{count(result.services, 'Service')}, by the EndpointSlices that the API server has logged; "
        f"{count(result.detached_left_over, 'detached pod')} left over"
    )
