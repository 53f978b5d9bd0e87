"""Which pods are never evicted, whatever the load. One rule per reason; no rule overrules another.

The descheduler checks them before it proposes a pod, and the binder again with live reads before it evicts one.
Annotations only protect: none of them requests an eviction.
"""

import math
from collections.abc import Callable, Mapping

import msgspec

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import SYSTEM_CRITICAL, Namespaces, Protection
from equipoise.contracts.eviction.gangs import gang_of
from equipoise.contracts.eviction.scheduling_constraints import MOST_CONSTRAINTS, has_too_many_constraints
from equipoise.contracts.kubernetes.labels import integer
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, is_ready
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.plain_text import plain_text

OPT_OUT = "equipoise.dev/evict"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
DO_NOT_EVICT = "karpenter.sh/do-not-evict"
"""The annotation of older versions of Karpenter."""

PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
DESCHEDULER_EVICT = "descheduler.alpha.kubernetes.io/evict"
EVICTION_ENABLED = "koordinator.sh/eviction-enabled"
"""A label."""

MIRROR = "kubernetes.io/config.mirror"
CONFIG_SOURCE = "kubernetes.io/config.source"
EVICTION_COST = "scheduling.koordinator.sh/eviction-cost"
REVISION = "controller-revision-hash"
"""Label of the pods of StatefulSets and CloneSets."""


REASON_LIMIT = 600
"""Characters of a reason: it contains what tenants wrote, and is part of messages, Events and logs."""

VALUE_LIMIT = 60
"""Characters of an annotation that a reason quotes."""

_MAX_EVICTION_COST = str(2**31 - 1)
"""The cost with which Koordinator never evicts a pod. Source: koordinator, FilterPodWithMaxEvictionCost."""

REPLACING_KINDS = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("", "ReplicationController"),
        ("argoproj.io", "Rollout"),
        ("apps.kruise.io", "CloneSet"),
    }
)
"""(group, kind) of workloads that are known to replace an evicted pod. The pods of any other kind are protected, unless
its scale subresource has the number of desired pods."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that may be evicted, with the objects that the rules read."""

    pod: Pod
    namespace: Namespace | None
    """None: it was deleted, or is not known yet."""

    workload: Workload | None = None
    """None: a bare or static pod, or not known."""

    owners: tuple[WorkloadObject, ...] = ()
    """The pod's controller and the controllers above it; the last one is the workload. Empty: not known."""

    unreadable: str = ""
    """What could not be read, and why."""

    pods_now: int | None = None
    """The workload's pods on nodes without terminating ones; None: not known."""

    pods_before: tuple[int, int] | None = None
    """The same `protection.replicasSettlingPeriod` ago: minimum and maximum, because terminating pods may count."""

    @property
    def workload_object(self) -> WorkloadObject | None:
        return self.owners[-1] if self.owners else None

    @property
    def replicas(self) -> int:
        """Desired replicas of the workload; None in the object means 1."""
        if self.workload_object is None:
            return 0
        return 1 if self.workload_object.spec.replicas is None else self.workload_object.spec.replicas

    @property
    def unready(self) -> int:
        """Desired replicas that are missing or not ready."""
        return 0 if self.workload_object is None else max(0, self.replicas - self.workload_object.status.ready_replicas)


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of the rules."""

    protection: Protection
    namespaces: Namespaces
    own_namespace: str


Rule = Callable[[Candidate, Rules, float], str]
"""(candidate, rules, now) -> "" or why the pod is protected."""


def not_readable(candidate: Candidate, rules: Rules, now: float) -> str:
    """An object that could not be decoded completely, or whose amounts cannot be true, is not known."""
    if why := candidate.pod.metadata.unreadable:
        return f"the pod cannot be read: {why}"
    for owner in candidate.owners:
        if why := owner.metadata.unreadable:
            return f"its {owner.kind or 'owner'} {owner.metadata.name} cannot be read: {why}"
    namespace = candidate.namespace
    why = namespace.metadata.unreadable if namespace is not None else ""
    return f"its namespace cannot be read: {why}" if why else ""


def excluded_namespace(candidate: Candidate, rules: Rules, now: float) -> str:
    name = candidate.pod.metadata.namespace
    if name == rules.own_namespace:
        return "it belongs to Equipoise itself"
    return "" if rules.namespaces.allow(name, rules.own_namespace) else f"namespace {name} is excluded"


def terminating_namespace(candidate: Candidate, rules: Rules, now: float) -> str:
    namespace = candidate.namespace
    if namespace is None:
        return f"namespace {candidate.pod.metadata.namespace} is not known"
    terminating = namespace.metadata.deletion_timestamp is not None or namespace.status.phase == "Terminating"
    return "its namespace is terminating: no replacement can be created" if terminating else ""


def opted_out(candidate: Candidate, rules: Rules, now: float) -> str:
    objects = [("pod", candidate.pod.metadata)]
    objects += [(owner.kind or "owner", owner.metadata) for owner in candidate.owners]
    if candidate.namespace is not None:
        objects.append(("namespace", candidate.namespace.metadata))
    for kind, metadata in objects:
        value = metadata.annotations.get(OPT_OUT)
        if value is not None:
            note = '; any value protects, "false" is the documented one' if has_invalid_opt_out(metadata) else ""
            return f'annotation {OPT_OUT}="{plain_text(value, VALUE_LIMIT)}" of {kind} {metadata.name}{note}'
    return ""


def has_invalid_opt_out(metadata: ObjectMeta) -> bool:
    """Whether the opt-out annotation has a value other than "false". It protects, too."""
    return metadata.annotations.get(OPT_OUT, "false") != "false"


_NO = frozenset({"false", "f", "0", "no", "n", "off", "never"})


def _denies(value: str) -> bool:
    return value.strip().lower() in _NO


PROTECTING: Mapping[str, Callable[[str], bool]] = {
    SAFE_TO_EVICT: _denies,
    DESCHEDULER_EVICT: _denies,
    PREFER_NO_EVICTION: lambda value: True,
    DO_NOT_EVICT: lambda value: not _denies(value),
    EVICTION_COST: lambda value: value == _MAX_EVICTION_COST,
}
"""Annotations of pods for other programs, and with which values their owner does not want an eviction.

With other values some ask for one, such as `descheduler.alpha.kubernetes.io/evict: "true"`: these are ignored.
"""


def opted_out_for_others(candidate: Candidate, rules: Rules, now: float) -> str:
    """Annotations for cluster-autoscaler, Karpenter, Koordinator and sigs.k8s.io/descheduler protect here, too."""
    metadata = candidate.pod.metadata
    annotations = metadata.annotations
    for name, protects in PROTECTING.items() if annotations else ():  # few pods have any
        value = annotations.get(name)
        if value is not None and protects(value):
            return f'annotation {name}="{plain_text(value, VALUE_LIMIT)}"'
    enabled = metadata.labels.get(EVICTION_ENABLED)
    if enabled is not None and _denies(enabled):
        return f'label {EVICTION_ENABLED}="{enabled}"'
    value = annotations.get(DO_NOT_DISRUPT)
    if value is None or _denies(value):
        return ""
    started = candidate.pod.status.start_time
    try:
        protected = started is None or now - started.timestamp() < Duration.parse(value)
    except ValueError:
        protected = True
    return f'annotation {DO_NOT_DISRUPT}="{plain_text(value, VALUE_LIMIT)}"' if protected else ""


def static(candidate: Candidate, rules: Rules, now: float) -> str:
    metadata = candidate.pod.metadata
    if MIRROR in metadata.annotations or metadata.annotations.get(CONFIG_SOURCE, "api") != "api":
        return "static pod: its node would restart it"
    controller = metadata.controller
    return "static pod: it belongs to its node" if controller is not None and controller.kind == "Node" else ""


def bare(candidate: Candidate, rules: Rules, now: float) -> str:
    return "" if candidate.pod.metadata.controller else "bare pod: nothing would replace it"


def of_daemon_set(candidate: Candidate, rules: Rules, now: float) -> str:
    controller = candidate.pod.metadata.controller
    daemon_set = controller is not None and controller.kind == "DaemonSet"
    return "pod of a DaemonSet: its replacement would be placed on the same node" if daemon_set else ""


def of_job(candidate: Candidate, rules: Rules, now: float) -> str:
    controller = candidate.pod.metadata.controller
    if controller is not None and controller.kind == "Job":
        return "pod of a Job: its progress would be lost"
    policy = candidate.pod.spec.restart_policy
    return "" if policy == "Always" else f"it runs to completion (restartPolicy {policy}): its progress would be lost"


def of_gang(candidate: Candidate, rules: Rules, now: float) -> str:
    gang = gang_of(candidate.pod)
    return f"pod of a gang ({gang}): the other pods cannot work without it" if gang else ""


def high_priority(candidate: Candidate, rules: Rules, now: float) -> str:
    priority, threshold = candidate.pod.spec.priority, rules.protection.priority_threshold
    if priority >= SYSTEM_CRITICAL or candidate.pod.spec.priority_class_name.startswith("system-"):
        return f"system-critical (priority {priority})"
    return (
        f"priority {priority} is not below {threshold} (protection.priorityThreshold)" if priority >= threshold else ""
    )


def not_running(candidate: Candidate, rules: Rules, now: float) -> str:
    pod = candidate.pod
    if pod.metadata.deletion_timestamp is not None:
        return "it is terminating"
    if pod.status.phase != "Running":
        return f"its phase is {pod.status.phase or 'unknown'}, not Running"
    return "" if is_ready(pod.status.conditions) else "it is not ready"


def with_storage(candidate: Candidate, rules: Rules, now: float) -> str:
    settings = rules.protection
    for volume in candidate.pod.spec.volumes:
        if not settings.local_storage and (volume.empty_dir is not None or volume.host_path is not None):
            return f"volume {volume.name} keeps data on the node (protection.localStorage)"
        persistent = volume.persistent_volume_claim is not None or volume.ephemeral is not None
        if not settings.persistent_volumes and persistent:
            return f"volume {volume.name} is persistent (protection.persistentVolumes)"
    return "it claims devices: whether a node has them is not known" if candidate.pod.spec.resource_claims else ""


def many_constraints(candidate: Candidate, rules: Rules, now: float) -> str:
    """Refuses a pod for whose replacement the search for a node would take the time that the other pods need."""
    if not has_too_many_constraints(candidate.pod.spec):
        return ""
    return f"it has more than {MOST_CONSTRAINTS} scheduling constraints, which are not planned with"


def unknown_owner(candidate: Candidate, rules: Rules, now: float) -> str:
    if candidate.unreadable:
        return candidate.unreadable
    workload = candidate.workload
    if workload is None:
        return "its workload is not known"
    if candidate.workload_object is None:
        supported = (workload.group, workload.kind) in REPLACING_KINDS
        unknown = f"{workload}: the kind is not supported ({workload.group or 'core'})"
        return f"{workload} was not read" if supported else unknown
    deleted = any(owner.metadata.deletion_timestamp is not None for owner in candidate.owners)
    return f"{workload} is being deleted" if deleted else ""


def few_replicas(candidate: Candidate, rules: Rules, now: float) -> str:
    if candidate.workload_object is None:
        return ""
    if candidate.replicas == 0:
        return f"{candidate.workload} is scaled to zero"
    needed = rules.protection.min_replicas
    if candidate.replicas < needed:
        return f"{candidate.workload} has {candidate.replicas} replica(s), {needed} needed (protection.minReplicas)"
    return ""


def recently_scaled(candidate: Candidate, rules: Rules, now: float) -> str:
    """Usually an autoscaler adds or removes pods. A pod that is missing for a moment does not count."""
    before, settling = candidate.pods_before, rules.protection.replicas_settling_period
    if before is None or candidate.pods_now is None:
        return ""
    lowest, highest = before
    grown = candidate.pods_now > highest
    shrunk = candidate.pods_now < lowest and candidate.replicas < lowest
    if not grown and not shrunk:
        return ""
    counts = f"{candidate.pods_now} pods, {highest if grown else lowest} {settling} ago"
    return f"{candidate.workload} was scaled recently: {counts} (protection.replicasSettlingPeriod)"


def cannot_create(owner: WorkloadObject) -> str:
    """ "" unless the workload's controller reports that it cannot create pods."""
    failure = next((condition for condition in owner.status.conditions if condition.type == "ReplicaFailure"), None)
    if failure is None or failure.status != "True":
        return ""
    return f"its controller cannot create pods ({failure.reason or failure.type})"


def failing_to_create(candidate: Candidate, rules: Rules, now: float) -> str:
    """An admission webhook or a quota would refuse the replacement, too."""
    return next((f"{candidate.workload}: {why}" for owner in candidate.owners if (why := cannot_create(owner))), "")


def few_ready(candidate: Candidate, rules: Rules, now: float) -> str:
    if candidate.workload_object is None:
        return ""
    ready, needed = candidate.workload_object.status.ready_replicas, rules.protection.min_replicas
    if ready >= needed:
        return ""
    return f"{candidate.workload} has {ready} ready replica(s), {needed} needed (protection.minReplicas)"


def rolling_out(candidate: Candidate, rules: Rules, now: float) -> str:
    workload = candidate.workload_object
    if workload is None:
        return ""
    status = workload.status
    if status.observed_generation < workload.metadata.generation:
        return f"{candidate.workload} was changed and its controller has not processed it yet"
    # Only these two report the pods of the newest template without revisions. Missing pods alone are no rollout.
    counts_updated = candidate.workload is not None and candidate.workload.kind in ("Deployment", "Rollout")
    revises = status.current_revision != "" and status.update_revision not in ("", status.current_revision)
    if (counts_updated or revises) and (why := _unfinished_rollout(candidate, workload)):
        return f"{candidate.workload} {why}"
    if status.replicas > candidate.replicas and not is_paused(workload):
        return f"{candidate.workload} is being scaled down: {candidate.replicas} of {status.replicas} pods will remain"
    if status.ready_replicas == 0:
        return f"{candidate.workload} has no ready replica"
    return ""


def _unfinished_rollout(candidate: Candidate, workload: WorkloadObject) -> str:
    """ "" if the controller replaces no pods of its own accord, and an evicted pod would get the revision that it has.

    A difference of revisions alone is no rollout: it remains with OnDelete, with a partition, and while pods are not
    ready. The partition of a StatefulSet keeps its first pods, that of a CloneSet any pods, on the previous revision.
    """
    status, strategy = workload.status, workload.spec.update_strategy
    earlier = status.replicas - status.updated_replicas
    if earlier <= 0 or is_paused(workload):
        return ""
    if strategy.type == "OnDelete":
        revision = candidate.pod.metadata.labels.get(REVISION, "")
        if revision and f"-{status.update_revision}".endswith(f"-{revision}"):  # some CloneSets write the hash only
            return ""
        return f"updates a pod when it is deleted (OnDelete): the replacement would be of {status.update_revision}"
    if earlier <= _kept_by_partition(workload, candidate.replicas):
        return ""
    new = f"{status.update_revision}: " if status.update_revision else ""
    return f"is rolling out {new}{status.updated_replicas} of {status.replicas} pods are new"


def is_paused(workload: WorkloadObject) -> bool:
    """Whether its controller has stopped to update pods: by the user, by a step of a canary, or after a failed one."""
    spec, status = workload.spec, workload.status
    return spec.paused or spec.update_strategy.paused or bool(status.pause_conditions) or status.abort


def _kept_by_partition(workload: WorkloadObject, replicas: int) -> int:
    """How many of these pods stay on the previous revision. Source: kruise, `CalculatePartitionReplicas`."""
    strategy, expected = workload.spec.update_strategy, workload.status.expected_updated_replicas
    if expected is not None:
        return max(0, replicas - expected)
    partition = strategy.partition
    if partition is None and strategy.rolling_update is not None:
        partition = strategy.rolling_update.partition
    if isinstance(partition, str):
        number = integer(partition.removesuffix("%"))
        if number is None or number < 0:
            return 0
        if not partition.endswith("%"):
            return number
        kept = math.ceil(replicas * number / 100)
        return kept - 1 if kept == replicas and number < 100 else kept
    return partition or 0


PROTECTIONS: Mapping[str, Rule] = {
    "not readable": not_readable,
    "excluded namespace": excluded_namespace,
    "static pod": static,
    "bare pod": bare,
    "DaemonSet": of_daemon_set,
    "priority": high_priority,
    "opted out": opted_out,
    "opted out for other programs": opted_out_for_others,
    "not running": not_running,
    "job": of_job,
    "gang": of_gang,
    "volumes and devices": with_storage,
    "many constraints": many_constraints,
    "terminating namespace": terminating_namespace,
    "unknown owner": unknown_owner,
    "few replicas": few_replicas,
    "rollout": rolling_out,
    "recently scaled": recently_scaled,
    "failing to create": failing_to_create,
    "few ready replicas": few_ready,
}


def rules_failed(error: Exception) -> str:
    """The reason that protects a pod to which the rules cannot be applied. The error concerns no other pod."""
    return plain_text(f"the rules cannot be applied to it ({type(error).__name__}: {error})", REASON_LIMIT)


def protection(candidate: Candidate, rules: Rules, now: float) -> str:
    """ "" when the pod may be evicted, else the first reason why not: one line of at most `REASON_LIMIT` characters."""
    reason = next((why for rule in PROTECTIONS.values() if (why := rule(candidate, rules, now))), "")
    return plain_text(reason, REASON_LIMIT) if reason else ""
