"""Which pods may be moved without a gap: a second pod of the workload runs until the replacement is ready.

One rule per reason. They are checked in addition to those of `protection`. The consent is that of the owner: a
Deployment whose rollouts add a pod (`maxSurge`) accepts one more at any time.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from equipoise.contracts.configuration.moves import gap_refusal
from equipoise.contracts.eviction.candidate import Candidate, Rules
from equipoise.contracts.eviction.opt_out import annotated
from equipoise.contracts.eviction.protection import REASON_LIMIT, protection
from equipoise.contracts.kubernetes.labels import integer, selects
from equipoise.contracts.kubernetes.objects.cluster import ResourceQuota
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector
from equipoise.contracts.kubernetes.objects.workload import KubernetesService, PodDisruptionBudget
from equipoise.contracts.kubernetes.owners import TEMPLATE_HASHES
from equipoise.contracts.kubernetes.quantity import magnitude
from equipoise.contracts.kubernetes.requests import pod_limit, pod_requests
from equipoise.contracts.plain_text import plain_text

TEMPLATE_HASH = "pod-template-hash"
"""The label by which the ReplicaSets of a Deployment select their pods. Without it, a pod is detached."""

SURGE_OPT_OUT = "equipoise.dev/surge"

_COMMON_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})

_NODE_DISKS = ("persistent_volume_claim", "gce_persistent_disk", "aws_elastic_block_store", "iscsi", "rbd")
"""The kinds of volumes that one node may hold alone. Claims that several nodes can mount are not distinguished."""


class SurgeCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that no rule of `protection` protects, or only `few_replicas`, with the objects of its namespace."""

    candidate: Candidate
    services: Sequence[KubernetesService] = ()
    budgets: Sequence[PodDisruptionBudget] = ()
    quotas: Sequence[ResourceQuota] = ()
    leaving: str = ""
    """Why all pods of its node are about to leave it; empty if they are not."""


SurgeRule = Callable[[SurgeCandidate], str]
"""A function that returns why the pod must not be moved without a gap, or an empty text."""


def opted_out_of_surge(surge: SurgeCandidate) -> str:
    return annotated(surge.candidate, SURGE_OPT_OUT)


def on_leaving_node(surge: SurgeCandidate) -> str:
    """Refuses a pod that would be in the way while its node is emptied: `kubectl drain` stops at detached pods."""
    return surge.leaving


def not_of_deployment(surge: SurgeCandidate) -> str:
    """Refuses all other kinds: their controllers give up no pod, or their Services select by the template."""
    workload = surge.candidate.workload
    if workload is None or surge.candidate.workload_object is None:
        return "its workload is not known"
    if (workload.group, workload.kind) == ("apps", "Deployment"):
        return ""
    return f"{workload}: only pods of Deployments can run twice for a while"


def without_template_hash(surge: SurgeCandidate) -> str:
    candidate = surge.candidate
    value = candidate.pod.metadata.labels.get(TEMPLATE_HASH, "")
    selector = candidate.owners[0].spec.selector if candidate.owners else None
    if value and selector is not None and selector.match_labels.get(TEMPLATE_HASH) == value:
        return ""
    return f"its ReplicaSet does not select it by the label {TEMPLATE_HASH}"


def no_surge_allowed(surge: SurgeCandidate) -> str:
    """Refuses a Deployment whose rollouts never run a pod more than desired."""
    workload = surge.candidate.workload_object
    if workload is None:
        return ""
    strategy = workload.spec.strategy
    if strategy.type != "RollingUpdate":
        return f"{surge.candidate.workload} has the strategy {strategy.type or 'unknown'}, not RollingUpdate"
    value = strategy.rolling_update.max_surge if strategy.rolling_update is not None else None
    if _is_positive(value):
        return ""
    return f"{surge.candidate.workload} allows no pod more than desired (maxSurge {plain_text(str(value), 20)})"


def _is_positive(amount: int | str | None) -> bool:
    """Whether a number or a percentage is above 0: `maxSurge` is rounded up."""
    number = integer(amount.removesuffix("%")) if isinstance(amount, str) else amount
    return number is not None and number > 0


def paused(surge: SurgeCandidate) -> str:
    workload = surge.candidate.workload_object
    return f"{surge.candidate.workload} is paused" if workload is not None and workload.spec.paused else ""


def not_complete(surge: SurgeCandidate) -> str:
    """Refuses while a replica is missing, or is being added or removed."""
    candidate = surge.candidate
    workload = candidate.workload_object
    if workload is None:
        return ""
    if candidate.unready or workload.status.available_replicas < candidate.replicas:
        available = workload.status.available_replicas
        return f"{candidate.workload} is not complete: {available} of {candidate.replicas} pods are available"
    if workload.status.replicas != candidate.replicas:
        return f"{candidate.workload} has {workload.status.replicas} pods, {candidate.replicas} are desired"
    return ""


def with_disks(surge: SurgeCandidate) -> str:
    for volume in surge.candidate.pod.spec.volumes:
        if any(getattr(volume, kind) is not None for kind in _NODE_DISKS):
            return f"volume {volume.name} may be mounted by one node only"
    return ""


def with_host_ports(surge: SurgeCandidate) -> str:
    spec = surge.candidate.pod.spec
    for container in (*(spec.containers or ()), *spec.init_containers):
        for port in container.ports:
            if port.host_port:
                return f"container {container.name} has the host port {port.host_port}"
    return ""


def with_devices(surge: SurgeCandidate) -> str:
    """Refuses GPUs and other resources of which nodes have few: two pods would need twice as many."""
    spec = surge.candidate.pod.spec
    for container in (*(spec.containers or ()), *spec.init_containers):
        for name in (*container.resources.requests, *container.resources.limits):
            if name not in _COMMON_RESOURCES:
                return f"container {container.name} requests {name}"
    return "it claims devices" if spec.resource_claims else ""


def selected_by_template(surge: SurgeCandidate) -> str:
    """Refuses a pod that a Service or budget selects only with the label, or only without it."""
    for service in surge.services:
        if service.spec.selector and _depends_on_hash(surge, LabelSelector(match_labels=service.spec.selector)):
            return f"Service {service.metadata.name} selects pods by their template"
    for budget in surge.budgets:
        if _depends_on_hash(surge, budget.spec.selector):
            return f"PodDisruptionBudget {budget.metadata.name} selects pods by their template"
    return ""


def _depends_on_hash(surge: SurgeCandidate, selector: LabelSelector | None) -> bool:
    labels = surge.candidate.pod.metadata.labels
    detached = {key: value for key, value in labels.items() if key not in TEMPLATE_HASHES}
    return selects(selector, labels) != selects(selector, detached)


def with_several_budgets(surge: SurgeCandidate) -> str:
    """Refuses a pod that the API server would never evict."""
    labels = surge.candidate.pod.metadata.labels
    names = [budget.metadata.name for budget in surge.budgets if selects(budget.spec.selector, labels)]
    return f"it has more than one PodDisruptionBudget: {', '.join(sorted(names))}" if len(names) > 1 else ""


def unreadable_selectors(surge: SurgeCandidate) -> str:
    for item in (*surge.services, *surge.budgets, *surge.quotas):
        if why := item.metadata.unreadable:
            return f"{item.kind or 'object'} {item.metadata.name} cannot be read: {why}"
    return ""


def without_quota(surge: SurgeCandidate) -> str:
    """Refuses if a quota has no room for one pod more. Scopes of quotas are ignored, which is stricter."""
    pod = surge.candidate.pod
    try:
        requests = pod_requests(pod)
        added = {"pods": 1.0, "count/pods": 1.0}
        for name in _COMMON_RESOURCES:
            limit = pod_limit(pod, name) or 0.0
            added |= {name: requests.get(name, 0.0), f"requests.{name}": requests.get(name, 0.0)}
            added[f"limits.{name}"] = limit
        for quota in surge.quotas:
            for name, hard in quota.status.hard.items():
                used = magnitude(quota.status.used.get(name, "0"))
                if added.get(name) and used + added[name] > magnitude(hard):
                    return f"ResourceQuota {quota.metadata.name} has no room for one pod more ({name})"
    except ValueError as error:
        return f"whether a ResourceQuota has room is not known: {error}"
    return ""


SURGE_RULES: Mapping[str, SurgeRule] = {
    "not readable": unreadable_selectors,
    "opted out": opted_out_of_surge,
    "node is emptied": on_leaving_node,
    "no Deployment": not_of_deployment,
    "no template hash": without_template_hash,
    "no surge allowed": no_surge_allowed,
    "paused": paused,
    "not complete": not_complete,
    "disks": with_disks,
    "host ports": with_host_ports,
    "devices": with_devices,
    "selected by template": selected_by_template,
    "several budgets": with_several_budgets,
    "quota": without_quota,
}


def surge_refusal(surge: SurgeCandidate) -> str:
    """ "" when the pod may be moved without a gap, else the first reason why not: one line of at most `REASON_LIMIT`
    characters."""
    reason = next((why for rule in SURGE_RULES.values() if (why := rule(surge))), "")
    return plain_text(reason, REASON_LIMIT) if reason else ""


def may_surge(candidate: Candidate, protected: str, rules: Rules, now: float) -> bool:
    """Whether to ask for a move without a gap: nothing protects the pod, or only `protection.minReplicas` does.

    `protected`: why the pod is protected; empty if it is not.
    """
    if rules.surge == "none":
        return False
    if not protected:
        return rules.surge != "singleReplicas"
    few = msgspec.structs.replace(rules.protection, min_replicas=1)
    return not protection(candidate, msgspec.structs.replace(rules, protection=few), now)


def surge_decision(surge: SurgeCandidate, protected: str, rules: Rules) -> tuple[str, bool]:
    """Why the pod must not be moved, and whether it is moved without a gap. `may_surge` permits to ask.

    A pod that cannot be moved without a gap is evicted at once, unless `protected` or the level has a reason.
    """
    otherwise = protected or gap_refusal(rules.level)
    if not protected and rules.surge != "always" and not _is_blocked(surge):
        return otherwise, False
    if why := surge_refusal(surge):
        return f"{otherwise}, and it cannot be moved without a gap: {why}" if otherwise else "", False
    return "", True


def _is_blocked(surge: SurgeCandidate) -> bool:
    """Whether a PodDisruptionBudget of the pod allows no eviction now."""
    labels = surge.candidate.pod.metadata.labels
    return any(
        budget.status.disruptions_allowed <= 0 and selects(budget.spec.selector, labels) for budget in surge.budgets
    )
