"""What a node's status and Koordinator's annotations show of reclaimed resources. Most nodes have none of it.

An annotation with an amount that cannot be parsed, or that is negative, is invalid as a whole. Shapes of the
annotations: koordinator, apis/extension/node.go.
"""

import re
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from equipoise.contracts.bounds import MAX_CORES
from equipoise.contracts.colocation.bands import (
    OFFERED_BANDS,
    OFFERED_NAMES,
    RESOURCE_NAMES,
    OfferedBand,
    amounts_of_band,
)
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.quantity import known_quantity, most_of
from equipoise.contracts.load.pod_priority import PRIORITY_CLASSES
from equipoise.contracts.messages.placement import NodeColocation
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.unreadable.lenient_decoding import DECODE_ERRORS

_ERRORS = (ValueError, *DECODE_ERRORS)

_CPU = re.compile("[0-9]{1,6}")

RESERVATION = "node.koordinator.sh/reservation"
THIRD_PARTY = "node.koordinator.sh/thirdPartyAllocations"


class _Reservation(msgspec.Struct, frozen=True, rename="camel"):
    resources: dict[str, str] = {}
    reserved_cpus: str = msgspec.field(name="reservedCPUs", default="")


class _Allocation(msgspec.Struct, frozen=True):
    priority: str = ""
    resources: dict[str, str] = {}


class _ThirdParty(msgspec.Struct, frozen=True):
    allocations: list[_Allocation] = []


def node_colocation(node: Node) -> NodeColocation:
    """The reclaimed resources and reservations of a node; empty without reclaimed resources and annotations."""
    status, annotations = node.status, node.metadata.annotations
    offers = any(name in status.allocatable or name in status.capacity for name in OFFERED_NAMES)
    if not offers and RESERVATION not in annotations and THIRD_PARTY not in annotations:
        return _NONE
    reserved, third_party = Resources(), _NOTHING
    invalid: list[str] = []
    try:
        reserved = _reserved(annotations.get(RESERVATION))
    except _ERRORS as error:
        invalid.append(f"{RESERVATION}: {error}")
    try:
        third_party = _third_party(annotations.get(THIRD_PARTY))
    except _ERRORS as error:
        invalid.append(f"{THIRD_PARTY}: {error}")
    return NodeColocation(
        amounts=_bands(status.allocatable),
        capacity_amounts=_bands(status.capacity),
        reserved=reserved,
        third_party=third_party,
        invalid="; ".join(invalid),
    )


_NONE = NodeColocation()
_NOTHING: dict[OfferedBand, Resources] = {}


def _bands(quantities: Mapping[str, str]) -> dict[OfferedBand, Resources]:
    """The bands of which there is at least one amount. An amount that cannot be parsed is unknown."""
    amounts = {}
    for name in OFFERED_NAMES:
        if name in quantities:
            with suppress(ValueError):
                amounts[name] = known_quantity(name, quantities[name])
    bands = {band: amounts_of_band(amounts, band) for band in OFFERED_BANDS}
    return {band: resources for band, resources in bands.items() if resources != Resources()}


def _reserved(text: str | None) -> Resources:
    """The reserved amounts. A list of CPUs replaces the amount of CPU. Raises ValueError."""
    if text is None:
        return Resources()
    reservation = msgspec.json.decode(text, type=_Reservation)
    amounts = {name: known_quantity(name, quantity) for name, quantity in reservation.resources.items()}
    cpu = float(_count(reservation.reserved_cpus)) if reservation.reserved_cpus else amounts.get("cpu")
    return Resources(cpu=cpu, memory=amounts.get("memory"))


def _count(cpus: str) -> int:
    """The number of CPUs in a list such as `0-3,8`. Raises ValueError."""
    count = 0
    for part in cpus.split(","):
        first, _, last = part.partition("-")
        if not _CPU.fullmatch(first) or not _CPU.fullmatch(last or first) or int(last or first) < int(first):
            raise ValueError(f"{part[:40]!r} is no range of CPUs")
        count += int(last or first) - int(first) + 1
    if count > MAX_CORES:
        raise ValueError(f"no machine has more than {MAX_CORES:g} CPUs")
    return count


def _third_party(text: str | None) -> dict[OfferedBand, Resources]:
    """The bands of which at least one amount is allocated. Raises ValueError."""
    if text is None:
        return {}
    total: dict[str, float] = {}
    for allocation in msgspec.json.decode(text, type=_ThirdParty).allocations:
        band = PRIORITY_CLASSES.get(allocation.priority)
        if band in OFFERED_BANDS:
            for name in RESOURCE_NAMES[band]:
                if name in allocation.resources:
                    more = total.get(name, 0.0) + known_quantity(name, allocation.resources[name])
                    total[name] = min(more, most_of(name))
    bands = {band: amounts_of_band(total, band) for band in OFFERED_BANDS}
    return {band: resources for band, resources in bands.items() if resources != Resources()}
