"""Pressure (PSI): the share of time in which processes waited for a resource, of nodes and of pods."""

from typing import Annotated

from msgspec import Meta

from equipoise.contracts.bounds import Bytes, Time
from equipoise.contracts.messages.message import Value

ShareOfTime = Annotated[float, Meta(ge=0, le=1)]
"""0..1."""


class Pressure(Value, frozen=True, kw_only=True):
    """The share of time (0..1) in which at least one process waited for a resource. None means unknown, never 0."""

    cpu: ShareOfTime | None = None
    memory: ShareOfTime | None = None
    io: ShareOfTime | None = None


class MeasuredPodPressure(Pressure, frozen=True, kw_only=True):
    """The pressure of a pod, and what distinguishes contention from its own limit. Values near 0 are absent, like
    unknown ones."""

    throttled: ShareOfTime | None = None
    """The share of periods in which its own CPU limit stopped it: it then waits for CPU however idle the node is."""

    disk: Bytes | None = None
    """Bytes per second that it reads from and writes to disks."""


class NodePressure(Value, frozen=True, kw_only=True):
    """The pressure of a node and of its pods, over the shortest window."""

    sampled_at: Time
    """Time of the newest raw sample, on Prometheus' clock."""

    waiting: Pressure = Pressure()
    unknown: dict[str, str] = {}
    """Why a value of the source cannot be true, by resource; resources without a value are in neither."""

    pods: dict[str, MeasuredPodPressure] = {}
    """The pressure of pods by UID. Only pods of which a value is not near 0 are in it."""

    pods_known: bool = True
    """false: the pods were not measured lately, so it is not known whether CPU limits make them wait."""
