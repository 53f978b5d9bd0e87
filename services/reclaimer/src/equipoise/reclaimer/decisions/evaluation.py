"""What each node offers now: the amounts of its bands, what of it its status should contain, and why."""

import math
from collections.abc import Mapping, Sequence

import msgspec

from equipoise.contracts.bounds import bounded
from equipoise.contracts.colocation.bands import OFFERED_BANDS, OFFERED_NAMES, RESOURCE_NAMES, Band, OfferedBand
from equipoise.contracts.load.correction import RESOURCES, amounts
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.reclaimed import ReclaimedBand, ReclaimedNode, ReclaimedTerms
from equipoise.contracts.messages.resources import Resources, bounded_resources
from equipoise.contracts.numeric import Array, np
from equipoise.reclaimer.decisions.degradation import DegradeSettings, share_kept
from equipoise.reclaimer.decisions.forecast import SUPPRESSED, NodesAhead, hours_ahead, lasting, lowest_reclaimable
from equipoise.reclaimer.decisions.formula import HighPriorityPods, mid_amount, reclaimed, terms_of
from equipoise.reclaimer.decisions.offer import Offer, OfferSettings, offer, requested_amount
from equipoise.reclaimer.decisions.strategy import (
    ForecastSettings,
    ReclaimPool,
    ReclaimStrategy,
    StrategyOverride,
    strategy_of,
)
from equipoise.reclaimer.state.deviations import Outlook
from equipoise.reclaimer.state.hourly_worst import published
from equipoise.reclaimer.state.node_usage import NodeUsage, requested_by_band
from equipoise.reclaimer.state.observed_node import Amounts, ObservedNode
from equipoise.reclaimer.state.status_changes import QUIET_PERIOD

_UNKNOWN = Resources()

_UNITS = (1_000.0, 1.0)
"""The factors by resource: cores to milli-cores, bytes to bytes."""

DISABLED = "its strategy offers nothing"
"""`degraded` of a node that is to offer nothing."""


CONTESTED = f"""another program changes the mid and batch resources of its status. Run only one of them; writes go on \
when nobody else has changed them for {QUIET_PERIOD / 60:.0f} minutes"""


class ReclaimEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that evaluations depend on."""

    strategy: ReclaimStrategy = ReclaimStrategy()
    pools: Sequence[ReclaimPool] = ()
    nodes: Mapping[str, StrategyOverride] = {}
    forecast: ForecastSettings = ForecastSettings()
    degrade: DegradeSettings = DegradeSettings()
    offer: OfferSettings = OfferSettings()


class Evaluated(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The decision about one node."""

    message: ReclaimedNode
    """Its epoch and sequence are those of its publisher."""

    last: Amounts
    """The amounts for the next evaluation."""

    amounts: Mapping[str, int | None]
    """The amounts that its status should contain, by resource name; None: nothing."""

    due: bool
    """Write them now."""

    contested: bool = False
    """Another program writes the same names: nothing is written, and what is in the status is offered."""

    shrinks: bool
    """Some amount becomes less: this must not wait for those that grow."""


def evaluate(
    nodes: Sequence[ObservedNode], settings: ReclaimEvaluation, *, max_age: float, now: float
) -> list[Evaluated]:
    """`max_age`: seconds for which a sample counts as current."""
    strategies = [
        strategy_of(node.placement.node, node.placement.labels, settings.strategy, settings.pools, settings.nodes)
        for node in nodes
    ]
    reserved = [_reserved(node.placement) for node in nodes]
    lowest = _lowest(nodes, strategies, reserved, settings, now)
    batch = _lasting(nodes, strategies, reserved, settings.forecast, now)
    return [
        _evaluate(node, strategy, reserved[index], _at(lowest, index), batch[index], settings, max_age=max_age, now=now)
        for index, (node, strategy) in enumerate(zip(nodes, strategies, strict=True))
    ]


def _at(lowest: Amounts, index: int) -> Amounts:
    return {band: each[index] for band, each in lowest.items()}


def _lowest(
    nodes: Sequence[ObservedNode],
    strategies: Sequence[ReclaimStrategy],
    reserved: Sequence[Array],
    settings: ReclaimEvaluation,
    now: float,
) -> Amounts:
    """nodes × resources, by band: what high-priority pods and the system leave in all of the band's hours."""
    shape = (len(nodes), len(RESOURCES))
    typical, capacity, limit = np.full((*shape, SLOTS), np.nan), np.full(shape, np.nan), np.full(shape, np.nan)
    margin = np.zeros(shape)
    highest = np.array([node.highest for node in nodes], np.float64).reshape(*shape, SLOTS)
    for index, (node, strategy) in enumerate(zip(nodes, strategies, strict=True)):
        capacity[index] = amounts(node.placement.capacity)
        limit[index] = capacity[index] * [strategy.cpu_threshold / 100, strategy.memory_threshold / 100]
        if node.usage is not None:
            # What is reserved for the node counts as used by the system.
            unused = np.maximum(reserved[index] - node.usage.system, 0.0)
            margin[index] = capacity[index] * settings.forecast.margin / 100
            typical[index] = node.usage.typical + unused[:, np.newaxis]
            highest[index] += unused[:, np.newaxis]
            for row, policy in enumerate((strategy.cpu_policy, strategy.memory_policy)):
                if policy == "maxUsageRequest":
                    typical[index, row] = node.usage.typical_or_requested[row] + unused[row]
                elif policy == "request":
                    # Requests contain nothing of the system, and are the same all day.
                    typical[index, row] = node.usage.requests[row].sum() + reserved[index][row]
                    highest[index, row], margin[index, row] = np.nan, 0.0
    hour = int(now // (settings.forecast.day / SLOTS)) % SLOTS
    return {
        band: np.stack(
            [
                lowest_reclaimable(limit[:, row], typical[:, row], highest[:, row], hour, hours, margin[:, row])
                for row in range(len(RESOURCES))
            ],
            axis=1,
        )
        for band, hours in _hours(settings).items()
    }


def _lasting(
    nodes: Sequence[ObservedNode],
    strategies: Sequence[ReclaimStrategy],
    reserved: Sequence[Array],
    forecast: ForecastSettings,
    now: float,
) -> Array:
    """nodes × resources: batch resources that last for their hours, by the errors of earlier forecasts.

    NaN: these are not known yet, or the policy is not `usage`: what requests exceed usage by has no day.
    """
    hours, hour = forecast.batch_hours, forecast.day / SLOTS
    batch = np.full((len(nodes), len(RESOURCES)), np.nan)
    rows = [index for index, node in enumerate(nodes) if node.usage is not None and _is_learned(node)]
    if not rows:
        return batch
    shape = (len(rows), len(RESOURCES))
    limit, typical = np.empty(shape), np.empty((*shape, SLOTS))
    running, remaining = np.zeros(shape), np.zeros((*shape, hours))
    for position, index in enumerate(rows):
        node, strategy = nodes[index], strategies[index]
        usage, outlook = node.usage, node.outlook
        assert usage is not None
        assert outlook is not None
        capacity = np.array(amounts(node.placement.capacity))
        third_party = _or_zero(node.placement.colocation.third_party.get("batch", _UNKNOWN))
        threshold = np.array([strategy.cpu_threshold, strategy.memory_threshold]) / 100
        limit[position] = capacity * threshold - usage.mid - third_party
        unused = np.maximum(reserved[index] - usage.system, 0.0)
        typical[position] = usage.typical + (outlook.constant * capacity - usage.constant + unused)[:, np.newaxis]
        if len(usage.batch_pods):
            running[position] = usage.batch_pods[:, 1:].sum(axis=0)
            remaining[position] = _remaining(usage.batch_pods, hours, now, hour)
        policies = np.array([strategy.cpu_policy == "usage", strategy.memory_policy == "usage"])
        limit[position, ~policies] = np.nan
    size = np.array([amounts(nodes[index].placement.capacity) for index in rows])
    deviation = np.array([_outlook(nodes[index]).deviation for index in rows], np.float64)
    errors = np.array([_outlook(nodes[index]).errors for index in rows], np.float64)
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
    """resources × hours ahead (of `hour` seconds): what is requested in the middle of each.

    A pod that runs longer than expected stays.
    """
    ends = pods[:, :1] + hours * hour
    middles = now + (np.arange(hours) + 0.5) * hour
    remaining: Array = pods[:, 1:].T @ ((ends > middles) | (ends <= now))
    return remaining


def _hours(settings: ReclaimEvaluation) -> dict[OfferedBand, int]:
    return {"mid": SLOTS, "batch": settings.forecast.batch_hours}


def _reserved(placement: NodePlacement) -> Array:
    """Capacity minus allocatable, or the reservation, whichever is more; 0 where they are unknown."""
    capacity, allocatable = (np.array(amounts(each)) for each in (placement.capacity, placement.allocatable))
    reservation = _or_zero(placement.colocation.reserved)
    reserved: Array = np.fmax(np.maximum(capacity - allocatable, 0.0), reservation)
    return reserved


def _or_zero(found: Resources) -> Array:
    """Faster than `numpy.nan_to_num`, for two values."""
    return np.array([0.0 if math.isnan(value) else value for value in amounts(found)])


def _evaluate(
    node: ObservedNode,
    strategy: ReclaimStrategy,
    reserved: Array,
    lowest: Amounts,
    batch: Array,
    settings: ReclaimEvaluation,
    *,
    max_age: float,
    now: float,
) -> Evaluated:
    terms: dict[str, ReclaimedTerms] = {}
    bands: dict[Band, ReclaimedBand] = {}
    degraded = ""
    last: Amounts = node.last or _existing(node)
    if not strategy.enabled:
        target, degraded = _nothing(), DISABLED
    elif unreadable := node.placement.unreadable:
        target, degraded = (
            _nothing(),
            f"only what bound pods request is offered: an object cannot be read: {unreadable}",
        )
    elif invalid := node.placement.colocation.invalid:
        target, degraded = _nothing(), f"only what bound pods request is offered: invalid annotation {invalid}"
    elif node.usage is None or node.age > max_age:
        target, degraded = _reduced(node, last, settings.degrade)
    else:
        terms = _terms(node, node.usage, strategy, reserved)
        target = last = _amounts(node, node.usage, strategy, terms, lowest, batch)
        idle = {resource: reclaimed(each) for resource, each in terms.items()}
        bands["free"] = ReclaimedBand(reclaimed=Resources(cpu=idle.get("cpu"), memory=idle.get("memory")))
    unknown = bool(degraded)
    requested = requested_by_band(node.placement)
    offers = _contested(node) if node.contested else _offers(node, target, requested, settings.offer)
    for band, hours in _hours(settings).items():
        offered = [offers[name].amount / unit for name, unit in zip(RESOURCE_NAMES[band], _UNITS, strict=True)]
        bands[band] = ReclaimedBand(
            reclaimed=Resources() if unknown else _resources(target[band]),
            offered=_resources(np.array(offered)),
            requested=_resources(requested[band]),
            hours=hours,
        )
    unused = not strategy.enabled and not any(each.any() for each in requested.values())
    if node.contested:
        degraded = degraded or f"nothing is written: {CONTESTED}"
    return Evaluated(
        contested=node.contested,
        message=ReclaimedNode(
            node=node.placement.node,
            uid=node.placement.uid,
            evaluated_at=now,
            sampled_at=node.sampled_at,
            terms=terms,
            bands=bands,
            highest=dict(published(node.highest)),
            degraded=degraded,
            epoch=0,
            sequence=0,
        ),
        last=last,
        amounts={name: None if unused else each.amount for name, each in offers.items()},
        due=not node.contested
        and (
            node.inconsistent
            or (any(name in node.existing for name in offers) if unused else any(each.due for each in offers.values()))
        ),
        shrinks=any(each.amount < node.existing.get(name, 0) for name, each in offers.items()),
    )


def _offers(node: ObservedNode, target: Amounts, requested: Amounts, settings: OfferSettings) -> dict[str, Offer]:
    """The offers by resource name. Where nothing is known of the capacity, what the status contains stays."""
    offers, running = {}, requested_by_band(node.placement, running=True)
    capacity = amounts(node.placement.capacity)
    for band in OFFERED_BANDS:
        for row, name in enumerate(RESOURCE_NAMES[band]):
            unit, existing = _UNITS[row], node.existing.get(name)
            # 8.05 cores are 8050.000000000001 milli-cores.
            in_use, bound = (round(float(each[band][row]) * unit, 3) for each in (running, requested))
            needed = requested_amount(existing=existing, running=in_use, bound=bound)
            amount = float(target[band][row]) * unit
            if existing is None and not amount and not needed:
                offers[name] = Offer(amount=0, due=False)
            elif math.isfinite(capacity[row]) and math.isfinite(amount):
                offers[name] = offer(
                    existing=existing,
                    reclaimed=amount,
                    requested=needed,
                    capacity=capacity[row] * unit,
                    since_write=node.since_write,
                    settings=settings,
                )
            else:
                offers[name] = Offer(amount=max(existing or 0, math.ceil(needed)), due=False)
    return offers


def _contested(node: ObservedNode) -> dict[str, Offer]:
    """What the status contains, whoever wrote it."""
    return {name: Offer(amount=node.existing.get(name, 0), due=False) for name in OFFERED_NAMES}


def _terms(
    node: ObservedNode, usage: NodeUsage, strategy: ReclaimStrategy, reserved: Array
) -> dict[str, ReclaimedTerms]:
    """The terms of the resources whose capacity is known."""
    thresholds = (strategy.cpu_threshold, strategy.memory_threshold)
    policies = (strategy.cpu_policy, strategy.memory_policy)
    capacity = amounts(node.placement.capacity)
    return {
        resource: _bounded(
            resource,
            terms_of(
                capacity=capacity[row],
                threshold=thresholds[row],
                system=float(usage.system[row]),
                reserved=float(reserved[row]),
                pods=HighPriorityPods(
                    requests=usage.requests[row],
                    usage=usage.usage[row],
                    exclusive=usage.exclusive if resource == "cpu" else np.zeros_like(usage.exclusive),
                    unplaced=float(usage.unplaced[row]),
                ),
                policy=policies[row],
            ),
        )
        for row, resource in enumerate(RESOURCES)
        if math.isfinite(capacity[row])
    }


def _bounded(resource: str, terms: ReclaimedTerms) -> ReclaimedTerms:
    """All pods of a node may request more than any machine has."""
    return msgspec.structs.replace(terms, high_priority=bounded(resource, terms.high_priority))


def _amounts(
    node: ObservedNode,
    usage: NodeUsage,
    strategy: ReclaimStrategy,
    terms: Mapping[str, ReclaimedTerms],
    lowest: Amounts,
    batch: Array,
) -> Amounts:
    """Mid counts before batch. Neither is more than what is idle now, which a forecast may exceed."""
    target = {band: np.full(len(RESOURCES), np.nan) for band in OFFERED_BANDS}
    batch_caps = (strategy.batch_cpu_cap, strategy.batch_memory_cap)
    mid_caps = (strategy.mid_cpu_cap, strategy.mid_memory_cap)
    third_party = {band: _or_zero(node.placement.colocation.third_party.get(band, _UNKNOWN)) for band in OFFERED_BANDS}
    for row, resource in enumerate(RESOURCES):
        if resource not in terms:
            continue
        resource_terms = terms[resource]
        # The terms contain the mid pods, whose amounts are part of the band mid.
        idle, mid = reclaimed(resource_terms), float(usage.mid[row])
        of_mid = mid_amount(
            lowest=min(float(lowest["mid"][row]), idle + mid),
            capacity=resource_terms.capacity,
            node_usage=float(usage.used[row]),
            cap=mid_caps[row],
        )
        target["mid"][row] = max(0.0, of_mid - third_party["mid"][row])
        now = reclaimed(resource_terms, cap=batch_caps[row], taken=third_party["batch"][row])
        if math.isnan(lasts := float(batch[row])):
            lasts = max(0.0, float(lowest["batch"][row]) - mid - third_party["batch"][row])
        target["batch"][row] = min(now, lasts)
    return target


def _reduced(node: ObservedNode, last: Amounts, settings: DegradeSettings) -> tuple[Amounts, str]:
    """A part of the last known amounts, smaller with the age of the newest sample."""
    share = share_kept(node.age, settings)
    why = f"its newest sample is {node.age:.0f} s old" if node.sampled_at else "the node has not been measured"
    effect = "the amounts stay" if share == 1.0 else f"{share:.0%} of the last known amounts are offered"
    return {band: amount * share for band, amount in last.items()}, f"{why}: {effect}"


def _existing(node: ObservedNode) -> Amounts:
    return {
        band: np.array([node.existing.get(name, 0) for name in RESOURCE_NAMES[band]]) / _UNITS for band in OFFERED_BANDS
    }


def _nothing() -> Amounts:
    return {band: np.zeros(len(RESOURCES)) for band in OFFERED_BANDS}


def _resources(values: Array) -> Resources:
    cpu, memory = (None if math.isnan(value) else value for value in values.tolist())
    return bounded_resources(cpu=cpu, memory=memory)
