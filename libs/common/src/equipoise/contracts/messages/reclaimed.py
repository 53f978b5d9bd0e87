"""`reclaim.>`: what is idle on each node, and for how long."""

from typing import ClassVar, Literal

from msgspec import structs

from equipoise.contracts.bounds import Amount, Count, Seconds, Time, implausible_amount
from equipoise.contracts.colocation.bands import Band
from equipoise.contracts.messages.example import GIB, HOT_NODE, NOW
from equipoise.contracts.messages.message import Message, Value
from equipoise.contracts.messages.values.resources import Resources

ReclaimMode = Literal["observe", "enforce"]
"""observe: publish what would be offered. enforce: also write it to the status of the nodes."""


class ReclaimedTerms(Value, frozen=True, kw_only=True):
    """One resource (cores or bytes): reclaimed = capacity - margin - max(system, reserved) - high_priority."""

    capacity: Amount
    margin: Amount
    """The part of the capacity above the threshold."""

    system: Amount
    """Usage outside pods."""

    reserved: Amount
    """Capacity minus allocatable, or the reservation of the node, whichever is more."""

    high_priority: Amount
    """The amount of the pods outside the bands batch and free. The policy defines whether it is their usage, their
    request, or the higher of both."""


class ReclaimedBand(Value, frozen=True, kw_only=True):
    """One band of a node."""

    reclaimed: Resources = Resources()
    """The amounts that the forecast leaves idle; unknown while the node is stale."""

    offered: Resources = Resources()
    """The amounts in the status of the node, or that would be there in the mode `observe`. Never less than the running
    pods request."""

    requested: Resources = Resources()
    """The requests of the pods of this band that are bound to the node."""

    hours: Seconds = 0.0
    """Hours for which the amounts are expected to last; 0 for amounts that are idle now."""


class ReclaimedNode(Message, frozen=True, kw_only=True):
    """`reclaim.node.<node>`: what can be reclaimed on a node. Always complete."""

    checked: ClassVar[bool] = True

    node: str
    uid: str
    evaluated_at: Time
    sampled_at: Time | None = None
    """Newest raw sample; None: the usage of the node is unknown."""

    terms: dict[str, ReclaimedTerms] = {}
    """The terms of what is idle now, by resource ("cpu", "memory")."""

    bands: dict[Band, ReclaimedBand] = {}
    """The amounts of each band. If "free" and "batch" are missing, nothing is known of the node."""

    highest: dict[str, list[Amount | None]] = {}
    """The highest usage of high-priority pods and of the system in each hour of the day (UTC), by resource, in the 24
    hours before `evaluated_at`. A reclaimer that starts continues with it."""

    degraded: str = ""
    """Why the amounts are reduced, or older than they should be. Empty if neither is the case."""

    mode: ReclaimMode = "observe"
    """The mode of the reclaimer that has evaluated the node."""

    written: bool = False
    """Whether the node's status contains what is offered. False in observation, and while a write is due."""

    epoch: Count
    sequence: Count

    @property
    def measured_at(self) -> float:
        return self.evaluated_at

    @property
    def implausible(self) -> str:
        amounts = [implausible_amount(resource, hours) for resource, hours in self.highest.items()]
        amounts += [implausible_amount(name, structs.astuple(terms)) for name, terms in self.terms.items()]
        return next(filter(None, amounts), "")


RECLAIMED_NODE = ReclaimedNode(
    node=HOT_NODE,
    uid="7b1c",
    evaluated_at=NOW,
    sampled_at=NOW - 6,
    terms={
        "cpu": ReclaimedTerms(capacity=8, margin=2.8, system=0.3, reserved=0, high_priority=3.1),
        "memory": ReclaimedTerms(capacity=32 * GIB, margin=11.2 * GIB, system=GIB, reserved=0, high_priority=12 * GIB),
    },
    bands={
        "mid": ReclaimedBand(
            reclaimed=Resources(cpu=0.5, memory=6 * GIB),
            offered=Resources(cpu=0.5, memory=6 * GIB),
            requested=Resources(cpu=0, memory=0),
            hours=24,
        ),
        "batch": ReclaimedBand(
            reclaimed=Resources(cpu=1.2, memory=7 * GIB),
            offered=Resources(cpu=1.2, memory=7 * GIB),
            requested=Resources(cpu=1, memory=2 * GIB),
            hours=6,
        ),
        "free": ReclaimedBand(reclaimed=Resources(cpu=1.8, memory=7.8 * GIB)),
    },
    mode="enforce",
    written=True,
    epoch=1_753_600_000_000,
    sequence=7,
)
