"""The configurations of koord-descheduler and of sigs.k8s.io/descheduler, with the names and types of their fields.

Sources: koordinator, pkg/descheduler/apis/config/v1alpha2/types*.go; kubernetes-sigs/descheduler, pkg/api/v1alpha2 and
v1alpha1, pkg/framework/plugins/*/types.go. An absent field and null are the same, as in Kubernetes.
"""

import re
from typing import Annotated, Any, Literal, Self

from msgspec import Meta, field

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section
from equipoise.descheduler.decisions.planning.pools import Selector

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Unsigned = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
ShareOrCount = (
    Int32 | Annotated[str, Meta(pattern=r"^[0-9]{1,9}%$", description="a number or a percentage such as 10%")]
)
Percentage = (
    Annotated[float, Meta(ge=0, le=1e9)]
    | Annotated[str, Meta(pattern=r"^[0-9]{1,9}(\.[0-9]{1,9})?%?$", description="a number such as 20")]
)
Percentages = dict[str, Percentage]
"""Percentages by resource. koord-descheduler also accepts text."""


class GoDuration(Duration):
    """Seconds, as metav1.Duration writes them: "2m0s", "1.5h", "0"."""

    @classmethod
    def parse(cls, text: object) -> Self:
        """Raises ValueError with examples."""
        if isinstance(text, str) and text:
            text_with_unit = "0s" if text == "0" else text
            parts = _PART.findall(text_with_unit)
            seconds = sum(float(amount) * _UNITS[unit] for amount, unit in parts)
            has_only_parts = "".join(map("".join, parts)) == text_with_unit
            if has_only_parts and seconds < _LONGEST:
                return cls(seconds)
        raise ValueError(f"{text!r} is not a duration (examples: 90s, 2m0s, 1h30m)")


_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3_600.0}
_PART = re.compile(r"(?<!\d)(\d++\.?+\d*+|\.\d++)(ns|us|µs|ms|s|m|h)", re.ASCII)
_LONGEST = 2**63 / 1e9  # Go stores a duration in nanoseconds, as int64


class Args(Section, frozen=True, kw_only=True):
    """Arguments of a plugin."""

    api_version: str | None = None
    kind: str | None = None


class NamespaceLists(Section, frozen=True, kw_only=True):
    """Namespaces by name."""

    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None


class PriorityThreshold(Section, frozen=True, kw_only=True):
    """A priority, or the name of a PriorityClass."""

    value: Int32 | None = None
    name: str | None = None


class EvictorArgs(Args, frozen=True, kw_only=True):
    """Arguments of both MigrationController and DefaultEvictor, which has dryRun only in koord-descheduler."""

    dry_run: bool | None = None
    evict_failed_bare_pods: bool | None = None
    evict_local_storage_pods: bool | None = None
    evict_system_critical_pods: bool | None = None
    ignore_pvc_pods: bool | None = None
    node_fit: bool | None = None
    node_selector: str | None = None
    priority_threshold: PriorityThreshold | None = None
    label_selector: Selector | None = None


# koord-descheduler


class NamedSelector(Section, frozen=True, kw_only=True):
    """A group of pods."""

    name: str | None = None
    selector: Selector | None = None


class AnomalyCondition(Section, frozen=True, kw_only=True):
    """The condition under which a node counts as hot."""

    timeout: GoDuration | None = None
    consecutive_abnormalities: Unsigned | None = None
    consecutive_normalities: Unsigned | None = None


class PoolArgs(Section, frozen=True, kw_only=True):
    """Arguments that LowNodeLoad has for all nodes and for each pool."""

    node_selector: Selector | None = None
    use_deviation_thresholds: bool | None = None
    high_thresholds: Percentages | None = None
    low_thresholds: Percentages | None = None
    prod_high_thresholds: Percentages | None = None
    prod_low_thresholds: Percentages | None = None
    resource_weights: dict[str, Int64] | None = None
    anomaly_condition: AnomalyCondition | None = None


class NodePoolArgs(PoolArgs, frozen=True, kw_only=True):
    """A pool."""

    name: str | None = None


class LowNodeLoadArgs(PoolArgs, frozen=True, kw_only=True):
    """LowNodeLoad."""

    api_version: str | None = None
    kind: str | None = None
    paused: bool | None = None
    dry_run: bool | None = None
    number_of_nodes: Int32 | None = None
    evictable_namespaces: NamespaceLists | None = None
    pod_selectors: tuple[NamedSelector, ...] | None = None
    node_fit: bool | None = None
    detector_cache_timeout: GoDuration | None = None
    node_metric_expiration_seconds: Int64 | None = None
    node_pools: tuple[NodePoolArgs, ...] | None = None


class ObjectLimit(Section, frozen=True, kw_only=True):
    """How many pods of an object may migrate within a duration."""

    duration: GoDuration | None = None
    max_migrating: ShareOrCount | None = None
    burst: Int32 | None = None


class MigrationControllerArgs(EvictorArgs, frozen=True, kw_only=True):
    """MigrationController."""

    max_concurrent_reconciles: Int32 | None = None
    evict_all_bare_pods: bool | None = None
    namespaces: NamespaceLists | None = None
    skip_eviction_gates: tuple[str, ...] | None = None
    max_migrating_globally: Int32 | None = None
    max_migrating_per_node: Int32 | None = None
    max_migrating_per_namespace: Int32 | None = None
    max_migrating_per_workload: ShareOrCount | None = None
    max_unavailable_per_workload: ShareOrCount | None = None
    skip_check_expected_replicas: bool | None = None
    object_limiters: dict[str, ObjectLimit] | None = None
    default_job_mode: Literal["ReservationFirst", "EvictDirectly", ""] | None = None
    default_job_ttl: GoDuration | None = field(default=None, name="defaultJobTTL")
    evict_qps: float | str | None = field(default=None, name="evictQPS")
    evict_burst: Int32 | None = None
    flow_control_qps: float | str | None = field(default=None, name="flowControlQPS")
    """The name of evictQPS in older versions."""

    flow_control_burst: Int32 | None = None
    eviction_policy: str | None = None
    default_delete_options: dict[str, Any] | None = None
    scheduler_names: tuple[str, ...] | None = None
    arbitration_args: dict[str, Any] | None = None


# sigs.k8s.io/descheduler


class PrometheusQuery(Section, frozen=True, kw_only=True):
    """The query of a metrics source."""

    query: str | None = None


class MetricsUtilization(Section, frozen=True, kw_only=True):
    """The source of the usage that LowNodeUtilization reads."""

    metrics_server: bool | None = None
    source: str | None = None
    prometheus: PrometheusQuery | None = None


class EvictionLimits(Section, frozen=True, kw_only=True):
    """Limits of one plugin."""

    node: Unsigned | None = None
    namespace: Unsigned | None = None


class StrategyThresholds(Section, frozen=True, kw_only=True):
    """nodeResourceUtilizationThresholds of v1alpha1, and the thresholds of LowNodeUtilization."""

    use_deviation_thresholds: bool | None = None
    thresholds: Percentages | None = None
    target_thresholds: Percentages | None = None
    number_of_nodes: Int32 | None = None


class LowNodeUtilizationArgs(StrategyThresholds, frozen=True, kw_only=True):
    """LowNodeUtilization."""

    api_version: str | None = None
    kind: str | None = None
    metrics_utilization: MetricsUtilization | None = None
    evictable_namespaces: NamespaceLists | None = None
    eviction_limits: EvictionLimits | None = None


class HighNodeUtilizationArgs(Args, frozen=True, kw_only=True):
    """HighNodeUtilization."""

    thresholds: Percentages | None = None
    number_of_nodes: Int32 | None = None
    eviction_modes: tuple[str, ...] | None = None
    metrics_utilization: MetricsUtilization | None = None
    evictable_namespaces: NamespaceLists | None = None


class PodProtections(Section, frozen=True, kw_only=True):
    """Changes of the protections that the evictor has by default."""

    default_disabled: tuple[str, ...] | None = None
    extra_enabled: tuple[str, ...] | None = None
    config: dict[str, Any] | None = None


class DefaultEvictorArgs(EvictorArgs, frozen=True, kw_only=True):
    """DefaultEvictor. Only koord-descheduler has the first two fields."""

    max_no_of_pods_to_evict_per_node: Unsigned | None = None
    max_no_of_pods_to_evict_per_namespace: Unsigned | None = None
    evict_daemon_set_pods: bool | None = None
    ignore_pods_without_pdb: bool | None = field(default=None, name="ignorePodsWithoutPDB")
    namespace_label_selector: Selector | None = None
    min_replicas: Unsigned | None = None
    min_pod_age: GoDuration | None = None
    no_eviction_policy: str | None = None
    pod_protections: PodProtections | None = None


# Both deschedulers


class PluginName(Section, frozen=True, kw_only=True):
    """A plugin of an extension point."""

    name: str


class EnabledPlugins(Section, frozen=True, kw_only=True):
    """The plugins of an extension point: objects in koord-descheduler, names in sigs.k8s.io/descheduler."""

    enabled: tuple[PluginName | str, ...] | None = None
    disabled: tuple[PluginName | str, ...] | None = None


class PluginConfig(Section, frozen=True, kw_only=True):
    """The arguments of a plugin."""

    name: str
    args: dict[str, Any] | None = None


class KoordinatorPlugins(Section, frozen=True, kw_only=True):
    """The plugins of each extension point."""

    deschedule: EnabledPlugins | None = None
    balance: EnabledPlugins | None = None
    evict: EnabledPlugins | None = None
    filter: EnabledPlugins | None = None
    evictor: EnabledPlugins | None = None


class SigsPlugins(Section, frozen=True, kw_only=True):
    """The plugins of each extension point."""

    presort: EnabledPlugins | None = None
    pre_sort: EnabledPlugins | None = None
    sort: EnabledPlugins | None = None
    deschedule: EnabledPlugins | None = None
    balance: EnabledPlugins | None = None
    evict: EnabledPlugins | None = None
    filter: EnabledPlugins | None = None
    preevictionfilter: EnabledPlugins | None = None
    pre_eviction_filter: EnabledPlugins | None = None


class KoordinatorProfile(Section, frozen=True, kw_only=True):
    """A profile."""

    name: str | None = None
    plugins: KoordinatorPlugins | None = None
    plugin_config: tuple[PluginConfig, ...] | None = None
    node_selector: Selector | None = None


class SigsProfile(Section, frozen=True, kw_only=True):
    """A profile."""

    name: str | None = None
    plugins: SigsPlugins | None = None
    plugin_config: tuple[PluginConfig, ...] | None = None


class EvictionCounts(Section, frozen=True, kw_only=True):
    """How many pods one pass may evict, in both deschedulers."""

    max_no_of_pods_to_evict_per_node: Unsigned | None = None
    max_no_of_pods_to_evict_per_namespace: Unsigned | None = None
    max_no_of_pods_to_evict_total: Unsigned | None = None


class KoordinatorConfiguration(EvictionCounts, frozen=True, kw_only=True):
    """DeschedulerConfiguration, descheduler/v1alpha2."""

    leader_election: dict[str, Any] | None = None
    client_connection: dict[str, Any] | None = None
    healthz_bind_address: str | None = None
    metrics_bind_address: str | None = None
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    dry_run: bool | None = None
    descheduling_interval: GoDuration | None = None
    node_selector: Selector | None = None
    profiles: tuple[KoordinatorProfile, ...] | None = None


class SigsPolicy(EvictionCounts, frozen=True, kw_only=True):
    """DeschedulerPolicy, descheduler/v1alpha2."""

    profiles: tuple[SigsProfile, ...] | None = None
    node_selector: str | None = None
    eviction_failure_event_notification: bool | None = None
    grace_period_seconds: Int64 | None = None
    metrics_collector: dict[str, Any] | None = None
    metrics_providers: tuple[dict[str, Any], ...] | None = None


class SigsStrategy(Section, frozen=True, kw_only=True):
    """A strategy of v1alpha1."""

    enabled: bool | None = None
    weight: Int32 | None = None
    params: dict[str, Any] | None = None


class SigsStrategies(EvictionCounts, frozen=True, kw_only=True):
    """DeschedulerPolicy, descheduler/v1alpha1."""

    strategies: dict[str, SigsStrategy] | None = None
    node_selector: str | None = None
    evict_failed_bare_pods: bool | None = None
    evict_local_storage_pods: bool | None = None
    evict_system_critical_pods: bool | None = None
    evict_daemon_set_pods: bool | None = None
    ignore_pvc_pods: bool | None = None
