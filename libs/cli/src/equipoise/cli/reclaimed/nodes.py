"""Nodes with what they offer by band, and totals over the nodes of which all amounts are known. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from equipoise.contracts.colocation.bands import OFFERED_BANDS, OfferedBand
from equipoise.contracts.messages.reclaimed import ReclaimedBand, ReclaimedNode, ReclaimedTerms, ReclaimMode
from equipoise.contracts.messages.values.resources import Resources, cpu_and_memory

SortBy = Literal["batch", "mid", "free", "age", "name"]

_UNKNOWN = Resources()


class NodeBands(msgspec.Struct, frozen=True, kw_only=True):
    """One node. Amounts in cores and bytes; unknown where the reclaimer does not know them."""

    node: str
    capacity: Resources
    mid: ReclaimedBand
    batch: ReclaimedBand
    free: Resources
    """Idle now; it is not offered."""

    terms: Mapping[str, ReclaimedTerms]
    """The terms from which the idle amounts of now were computed, by resource. Empty while they are unknown."""

    mode: ReclaimMode
    written: bool
    """Whether the node's status contains what is offered."""

    evaluated_at: float
    sampled_at: float | None
    reduced: str
    """Why less is offered than is idle, or older amounts are; empty: neither."""

    outdated: bool
    """Whether the node is no longer evaluated: it was deleted, or no reclaimer runs."""

    not_counted: str
    """Why the node is not part of the totals; empty: it is."""


class BandTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of one band, in cores and bytes."""

    offered: Resources
    requested: Resources
    available: Resources
    """What pods can still request: offered minus requested."""

    hours: float
    """Hours for which it is expected to last, on every node."""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Every amount is of the same nodes."""

    nodes: int
    capacity: Resources
    mid: BandTotals
    batch: BandTotals
    free: Resources


class ReclaimedSummary(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes together."""

    state: Literal["on", "off"]
    """off: no node was evaluated recently."""

    mode: ReclaimMode
    """The mode of the latest evaluation."""

    nodes: int
    """The number of nodes that were evaluated recently."""

    written: int
    due: int
    """The number of nodes whose status does not contain yet what is offered, with mode enforce."""

    latest_at: float
    oldest_at: float
    """Oldest evaluation, of the nodes that were evaluated recently; of all if none was."""

    totals: Totals | None
    """None: of no node all amounts are known."""

    not_counted: Mapping[str, str]
    """Why the totals do not contain a node, by node."""


def node_bands(message: ReclaimedNode, now: float, max_age: float) -> NodeBands:
    """`max_age`: seconds after which an evaluation is outdated."""
    terms = message.terms
    capacity = cpu_and_memory({name: terms[name].capacity for name in ("cpu", "memory") if name in terms})
    bands = {band: message.bands.get(band, ReclaimedBand()) for band in OFFERED_BANDS}
    free = message.bands["free"].reclaimed if "free" in message.bands else _UNKNOWN
    columns = {"capacity": capacity, "free": free}
    for band, each in bands.items():
        columns |= {f"offered {band}": each.offered, f"requested {band}": each.requested}
    unknown = [name for name, each in columns.items() if each.cpu is None or each.memory is None]
    outdated = now - message.evaluated_at > max_age
    not_counted = ""
    if outdated:
        not_counted = "no longer evaluated"
    elif unknown:
        not_counted = message.degraded or f"unknown: {', '.join(unknown)}"
    return NodeBands(
        node=message.node, capacity=capacity, mid=bands["mid"], batch=bands["batch"], free=free, terms=terms,
        mode=message.mode, written=message.written, evaluated_at=message.evaluated_at, sampled_at=message.sampled_at,
        reduced=message.degraded, outdated=outdated, not_counted=not_counted,
    )  # fmt: skip


def summary_of(nodes: Sequence[NodeBands]) -> ReclaimedSummary:
    """The summary of at least one node."""
    current = [node for node in nodes if not node.outdated]
    written = sum(node.written for node in current)
    latest = max(nodes, key=lambda node: node.evaluated_at)
    return ReclaimedSummary(
        state="on" if current else "off",
        mode=latest.mode,
        nodes=len(current),
        written=written,
        due=sum(node.mode == "enforce" and not node.written for node in current),
        latest_at=latest.evaluated_at,
        oldest_at=min(node.evaluated_at for node in current or nodes),
        totals=_totals([node for node in nodes if not node.not_counted]),
        not_counted={node.node: node.not_counted for node in nodes if node.not_counted},
    )


def available(band: ReclaimedBand) -> Resources:
    """Offered minus requested; unknown where one of them is."""
    cpu, memory = (
        None if offered is None or requested is None else max(0.0, offered - requested)
        for offered, requested in (
            (band.offered.cpu, band.requested.cpu),
            (band.offered.memory, band.requested.memory),
        )
    )
    return Resources(cpu=cpu, memory=memory)


def by(order: SortBy) -> Callable[[NodeBands], tuple[bool, float, str]]:
    """Most cores first, or the oldest evaluation first; nodes of unknown amounts last."""

    def key(node: NodeBands) -> tuple[bool, float, str]:
        value: float | None
        if order == "name":
            value = 0.0
        elif order == "age":
            value = -node.evaluated_at
        else:
            value = node.free.cpu if order == "free" else available(getattr(node, order)).cpu
        return value is None, -(value or 0.0), node.node

    return key


def _totals(nodes: Sequence[NodeBands]) -> Totals | None:
    """The totals of nodes of which all amounts are known."""
    if not nodes:
        return None
    return Totals(
        nodes=len(nodes),
        capacity=_sum(node.capacity for node in nodes),
        mid=_band("mid", nodes),
        batch=_band("batch", nodes),
        free=_sum(node.free for node in nodes),
    )


def _band(band: OfferedBand, nodes: Sequence[NodeBands]) -> BandTotals:
    bands: list[ReclaimedBand] = [getattr(node, band) for node in nodes]
    return BandTotals(
        offered=_sum(each.offered for each in bands),
        requested=_sum(each.requested for each in bands),
        available=_sum(map(available, bands)),
        hours=min(each.hours for each in bands),
    )


def _sum(amounts: Iterable[Resources]) -> Resources:
    """The sum of known amounts."""
    cpu, memory = 0.0, 0.0
    for each in amounts:
        assert each.cpu is not None
        assert each.memory is not None
        cpu, memory = cpu + each.cpu, memory + each.memory
    return Resources(cpu=cpu, memory=memory)
