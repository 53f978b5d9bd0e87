"""What a node's status and Koordinator's annotations show of reclaimed resources. Most nodes have none of it.

An amount that cannot be parsed is unknown. Shapes of the annotations: koordinator, apis/extension/node.go.
"""

from collections.abc import Mapping

import msgspec

from equipoise.contracts.colocation.bands import OFFERED_BANDS, RESOURCE_NAMES, OfferedBand, amounts_of_band
from equipoise.contracts.kubernetes.objects import Node
from equipoise.contracts.kubernetes.quantity import parse_quantity
from equipoise.contracts.load.pod_priority import PRIORITY_CLASSES
from equipoise.contracts.messages.placement import NodeColocation
from equipoise.contracts.messages.resources import Resources

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
    """Of a node without reclaimed resources and annotations: empty."""
    status, annotations = node.status, node.metadata.annotations
    offers = any(name in status.allocatable or name in status.capacity for name in _NAMES)
    if not offers and RESERVATION not in annotations and THIRD_PARTY not in annotations:
        return _NONE
    return NodeColocation(
        amounts=_bands(status.allocatable),
        capacity_amounts=_bands(status.capacity),
        reserved=_reserved(annotations.get(RESERVATION)),
        third_party=_third_party(annotations.get(THIRD_PARTY)),
    )


_NAMES = tuple(name for band in OFFERED_BANDS for name in RESOURCE_NAMES[band])
_NONE = NodeColocation()


def _bands(quantities: Mapping[str, str]) -> dict[OfferedBand, Resources]:
    """The bands of which there is at least one amount."""
    amounts = _parsed(quantities)
    found = {band: amounts_of_band(amounts, band) for band in OFFERED_BANDS}
    return {band: each for band, each in found.items() if each != Resources()}


def _parsed(quantities: Mapping[str, str]) -> dict[str, float]:
    """The amounts of the bands by resource name, without those that cannot be parsed."""
    found = {}
    for name in _NAMES:
        if name in quantities:
            try:
                found[name] = parse_quantity(quantities[name])
            except ValueError:
                continue
    return found


def _reserved(text: str | None) -> Resources:
    """A list of CPUs counts in place of an amount."""
    if text is None:
        return Resources()
    try:
        reservation = msgspec.json.decode(text, type=_Reservation)
        amounts = {name: parse_quantity(value) for name, value in reservation.resources.items()}
        cpu = float(_count(reservation.reserved_cpus)) if reservation.reserved_cpus else amounts.get("cpu")
    except ValueError:
        return Resources()
    return Resources(cpu=cpu, memory=amounts.get("memory"))


def _count(cpus: str) -> int:
    """Of a list such as `0-3,8`. Raises ValueError."""
    count = 0
    for part in cpus.split(","):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count


def _third_party(text: str | None) -> dict[OfferedBand, Resources]:
    if text is None:
        return {}
    try:
        allocations = msgspec.json.decode(text, type=_ThirdParty).allocations
    except ValueError:
        return {}
    total: dict[str, float] = {}
    for allocation in allocations:
        band = PRIORITY_CLASSES.get(allocation.priority)
        if band in OFFERED_BANDS:
            for name, amount in _parsed(allocation.resources).items():
                if name in RESOURCE_NAMES[band]:
                    total[name] = total.get(name, 0.0) + amount
    found = {band: amounts_of_band(total, band) for band in OFFERED_BANDS}
    return {band: each for band, each in found.items() if each != Resources()}
