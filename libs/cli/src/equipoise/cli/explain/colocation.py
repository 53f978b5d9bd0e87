"""What a node offers to co-located pods and why, and what a pod requests of it: a part of `equipoise explain`."""

from collections.abc import Iterator

import msgspec
from rich.table import Table
from rich.text import Text

from equipoise.cli.bus.messages import retained_messages
from equipoise.cli.reclaimed.nodes import NodeBands, node_bands
from equipoise.cli.reclaimed.reading import MAX_AGE, read_reclaimed
from equipoise.cli.terminal import RESOURCES, UNIT, amount, amounts, duration, table
from equipoise.contracts.bus.subjects import node_placement
from equipoise.contracts.colocation.bands import OFFERED_BANDS
from equipoise.contracts.load.pod_priority import PriorityClass, Qos
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.reclaimed import ReclaimedBand
from equipoise.contracts.messages.values.resources import Resources, cpu_and_memory
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import Clock

_NOTICEABLE = 0.01
"""Difference of two amounts, as a share of the larger, from which it is explained: amounts are written in whole
milli-cores and bytes."""


class CoLocatedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A placed pod that requests reclaimed resources."""

    band: PriorityClass
    hours: float | None
    """Hours for which its node is expected to have the requested resources; None: unknown."""

    qos: Qos
    requests: Resources
    """Requests of the resources of its band, instead of cpu and memory."""

    limits: Resources

    def __str__(self) -> str:
        lasting = "for an unknown time" if self.hours is None else f"for {self.hours:g} h"
        limits = "" if self.limits == Resources() else f", limits {amounts(self.limits)}"
        return f"co-located: band {self.band}, {lasting}; QoS {self.qos}; requests {amounts(self.requests)}{limits}"


async def read_node_bands(server: Nats, node: str, clock: Clock) -> NodeBands | None:
    """The bands of a node; None if no reclaimer has evaluated it in the last day. Raises BusError."""
    messages = await read_reclaimed(server, clock, node=node)
    return node_bands(messages[-1], clock.now(), MAX_AGE) if messages else None


async def read_co_located_pod(server: Nats, node: str, pod: str, clock: Clock) -> CoLocatedPod | None:
    """The pod with this name (NAMESPACE/NAME); None if it is not on the node, or requests no reclaimed resources.

    Raises BusError.
    """
    placed: PlacedPod | None = None
    async for _, message in retained_messages(server, node_placement(node), since=0.0, clock=clock):
        if isinstance(message, NodePlacement):
            placed = next((item for item in message.pods if f"{item.namespace}/{item.name}" == pod), None)
    if placed is None or placed.reclaimed_requests == Resources():
        return None
    return co_located_pod(placed, await read_node_bands(server, node, clock))


def co_located_pod(pod: PlacedPod, node: NodeBands | None) -> CoLocatedPod:
    """A placed pod with the offer of its node; `node` is None if that is unknown."""
    band = None if node is None else {"mid": node.mid, "batch": node.batch}.get(pod.priority_class)
    return CoLocatedPod(
        band=pod.priority_class,
        hours=None if band is None else band.hours,
        qos=pod.qos,
        requests=pod.reclaimed_requests,
        limits=pod.reclaimed_limits,
    )


def node_parts(node: NodeBands, now: float) -> Iterator[Text | Table]:
    """A table with the computation of what is idle now, then one with each band, and why its offer differs from that.

    Lines before them state the mode of the reclaimer and problems.
    """
    not_yet = "not written to its status yet" if node.mode == "enforce" else "not written to its status"
    written = "written to its status" if node.written else not_yet
    age = duration(now - node.evaluated_at)
    yield Text.assemble(("reclaimed", "bold"), f": mode {node.mode}, {written}; evaluated {age} ago")
    if node.outdated:
        yield Text("no longer evaluated: check that a reclaimer is running and ready (/readyz)", style="bold yellow")
    if node.reduced:
        yield Text(f"note: {node.reduced}", style="bold yellow")
    if node.terms:
        terms = table("", "capacity>", "− margin>", "− max(system,>", "reserved)>", "− high priority>", "= idle now>")
        for resource in RESOURCES:
            computed = node.terms.get(resource)
            names = ("capacity", "margin", "system", "reserved", "high_priority")
            values = [
                cpu_and_memory({resource: getattr(computed, name)}) if computed else Resources() for name in names
            ]
            cells = (amount(value, resource) for value in (*values, node.free))
            terms.add_row(f"{resource}, {UNIT[resource]}", *cells)
        yield terms
    bands = table("band", "for", "", "idle>", "offered>", "requested>", "")
    for name in OFFERED_BANDS:
        band: ReclaimedBand = getattr(node, name)
        for resource in RESOURCES:
            first = resource == RESOURCES[0]
            bands.add_row(
                name if first else "",
                f"{band.hours:g} h" if first else "",
                f"{resource}, {UNIT[resource]}",
                *(amount(value, resource) for value in (band.reclaimed, band.offered, band.requested)),
                difference(band, resource),
            )
    yield bands


def difference(band: ReclaimedBand, resource: str) -> str:
    """Why the offered amount is not the idle one; empty if they are equal, or if one is unknown."""
    idle, offered, requested = (getattr(value, resource) for value in (band.reclaimed, band.offered, band.requested))
    if idle is None or offered is None or abs(offered - idle) <= _NOTICEABLE * max(offered, idle):
        return ""
    if offered < idle:
        return "grows step by step (reclaimer.offer.growth)"
    if requested is not None and offered <= requested * (1 + _NOTICEABLE):
        return "never less than bound pods request"
    return "a small decrease is written later (reclaimer.offer.minChange)"
