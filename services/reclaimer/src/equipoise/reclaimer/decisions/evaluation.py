"""Decides what each node offers now: the amounts of its bands, the amounts that its status should contain, and why."""

import math
from collections.abc import Mapping, Sequence

import msgspec

from equipoise.contracts.bounds import bounded
from equipoise.contracts.colocation.bands import OFFERED_BANDS, OFFERED_NAMES, RESOURCE_NAMES, Band
from equipoise.contracts.load.correction import RESOURCES, amounts
from equipoise.contracts.messages.reclaimed import ReclaimedBand, ReclaimedNode, ReclaimedTerms
from equipoise.contracts.messages.values.resources import Resources, bounded_resources
from equipoise.contracts.numeric import Array, np
from equipoise.reclaimer.decisions.degradation import DegradeSettings, share_kept
from equipoise.reclaimer.decisions.formula import HighPriorityPods, mid_amount, reclaimed, terms_of
from equipoise.reclaimer.decisions.node_forecast import (
    NodeForecast,
    ReclaimNode,
    band_hours,
    forecast_nodes,
    reserved_amounts,
    third_party_amount,
)
from equipoise.reclaimer.decisions.offer import Offer, OfferSettings, offer, requested_amount
from equipoise.reclaimer.decisions.strategy import (
    ForecastSettings,
    ReclaimPool,
    ReclaimStrategy,
    StrategyOverride,
    strategy_of,
)
from equipoise.reclaimer.state.hourly_worst import PublishedDay, published
from equipoise.reclaimer.state.node_usage import NodeUsage
from equipoise.reclaimer.state.observed_node import Amounts, ObservedNode
from equipoise.reclaimer.state.status_changes import QUIET_PERIOD

_UNITS = (1_000.0, 1.0)
"""The factors by resource: cores to milli-cores, bytes to bytes."""

DISABLED = "its strategy offers nothing"
"""The value of `degraded` for a node that should offer nothing."""


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
    """The publisher sets its epoch and sequence."""

    last: Amounts
    """The last known amounts. The next evaluation offers a part of them if the node is not measured until then."""

    amounts: Mapping[str, int | None]
    """The amounts that its status should contain, by resource name. None: the status should not contain the name."""

    due: bool
    """Whether the amounts are written now."""

    contested: bool = False
    """Whether another program writes the same names. If so, nothing is written, and the amounts in the status are
    offered."""

    shrinks: bool
    """Whether an amount becomes smaller: such a write must not wait for writes that only increase amounts."""


def evaluate(
    nodes: Sequence[ObservedNode], settings: ReclaimEvaluation, *, max_age: float, now: float
) -> list[Evaluated]:
    """The decision about each node. `max_age`: seconds for which a sample counts as current."""
    reclaim_nodes = [
        ReclaimNode(
            observed=node,
            strategy=strategy_of(
                node.placement.node, node.placement.labels, settings.strategy, settings.pools, settings.nodes
            ),
            reserved=reserved,
        )
        for node, reserved in zip(nodes, reserved_amounts([node.placement for node in nodes]), strict=True)
    ]
    forecasts = forecast_nodes(reclaim_nodes, settings.forecast, now)
    highest = published([node.highest for node in nodes])
    return [
        _evaluate(node, forecast, day, settings, max_age=max_age, now=now)
        for node, forecast, day in zip(reclaim_nodes, forecasts, highest, strict=True)
    ]


def _evaluate(
    reclaim_node: ReclaimNode,
    forecast: NodeForecast,
    highest: PublishedDay,
    settings: ReclaimEvaluation,
    *,
    max_age: float,
    now: float,
) -> Evaluated:
    node, strategy = reclaim_node.observed, reclaim_node.strategy
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
        terms = _terms(node, node.usage, strategy, reclaim_node.reserved)
        target = last = _amounts(node, node.usage, strategy, terms, forecast)
        idle = {resource: reclaimed(resource_terms) for resource, resource_terms in terms.items()}
        bands["free"] = ReclaimedBand(reclaimed=Resources(cpu=idle.get("cpu"), memory=idle.get("memory")))
    unknown = bool(degraded)
    offers = _contested(node) if node.contested else _offers(node, target, settings.offer)
    for band, hours in band_hours(settings.forecast).items():
        offered = [offers[name].amount / unit for name, unit in zip(RESOURCE_NAMES[band], _UNITS, strict=True)]
        bands[band] = ReclaimedBand(
            reclaimed=Resources() if unknown else _resources(target[band].tolist()),
            offered=_resources(offered),
            requested=_resources(node.requests.bound[band]),
            hours=hours,
        )
    unused = not strategy.enabled and not any(map(any, node.requests.bound.values()))
    if unused:  # all amounts are removed
        must_change = any(name in node.existing for name in offers)
    else:
        must_change = any(offered.due for offered in offers.values())
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
            highest=highest,
            degraded=degraded,
            epoch=0,
            sequence=0,
        ),
        last=last,
        amounts={name: None if unused else offered.amount for name, offered in offers.items()},
        due=not node.contested and (node.inconsistent or must_change),
        shrinks=any(offered.amount < node.existing.get(name, 0) for name, offered in offers.items()),
    )


def _offers(node: ObservedNode, target: Amounts, settings: OfferSettings) -> dict[str, Offer]:
    """The offers by resource name. If the capacity is unknown, the amounts in the status stay."""
    offers = {}
    capacity, requests = amounts(node.placement.capacity), node.requests
    for band in OFFERED_BANDS:
        targets, bound, running = target[band].tolist(), requests.bound[band], requests.running[band]
        for row, name in enumerate(RESOURCE_NAMES[band]):
            unit, existing = _UNITS[row], node.existing.get(name)
            # 8.05 cores are 8050.000000000001 milli-cores.
            in_use, needed = round(running[row] * unit, 3), round(bound[row] * unit, 3)
            needed = requested_amount(existing=existing, running=in_use, bound=needed)
            amount = targets[row] * unit
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
    """The amounts that the status contains, whoever wrote them."""
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
    """The terms with requests of at most what a machine can have: all pods of a node may request more."""
    return msgspec.structs.replace(terms, high_priority=bounded(resource, terms.high_priority))


def _amounts(
    node: ObservedNode,
    usage: NodeUsage,
    strategy: ReclaimStrategy,
    terms: Mapping[str, ReclaimedTerms],
    forecast: NodeForecast,
) -> Amounts:
    """The amounts of the bands. Mid is subtracted before batch. Both are limited to what is idle now, which a forecast
    may exceed.
    """
    target = {band: np.full(len(RESOURCES), np.nan) for band in OFFERED_BANDS}
    batch_caps = (strategy.batch_cpu_cap, strategy.batch_memory_cap)
    mid_caps = (strategy.mid_cpu_cap, strategy.mid_memory_cap)
    third_party = {band: third_party_amount(node.placement, band) for band in OFFERED_BANDS}
    for row, resource in enumerate(RESOURCES):
        if resource not in terms:
            continue
        resource_terms = terms[resource]
        # The terms contain the mid pods, whose amounts are part of the band mid.
        idle, mid = reclaimed(resource_terms), float(usage.mid[row])
        of_mid = mid_amount(
            lowest=min(float(forecast.lowest["mid"][row]), idle + mid),
            capacity=resource_terms.capacity,
            node_usage=float(usage.used[row]),
            cap=mid_caps[row],
        )
        target["mid"][row] = max(0.0, of_mid - third_party["mid"][row])
        now = reclaimed(resource_terms, cap=batch_caps[row], taken=third_party["batch"][row])
        # Without known errors of earlier forecasts, the forecast is the lowest amount of the hours.
        if math.isnan(lasts := float(forecast.lasting_batch[row])):
            lasts = max(0.0, float(forecast.lowest["batch"][row]) - mid - third_party["batch"][row])
        target["batch"][row] = min(now, lasts)
    return target


def _reduced(node: ObservedNode, last: Amounts, settings: DegradeSettings) -> tuple[Amounts, str]:
    """The part of the last known amounts that is still offered, which shrinks with the age of the newest sample, and
    why."""
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


def _resources(values: Sequence[float]) -> Resources:
    cpu, memory = values
    return bounded_resources(cpu=None if math.isnan(cpu) else cpu, memory=None if math.isnan(memory) else memory)
