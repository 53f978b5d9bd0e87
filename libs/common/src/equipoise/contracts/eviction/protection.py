"""Which pods stay where they are, whatever the load. One rule per reason; each may say no, none may overrule another.

The descheduler asks before it proposes a pod, the binder asks again with live reads before it evicts one. Annotations
only ever protect: there is none that asks for an eviction.
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
"""The eviction cost at which Koordinator evicts nothing (`koordinator.md` 2.3)."""

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
"""(group, kind) of the workloads that are known to bring an evicted pod back. Any other kind must tell through its
scale subresource how many pods it should have, else its pods stay."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that might be moved, with everything around it that has a say."""

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
    def top(self) -> WorkloadObject | None:
        return self.owners[-1] if self.owners else None

    @property
    def replicas(self) -> int:
        """How many pods the workload should have; None in the object means 1."""
        if self.top is None:
            return 0
        return 1 if self.top.spec.replicas is None else self.top.spec.replicas

    @property
    def unready(self) -> int:
        """How many of them are missing or not ready."""
        return 0 if self.top is None else max(0, self.replicas - self.top.status.ready_replicas)


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
    bearers = [("pod", candidate.pod.metadata)]
    bearers += [(owner.kind or "owner", owner.metadata) for owner in candidate.owners]
    if candidate.namespace is not None:
        bearers.append(("namespace", candidate.namespace.metadata))
    for kind, metadata in bearers:
        value = metadata.annotations.get(OPT_OUT)
        if value is not None:
            meaning = '; only "false" is known, anything else protects too' if has_invalid_opt_out(metadata) else ""
            return f'annotation {OPT_OUT}="{value}" of {kind} {metadata.name}{meaning}'
    return ""


def has_invalid_opt_out(metadata: ObjectMeta) -> bool:
    """Has the opt-out annotation of this object a value that somebody may have meant otherwise? It protects."""
    return metadata.annotations.get(OPT_OUT, "false") != "false"


def opted_out_for_others(candidate: Candidate, rules: Rules, now: float) -> str:
    """What people wrote for cluster-autoscaler, Koordinator and karpenter holds here too."""
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


def important(candidate: Candidate, rules: Rules, now: float) -> str:
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
    return "it claims devices, for which a target cannot be told" if candidate.pod.spec.resource_claims else ""


def unknown_owner(candidate: Candidate, rules: Rules, now: float) -> str:
    if candidate.unreadable:
        return candidate.unreadable
    workload = candidate.workload
    if workload is None:
        return "its workload is not known"
    if candidate.top is None:
        known = (workload.group, workload.kind) in MOVED_KINDS
        unknown = f"{workload}: nothing is known of this kind ({workload.group or 'core'}), so its pods stay"
        return f"{workload} was not read" if known else unknown
    ending = any(owner.metadata.deletion_timestamp is not None for owner in candidate.owners)
    return f"{workload} is being deleted" if ending else ""


def few_replicas(candidate: Candidate, rules: Rules, now: float) -> str:
    if candidate.top is None:
        return ""
    if candidate.replicas == 0:
        return f"{candidate.workload} is scaled to zero"
    least = rules.protection.min_replicas
    if candidate.replicas < least:
        return f"{candidate.workload} has {candidate.replicas} replica(s), {least} needed (protection.minReplicas)"
    return ""


def scaled_lately(candidate: Candidate, rules: Rules, now: float) -> str:
    """Somebody adds or removes pods: an autoscaler, most of the time. A pod that is missing for now is neither."""
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
    if candidate.top is None:
        return ""
    ready, least = candidate.top.status.ready_replicas, rules.protection.min_replicas
    if ready >= least:
        return ""
    return f"{candidate.workload} has {ready} ready replica(s), {least} needed (protection.minReplicas)"


def rolling_out(candidate: Candidate, rules: Rules, now: float) -> str:
    top = candidate.top
    if top is None:
        return ""
    status = top.status
    if top.spec.paused:
        return f"{candidate.workload} is paused"
    if status.observed_generation < top.metadata.generation:
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
    "priority": important,
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
