"""Settings of different services that conflict.

For example, the scorer would fill nodes that the descheduler empties, or the binder would reject every intent.

No service may start with a conflict, but each validates only its own section. So settings are read from the document
before validation. Invalid values are ignored: the service that owns the section reports them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import (
    MIN_GAP,
    THRESHOLD_RESOURCES,
    LoadSettings,
    ResourceThresholds,
    Thresholds,
    too_close,
)
from equipoise.contracts.load.metric_rule import FIXED_METRICS

PACKING_TARGET = 40.0
"""The default of `target_load_packing.targetUtilization`. A test keeps them equal."""

HEADROOM = 10.0
SPARSE = ResourceThresholds(cpu=20, memory=20)
"""The defaults of `bin_pack.headroom` and `bin_pack.thresholds`."""

DYNAMIC = ResourceThresholds(cpu=65, memory=65)
"""The strictest default of `dynamic.predicates`."""

INTENT_LIFETIME, MAX_INTENT_LIFETIME = "3m", "15m"
"""The defaults of `descheduler.intentLifetime` and `binder.maxIntentLifetime`."""

WINDOWS = tuple(window.name for window in LoadSettings().windows)
"""The default of `load.windows`."""

FILTERED = ("cpu", "memory")
"""The resources with thresholds that the filter checks. kube-scheduler itself counts pods."""

Section = Mapping[str, Any]


class EmptyingRule(msgspec.Struct, frozen=True, kw_only=True):
    """A strategy (or pool) that evicts pods from nodes above a load."""

    path: str
    """The path of the strategy or pool in the configuration."""

    thresholds: Thresholds
    relative: bool
    """The CPU threshold is relative to the mean of nodes, so no fixed load is always below it."""


class FilterLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The value of one metric up to which the filter accepts a node."""

    path: str
    kind: Literal["high", "prodHigh"]
    metric: str
    max_load: float


class EmptiedAbove(msgspec.Struct, frozen=True, kw_only=True):
    """The value of one metric above which a strategy (or pool) evicts pods from a node."""

    path: str
    setting: str
    """The threshold, as a message names it."""

    kind: Literal["high", "prodHigh"]
    metric: str
    threshold: float


def configuration_conflicts(document: Mapping[str, Any], thresholds: Thresholds) -> list[str]:
    """One line per conflict: the setting, the conflict, and the change that resolves it.

    `thresholds` is the validated section of the document.
    """
    strategies = _strategies(_mapping(document.get("descheduler")), _mapping(document.get("moves")))
    scorer = _mapping(document.get("scorer"))
    emptyings: list[EmptyingRule] = []
    faults: list[str] = []
    for path, strategy in strategies:
        if strategy.get("name") == "low_node_load":
            of_strategy, wrong = _emptyings(path, strategy, thresholds)
            emptyings += of_strategy
            faults += wrong
        elif strategy.get("name") == "level_day":
            emptyings.append(EmptyingRule(path=path, thresholds=thresholds, relative=True))
    emptied = [
        *(limit for emptying in emptyings for limit in _emptied_above_thresholds(emptying)),
        *(limit for path, strategy in strategies for limit in _emptied_by_rules(path, strategy)),
    ]
    faults += _filter_faults(scorer, emptied, thresholds)
    faults += _packing_faults(scorer, emptyings, emptied)
    faults += _lifetime_faults(_mapping(document.get("descheduler")), _mapping(document.get("binder")))
    faults += _pressure_faults(_mapping(document.get("descheduler")), thresholds)
    faults += _metric_faults(_mapping(document.get("load")), scorer, strategies)
    faults += _resource_faults(_mapping(document.get("load")), thresholds)
    faults += _window_faults(_mapping(document.get("load")), strategies)
    for path, strategy in strategies:
        if strategy.get("name") == "bin_pack":
            faults += _bin_pack_faults(path, strategy, scorer, thresholds)
        faults += _idle_rule_faults(path, strategy, scorer)
        faults += _opposed_strategies(path, strategy, strategies)
        faults += _rules_below_thresholds(path, strategy, strategies, emptyings, thresholds)
    return faults


def _lifetime_faults(descheduler: Section, binder: Section) -> Iterator[str]:
    try:
        lifetime = Duration.parse(descheduler.get("intentLifetime", INTENT_LIFETIME))
        longest = Duration.parse(binder.get("maxIntentLifetime", MAX_INTENT_LIFETIME))
    except ValueError:
        return
    if lifetime > longest:
        yield (
            f"descheduler.intentLifetime: {lifetime} is longer than binder.maxIntentLifetime ({longest}), so every "
            "intent would be rejected: raise binder.maxIntentLifetime"
        )


def _pressure_faults(descheduler: Section, thresholds: Thresholds) -> Iterator[str]:
    """The setting has no effect without a threshold, because no pressure is low then."""
    pressure = thresholds.pressure
    if descheduler.get("requirePressure") is True and pressure.cpu is None and pressure.memory is None:
        yield (
            "descheduler.requirePressure: thresholds.pressure has no threshold for cpu, so it has no effect: set "
            "thresholds.pressure.cpu, the percentage of time above which waiting for CPU is too much"
        )


def _window_faults(load: Section, strategies: Sequence[tuple[str, Section]]) -> Iterator[str]:
    """The load in a window that is not measured is always unknown, so that its strategy would never evict a pod."""
    names = [window.get("name") for window in _list(load.get("windows"))] or list(WINDOWS)
    for path, strategy in strategies:
        windows = strategy.get("windows")
        for window in windows if isinstance(windows, list | tuple) else ():
            if window not in names:
                yield f"{path}.windows: {window} is not measured: load.windows has {', '.join(map(str, names))}"


# Nodes that the descheduler empties


def _strategies(descheduler: Section, moves: Section) -> list[tuple[str, Section]]:
    value = descheduler.get("strategies")
    if value is None:
        names = ("low_node_load", "level_day") if moves.get("level") == "levelDay" else ("low_node_load",)
        value = [{"name": name} for name in names]
    listed = value if isinstance(value, list | tuple) else []
    return [
        (f"descheduler.strategies[{index}]", entry) for index, entry in enumerate(listed) if isinstance(entry, Mapping)
    ]


def _emptyings(path: str, strategy: Section, shared: Thresholds) -> tuple[list[EmptyingRule], list[str]]:
    deviation = strategy.get("deviation")
    rules, faults = [EmptyingRule(path=path, thresholds=shared, relative=_is_relative(deviation))], []
    for index, pool in enumerate(_list(strategy.get("pools"))):
        pool_path = f"{path}.pools[{index}]"
        try:
            thresholds = pool_thresholds(pool, shared)
        except ValueError as error:
            faults.append(f"{pool_path}: {error}; the pool inherits from thresholds what it does not set")
            continue
        own = pool.get("deviation")
        relative = _is_relative(deviation if own is None else own)
        rules.append(EmptyingRule(path=pool_path, thresholds=thresholds, relative=relative))
    return rules, faults


def pool_thresholds(pool: Section, shared: Thresholds) -> Thresholds:
    """The thresholds of a pool, with the shared ones where it has none. Raises ValueError."""
    names = {"high": "high", "low": "low", "prodHigh": "prod_high", "prodLow": "prod_low"}
    own = {name: _thresholds(pool[key]) for key, name in names.items() if pool.get(key) is not None}
    merged: Thresholds = msgspec.structs.replace(shared, **own)
    return merged


def _is_relative(deviation: object) -> bool:
    """Whether the CPU threshold is relative to the mean. A `deviation` without `high` makes it relative."""
    if not isinstance(deviation, Mapping):
        return False
    return _thresholds(deviation.get("high", {"cpu": 8})).cpu is not None


# Nodes that the scorer fills


def _filter_faults(scorer: Section, emptied: Sequence[EmptiedAbove], shared: Thresholds) -> Iterator[str]:
    """The filter must refuse the nodes that are emptied, or evicted pods return to them at once."""
    if _mapping(scorer.get("extender")).get("filter") is not True:
        return
    for limit in _strictest(_filter_limits(scorer, shared)):
        for other in emptied:
            if (other.kind, other.metric) == (limit.kind, limit.metric) and limit.max_load > other.threshold:
                yield (
                    f"{limit.path}: the filter accepts nodes up to {limit.max_load:g}%, and {other.path} evicts pods "
                    f"above {other.setting} {other.threshold:g}%: lower the first to {other.threshold:g}, raise the "
                    f"second to {limit.max_load:g}, or set scorer.extender.filter: false"
                )


def _emptied_above_thresholds(emptying: EmptyingRule) -> Iterator[EmptiedAbove]:
    own = emptying.thresholds
    kinds: tuple[tuple[Literal["high", "prodHigh"], ResourceThresholds], ...]
    kinds = (("high", own.high), ("prodHigh", own.prod_high))
    for kind, thresholds in kinds:
        for resource in FILTERED:
            threshold = getattr(thresholds, resource)
            if threshold is not None:
                setting = f"{kind}.{resource}"
                yield EmptiedAbove(path=emptying.path, setting=setting, kind=kind, metric=resource, threshold=threshold)


def _emptied_by_rules(path: str, strategy: Section) -> Iterator[EmptiedAbove]:
    rules = _list(strategy.get("rules")) if strategy.get("name") == "rules" else []
    for metric, target in _upper_targets(rules, strategy.get("match")):
        yield EmptiedAbove(path=f"{path}.rules", setting=metric, kind="high", metric=metric, threshold=target)


def _upper_targets(rules: Sequence[Section], match: object) -> Iterator[tuple[str, float]]:
    """The metric and target of each rule that matches all nodes above its target, whatever the other rules are."""
    for rule in rules if match != "all" or len(rules) == 1 else ():
        metric, target = rule.get("metric"), rule.get("target")
        if rule.get("operator") == "GreaterThan" and isinstance(target, int | float):
            yield str(metric), target


def _strictest(limits: Iterable[FilterLimit]) -> list[FilterLimit]:
    """The lowest limit of each kind and metric, because each policy of a mix may refuse a node."""
    strictest: dict[tuple[str, str], FilterLimit] = {}
    for limit in limits:
        key = (limit.kind, limit.metric)
        if key not in strictest or limit.max_load < strictest[key].max_load:
            strictest[key] = limit
    return list(strictest.values())


def _filter_limits(scorer: Section, shared: Thresholds) -> list[FilterLimit]:
    """The limits of policies that have thresholds of their own; if no policy has any, the shared thresholds."""
    own = [limit for path, policy in _policies(scorer) for limit in _own_limits(path, policy)]
    return own or ([] if scorer.get("neutral") is True else _of_thresholds("thresholds.high", "high", shared.high))


def _own_limits(path: str, policy: Section) -> list[FilterLimit]:
    if policy.get("name") == "dynamic":
        predicates = policy.get("predicates")
        strictest = DYNAMIC if predicates is None else _limits(_list(predicates))
        return _of_thresholds(f"{path}.predicates", "high", strictest)
    if policy.get("name") == "rules":
        return [
            FilterLimit(path=f"{path}.avoid: {metric}", kind="high", metric=metric, max_load=target)
            for metric, target in _upper_targets(_list(policy.get("avoid")), policy.get("match"))
        ]
    if policy.get("name") != "load_aware":
        return []
    aggregated = _thresholds(_mapping(policy.get("aggregated")).get("usageThresholds"))
    limits = _of_thresholds(f"{path}.prodUsageThresholds", "prodHigh", _thresholds(policy.get("prodUsageThresholds")))
    if aggregated != ResourceThresholds():
        return limits + _of_thresholds(f"{path}.aggregated.usageThresholds", "high", aggregated)
    return limits + _of_thresholds(f"{path}.usageThresholds", "high", _thresholds(policy.get("usageThresholds")))


def _of_thresholds(path: str, kind: Literal["high", "prodHigh"], thresholds: ResourceThresholds) -> list[FilterLimit]:
    """The limits of one section. 0 and null mean no limit."""
    limits = ((resource, getattr(thresholds, resource)) for resource in FILTERED)
    return [
        FilterLimit(path=f"{path}.{resource}", kind=kind, metric=resource, max_load=limit)
        for resource, limit in limits
        if limit
    ]


def _limits(predicates: Sequence[Section]) -> ResourceThresholds:
    """The strictest predicate of each resource, because each predicate may refuse a node. 0 means no limit."""
    strictest: dict[str, float] = {}
    for predicate in predicates:
        resource, limit = predicate.get("resource"), predicate.get("limit")
        if resource in FILTERED and isinstance(limit, int | float) and limit > 0:
            strictest[resource] = min(limit, strictest.get(resource, limit))
    return ResourceThresholds(**strictest)


def _packing_faults(
    scorer: Section, emptyings: Sequence[EmptyingRule], emptied: Sequence[EmptiedAbove]
) -> Iterator[str]:
    """target_load_packing fills a node up to its target, whatever the load of other nodes is."""
    levelled = [emptying.path for emptying in emptyings if emptying.relative]
    above = [limit for limit in emptied if (limit.kind, limit.metric) == ("high", "cpu") and limit.path not in levelled]
    for path, policy in _policies(scorer):
        if (target := _packing_target(policy)) is None:
            continue
        for levelling in levelled:
            yield (
                f"{path}: target_load_packing fills some nodes to {target:g}% and leaves others empty, and "
                f"{levelling} levels them: remove its deviation (or the strategy), or use another policy"
            )
        for limit in above:
            if target + MIN_GAP > limit.threshold:
                yield (
                    f"{path}.targetUtilization: nodes are filled to {target:g}%, and {limit.path} empties them "
                    f"above {limit.setting} {limit.threshold:g}%: at least {MIN_GAP:g} points are needed between: "
                    f"lower the first to {limit.threshold - MIN_GAP:g} or raise the second to {target + MIN_GAP:g}"
                )


def _packing_target(policy: Section) -> float | None:
    """The CPU utilization in percent up to which a policy fills nodes; None without a valid one."""
    target = policy.get("targetUtilization", PACKING_TARGET)
    return target if policy.get("name") == "target_load_packing" and isinstance(target, int | float) else None


def _idle_rule_faults(path: str, strategy: Section, scorer: Section) -> Iterator[str]:
    """Rules with LessThan empty nodes that the scorer fills only up to its target."""
    rules = _list(strategy.get("rules")) if _empties_idle_nodes(strategy) and strategy.get("name") == "rules" else []
    for rule in rules:
        limit = rule.get("target")
        is_idle_cpu = rule.get("metric") == "cpu" and rule.get("operator") == "LessThan"
        if not is_idle_cpu or not isinstance(limit, int | float):
            continue
        for policy_path, policy in _policies(scorer):
            target = _packing_target(policy)
            if target is not None and limit + MIN_GAP > target:
                yield (
                    f"{path}.rules: nodes below cpu {limit:g}% are emptied, and {policy_path} fills them to "
                    f"{target:g}% only: lower the first to {target - MIN_GAP:g} or raise targetUtilization to "
                    f"{limit + MIN_GAP:g}"
                )


# bin_pack, which fills and empties nodes


def _bin_pack_faults(path: str, strategy: Section, scorer: Section, shared: Thresholds) -> Iterator[str]:
    sparse = _thresholds(strategy["thresholds"]) if strategy.get("thresholds") is not None else SPARSE
    headroom = strategy.get("headroom", HEADROOM)
    if isinstance(headroom, int | float):
        highs = {name: getattr(shared.high, name) for name in THRESHOLD_RESOURCES}
        filled = ResourceThresholds(**{name: None if high is None else high - headroom for name, high in highs.items()})
        fault = too_close(sparse, filled, low_name="thresholds", high_name=f"thresholds.high − headroom {headroom:g}:")
        if fault:
            yield f"{path}: {fault}"
    if scorer.get("neutral") is True:
        return
    for policy_path, policy in _policies(scorer):
        target = policy.get("targetUtilization", PACKING_TARGET)
        if policy.get("name") != "target_load_packing":
            yield (
                f"{path}: bin_pack empties nodes that {policy_path} ({policy.get('name')}) fills first: set "
                "scorer.policy to target_load_packing, or scorer.neutral: true beside kube-scheduler's MostAllocated"
            )
        elif isinstance(target, int | float) and sparse.cpu is not None and sparse.cpu + MIN_GAP > target:
            yield (
                f"{path}.thresholds.cpu: nodes are sparse up to {sparse.cpu:g}%, {policy_path} fills to {target:g}% "
                f"only: lower the first to {target - MIN_GAP:g} or raise targetUtilization to {sparse.cpu + MIN_GAP:g}"
            )


# Strategies that empty what another one fills


def _opposed_strategies(path: str, strategy: Section, strategies: Sequence[tuple[str, Section]]) -> Iterator[str]:
    """Nodes that are used little are emptied by one strategy, and are the first targets of the others."""
    what = _empties_idle_nodes(strategy)
    for other_path, other in strategies if what else ():
        same = other_path == path or other.get("name") == "bin_pack"
        if not same and not _apart(strategy.get("nodeSelector"), other.get("nodeSelector")):
            yield (
                f"{path}: {what} empties the nodes that {other_path} ({other.get('name')}) fills: keep one of them, "
                "or give each a nodeSelector with matchLabels that name another value of one label"
            )


def _empties_idle_nodes(strategy: Section) -> str:
    """What empties the nodes that are used little; "" if nothing does."""
    if strategy.get("name") == "bin_pack":
        return "bin_pack"
    if strategy.get("name") != "rules":
        return ""
    rules = _list(strategy.get("rules"))
    below = [rule for rule in rules if rule.get("operator") == "LessThan"]
    return "a rule with LessThan" if below and (len(below) == len(rules) or strategy.get("match") != "all") else ""


def _rules_below_thresholds(
    path: str,
    strategy: Section,
    strategies: Sequence[tuple[str, Section]],
    emptyings: Sequence[EmptyingRule],
    shared: Thresholds,
) -> Iterator[str]:
    """Rules with GreaterThan empty nodes that the other strategies fill up to a higher threshold."""
    for emptied in _emptied_by_rules(path, strategy):
        metric, target = emptied.metric, emptied.threshold
        for other_path, other in strategies:
            if other.get("name") in ("rules", "bin_pack") or _apart(
                strategy.get("nodeSelector"), other.get("nodeSelector")
            ):
                continue
            limit_path, limit = _filled_to(other_path, metric, emptyings, shared)
            if limit is not None and target < limit:
                yield (
                    f"{emptied.path}: nodes above {metric} {target:g}% are emptied, and {other_path} "
                    f"({other.get('name')}) fills them up to {limit_path} {limit:g}%: raise the first to {limit:g}, or "
                    "lower the second"
                )


def _filled_to(
    path: str, metric: str, emptyings: Sequence[EmptyingRule], shared: Thresholds
) -> tuple[str, float | None]:
    """The threshold up to which a strategy fills nodes with a metric, and its path; None without a fixed one.

    Of pools, the highest.
    """
    if metric in shared.resources:
        return f"thresholds.resources.{metric}.high", shared.resources[metric].high
    if metric not in FILTERED:
        return "", None
    highest: tuple[str, float | None] = (f"thresholds.high.{metric}", getattr(shared.high, metric))
    for emptying in emptyings:
        own = getattr(emptying.thresholds.high, metric)
        if emptying.path.startswith(f"{path}.pools") and own is not None and own > (highest[1] or 0.0):
            highest = f"{emptying.path}.high.{metric}", own
    return highest


def _resource_faults(load: Section, thresholds: Thresholds) -> Iterator[str]:
    """Thresholds of resources that nothing measures."""
    measured = _mapping(load.get("resources"))
    for name in thresholds.resources:
        if name not in measured:
            known = ", ".join(sorted(measured)) or "none"
            yield (
                f"thresholds.resources.{name}: load.resources measures no {name} (but {known}): add it there, or "
                "remove the threshold"
            )


def _metric_faults(load: Section, scorer: Section, strategies: Sequence[tuple[str, Section]]) -> Iterator[str]:
    """Metrics of policies and of strategies that nothing measures."""
    used: list[tuple[str, object]] = []
    for path, policy in (*_policies(scorer), *strategies):
        if policy.get("name") == "rules":
            used += [(path, rule.get("metric")) for key in ("avoid", "rules") for rule in _list(policy.get(key))]
            used.append((path, _mapping(policy.get("prefer")).get("metric")))
        used += [(path, name) for name in _mapping(policy.get("furtherWeights"))]
    measured = _mapping(load.get("resources"))
    for path, metric in used:
        if isinstance(metric, str) and metric not in (*measured, *FIXED_METRICS):
            known = ", ".join(sorted(measured)) or "none"
            yield f"{path}: load.resources measures no {metric} (but {known}): add it there, or correct the name"


def _apart(left: object, right: object) -> bool:
    """Whether no node can match both selectors, because they require different values of the same label."""
    one, other = (_mapping(_mapping(selector).get("matchLabels")) for selector in (left, right))
    return any(key in other and other[key] != value for key, value in one.items())


# Plain values


def _policies(scorer: Section) -> list[tuple[str, Section]]:
    """The policies with their paths: one policy, or those of a mix. The default policy has no thresholds."""
    policy = _mapping(scorer.get("policy")) or {"name": "profile"}
    if scorer.get("neutral") is True:
        return []
    if policy.get("name") != "mix":
        return [("scorer.policy", policy)]
    return [
        (f"scorer.policy.parts[{index}].policy", _mapping(part.get("policy")))
        for index, part in enumerate(_list(policy.get("parts")))
    ]


def _mapping(value: object) -> Section:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Section]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list | tuple) else []


def _thresholds(value: object) -> ResourceThresholds:
    values = _mapping(value)
    return ResourceThresholds(
        **{name: float(percent) for name in THRESHOLD_RESOURCES if isinstance(percent := values.get(name), int | float)}
    )
