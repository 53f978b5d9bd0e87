"""The amounts of the bands that forecasts allow on each node in the coming hours."""

import math
from collections.abc import Sequence

import msgspec

from equipoise.contracts.colocation.bands import OfferedBand
from equipoise.contracts.load.correction import RESOURCES, amounts
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array, np
from equipoise.reclaimer.decisions.forecast import SUPPRESSED, NodesAhead, hours_ahead, lasting, lowest_reclaimable
from equipoise.reclaimer.decisions.strategy import ForecastSettings, ReclaimStrategy
from equipoise.reclaimer.state.deviations import Outlook
from equipoise.reclaimer.state.observed_node import Amounts, ObservedNode


class ReclaimNode(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A node, the strategy that applies to it, and what is reserved on it."""

    observed: ObservedNode
    strategy: ReclaimStrategy
    reserved: Array
    """The `reserved_amount` of each resource."""


class NodeForecast(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The forecast amounts of one node; NaN where its day is unknown."""

    lowest: Amounts
    """The lowest amount, by band and resource, that high-priority pods and the system leave in the band's hours."""

    lasting_batch: Array
    """The amounts of batch, by resource, that probably last for its hours: by the errors of earlier forecasts."""


def forecast_nodes(nodes: Sequence[ReclaimNode], forecast: ForecastSettings, now: float) -> list[NodeForecast]:
    """The forecast of each node. All nodes are computed together, as arrays."""
    lowest, batch = _lowest(nodes, forecast, now), _lasting_batch(nodes, forecast, now)
    return [
        NodeForecast(lowest={band: of_nodes[index] for band, of_nodes in lowest.items()}, lasting_batch=batch[index])
        for index in range(len(nodes))
    ]


def band_hours(forecast: ForecastSettings) -> dict[OfferedBand, int]:
    """The number of hours for which the amount of each band must last."""
    return {"mid": SLOTS, "batch": forecast.batch_hours}


def reserved_amounts(placements: Sequence[NodePlacement]) -> Array:
    """nodes × resources: capacity minus allocatable, or the reservation, whichever is more; 0 where they are
    unknown."""
    capacity = _by_node([amounts(placement.capacity) for placement in placements])
    allocatable = _by_node([amounts(placement.allocatable) for placement in placements])
    reservation = _by_node([amounts(placement.colocation.reserved) for placement in placements])
    reserved: Array = np.fmax(np.maximum(capacity - allocatable, 0.0), np.nan_to_num(reservation))
    return reserved


def third_party_amount(placement: NodePlacement, band: OfferedBand) -> Array:
    """The amount of the band that programs outside pods use, by resource; 0 where it is not stated."""
    return np.array([0.0 if math.isnan(value) else value for value in amounts(_third_party(placement, band))])


def _third_party(placement: NodePlacement, band: OfferedBand) -> Resources:
    return placement.colocation.third_party.get(band, Resources())


def _lowest(nodes: Sequence[ReclaimNode], forecast: ForecastSettings, now: float) -> Amounts:
    """nodes × resources, by band: what high-priority pods and the system leave in all of the band's hours."""
    shape = (len(nodes), len(RESOURCES))
    typical, margin = np.full((*shape, SLOTS), np.nan), np.zeros(shape)
    highest = np.array([node.observed.highest for node in nodes], np.float64).reshape(*shape, SLOTS)
    capacity = _by_node([amounts(node.observed.placement.capacity) for node in nodes])
    limit = capacity * _thresholds(nodes)
    usages = {index: node.observed.usage for index, node in enumerate(nodes) if node.observed.usage is not None}
    if usages:
        rows, measured = list(usages), [nodes[index] for index in usages]
        # What is reserved for the node counts as used by the system.
        unused = _unused(measured)
        margin[rows] = capacity[rows] * forecast.margin / 100
        typical[rows] = np.array([usage.typical for usage in usages.values()]) + unused[:, :, np.newaxis]
        highest[rows] += unused[:, :, np.newaxis]
        for (index, usage), node, node_unused in zip(usages.items(), measured, unused, strict=True):
            for row, policy in enumerate((node.strategy.cpu_policy, node.strategy.memory_policy)):
                if policy == "maxUsageRequest":
                    typical[index, row] = usage.typical_or_requested[row] + node_unused[row]
                elif policy == "request":
                    # Requests contain nothing of the system, and are the same all day.
                    typical[index, row] = usage.requests[row].sum() + node.reserved[row]
                    highest[index, row], margin[index, row] = np.nan, 0.0
    hour = int(now // (forecast.day / SLOTS)) % SLOTS
    return {
        band: np.stack(
            [
                lowest_reclaimable(limit[:, row], typical[:, row], highest[:, row], hour, hours, margin[:, row])
                for row in range(len(RESOURCES))
            ],
            axis=1,
        )
        for band, hours in band_hours(forecast).items()
    }


def _lasting_batch(nodes: Sequence[ReclaimNode], forecast: ForecastSettings, now: float) -> Array:
    """nodes × resources: batch resources that last for their hours, by the errors of earlier forecasts.

    NaN if the errors are not known yet, or if the policy is not `usage`: the excess of requests over usage has no daily
    forecast.
    """
    hours, hour = forecast.batch_hours, forecast.day / SLOTS
    batch = np.full((len(nodes), len(RESOURCES)), np.nan)
    learned = [
        (index, node, usage, outlook)
        for index, node in enumerate(nodes)
        if (usage := node.observed.usage) is not None and (outlook := _learned(node.observed)) is not None
    ]
    if not learned:
        return batch
    rows, measured = [index for index, *_ in learned], [node for _, node, _, _ in learned]
    usages, outlooks = [usage for _, _, usage, _ in learned], [outlook for *_, outlook in learned]
    placements = [node.observed.placement for node in measured]
    size = _by_node([amounts(placement.capacity) for placement in placements])
    third_party = _by_node([amounts(_third_party(placement, "batch")) for placement in placements])
    limit = size * _thresholds(measured) - np.array([usage.mid for usage in usages]) - np.nan_to_num(third_party)
    policies = [(node.strategy.cpu_policy, node.strategy.memory_policy) for node in measured]
    limit[np.array(policies) != "usage"] = np.nan
    # The part without a profile is expected to have its mean, not the usage of now.
    constant = np.array([outlook.constant for outlook in outlooks]) * size
    constant += _unused(measured) - np.array([usage.constant for usage in usages])
    typical = np.array([usage.typical for usage in usages]) + constant[:, :, np.newaxis]
    running, remaining = np.zeros(limit.shape), np.zeros((*limit.shape, hours))
    for position, usage in enumerate(usages):
        if len(usage.batch_pods):
            running[position] = usage.batch_pods[:, 1:].sum(axis=0)
            remaining[position] = _remaining(usage.batch_pods, hours, now, hour)
    deviation = np.array([outlook.deviation for outlook in outlooks], np.float64)
    errors = np.array([outlook.errors for outlook in outlooks], np.float64)
    for row in range(len(RESOURCES)):
        ahead = NodesAhead(
            idle=np.full(len(rows), np.inf),
            limit=limit[:, row],
            typical=hours_ahead(typical[:, row], now / hour % SLOTS, hours),
            deviation=deviation[:, row] * size[:, row, np.newaxis],
            errors=errors[:, row] * size[:, row, np.newaxis, np.newaxis],
            running=running[:, row],
            remaining=remaining[:, row],
        )
        batch[rows, row] = lasting(ahead, hours=(hours,), suppressed=SUPPRESSED, margin=np.zeros(len(rows)))[:, 0]
    return batch


def _learned(node: ObservedNode) -> Outlook | None:
    """The outlook of a node, if the errors of at least one resource are learned."""
    outlook = node.outlook
    return None if outlook is None or all(map(math.isnan, outlook.errors[:, 0, 0].tolist())) else outlook


def _thresholds(nodes: Sequence[ReclaimNode]) -> Array:
    """nodes × resources, as shares (0..1) of the capacity."""
    return _by_node([[node.strategy.cpu_threshold, node.strategy.memory_threshold] for node in nodes]) / 100


def _unused(nodes: Sequence[ReclaimNode]) -> Array:
    """nodes × resources: what is reserved on measured nodes and not used by the system."""
    system = [node.observed.usage.system for node in nodes if node.observed.usage is not None]
    unused: Array = np.maximum(np.array([node.reserved for node in nodes]) - np.array(system), 0.0)
    return unused


def _by_node(values: Sequence[Sequence[float]]) -> Array:
    return np.array(values).reshape(len(values), len(RESOURCES))


def _remaining(pods: Array, hours: int, now: float, hour: float) -> Array:
    """resources × hours ahead (of `hour` seconds): the requests in the middle of each hour.

    A pod that runs longer than expected stays.
    """
    ends = pods[:, :1] + hours * hour
    middles = now + (np.arange(hours) + 0.5) * hour
    remaining: Array = pods[:, 1:].T @ ((ends > middles) | (ends <= now))
    return remaining
