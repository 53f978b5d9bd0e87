"""The plugins that choose pods by load, as strategies of Equipoise."""

from typing import Any

import msgspec

from equipoise.cli.foreign_configuration.schema import (
    AnomalyCondition,
    HighNodeUtilizationArgs,
    LowNodeLoadArgs,
    LowNodeUtilizationArgs,
    MetricsUtilization,
    NamespaceLists,
    PoolArgs,
)
from equipoise.cli.foreign_configuration.thresholds import limit_production, pair_of, percentage, translated_pair
from equipoise.cli.foreign_configuration.translation import Setting, Translation, member, number
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import MIN_GAP, THRESHOLD_RESOURCES, Thresholds
from equipoise.descheduler.decisions.planning.pools import Selector
from equipoise.descheduler.decisions.strategies.bin_pack import BinPack

ALWAYS_FITS = "a pod is moved only if it fits on another node, and this cannot be turned off"
STAYS_DRY_RUN = "evictions are dry runs: set binder.evict to true when `equipoise plan` shows what you want"
DEFAULT_THRESHOLDS = "no threshold is left: low_node_load has the default ones (section thresholds)"
_WHY_NOT_ADDED = {
    True: "one strategy of a kind is possible: give its nodes a pool of the first one (low_node_load.pools)",
    False: "bin_pack would empty the nodes that low_node_load fills: give each a nodeSelector with another value",
}
"""Why a strategy is not added, by whether the existing one is of the same kind."""


def _added(to: Translation, name: str, path: str) -> dict[str, Any] | None:
    """A new strategy; None, with a remark, if there is one already."""
    if to.strategies:
        to.lost(path, None, _WHY_NOT_ADDED[to.strategy(name) is not None])
        return None
    strategy: dict[str, Any] = {"name": name}
    to.strategies.append(strategy)
    return strategy


def selector_settings(selector: Selector) -> dict[str, Any]:
    """The selector as in the configuration."""
    settings: dict[str, Any] = {}
    if selector.match_labels:
        settings["matchLabels"] = selector.match_labels
    if selector.match_expressions:
        settings["matchExpressions"] = [
            {"key": rule.key, "operator": rule.operator, **({"values": list(rule.values)} if rule.values else {})}
            for rule in selector.match_expressions
        ]
    return settings


def low_node_load(to: Translation, args: LowNodeLoadArgs, path: str) -> None:
    """LowNodeLoad of Koordinator."""
    strategy = _added(to, "low_node_load", path)
    if strategy is None:
        return
    to.fields(args, path, {"paused": "leave the strategy out, or run `equipoise pause`"})
    if args.dry_run is False:
        to.remark("note", f"{path}.dryRun", False, STAYS_DRY_RUN)
    if args.node_selector is not None:
        strategy["nodeSelector"] = Setting(value=selector_settings(args.node_selector), origin=f"{path}.nodeSelector")
    if not _thresholds(to, args, path, strategy, in_pool=False) and not args.node_pools:
        to.lost(f"{path}.highThresholds", args.high_thresholds, DEFAULT_THRESHOLDS)
    if args.number_of_nodes is not None or args.use_deviation_thresholds:
        _number_of_nodes(args.number_of_nodes, path, strategy)
    if args.pod_selectors:
        strategy["podSelectors"] = Setting(
            value=[
                {
                    "name": pod_selector.name or f"podSelectors[{index}]",
                    "selector": selector_settings(pod_selector.selector or Selector()),
                }
                for index, pod_selector in enumerate(args.pod_selectors)
            ],
            origin=f"{path}.podSelectors",
        )
    _weights(to, args, path, strategy)
    _anomaly(to, args.anomaly_condition, path, in_pool=False)
    if args.node_fit is False:
        to.lost(f"{path}.nodeFit", False, ALWAYS_FITS)
    reason = "a count of hot evaluations is kept for 5 minutes, or 2.5 intervals if that is longer"
    to.fields(args, path, {"detector_cache_timeout": reason})
    if args.node_metric_expiration_seconds is not None:
        seconds = args.node_metric_expiration_seconds
        if 0 < seconds <= 86_400:
            to.set("load.freshness.eviction", str(Duration(seconds)), f"{path}.nodeMetricExpirationSeconds")
        else:
            to.lost(f"{path}.nodeMetricExpirationSeconds", seconds, "load.freshness.eviction keeps its default")
    namespaces(to, args.evictable_namespaces, f"{path}.evictableNamespaces")
    _pools(to, args, path, strategy)


def _pools(to: Translation, args: LowNodeLoadArgs, path: str, strategy: dict[str, Any]) -> None:
    pools: list[dict[str, Any]] = []
    names: set[str] = set()
    for index, pool in enumerate(args.node_pools or ()):
        pool_path = f"{path}.nodePools[{index}]"
        name = pool.name or f"pool-{index + 1}"
        if name in names:
            to.lost(f"{pool_path}.name", name, "a pool before it has this name")
            continue
        names.add(name)
        selector = selector_settings(pool.node_selector or Selector())
        settings: dict[str, Any] = {
            "name": Setting(value=name, origin=f"{pool_path}.name"),
            "nodeSelector": Setting(value=selector, origin=f"{pool_path}.nodeSelector"),
        }
        _thresholds(to, _with_inherited(pool, args), pool_path, settings, in_pool=True)
        if args.use_deviation_thresholds and pool.use_deviation_thresholds is False:
            settings["deviation"] = Setting(value="off", origin=f"{pool_path}.useDeviationThresholds")
        _weights(to, pool, pool_path, settings)
        _anomaly(to, pool.anomaly_condition, pool_path, in_pool=True)
        pools.append(settings)
    if pools:
        strategy["pools"] = pools
        reason = (
            "a node belongs to the first pool that selects it, and only the nodes of no pool to the strategy itself"
        )
        to.remark("note", f"{path}.nodePools", len(pools), reason)


def _with_inherited(pool: PoolArgs, strategy: LowNodeLoadArgs) -> PoolArgs:
    """The pool, with null thresholds replaced by those of the strategy. If all are null, none is replaced."""
    names = ("high_thresholds", "low_thresholds", "prod_high_thresholds", "prod_low_thresholds")
    if all(getattr(pool, name) is None for name in names):
        return pool
    inherited = {name: getattr(strategy, name) for name in (*names, "use_deviation_thresholds")}
    own = {name: value for name in inherited if (value := getattr(pool, name)) is not None}
    changed: PoolArgs = msgspec.structs.replace(pool, **(inherited | own))
    return changed


def _thresholds(to: Translation, args: PoolArgs, path: str, strategy: dict[str, Any], *, in_pool: bool) -> bool:
    """Sets the thresholds of the strategy or of a pool; False if there are none."""
    deviation = args.use_deviation_thresholds
    low, high = translated_pair(to, pair_of(args, path, "low_thresholds", "high_thresholds", deviation=deviation))
    production = pair_of(args, path, "prod_low_thresholds", "prod_high_thresholds", deviation=deviation)
    prod_low, prod_high = translated_pair(to, production)
    if not deviation:
        limit_production(to, high, prod_high, prod_low)
    thresholds = {"low": low, "high": high} if high else {}
    thresholds |= {"prodLow": prod_low, "prodHigh": prod_high} if prod_high else {}
    if deviation:
        _deviation(to, thresholds, path, strategy)
    elif thresholds and not in_pool:
        to.settings.setdefault("thresholds", {}).update(thresholds)
    else:
        strategy.update(thresholds)
    return bool(thresholds)


def _deviation(to: Translation, distances: dict[str, Any], path: str, strategy: dict[str, Any]) -> None:
    """Sets distances from the mean, if there are any, instead of thresholds."""
    if distances:
        floor = Setting(value=0, origin=f"{path}.useDeviationThresholds")
        strategy["deviation"] = {"high": {}, "low": {}} | dict(sorted(distances.items())) | {"floor": floor}
        reason = "a resource without a distance has the threshold of the section `thresholds`"
        to.remark("note", f"{path}.useDeviationThresholds", True, reason)


def _number_of_nodes(number_of_nodes: int | None, path: str, strategy: dict[str, Any]) -> None:
    strategy["numberOfNodes"] = Setting(value=max(number_of_nodes or 0, 0), origin=f"{path}.numberOfNodes")


def _weights(to: Translation, args: PoolArgs, path: str, strategy: dict[str, Any]) -> None:
    weights: dict[str, Any] = {}
    for resource, weight in (args.resource_weights or {}).items():
        origin = member(f"{path}.resourceWeights", resource)
        if resource in THRESHOLD_RESOURCES:
            weights[resource] = Setting(value=max(weight, 1), origin=origin)
        else:
            to.lost(origin, weight, "only cpu, memory and pods are compared")
    if weights:
        strategy["weights"] = weights


def _anomaly(to: Translation, condition: AnomalyCondition | None, path: str, *, in_pool: bool) -> None:
    if condition is None:
        return
    path, count = f"{path}.anomalyCondition", condition.consecutive_abnormalities
    if count and in_pool:
        to.lost(f"{path}.consecutiveAbnormalities", count, "descheduler.consecutiveAbnormalities is one for all pools")
    elif count:
        to.set("descheduler.consecutiveAbnormalities", count, f"{path}.consecutiveAbnormalities")
    reasons = {
        "timeout": "a node counts as hot until an evaluation finds it below its thresholds",
        "consecutive_normalities": "one normal evaluation ends the count",
    }
    to.fields(condition, path, reasons)


def low_node_utilization(to: Translation, args: LowNodeUtilizationArgs, path: str) -> None:
    """LowNodeUtilization of sigs.k8s.io/descheduler."""
    strategy = _added(to, "low_node_load", path)
    if strategy is None:
        return
    deviation = args.use_deviation_thresholds
    low, high = translated_pair(to, pair_of(args, path, "thresholds", "target_thresholds", deviation=deviation))
    if high and deviation:
        _deviation(to, {"high": high, "low": low}, path, strategy)
    elif high:
        to.settings.setdefault("thresholds", {}).update({"low": low, "high": high})
    else:
        to.lost(f"{path}.thresholds", args.thresholds, DEFAULT_THRESHOLDS)
    if args.number_of_nodes is not None or deviation:
        _number_of_nodes(args.number_of_nodes, path, strategy)
    _metrics(to, args.metrics_utilization, f"{path}.metricsUtilization")
    namespaces(to, args.evictable_namespaces, f"{path}.evictableNamespaces")
    if (limits := args.eviction_limits) is not None:
        if limits.node is not None:
            per_node(to, limits.node, f"{path}.evictionLimits.node")
        to.fields(limits, f"{path}.evictionLimits", {"namespace": "see binder.limits.evictionsPerNamespace"})


def _metrics(to: Translation, metrics: MetricsUtilization | None, path: str) -> None:
    source = None if metrics is None else metrics.source or ("KubernetesMetrics" if metrics.metrics_server else None)
    if source is None:
        reason = "the thresholds were compared with what pods request; Equipoise compares what they use"
        to.remark("note", path, None, reason)
    elif source == "KubernetesMetrics":
        origin = f"{path}.{'source' if metrics is not None and metrics.source else 'metricsServer'}"
        to.set("collector.source", "metrics-server", origin)
    elif source == "Prometheus":
        to.set("collector.source", "prometheus", f"{path}.source")
    else:
        to.lost(f"{path}.source", source, "collector.source is prometheus, metrics-server or load-watcher")
    if metrics is not None and metrics.prometheus is not None:
        reason = (
            "usage of nodes and pods is measured with the queries of collector.prometheus.profile (docs/metrics.md)"
        )
        to.fields(metrics.prometheus, f"{path}.prometheus", {"query": reason})


def high_node_utilization(to: Translation, args: HighNodeUtilizationArgs, path: str) -> None:
    """HighNodeUtilization of sigs.k8s.io/descheduler."""
    strategy = _added(to, "bin_pack", path)
    if strategy is None:
        return
    thresholds: dict[str, Any] = {}
    high = Thresholds().high
    for resource, threshold in (args.thresholds or {}).items():
        origin, value = member(f"{path}.thresholds", resource), percentage(threshold)
        if value is None or resource not in THRESHOLD_RESOURCES:
            to.lost(origin, value, "only cpu, memory and pods have thresholds")
            continue
        resource_high = getattr(high, resource)
        most = 100.0 if resource_high is None else resource_high - BinPack().headroom - MIN_GAP
        if value > most:
            reason = f"{most:g}: a node is filled up to thresholds.high less the headroom, and must not be sparse then"
            to.remark("changed", origin, value, reason)
        thresholds[resource] = Setting(value=number(min(value, most)), origin=origin)
    if thresholds:
        strategy["thresholds"] = thresholds
    else:
        to.lost(f"{path}.thresholds", args.thresholds, "bin_pack has its default thresholds")
    if args.number_of_nodes is not None:
        _number_of_nodes(args.number_of_nodes, path, strategy)
    to.set("scorer.neutral", True, path)
    reason = "as there, it needs kube-scheduler's MostAllocated, or new pods fill the emptied nodes again"
    to.remark("note", path, "HighNodeUtilization", reason)
    to.fields(args, path, {"eviction_modes": "a node is emptied only if all of its pods can move"})
    if args.metrics_utilization is not None:
        _metrics(to, args.metrics_utilization, f"{path}.metricsUtilization")
    namespaces(to, args.evictable_namespaces, f"{path}.evictableNamespaces")


def namespaces(to: Translation, lists: NamespaceLists | None, path: str) -> None:
    """The namespaces whose pods may be evicted. Those of a strategy and of an evictor both apply."""
    if lists is None:
        return
    if lists.include and lists.exclude:
        to.lost(f"{path}.exclude", list(lists.exclude), "only one of include and exclude can be set")
    name = "include" if lists.include else "exclude"
    listed = list(getattr(lists, name) or ())
    if not listed:
        return
    new = {name: Setting(value=listed, origin=f"{path}.{name}")}
    section = to.settings.setdefault("namespaces", new)
    strategy = to.strategy("low_node_load")
    if name in section and section[name].value == listed:
        return
    if strategy is not None and "namespaces" not in strategy:
        strategy["namespaces"] = new
    else:
        to.lost(f"{path}.{name}", listed, "namespaces are given already, by another plugin")


def per_node(to: Translation, most: int, path: str) -> None:
    """How many pods may leave a node."""
    if most >= 1:
        to.set_lowest("descheduler.maxIntentsPerNode", most, path)
    else:
        to.set_lowest("binder.limits.migratingPerNode.max", 0, path)
