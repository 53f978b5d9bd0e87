"""The plugins that decide which pods may be evicted and how many: MigrationController and DefaultEvictor."""

import math
from collections.abc import Iterable
from typing import Any

from equipoise.cli.foreign_configuration.schema import (
    DefaultEvictorArgs,
    MigrationControllerArgs,
    ObjectLimit,
    PodProtections,
    PriorityThreshold,
    ShareOrCount,
)
from equipoise.cli.foreign_configuration.strategies import (
    ALWAYS_FITS,
    STAYS_DRY_RUN,
    namespaces,
    per_node,
    selector_settings,
)
from equipoise.cli.foreign_configuration.translation import Setting, Translation, member
from equipoise.contracts.configuration.duration import Duration
from equipoise.descheduler.decisions.planning.pools import Selector

_NEVER = "such pods are never evicted: nothing would replace them, or they would return to the same node"
_CRITICAL = "system-critical pods are never evicted"
_NODES = {"node_selector": "targets are the nodes of the strategy: set its nodeSelector"}
_NO_BURST = "in any window there are at most this many evictions, without a burst"
_WITHOUT_BUDGET = "pods without a PodDisruptionBudget may be evicted"
_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The values of the PriorityClasses that every cluster has."""

_VOLUMES = (
    "pods with PersistentVolumeClaims were evicted; here they are protected unless protection.persistentVolumes is set"
)


def migration_controller(translation: Translation, args: MigrationControllerArgs, path: str) -> None:
    """Translate the arguments of MigrationController of Koordinator."""
    if args.dry_run is False:
        translation.remark("note", f"{path}.dryRun", False, STAYS_DRY_RUN)
    bare = {"evict_failed_bare_pods": _NEVER, "evict_all_bare_pods": _NEVER, "evict_system_critical_pods": _CRITICAL}
    translation.fields(args, path, bare)
    _storage(translation, args.evict_local_storage_pods, args.ignore_pvc_pods, path)
    if args.node_fit is False:
        translation.lost(f"{path}.nodeFit", False, ALWAYS_FITS)
    translation.fields(args, path, _NODES)
    priority(translation, args.priority_threshold, f"{path}.priorityThreshold")
    pod_labels(translation, args.label_selector, f"{path}.labelSelector")
    namespaces(translation, args.namespaces, f"{path}.namespaces")
    for index, gate in enumerate(args.skip_eviction_gates or ()):
        translation.lost(f"{path}.skipEvictionGates[{index}]", gate, "no protection and no limit can be skipped")
    _migration_limits(translation, args, path)
    _object_limits(translation, args.object_limiters or {}, f"{path}.objectLimiters")
    _rate(translation, args, path)
    _jobs(translation, args, path)


def _storage(translation: Translation, local: bool | None, ignored: bool | None, path: str) -> None:
    if local is not None:
        translation.set("protection.localStorage", local, f"{path}.evictLocalStoragePods")
    if ignored is not None:
        translation.set("protection.persistentVolumes", not ignored, f"{path}.ignorePvcPods")
    else:
        translation.remark("note", f"{path}.ignorePvcPods", None, _VOLUMES)


def priority(translation: Translation, threshold: PriorityThreshold | None, path: str) -> None:
    """Translate the priority at and above which pods are protected."""
    if threshold is None:
        return
    value, name = threshold.value, threshold.name
    if value is not None:
        translation.set("protection.priorityThreshold", value, f"{path}.value")
        if name:
            translation.lost(f"{path}.name", name, "a value is given, too")
    elif name in _CLASSES:
        translation.set("protection.priorityThreshold", _CLASSES[name], f"{path}.name")
    elif name:
        reason = "the value is in the cluster: set protection.priorityThreshold to that of `kubectl get priorityclass`"
        translation.lost(f"{path}.name", name, reason)


def pod_labels(translation: Translation, selector: Selector | None, path: str) -> None:
    """Translate a selector of the pods that may be evicted."""
    selected = {} if selector is None else selector_settings(selector)
    if not selected:
        return
    strategy = translation.strategy("low_node_load")
    if strategy is None:
        translation.lost(path, selected, "only low_node_load selects pods by label (podSelectors)")
        return
    existing = strategy.get("podSelectors")
    groups: list[dict[str, Any]] = [{"name": "all", "selector": {}}] if existing is None else existing.value
    origin = path if existing is None else f"{existing.origin} and {path}"
    combined = [{"name": each["name"], "selector": all_of(each["selector"], selected)} for each in groups]
    strategy["podSelectors"] = Setting(value=combined, origin=origin)


def all_of(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """A selector that selects what both selectors select."""
    labels, others = left.get("matchLabels", {}), right.get("matchLabels", {})
    rules = [*left.get("matchExpressions", ()), *right.get("matchExpressions", ())]
    rules += [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in others.items()
        if labels.get(key, value) != value
    ]
    merged = {**others, **labels}
    return {**({"matchLabels": merged} if merged else {}), **({"matchExpressions": rules} if rules else {})}


def _migration_limits(translation: Translation, args: MigrationControllerArgs, path: str) -> None:
    most, field_path = args.max_migrating_globally, f"{path}.maxMigratingGlobally"
    if most is not None and most >= 1:
        translation.set_lowest("descheduler.maxIntentsPerEvaluation", most, field_path)
        reason = f"{most} pending moves (maxIntentsPerEvaluation): replacements that are not ready yet do not count"
        translation.remark("changed", field_path, most, reason)
    if args.max_migrating_per_node is not None:
        most, field_path = args.max_migrating_per_node, f"{path}.maxMigratingPerNode"
        if most >= 1:
            translation.set_lowest("binder.limits.migratingPerNode.max", most, field_path)
            per_node(translation, most, field_path)
        else:
            translation.set("binder.limits.migratingPerNode.max", "unlimited", field_path)
            reason = "unlimited, as there; descheduler.maxIntentsPerNode still limits what is proposed at once"
            translation.remark("note", field_path, most, reason)
    if (args.max_migrating_per_namespace or 0) >= 1:
        reason = "binder.limits.evictionsPerNamespace limits evictions in a time, not pods that migrate"
        translation.fields(args, path, {"max_migrating_per_namespace": reason})
    for name, limit, value in (
        ("maxMigratingPerWorkload", "migratingPerWorkload", args.max_migrating_per_workload),
        ("maxUnavailablePerWorkload", "unavailablePerWorkload", args.max_unavailable_per_workload),
    ):
        if value is not None:
            translation.set(
                f"binder.limits.{limit}.max", replicas(translation, value, f"{path}.{name}"), f"{path}.{name}"
            )
    if args.skip_check_expected_replicas:
        translation.set("protection.minReplicas", 1, f"{path}.skipCheckExpectedReplicas")


def replicas(translation: Translation, value: ShareOrCount, path: str) -> int | str:
    """A number or a percentage of replicas. Koordinator replaces values below 1 by 1, and above all replicas by all."""
    share = isinstance(value, str)
    amount = int(value.removesuffix("%")) if isinstance(value, str) else value
    if amount < 1:
        translation.remark("changed", path, value, "1, as there: here 0 would mean that no pod may be evicted")
        return 1
    if share and amount > 100:
        translation.remark("changed", path, value, '"100%": a workload has no more replicas')
        return "100%"
    return value


def _object_limits(translation: Translation, limits: dict[str, ObjectLimit], path: str) -> None:
    names = {"workload": "evictionsPerWorkload", "namespace": "evictionsPerNamespace"}
    for scope, limit in limits.items():
        field_path = member(path, scope)
        if scope not in names:
            translation.lost(field_path, limit, "only workload and namespace have such a limit")
            continue
        most, window = limit.max_migrating, limit.duration
        if isinstance(most, str):
            translation.lost(f"{field_path}.maxMigrating", most, f"binder.limits.{names[scope]}.max is a number")
        elif most is not None:
            translation.set(f"binder.limits.{names[scope]}.max", max(most, 0), f"{field_path}.maxMigrating")
        if window:
            translation.set(f"binder.limits.{names[scope]}.window", str(Duration(window)), f"{field_path}.duration")
        elif window is not None:
            translation.lost(f"{field_path}.duration", "0s", f"binder.limits.{names[scope]}.window must be longer")
        translation.fields(limit, field_path, {"burst": _NO_BURST})


def _rate(translation: Translation, args: MigrationControllerArgs, path: str) -> None:
    configured = args.flow_control_qps if args.evict_qps is None else args.evict_qps
    field_path = f"{path}.{'flowControlQPS' if args.evict_qps is None else 'evictQPS'}"
    if configured is not None:
        try:
            rate = float(configured)
        except ValueError:
            rate = math.nan
        if not 0.001 <= rate <= 1_000:
            translation.lost(
                field_path, configured, "binder.limits.rate keeps its default, 1 in 1s: 0.001 to 1000 can be set"
            )
        elif rate >= 1:
            translation.set("binder.limits.rate.max", math.floor(rate), field_path)
            translation.set("binder.limits.rate.window", "1s", field_path)
        else:
            translation.set("binder.limits.rate.max", 1, field_path)
            translation.set("binder.limits.rate.window", str(Duration(round(1 / rate, 3))), field_path)
    for name, burst in (("evictBurst", args.evict_burst), ("flowControlBurst", args.flow_control_burst)):
        if burst is not None and burst > 1:
            translation.lost(f"{path}.{name}", burst, _NO_BURST)


def _jobs(translation: Translation, args: MigrationControllerArgs, path: str) -> None:
    if args.default_job_mode == "ReservationFirst":
        reason = "nothing is reserved: scores or placement hints make the scheduler prefer the target of the eviction"
        translation.lost(f"{path}.defaultJobMode", args.default_job_mode, reason)
    reason = "an intent expires after descheduler.intentLifetime; then the pod is evaluated again"
    translation.fields(args, path, {"default_job_ttl": reason})
    if args.eviction_policy != "Eviction":
        translation.fields(args, path, {"eviction_policy": "evictions use the API that respects disruption budgets"})
    reasons = {
        "default_delete_options": "each pod has its own grace period",
        "scheduler_names": "pods of every scheduler may be evicted",
    }
    translation.fields(args, path, reasons)
    if args.max_concurrent_reconciles is not None:
        most = args.max_concurrent_reconciles
        if 1 <= most <= 32:
            translation.set("binder.concurrency", most, f"{path}.maxConcurrentReconciles")
        else:
            translation.lost(f"{path}.maxConcurrentReconciles", most, "binder.concurrency is 1 to 32")
    translation.fields(args, path, {"arbitration_args": "the ledger decides about evictions one by one"})


def default_evictor(translation: Translation, args: DefaultEvictorArgs, path: str) -> None:
    """Translate the arguments of DefaultEvictor of sigs.k8s.io/descheduler and of koord-descheduler."""
    if args.dry_run is False:
        translation.remark("note", f"{path}.dryRun", False, STAYS_DRY_RUN)
    if args.max_no_of_pods_to_evict_per_node is not None:
        per_node(translation, args.max_no_of_pods_to_evict_per_node, f"{path}.maxNoOfPodsToEvictPerNode")
    if args.max_no_of_pods_to_evict_per_namespace is not None:
        most, field_path = args.max_no_of_pods_to_evict_per_namespace, f"{path}.maxNoOfPodsToEvictPerNamespace"
        translation.set_lowest("binder.limits.evictionsPerNamespace.max", most, field_path)
    translation.fields(args, path, _NODES)
    if args.pod_protections is None:
        _storage(translation, args.evict_local_storage_pods, args.ignore_pvc_pods, path)
    else:
        _protections(translation, args.pod_protections, f"{path}.podProtections")
    reasons = {
        "evict_daemon_set_pods": _NEVER,
        "evict_failed_bare_pods": _NEVER,
        "evict_system_critical_pods": _CRITICAL,
        "ignore_pods_without_pdb": _WITHOUT_BUDGET,
    }
    translation.fields(args, path, reasons)
    priority(translation, args.priority_threshold, f"{path}.priorityThreshold")
    pod_labels(translation, args.label_selector, f"{path}.labelSelector")
    if args.namespace_label_selector is not None:
        reason = "namespaces are chosen by name (namespaces.include or .exclude)"
        translation.lost(f"{path}.namespaceLabelSelector", selector_settings(args.namespace_label_selector), reason)
    if args.node_fit is False:
        translation.lost(f"{path}.nodeFit", False, ALWAYS_FITS)
    if args.min_replicas is None:
        reason = "workloads with one replica were evicted; here they are protected (protection.minReplicas: 2)"
        translation.remark("note", f"{path}.minReplicas", None, reason)
    else:
        translation.set("protection.minReplicas", max(args.min_replicas, 1), f"{path}.minReplicas")
    if args.min_pod_age:
        reason = "a pod may move when it is measured; replicasSettlingPeriod and cooldowns protect new pods"
        translation.lost(f"{path}.minPodAge", str(Duration(args.min_pod_age)), reason)
    if args.no_eviction_policy == "Preferred":
        reason = "descheduler.alpha.kubernetes.io/prefer-no-eviction protects always, as with Mandatory"
        translation.remark("note", f"{path}.noEvictionPolicy", args.no_eviction_policy, reason)
    elif args.no_eviction_policy not in (None, "", "Mandatory"):
        translation.lost(f"{path}.noEvictionPolicy", args.no_eviction_policy, "there are Preferred and Mandatory")


def _protections(translation: Translation, protections: PodProtections, path: str) -> None:
    for index, name in enumerate(protections.default_disabled or ()):
        field_path = f"{path}.defaultDisabled[{index}]"
        if name == "PodsWithLocalStorage":
            translation.set("protection.localStorage", True, field_path)
        else:
            translation.lost(field_path, name, _CRITICAL if name == "SystemCriticalPods" else _NEVER)
    enabled = protections.extra_enabled or ()
    for index, name in enumerate(enabled):
        field_path = f"{path}.extraEnabled[{index}]"
        if name == "PodsWithPVC":
            translation.set("protection.persistentVolumes", False, field_path)
        elif name == "PodsWithResourceClaims":
            translation.remark("note", field_path, name, "always so here")
        else:
            translation.lost(
                field_path, name, _WITHOUT_BUDGET if name == "PodsWithoutPDB" else "there is no such protection"
            )
    if "PodsWithPVC" not in enabled:
        translation.remark("note", f"{path}.extraEnabled", list(enabled), _VOLUMES)
    translation.fields(protections, path, {"config": "protection.persistentVolumes is for all volumes"})


def eviction_counts(translation: Translation, counts: Iterable[tuple[str, int | None]], interval: Duration) -> None:
    """Translate how many pods one pass may evict.

    `counts`: pairs of the path of a field in the source and its value.
    """
    for name, most in counts:
        if most is None:
            continue
        if name.endswith("PerNode"):
            per_node(translation, most, name)
        elif name.endswith("PerNamespace"):
            translation.set_lowest("binder.limits.evictionsPerNamespace.max", most, name)
            translation.set("binder.limits.evictionsPerNamespace.window", str(interval), name)
        elif most >= 1:
            translation.set_lowest("descheduler.maxIntentsPerEvaluation", most, name)
        else:
            translation.set("binder.limits.evictionsPerCluster.max", 0, name)
