"""Which pods are never evicted, whatever the load. One rule per reason; no rule overrules another.

The descheduler checks them before it proposes a pod, and the binder again with live reads before it evicts one.
Annotations only protect: none of them requests an eviction.
"""

from collections.abc import Mapping

from equipoise.contracts.configuration.protection import SYSTEM_CRITICAL
from equipoise.contracts.eviction.candidate import Candidate, Rule, Rules
from equipoise.contracts.eviction.detached import DETACHED_HASH, is_marked_detached
from equipoise.contracts.eviction.gangs import gang_of
from equipoise.contracts.eviction.opt_out import opted_out, opted_out_for_others
from equipoise.contracts.eviction.rollout import rolling_out
from equipoise.contracts.eviction.scheduling_constraints import MOST_CONSTRAINTS, has_too_many_constraints
from equipoise.contracts.kubernetes.objects.metadata import is_ready
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.contracts.plain_text import plain_text

MIRROR = "kubernetes.io/config.mirror"
CONFIG_SOURCE = "kubernetes.io/config.source"

REASON_LIMIT = 600
"""Characters of a reason: it contains what tenants wrote, and is part of messages, Events and logs."""

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


def not_readable(candidate: Candidate, rules: Rules, now: float) -> str:
    """The pod, an owner or the namespace could not be decoded completely, or contains impossible amounts."""
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


def static(candidate: Candidate, rules: Rules, now: float) -> str:
    metadata = candidate.pod.metadata
    if MIRROR in metadata.annotations or metadata.annotations.get(CONFIG_SOURCE, "api") != "api":
        return "static pod: its node would restart it"
    controller = metadata.controller
    return "static pod: it belongs to its node" if controller is not None and controller.kind == "Node" else ""


def bare(candidate: Candidate, rules: Rules, now: float) -> str:
    if candidate.pod.metadata.controller:
        return ""
    marked = f" (its annotation {DETACHED_HASH} proves no move)" if is_marked_detached(candidate.pod.metadata) else ""
    return f"bare pod: nothing would replace it{marked}"


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
    """The search for a node for the replacement of such a pod would take the time that other pods need."""
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


def of_stateful_set(candidate: Candidate, rules: Rules, now: float) -> str:
    """Its replacement is created when the pod has ended, so that a move always has a gap. At a level, only named
    StatefulSets consent to it. Kinds of other groups with this name work alike."""
    workload, named = candidate.workload, rules.protection.stateful_sets
    if workload is None or workload.kind != "StatefulSet" or (named is None and rules.level is None):
        return ""
    if rules.protection.names_stateful_set(workload.namespace, workload.name):
        return ""
    return f"a move of its pods has a gap, and {workload} is not named (protection.statefulSets)"


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
    """An autoscaler has probably added or removed pods. A pod that is missing for a moment does not count."""
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
    "StatefulSet": of_stateful_set,
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
