"""Which pods are never evicted, whatever the load: one rule per reason. A pod is protected as soon as one rule gives a
reason.

The descheduler evaluates the rules before it proposes a pod, the binder again with live reads before it evicts one.
Annotations can only protect: none of them requests an eviction.
"""

from collections.abc import Callable, Mapping

import msgspec

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import SYSTEM_CRITICAL, Namespaces, Protection
from equipoise.contracts.kubernetes.objects import Namespace, ObjectMeta, Pod, WorkloadObject
from equipoise.contracts.kubernetes.workload import Workload

OPT_OUT = "equipoise.dev/evict"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
MIRROR = "kubernetes.io/config.mirror"
CONFIG_SOURCE = "kubernetes.io/config.source"
EVICTION_COST = "scheduling.koordinator.sh/eviction-cost"

_NEVER = str(2**31 - 1)
"""The eviction cost of pods that Koordinator never evicts. Source: koordinator, FilterPodWithMaxEvictionCost."""

MOVED_KINDS = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("", "ReplicationController"),
        ("argoproj.io", "Rollout"),
        ("apps.kruise.io", "CloneSet"),
    }
)
"""(group, kind) of the workloads whose controllers replace an evicted pod. Any other kind must report through its
scale subresource how many pods it should have, otherwise its pods are protected."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that might be moved, with the objects that rules read."""

    pod: Pod
    namespace: Namespace | None
    """None: it is gone, or not known yet."""

    workload: Workload | None = None
    """None: a bare or static pod, or not known."""

    owners: tuple[WorkloadObject, ...] = ()
    """The pod's controller and whatever controls that; the last one is the workload. Empty: not known."""

    unreadable: str = ""
    """What could not be read of all this, and why."""

    pods_now: int | None = None
    """The workload's pods on nodes, those that are terminating left out; None: not known."""

    pods_before: tuple[int, int] | None = None
    """The same `protection.replicasSettlingPeriod` ago, as minimum and maximum: pods that were ending may count."""

    @property
    def workload_object(self) -> WorkloadObject | None:
        return self.owners[-1] if self.owners else None

    @property
    def replicas(self) -> int:
        """Desired number of pods of the workload; None in the object means 1."""
        if self.workload_object is None:
            return 0
        replicas = self.workload_object.spec.replicas
        return 1 if replicas is None else replicas

    @property
    def unready(self) -> int:
        """How many of them are missing or not ready."""
        workload = self.workload_object
        return 0 if workload is None else max(0, self.replicas - workload.status.ready_replicas)


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says of every pod."""

    protection: Protection
    namespaces: Namespaces
    own_namespace: str


Rule = Callable[[Candidate, Rules, float], str]
"""(candidate, rules, now) -> "" or why the pod is protected."""


def excluded_namespace(candidate: Candidate, rules: Rules, now: float) -> str:
    name = candidate.pod.metadata.namespace
    if name == rules.own_namespace:
        return "Equipoise does not move itself"
    return "" if rules.namespaces.allow(name, rules.own_namespace) else f"namespace {name} is excluded"


def ending_namespace(candidate: Candidate, rules: Rules, now: float) -> str:
    namespace = candidate.namespace
    if namespace is None:
        return f"namespace {candidate.pod.metadata.namespace} is not known"
    ending = namespace.metadata.deletion_timestamp is not None or namespace.status.phase == "Terminating"
    return "its namespace is terminating: no replacement could be made" if ending else ""


def opted_out(candidate: Candidate, rules: Rules, now: float) -> str:
    annotated_objects = [("pod", candidate.pod.metadata)]
    annotated_objects += [(owner.kind or "owner", owner.metadata) for owner in candidate.owners]
    if candidate.namespace is not None:
        annotated_objects.append(("namespace", candidate.namespace.metadata))
    for kind, metadata in annotated_objects:
        value = metadata.annotations.get(OPT_OUT)
        if value is not None:
            meaning = '; only "false" is known, anything else protects too' if has_invalid_opt_out(metadata) else ""
            return f'annotation {OPT_OUT}="{value}" of {kind} {metadata.name}{meaning}'
    return ""


def has_invalid_opt_out(metadata: ObjectMeta) -> bool:
    """True if the value of the opt-out annotation is not "false". Such a value protects as well."""
    return metadata.annotations.get(OPT_OUT, "false") != "false"


def opted_out_for_others(candidate: Candidate, rules: Rules, now: float) -> str:
    """Opt-out annotations of cluster-autoscaler, Koordinator and karpenter are honored."""
    annotations = candidate.pod.metadata.annotations
    if annotations.get(SAFE_TO_EVICT) == "false":
        return f'annotation {SAFE_TO_EVICT}="false"'
    if annotations.get(EVICTION_COST) == _NEVER:
        return f'annotation {EVICTION_COST}="{_NEVER}"'
    wanted = annotations.get(DO_NOT_DISRUPT, "false")
    if wanted == "false":
        return ""
    started = candidate.pod.status.start_time
    try:
        still = started is None or now - started.timestamp() < Duration.parse(wanted)
    except ValueError:
        still = True
    return f'annotation {DO_NOT_DISRUPT}="{wanted}"' if still else ""


def static(candidate: Candidate, rules: Rules, now: float) -> str:
    metadata = candidate.pod.metadata
    if MIRROR in metadata.annotations or metadata.annotations.get(CONFIG_SOURCE, "api") != "api":
        return "static pod: its node would bring it back"
    controller = metadata.controller
    return "static pod: it belongs to its node" if controller is not None and controller.kind == "Node" else ""


def bare(candidate: Candidate, rules: Rules, now: float) -> str:
    return "" if candidate.pod.metadata.controller else "bare pod: nothing would bring it back"


def of_daemon_set(candidate: Candidate, rules: Rules, now: float) -> str:
    controller = candidate.pod.metadata.controller
    daemon = controller is not None and controller.kind == "DaemonSet"
    return "pod of a DaemonSet: its replacement would come back to the node" if daemon else ""


def of_job(candidate: Candidate, rules: Rules, now: float) -> str:
    controller = candidate.pod.metadata.controller
    if controller is not None and controller.kind == "Job":
        return "pod of a Job: its work so far would be lost"
    policy = candidate.pod.spec.restart_policy
    return "" if policy == "Always" else f"it runs to an end (restartPolicy {policy}): its work would be lost"


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
        return "terminating already"
    if pod.status.phase != "Running":
        return f"phase is {pod.status.phase or 'unknown'}, not Running"
    ready = any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions)
    return "" if ready else "not ready"


def with_storage(candidate: Candidate, rules: Rules, now: float) -> str:
    settings = rules.protection
    for volume in candidate.pod.spec.volumes:
        if not settings.local_storage and (volume.empty_dir is not None or volume.host_path is not None):
            return f"volume {volume.name} keeps data on the node (protection.localStorage)"
        persistent = volume.persistent_volume_claim is not None or volume.ephemeral is not None
        if not settings.persistent_volumes and persistent:
            return f"volume {volume.name} is persistent (protection.persistentVolumes)"
    return "it claims devices: whether they fit on a target is unknown" if candidate.pod.spec.resource_claims else ""


def unknown_owner(candidate: Candidate, rules: Rules, now: float) -> str:
    if candidate.unreadable:
        return candidate.unreadable
    workload = candidate.workload
    if workload is None:
        return "its workload is not known"
    if candidate.workload_object is None:
        known = (workload.group, workload.kind) in MOVED_KINDS
        unknown = f"{workload}: nothing is known of this kind ({workload.group or 'core'}), so its pods stay"
        return f"{workload} was not read" if known else unknown
    ending = any(owner.metadata.deletion_timestamp is not None for owner in candidate.owners)
    return f"{workload} is being deleted" if ending else ""


def few_replicas(candidate: Candidate, rules: Rules, now: float) -> str:
    if candidate.workload_object is None:
        return ""
    if candidate.replicas == 0:
        return f"{candidate.workload} is scaled to zero"
    least = rules.protection.min_replicas
    if candidate.replicas < least:
        return f"{candidate.workload} has {candidate.replicas} replica(s), {least} needed (protection.minReplicas)"
    return ""


def scaled_lately(candidate: Candidate, rules: Rules, now: float) -> str:
    """The workload was scaled, usually by an autoscaler. A temporarily missing pod does not count as scaling."""
    before, settling = candidate.pods_before, rules.protection.replicas_settling_period
    if before is None or candidate.pods_now is None:
        return ""
    least, most = before
    grown = candidate.pods_now > most
    shrunk = candidate.pods_now < least and candidate.replicas < least
    if not grown and not shrunk:
        return ""
    what = f"{candidate.pods_now} pods, {most if grown else least} {settling} ago"
    return f"{candidate.workload} was scaled lately: {what} (protection.replicasSettlingPeriod)"


def cannot_create(owner: WorkloadObject) -> str:
    """ "" unless the workload's controller says that it cannot create the pods that it should."""
    failure = next((condition for condition in owner.status.conditions if condition.type == "ReplicaFailure"), None)
    if failure is None or failure.status != "True":
        return ""
    return f"its controller cannot create pods ({failure.reason or failure.type})"


def failing_to_create(candidate: Candidate, rules: Rules, now: float) -> str:
    """An admission webhook or a quota would refuse the replacement as well."""
    return next((f"{candidate.workload}: {why}" for owner in candidate.owners if (why := cannot_create(owner))), "")


def few_ready(candidate: Candidate, rules: Rules, now: float) -> str:
    if candidate.workload_object is None:
        return ""
    ready, least = candidate.workload_object.status.ready_replicas, rules.protection.min_replicas
    if ready >= least:
        return ""
    return f"{candidate.workload} has {ready} ready replica(s), {least} needed (protection.minReplicas)"


def rolling_out(candidate: Candidate, rules: Rules, now: float) -> str:
    workload = candidate.workload_object
    if workload is None:
        return ""
    status = workload.status
    if workload.spec.paused:
        return f"{candidate.workload} is paused"
    if status.observed_generation < workload.metadata.generation:
        return f"{candidate.workload} was changed and its controller has not seen it yet"
    if status.update_revision and status.current_revision and status.update_revision != status.current_revision:
        return f"{candidate.workload} is rolling out {status.update_revision}"
    # Only these two count pods of the newest template in this way; too few pods alone is no rollout.
    counts_updated = candidate.workload is not None and candidate.workload.kind in ("Deployment", "Rollout")
    if counts_updated and status.replicas > status.updated_replicas:
        return f"{candidate.workload} is rolling out: {status.updated_replicas} of {status.replicas} pods are new"
    if status.replicas > candidate.replicas:
        return f"{candidate.workload} is being scaled down: {candidate.replicas} of {status.replicas} pods will stay"
    if status.ready_replicas == 0:
        return f"{candidate.workload} has no ready replica"
    return ""


PROTECTIONS: Mapping[str, Rule] = {
    "excluded namespace": excluded_namespace,
    "static pod": static,
    "bare pod": bare,
    "DaemonSet": of_daemon_set,
    "priority": high_priority,
    "opted out": opted_out,
    "opted out for other programs": opted_out_for_others,
    "not running": not_running,
    "job": of_job,
    "volumes and devices": with_storage,
    "ending namespace": ending_namespace,
    "unknown owner": unknown_owner,
    "few replicas": few_replicas,
    "rollout": rolling_out,
    "scaled lately": scaled_lately,
    "failing to create": failing_to_create,
    "few ready replicas": few_ready,
}


def protection(candidate: Candidate, rules: Rules, now: float) -> str:
    """ "" when the pod may be moved, else the first reason why not."""
    return next((why for rule in PROTECTIONS.values() if (why := rule(candidate, rules, now))), "")
