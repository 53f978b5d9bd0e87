"""A Pod as placement tells it: what it asks for, and since when it is on its node.

The API's times have a resolution of one second. Where the watch saw the event happen, its own time is better: it is
later than the API's by less than the resolution and the way through the watch.
"""

from datetime import datetime

from equipoise.contracts.kubernetes.objects import (
    Condition,
    Container,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    WorkloadObject,
)
from equipoise.contracts.kubernetes.requests import pod_limit, pod_requests
from equipoise.contracts.load.pod_priority import PRIORITY_CLASS_LABEL, QOS_LABEL, priority_class_of, qos_of
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.resources import Resources

RESOLUTION = 2.0
"""Seconds by which seeing an event may lag behind the API's time of it."""

FINISHED = frozenset({"Succeeded", "Failed"})
"""Phases of pods that use nothing any more, though their object is still there."""

_LABELS = ("pod-template-hash", "rollouts-pod-template-hash", PRIORITY_CLASS_LABEL, QOS_LABEL)
_DISRUPTED, _PREEMPTED = "DisruptionTarget", "PreemptionByScheduler"
"""How kube-scheduler marks a pod before it deletes it to make room for another: condition and reason."""

_STATES = frozenset({"PodScheduled", "Ready", _DISRUPTED})


def trimmed(pod: Pod) -> Pod:
    """Only what this file and the search for the workload read: a cluster's pods fit into memory then."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    return Pod(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            resource_version=meta.resource_version,
            creation_timestamp=meta.creation_timestamp,
            deletion_timestamp=meta.deletion_timestamp,
            labels={label: meta.labels[label] for label in _LABELS if label in meta.labels},
            owner_references=meta.owner_references,
        ),
        spec=PodSpec(
            node_name=spec.node_name,
            containers=[_trimmed(container) for container in spec.containers or ()],
            init_containers=[_trimmed(container) for container in spec.init_containers],
            overhead=spec.overhead,
            resources=spec.resources,
            priority=spec.priority,
        ),
        status=PodStatus(
            phase=status.phase,
            conditions=[condition for condition in status.conditions if condition.type in _STATES],
            start_time=status.start_time,
            qos_class=status.qos_class,
        ),
    )


def trimmed_owner(owner: WorkloadObject) -> WorkloadObject:
    """Only what leads to the owner's own owner."""
    meta = owner.metadata
    return WorkloadObject(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            resource_version=meta.resource_version,
            owner_references=meta.owner_references,
        )
    )


def _trimmed(container: Container) -> Container:
    return Container(resources=container.resources, restart_policy=container.restart_policy)


def seconds(moment: datetime | None) -> float | None:
    """Unix seconds of an API time."""
    return None if moment is None else moment.timestamp()


def sharpened(told: float | None, seen: float) -> float | None:
    """The API's time of an event, or ours where we saw it happen."""
    return seen if told is not None and told <= seen <= told + RESOLUTION else told


def placed(pod: Pod, before: PlacedPod | None, now: float, start_limit: float) -> PlacedPod:
    """The pod on its node. What was found out of its times before stays: a restart of the watch knows less."""
    meta, status = pod.metadata, pod.status
    # Never without a time: a static pod may lack the condition.
    told = _since(status, "PodScheduled") or seconds(status.start_time) or seconds(meta.creation_timestamp) or now
    return PlacedPod(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        placed_at=before.placed_at if before else sharpened(told, now) or told,
        running_since=before.running_since
        if before and before.running_since
        else _running_since(pod, now, start_limit),
        terminating=meta.deletion_timestamp is not None,
        preempted_at=_since(status, _DISRUPTED, _PREEMPTED),
        qos=qos_of(status.qos_class),
        priority=pod.spec.priority,
        priority_class=priority_class_of(meta.labels, pod.spec.priority, qos_of(status.qos_class)),
        requests=_requests(pod),
        limits=_limits(pod),
    )


def _since(status: PodStatus, condition: str, reason: str = "") -> float | None:
    found: Condition | None = next((known for known in status.conditions if known.type == condition), None)
    if found is None or found.status != "True" or (reason and found.reason != reason):
        return None
    return seconds(found.last_transition_time)


def _running_since(pod: Pod, now: float, start_limit: float) -> float | None:
    """When its containers began to use anything.

    Ready comes right after the start; when it came more than `start_limit` seconds after, it was lost and found again
    and says nothing of it.
    """
    if pod.status.phase != "Running":
        return None
    started, ready = seconds(pod.status.start_time), _since(pod.status, "Ready")
    if started is not None and ready is not None and ready - started > start_limit:
        ready = None
    told = ready if ready is not None else started
    return now if told is None else sharpened(told, now)


def _requests(pod: Pod) -> Resources:
    try:
        asked = pod_requests(pod)
    except ValueError:
        return Resources()
    return Resources(cpu=asked.get("cpu"), memory=asked.get("memory"))


def _limits(pod: Pod) -> Resources:
    try:
        return Resources(cpu=pod_limit(pod, "cpu"), memory=pod_limit(pod, "memory"))
    except ValueError:
        return Resources()
