"""koord-descheduler's configuration, and both versions of the policy of sigs.k8s.io/descheduler, as a translation."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from equipoise.cli.foreign_configuration import evictors, strategies
from equipoise.cli.foreign_configuration.documents import SourceDocument
from equipoise.cli.foreign_configuration.schema import (
    DefaultEvictorArgs,
    EnabledPlugins,
    EvictionCounts,
    HighNodeUtilizationArgs,
    Int32,
    KoordinatorConfiguration,
    KoordinatorProfile,
    LowNodeLoadArgs,
    LowNodeUtilizationArgs,
    MigrationControllerArgs,
    NamespaceLists,
    PriorityThreshold,
    SigsPolicy,
    SigsProfile,
    SigsStrategies,
    StrategyThresholds,
)
from equipoise.cli.foreign_configuration.strategies import ALWAYS_FITS, STAYS_DRY_RUN, selector_settings
from equipoise.cli.foreign_configuration.translation import Setting, Translation, member
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.messages.message import converted
from equipoise.descheduler.decisions.planning.pools import Selector
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.configuration.errors import convert

Profile = KoordinatorProfile | SigsProfile

_STRATEGIES: Mapping[str, tuple[type[Section], Callable[[Translation, Any, str], None]]] = {
    "LowNodeLoad": (LowNodeLoadArgs, strategies.low_node_load),
    "LowNodeUtilization": (LowNodeUtilizationArgs, strategies.low_node_utilization),
    "HighNodeUtilization": (HighNodeUtilizationArgs, strategies.high_node_utilization),
}
_EVICTORS: Mapping[str, tuple[type[Section], Callable[[Translation, Any, str], None]]] = {
    "MigrationController": (MigrationControllerArgs, evictors.migration_controller),
    "DefaultEvictor": (DefaultEvictorArgs, evictors.default_evictor),
}
_OF_THE_PROCESS = (
    "leader_election", "client_connection", "healthz_bind_address", "metrics_bind_address", "enable_profiling",
    "enable_contention_profiling",
)  # fmt: skip
"""Settings of koord-descheduler."""

_OTHER = "Equipoise has no such plugin: it moves pods because of load only. The other descheduler can still run it"


def translate(source: SourceDocument) -> Translation:
    """Raises ConfigurationError, with a line for each fault, for what the source does not allow either."""
    to = Translation()
    if source.kind == "DeschedulerConfiguration":
        _koordinator(to, _converted(source.content, KoordinatorConfiguration))
    elif source.api_version.endswith("v1alpha1"):
        _strategies(to, _converted(source.content, SigsStrategies))
    else:
        _policy(to, _converted(source.content, SigsPolicy))
    if not to.strategies:
        to.lost("profiles", None, "there is no plugin that levels load: the configuration has the default strategies")
    return to


def _converted(content: Any, kind: type[Any], where: str = "") -> Any:
    try:
        return convert(content, kind, where)
    except ConfigurationError as error:
        raise ConfigurationError(str(error).removeprefix(".")) from None


def _koordinator(to: Translation, configuration: KoordinatorConfiguration) -> None:
    interval = configuration.descheduling_interval
    if interval:
        to.set("descheduler.interval", str(Duration(interval)), "deschedulingInterval")
    elif interval is not None:
        to.lost("deschedulingInterval", "0s", "Equipoise evaluates again and again, every descheduler.interval")
    if configuration.dry_run is False:
        to.remark("note", "dryRun", False, STAYS_DRY_RUN)
    profiles = configuration.profiles or ()
    _profiles(to, profiles)
    for index, profile in enumerate(profiles):
        _restrict(to, profile.node_selector, f"profiles[{index}].nodeSelector")
    _restrict(to, configuration.node_selector, "nodeSelector")
    evictors.eviction_counts(to, _counts(configuration), Duration(interval or DeschedulerSettings().interval))
    reason = "of the process, not of its decisions: each service has its own"
    to.fields(configuration, "", dict.fromkeys(_OF_THE_PROCESS, reason), "note")


def _policy(to: Translation, policy: SigsPolicy) -> None:
    _profiles(to, policy.profiles or ())
    _node_labels(to, policy.node_selector)
    evictors.eviction_counts(to, _counts(policy), DeschedulerSettings().interval)
    reason = "each refused eviction has an outcome and a reason"
    to.fields(policy, "", {"eviction_failure_event_notification": reason}, "note")
    to.fields(policy, "", {"grace_period_seconds": "each pod has its own grace period"})
    to.fields(policy, "", {"metrics_collector": "the collector always measures"}, "note")
    for index, provider in enumerate(policy.metrics_providers or ()):
        _provider(to, provider, f"metricsProviders[{index}]")


def _provider(to: Translation, provider: Mapping[str, Any], path: str) -> None:
    prometheus = provider.get("prometheus")
    url = prometheus.get("url") if isinstance(prometheus, dict) else None
    if provider.get("source") == "Prometheus" and isinstance(url, str) and url.startswith(("http://", "https://")):
        to.set("collector.prometheus.url", url, f"{path}.prometheus.url")
        if isinstance(prometheus, dict) and prometheus.get("authToken"):
            reason = "mount the Secret, and set collector.prometheus.bearerTokenFile"
            to.lost(f"{path}.prometheus.authToken", prometheus["authToken"], reason)
    elif provider.get("source") == "KubernetesMetrics":
        to.remark("note", path, provider, "used if a strategy requests it: collector.source")
    else:
        to.lost(path, provider, "collector.source is prometheus, metrics-server or load-watcher")


def _counts(counts: EvictionCounts) -> Iterator[tuple[str, int | None]]:
    for field in msgspec.structs.fields(EvictionCounts):
        yield field.encode_name, getattr(counts, field.name)


# Profiles


def _profiles(to: Translation, profiles: Sequence[Profile]) -> None:
    faults: list[str] = []
    evictor_args: list[tuple[str, str, Any]] = []
    for index, profile in enumerate(profiles):
        path, seen = f"profiles[{index}]", set[str]()
        enabled = _enabled(profile)
        for position, configured in enumerate(profile.plugin_config or ()):
            name = configured.name
            where = name if len(profiles) == 1 and name not in seen else f"{path}.pluginConfig[{position}].args"
            seen.add(name)
            if name not in _STRATEGIES and name not in _EVICTORS:
                to.lost(f"{path}.pluginConfig[{position}].name", name, _OTHER)
                continue
            kind, translated = {**_STRATEGIES, **_EVICTORS}[name]
            try:
                args = convert(configured.args or {}, kind, f"{path}.pluginConfig[{position}].args")
            except ConfigurationError as error:
                faults.append(str(error))
                continue
            if name in _EVICTORS:
                evictor_args.append((name, where, args))
                continue
            if name not in enabled:
                reason = "it has arguments, and no list of plugins enables it: it did not run there"
                to.remark("note", where, None, reason)
            translated(to, args, where)
        for name in sorted(enabled - seen):
            _without_args(to, name, f"{path}.plugins")
    if faults:
        raise ConfigurationError("\n".join(faults))
    for name, where, args in evictor_args:  # they restrict the strategies
        _EVICTORS[name][1](to, args, where)


def _enabled(profile: Profile) -> set[str]:
    """The plugins that are enabled at some extension point."""
    plugins = profile.plugins
    sets: Iterable[EnabledPlugins | None] = () if plugins is None else msgspec.structs.astuple(plugins)
    listed = (plugin for each in sets if each is not None for plugin in each.enabled or ())
    return {plugin if isinstance(plugin, str) else plugin.name for plugin in listed}


def _without_args(to: Translation, name: str, path: str) -> None:
    if name in _STRATEGIES:
        kind, translated = _STRATEGIES[name]
        translated(to, kind(), path)
    elif name not in _EVICTORS:
        to.lost(path, name, _OTHER)


def _restrict(to: Translation, selector: Selector | None, path: str) -> None:
    """Nodes outside the selector are neither sources nor targets."""
    chosen = {} if selector is None else selector_settings(selector)
    if not chosen:
        return
    for strategy in to.strategies:
        known = strategy.get("nodeSelector")
        if known is None:
            strategy["nodeSelector"] = Setting(value=chosen, origin=path)
        else:
            both = evictors.all_of(known.value, chosen)
            strategy["nodeSelector"] = Setting(value=both, origin=f"{known.origin} and {path}")


def _node_labels(to: Translation, text: str | None) -> None:
    """A selector as text: `a=b,c=d`."""
    if not text:
        return
    pairs = [each.replace("==", "=").split("=") for each in text.split(",")]
    if all(len(pair) == 2 and all(part.strip() for part in pair) and "!" not in pair[0] for pair in pairs):
        _restrict(to, Selector(match_labels={key.strip(): value.strip() for key, value in pairs}), "nodeSelector")
    else:
        to.lost(
            "nodeSelector", text, "only labels with values (a=b,c=d) are translated: set nodeSelector of the strategy"
        )


# The policy of v1alpha1


class _Params(Section, frozen=True, kw_only=True):
    """Parameters of LowNodeUtilization and HighNodeUtilization."""

    node_resource_utilization_thresholds: StrategyThresholds | None = None
    namespaces: NamespaceLists | None = None
    threshold_priority: Int32 | None = None
    threshold_priority_class_name: str | None = None
    label_selector: Selector | None = None
    node_fit: bool | None = None


def _strategies(to: Translation, policy: SigsStrategies) -> None:
    for name, strategy in (policy.strategies or {}).items():
        path = member("strategies", name)
        if not strategy.enabled:  # as there, if it is not given
            to.remark("note", path, name, "not enabled")
        elif name in ("LowNodeUtilization", "HighNodeUtilization"):
            _strategy(to, name, _converted(strategy.params or {}, _Params, f"{path}.params"), f"{path}.params")
        else:
            to.lost(path, name, _OTHER)
    _node_labels(to, policy.node_selector)
    evictors.eviction_counts(to, _counts(policy), DeschedulerSettings().interval)
    # The node selector and the counts are set already.
    evictors.default_evictor(to, converted(policy, DefaultEvictorArgs, node_selector=None), "")


def _strategy(to: Translation, name: str, params: _Params, path: str) -> None:
    thresholds = params.node_resource_utilization_thresholds or StrategyThresholds()
    where = f"{path}.nodeResourceUtilizationThresholds"
    if name == "LowNodeUtilization":
        strategies.low_node_utilization(to, converted(thresholds, LowNodeUtilizationArgs), where)
    else:
        strategies.high_node_utilization(to, converted(thresholds, HighNodeUtilizationArgs), where)
    strategies.namespaces(to, params.namespaces, f"{path}.namespaces")
    if params.threshold_priority is not None or params.threshold_priority_class_name:
        threshold = PriorityThreshold(value=params.threshold_priority, name=params.threshold_priority_class_name)
        evictors.priority(to, threshold, f"{path}.thresholdPriority")
    evictors.pod_labels(to, params.label_selector, f"{path}.labelSelector")
    if params.node_fit is False:
        to.lost(f"{path}.nodeFit", False, ALWAYS_FITS)
