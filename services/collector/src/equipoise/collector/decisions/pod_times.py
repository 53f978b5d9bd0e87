"""A Pod as placement messages carry it: what it requests and requires, when it was placed, and since when it runs.

Times of the API have a resolution of one second. The time at which the watch received the event is more precise: it is
later than the API's by less than that resolution and the delay of the watch.
"""

from datetime import datetime

import msgspec

from equipoise.contracts.bounds import LATEST
from equipoise.contracts.colocation.bands import OfferedBand, amounts_of_band, band_of, limits_of_band
from equipoise.contracts.hints.hinted_pod import hint_weights
from equipoise.contracts.hints.policy import HINTED
from equipoise.contracts.kubernetes.labels import required_nodes
from equipoise.contracts.kubernetes.nodes.taints import DEFAULT_TOLERATIONS
from equipoise.contracts.kubernetes.objects.metadata import Condition, ObjectMeta, is_ready
from equipoise.contracts.kubernetes.objects.node import NodeSelector
from equipoise.contracts.kubernetes.objects.pod import (
    Affinity,
    Container,
    NodeAffinity,
    Pod,
    PodSpec,
    PodStatus,
    PreferredNodes,
    Toleration,
)
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.contracts.kubernetes.owners import TEMPLATE_HASHES
from equipoise.contracts.kubernetes.requests import Amounts, pod_limit, pod_requests, with_actual_resources
from equipoise.contracts.load.correction import FUTURE_TOLERANCE
from equipoise.contracts.load.pod_priority import (
    PRIORITY_CLASS_LABEL,
    QOS,
    QOS_LABEL,
    labeled_qos,
    priority_class_of,
    qos_of,
)
from equipoise.contracts.messages.placement import PlacedHint, PlacedPod
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.unreadable.known_amounts import with_known_amounts

MAX_WATCH_DELAY = 2.0
"""The arrival time of an event is used if it is at most this many seconds after the API's time."""

_PENDING = "Pending"
"""Phase of pods that do not run yet, placed or not."""

MAX_CONSTRAINT_BYTES = 1_000
"""The maximum size of a pod's tolerations, and of its node selector: a message about 250 pods must stay below 1 MiB."""

_LABELS = (*TEMPLATE_HASHES, PRIORITY_CLASS_LABEL, QOS_LABEL, QOS)
_EXCLUSIVE = "LSE"
_DISRUPTED, _PREEMPTED = "DisruptionTarget", "PreemptionByScheduler"
"""Condition and reason that kube-scheduler sets on a pod before it preempts it."""

_CONDITIONS = frozenset({"PodScheduled", "Ready", _DISRUPTED})

_replace = msgspec.structs.replace


def trimmed(pod: Pod) -> Pod:
    """The pod with only the fields that this module and the search for the workload read, to save memory.

    Its containers have the resources that the node accounts for.
    """
    pod = _with_actual_resources(with_known_amounts(pod))
    meta, spec, status = pod.metadata, pod.spec, pod.status
    tolerations, nodes = _constraints(pod)
    return Pod(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            resource_version=meta.resource_version,
            creation_timestamp=meta.creation_timestamp,
            deletion_timestamp=meta.deletion_timestamp,
            labels={label: meta.labels[label] for label in _LABELS if label in meta.labels},
            annotations={HINTED: meta.annotations[HINTED]} if _shows_hint(pod) else {},
            owner_references=meta.owner_references,
            unreadable=meta.unreadable,
            requests_known=meta.requests_known,
        ),
        spec=PodSpec(
            node_name=spec.node_name,
            containers=[_trimmed(container) for container in spec.containers or ()],
            init_containers=[_trimmed(container) for container in spec.init_containers],
            overhead=spec.overhead,
            resources=spec.resources,
            priority=spec.priority,
            tolerations=tolerations,
            affinity=_affinity(nodes, _preferences(pod)),
        ),
        status=PodStatus(
            phase=status.phase,
            conditions=[condition for condition in status.conditions if condition.type in _CONDITIONS],
            start_time=status.start_time,
            qos_class=status.qos_class,
        ),
    )


def with_owner_of(before: Pod, pod: Pod) -> Pod:
    """The (trimmed) pod with everything that `before`, the same pod, had because of its owner.

    A move without a gap detaches a pod from its ReplicaSet, and the pod goes on doing the work of its workload. An
    annotation of the pod proves nothing: any tenant can write it.
    """
    labels = {label: value for label, value in before.metadata.labels.items() if label in TEMPLATE_HASHES}
    owners = before.metadata.owner_references
    return _replace(
        pod,
        metadata=_replace(pod.metadata, owner_references=owners, labels=pod.metadata.labels | labels),
        spec=_replace(pod.spec, tolerations=before.spec.tolerations, affinity=before.spec.affinity),
    )


def _with_actual_resources(pod: Pod) -> Pod:
    try:
        return with_actual_resources(pod)
    except ValueError:
        return pod


def trimmed_owner(owner: WorkloadObject) -> WorkloadObject:
    """The owner with only the fields that lead to its own owner."""
    meta = owner.metadata
    return WorkloadObject(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            resource_version=meta.resource_version,
            owner_references=meta.owner_references,
            unreadable=meta.unreadable,
        )
    )


def _shows_hint(pod: Pod) -> bool:
    """Whether the pod's node affinity must be kept, because it may contain a hint. The affinity has many names, and is
    dropped once the pod runs: `placed_pod` has read it by then."""
    return pod.status.phase == _PENDING and HINTED in pod.metadata.annotations


def _preferences(pod: Pod) -> list[PreferredNodes]:
    nodes = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    return nodes.preferred if nodes and _shows_hint(pod) else []


def _affinity(required: NodeSelector | None, preferred: list[PreferredNodes]) -> Affinity | None:
    if required is None and not preferred:
        return None
    return Affinity(node_affinity=NodeAffinity(required=required, preferred=preferred))


def _constraints(pod: Pod) -> tuple[list[Toleration], NodeSelector | None]:
    """The tolerations and the required nodes that decide about the next pods of its workload, unless they are too long.

    Each pod of a DaemonSet requires its own node.
    """
    owner = pod.metadata.controller
    if owner is None or owner.kind == "DaemonSet":
        return [], None
    tolerations = [toleration for toleration in pod.spec.tolerations if toleration not in DEFAULT_TOLERATIONS]
    nodes = required_nodes(pod.spec)
    return [] if _too_long(tolerations) else tolerations, None if _too_long(nodes) else nodes


def _too_long(constraint: list[Toleration] | NodeSelector | None) -> bool:
    return bool(constraint) and len(msgspec.json.encode(constraint)) > MAX_CONSTRAINT_BYTES


def _trimmed(container: Container) -> Container:
    return Container(resources=container.resources, restart_policy=container.restart_policy)


def unix_seconds(time: datetime | None) -> float | None:
    """Unix seconds; None for a time that a message cannot have: before 1970, or after the year 9999."""
    if time is None:
        return None
    seconds = time.timestamp()
    return seconds if 0 <= seconds <= LATEST else None


def precise_time(reported: float, received: float) -> float:
    """The API's time of an event, or the time of its arrival when the watch received it right then.

    The time of its arrival also replaces a time in the future, which a clock that is ahead has reported.
    """
    is_ahead = reported > received + FUTURE_TOLERANCE
    return received if is_ahead or reported <= received <= reported + MAX_WATCH_DELAY else reported


def placed_pod(
    pod: Pod, before: PlacedPod | None, now: float, start_timeout: float, hostname: str | None = None
) -> PlacedPod:
    """The (trimmed) pod on its node. The times and the hint of `before` are kept: later ones are less precise, or
    unknown.

    `hostname`: the label of its node; None: the node is not known.
    """
    meta, status = pod.metadata, pod.status
    # A static pod may lack the condition.
    created_at = unix_seconds(meta.creation_timestamp)
    placed_at = _since(status, "PodScheduled") or unix_seconds(status.start_time) or created_at or now
    requests = _requests(pod)
    band = band_of(requests)
    return PlacedPod(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        placed_at=before.placed_at if before else precise_time(placed_at, now),
        running_since=(before.running_since if before else None) or running_since(pod, now, start_timeout),
        has_been_ready=(before is not None and before.has_been_ready) or is_ready(status.conditions),
        terminating=meta.deletion_timestamp is not None,
        terminates_at=unix_seconds(meta.deletion_timestamp),
        preempted_at=_since(status, _DISRUPTED, _PREEMPTED),
        qos=qos_of(status.qos_class),
        priority=pod.spec.priority,
        priority_class=band or priority_class_of(meta.labels, pod.spec.priority, qos_of(status.qos_class)),
        requests=Resources(cpu=requests.get("cpu"), memory=requests.get("memory")),
        limits=_limits(pod),
        reclaimed_requests=Resources() if band is None else amounts_of_band(requests, band),
        reclaimed_limits=Resources() if band is None else _limits_of_band(pod, band),
        exclusive=labeled_qos(meta.labels) == _EXCLUSIVE,
        hint=before.hint if before else _hint(pod, hostname),
        tolerations=tuple(pod.spec.tolerations),
        node_selector=required_nodes(pod.spec),
    )


def _hint(pod: Pod, hostname: str | None) -> PlacedHint | None:
    if pod.status.phase != _PENDING:
        return None
    weights = hint_weights(pod)
    if weights is None:
        return PlacedHint()
    if hostname is None:
        return None
    preferred = sum(weight > 0 for weight in weights.values())
    return PlacedHint(preferred=preferred, avoided=len(weights) - preferred, weight=weights.get(hostname, 0))


def _since(status: PodStatus, condition: str, reason: str = "") -> float | None:
    current: Condition | None = next((item for item in status.conditions if item.type == condition), None)
    if current is None or current.status != "True" or (reason and current.reason != reason):
        return None
    return unix_seconds(current.last_transition_time)


def running_since(pod: Pod, now: float, start_timeout: float) -> float | None:
    """The time since which the pod's containers use resources: since it is Ready, else since its start time.

    A Ready time more than `start_timeout` seconds after the start is that of a later return to Ready and is not used.
    """
    if pod.status.phase != "Running":
        return None
    started, ready = unix_seconds(pod.status.start_time), _since(pod.status, "Ready")
    if started is not None and ready is not None and ready - started > start_timeout:
        ready = None
    since = ready if ready is not None else started
    return now if since is None else precise_time(since, now)


def _requests(pod: Pod) -> Amounts:
    try:
        return pod_requests(pod)
    except ValueError:
        return {}


def _limits(pod: Pod) -> Resources:
    try:
        return Resources(cpu=pod_limit(pod, "cpu"), memory=pod_limit(pod, "memory"))
    except ValueError:
        return Resources()


def _limits_of_band(pod: Pod, band: OfferedBand) -> Resources:
    try:
        return limits_of_band(pod, band)
    except ValueError:
        return Resources()
