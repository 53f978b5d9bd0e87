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


def reserved_amount(placement: NodePlacement) -> Array:
    """Capacity minus allocatable, or the reservation, whichever is more; 0 where they are unknown."""
    capacity, allocatable = (np.array(amounts(resources)) for resources in (placement.capacity, placement.allocatable))
    reservation = _or_zero(placement.colocation.reserved)
    reserved: Array = np.fmax(np.maximum(capacity - allocatable, 0.0), reservation)
    return reserved


def third_party_amount(placement: NodePlacement, band: OfferedBand) -> Array:
    """The amount of the band that programs outside pods use, by resource; 0 where it is not stated."""
    return _or_zero(placement.colocation.third_party.get(band, Resources()))


def _lowest(nodes: Sequence[ReclaimNode], forecast: ForecastSettings, now: float) -> Amounts:
    """nodes × resources, by band: what high-priority pods and the system leave in all of the band's hours."""
    shape = (len(nodes), len(RESOURCES))
    typical, capacity, limit = np.full((*shape, SLOTS), np.nan), np.full(shape, np.nan), np.full(shape, np.nan)
    margin = np.zeros(shape)
    highest = np.array([node.observed.highest for node in nodes], np.float64).reshape(*shape, SLOTS)
    for index, node in enumerate(nodes):
        usage, strategy = node.observed.usage, node.strategy
        capacity[index] = amounts(node.observed.placement.capacity)
        limit[index] = capacity[index] * [strategy.cpu_threshold / 100, strategy.memory_threshold / 100]
        if usage is not None:
            # What is reserved for the node counts as used by the system.
            unused = np.maximum(node.reserved - usage.system, 0.0)
            margin[index] = capacity[index] * forecast.margin / 100
            typical[index] = usage.typical + unused[:, np.newaxis]
            highest[index] += unused[:, np.newaxis]
            for row, policy in enumerate((strategy.cpu_policy, strategy.memory_policy)):
                if policy == "maxUsageRequest":
                    typical[index, row] = usage.typical_or_requested[row] + unused[row]
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
    rows = [index for index, node in enumerate(nodes) if node.observed.usage is not None and _is_learned(node.observed)]
    if not rows:
        return batch
    shape = (len(rows), len(RESOURCES))
    limit, typical = np.empty(shape), np.empty((*shape, SLOTS))
    running, remaining = np.zeros(shape), np.zeros((*shape, hours))
    for position, index in enumerate(rows):
        node, strategy = nodes[index].observed, nodes[index].strategy
        usage, outlook = node.usage, node.outlook
        assert usage is not None
        assert outlook is not None
        capacity = np.array(amounts(node.placement.capacity))
        third_party = third_party_amount(node.placement, "batch")
        threshold = np.array([strategy.cpu_threshold, strategy.memory_threshold]) / 100
        limit[position] = capacity * threshold - usage.mid - third_party
        unused = np.maximum(nodes[index].reserved - usage.system, 0.0)
        # The part without a profile is expected to have its mean, not the usage of now.
        typical[position] = usage.typical + (outlook.constant * capacity - usage.constant + unused)[:, np.newaxis]
        if len(usage.batch_pods):
            running[position] = usage.batch_pods[:, 1:].sum(axis=0)
            remaining[position] = _remaining(usage.batch_pods, hours, now, hour)
        policies = np.array([strategy.cpu_policy == "usage", strategy.memory_policy == "usage"])
        limit[position, ~policies] = np.nan
    size = np.array([amounts(nodes[index].observed.placement.capacity) for index in rows])
    deviation = np.array([_outlook(nodes[index].observed).deviation for index in rows], np.float64)
    errors = np.array([_outlook(nodes[index].observed).errors for index in rows], np.float64)
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


def _outlook(node: ObservedNode) -> Outlook:
    assert node.outlook is not None
    return node.outlook


def _is_learned(node: ObservedNode) -> bool:
    """Whether the errors of at least one resource are learned."""
    return node.outlook is not None and not np.isnan(node.outlook.errors[:, 0, 0]).all()


def _remaining(pods: Array, hours: int, now: float, hour: float) -> Array:
    """resources × hours ahead (of `hour` seconds): the requests in the middle of each hour.

    A pod that runs longer than expected stays.
    """
    ends = pods[:, :1] + hours * hour
    middles = now + (np.arange(hours) + 0.5) * hour
    remaining: Array = pods[:, 1:].T @ ((ends > middles) | (ends <= now))
    return remaining


def _or_zero(resources: Resources) -> Array:
    """Faster than `numpy.nan_to_num`, for two values."""
    return np.array([0.0 if math.isnan(value) else value for value in amounts(resources)])
