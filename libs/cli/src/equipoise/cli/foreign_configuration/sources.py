"""Translates koord-descheduler's configuration, and both versions of the policy of sigs.k8s.io/descheduler."""

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
_PROCESS_SETTINGS = (
    "leader_election", "client_connection", "healthz_bind_address", "metrics_bind_address", "enable_profiling",
    "enable_contention_profiling",
)  # fmt: skip
"""Settings of koord-descheduler that concern its process only."""

_OTHER = "Equipoise has no such plugin: it moves pods because of load only. The other descheduler can still run it"


def translate(source: SourceDocument) -> Translation:
    """Translate a document. Raises ConfigurationError, with a line for each value that is invalid in the source too."""
    translation = Translation()
    if source.kind == "DeschedulerConfiguration":
        _koordinator(translation, _converted(source.content, KoordinatorConfiguration))
    elif source.api_version.endswith("v1alpha1"):
        _strategies(translation, _converted(source.content, SigsStrategies))
    else:
        _policy(translation, _converted(source.content, SigsPolicy))
    if not translation.strategies:
        reason = "there is no plugin that levels load: the configuration has the default strategies"
        translation.lost("profiles", None, reason)
    return translation


def _converted(content: Any, kind: type[Any], where: str = "") -> Any:
    try:
        return convert(content, kind, where)
    except ConfigurationError as error:
        raise ConfigurationError(str(error).removeprefix(".")) from None


def _koordinator(translation: Translation, configuration: KoordinatorConfiguration) -> None:
    interval = configuration.descheduling_interval
    if interval:
        translation.set("descheduler.interval", str(Duration(interval)), "deschedulingInterval")
    elif interval is not None:
        reason = "Equipoise evaluates again and again, every descheduler.interval"
        translation.lost("deschedulingInterval", "0s", reason)
    if configuration.dry_run is False:
        translation.remark("note", "dryRun", False, STAYS_DRY_RUN)
    profiles = configuration.profiles or ()
    _profiles(translation, profiles)
    for index, profile in enumerate(profiles):
        _restrict(translation, profile.node_selector, f"profiles[{index}].nodeSelector")
    _restrict(translation, configuration.node_selector, "nodeSelector")
    evictors.eviction_counts(translation, _counts(configuration), Duration(interval or DeschedulerSettings().interval))
    reason = "of the process, not of its decisions: each service has its own"
    translation.fields(configuration, "", dict.fromkeys(_PROCESS_SETTINGS, reason), "note")


def _policy(translation: Translation, policy: SigsPolicy) -> None:
    _profiles(translation, policy.profiles or ())
    _node_labels(translation, policy.node_selector)
    evictors.eviction_counts(translation, _counts(policy), DeschedulerSettings().interval)
    reason = "each refused eviction has an outcome and a reason"
    translation.fields(policy, "", {"eviction_failure_event_notification": reason}, "note")
    translation.fields(policy, "", {"grace_period_seconds": "each pod has its own grace period"})
    translation.fields(policy, "", {"metrics_collector": "the collector always measures"}, "note")
    for index, provider in enumerate(policy.metrics_providers or ()):
        _provider(translation, provider, f"metricsProviders[{index}]")


def _provider(translation: Translation, provider: Mapping[str, Any], path: str) -> None:
    prometheus = provider.get("prometheus")
    url = prometheus.get("url") if isinstance(prometheus, dict) else None
    if provider.get("source") == "Prometheus" and isinstance(url, str) and url.startswith(("http://", "https://")):
        translation.set("collector.prometheus.url", url, f"{path}.prometheus.url")
        if isinstance(prometheus, dict) and prometheus.get("authToken"):
            reason = "mount the Secret, and set collector.prometheus.bearerTokenFile"
            translation.lost(f"{path}.prometheus.authToken", prometheus["authToken"], reason)
    elif provider.get("source") == "KubernetesMetrics":
        translation.remark("note", path, provider, "used if a strategy requests it: collector.source")
    else:
        translation.lost(path, provider, "collector.source is prometheus, metrics-server or load-watcher")


def _counts(counts: EvictionCounts) -> Iterator[tuple[str, int | None]]:
    for field in msgspec.structs.fields(EvictionCounts):
        yield field.encode_name, getattr(counts, field.name)


# Profiles


def _profiles(translation: Translation, profiles: Sequence[Profile]) -> None:
    faults: list[str] = []
    evictors_with_args: list[tuple[str, str, Any]] = []
    for index, profile in enumerate(profiles):
        path, seen = f"profiles[{index}]", set[str]()
        enabled = _enabled(profile)
        for position, configured in enumerate(profile.plugin_config or ()):
            name = configured.name
            # The name of the plugin is enough to find its arguments if there is only one of this name.
            args_path = name if len(profiles) == 1 and name not in seen else f"{path}.pluginConfig[{position}].args"
            seen.add(name)
            if name not in _STRATEGIES and name not in _EVICTORS:
                translation.lost(f"{path}.pluginConfig[{position}].name", name, _OTHER)
                continue
            kind, translate_args = {**_STRATEGIES, **_EVICTORS}[name]
            try:
                args = convert(configured.args or {}, kind, f"{path}.pluginConfig[{position}].args")
            except ConfigurationError as error:
                faults.append(str(error))
                continue
            if name in _EVICTORS:
                evictors_with_args.append((name, args_path, args))
                continue
            if name not in enabled:
                reason = "it has arguments, and no list of plugins enables it: it did not run there"
                translation.remark("note", args_path, None, reason)
            translate_args(translation, args, args_path)
        for name in sorted(enabled - seen):
            _without_args(translation, name, f"{path}.plugins")
    if faults:
        raise ConfigurationError("\n".join(faults))
    for name, args_path, args in evictors_with_args:  # after the strategies of all profiles, because they restrict them
        _EVICTORS[name][1](translation, args, args_path)


def _enabled(profile: Profile) -> set[str]:
    """The plugins that are enabled at an extension point."""
    plugins = profile.plugins
    points: Iterable[EnabledPlugins | None] = () if plugins is None else msgspec.structs.astuple(plugins)
    listed = (plugin for point in points if point is not None for plugin in point.enabled or ())
    return {plugin if isinstance(plugin, str) else plugin.name for plugin in listed}


def _without_args(translation: Translation, name: str, path: str) -> None:
    if name in _STRATEGIES:
        kind, translate_args = _STRATEGIES[name]
        translate_args(translation, kind(), path)
    elif name not in _EVICTORS:
        translation.lost(path, name, _OTHER)


def _restrict(translation: Translation, selector: Selector | None, path: str) -> None:
    """Restrict all strategies to the nodes of the selector. Others are neither sources nor targets."""
    restriction = {} if selector is None else selector_settings(selector)
    if not restriction:
        return
    for strategy in translation.strategies:
        own = strategy.get("nodeSelector")
        if own is None:
            strategy["nodeSelector"] = Setting(value=restriction, origin=path)
        else:
            both = evictors.all_of(own.value, restriction)
            strategy["nodeSelector"] = Setting(value=both, origin=f"{own.origin} and {path}")


def _node_labels(translation: Translation, text: str | None) -> None:
    """Restrict all strategies to nodes with the labels of a selector in text form, such as `a=b,c=d`."""
    if not text:
        return
    pairs = [requirement.replace("==", "=").split("=") for requirement in text.split(",")]
    if all(len(pair) == 2 and all(part.strip() for part in pair) and "!" not in pair[0] for pair in pairs):
        labels = {key.strip(): value.strip() for key, value in pairs}
        _restrict(translation, Selector(match_labels=labels), "nodeSelector")
    else:
        translation.lost(
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


def _strategies(translation: Translation, policy: SigsStrategies) -> None:
    for name, strategy in (policy.strategies or {}).items():
        path = member("strategies", name)
        if not strategy.enabled:  # also the default of the source
            translation.remark("note", path, name, "not enabled")
        elif name in ("LowNodeUtilization", "HighNodeUtilization"):
            _strategy(translation, name, _converted(strategy.params or {}, _Params, f"{path}.params"), f"{path}.params")
        else:
            translation.lost(path, name, _OTHER)
    _node_labels(translation, policy.node_selector)
    evictors.eviction_counts(translation, _counts(policy), DeschedulerSettings().interval)
    # Without the node selector, which is translated above, like the counts.
    evictors.default_evictor(translation, converted(policy, DefaultEvictorArgs, node_selector=None), "")


def _strategy(translation: Translation, name: str, params: _Params, path: str) -> None:
    thresholds = params.node_resource_utilization_thresholds or StrategyThresholds()
    where = f"{path}.nodeResourceUtilizationThresholds"
    if name == "LowNodeUtilization":
        strategies.low_node_utilization(translation, converted(thresholds, LowNodeUtilizationArgs), where)
    else:
        strategies.high_node_utilization(translation, converted(thresholds, HighNodeUtilizationArgs), where)
    strategies.namespaces(translation, params.namespaces, f"{path}.namespaces")
    if params.threshold_priority is not None or params.threshold_priority_class_name:
        threshold = PriorityThreshold(value=params.threshold_priority, name=params.threshold_priority_class_name)
        evictors.priority(translation, threshold, f"{path}.thresholdPriority")
    evictors.pod_labels(translation, params.label_selector, f"{path}.labelSelector")
    if params.node_fit is False:
        translation.lost(f"{path}.nodeFit", False, ALWAYS_FITS)
