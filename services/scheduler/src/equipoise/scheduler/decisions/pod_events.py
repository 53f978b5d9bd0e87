"""The events and conditions of kube-scheduler, with its names and texts."""

from datetime import UTC, datetime

from equipoise.contracts.kubernetes.objects.cluster import Event
from equipoise.contracts.kubernetes.objects.metadata import ExplainedCondition, ObjectMeta, ObjectReference
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.scheduler.state.attempt import Attempt
from equipoise.scheduling.model.pod_info import PodInfo

MAX_NOTE = 1024
"""Bytes."""


def scheduled(attempt: Attempt) -> tuple[str, str, str, str]:
    """Type, reason, action and note."""
    note = f"Successfully assigned {attempt.pod.namespace}/{attempt.pod.name} to {attempt.node}"
    return "Normal", "Scheduled", "Binding", note


def failed_scheduling(message: str) -> tuple[str, str, str, str]:
    return "Warning", "FailedScheduling", "Scheduling", message


def preempted(by: PodInfo, node: str) -> tuple[str, str, str, str]:
    return "Normal", "Preempted", "Preempting", f"Preempted by pod {by.uid} on node {node}"


def event(
    pod: Pod, content: tuple[str, str, str, str], *, now: float, number: str, scheduler: str, instance: str
) -> Event:
    """An event about the pod. `number` makes its name unique; `content` is type, reason, action and note."""
    kind, reason, action, note = content
    metadata = pod.metadata
    return Event(
        api_version="events.k8s.io/v1",
        kind="Event",
        metadata=ObjectMeta(name=f"{metadata.name}.{number}", namespace=metadata.namespace),
        event_time=datetime.fromtimestamp(now, UTC),
        type=kind,
        reason=reason,
        action=action,
        note=shortened(note),
        regarding=ObjectReference(
            api_version="v1", kind="Pod", namespace=metadata.namespace, name=metadata.name, uid=metadata.uid
        ),
        reporting_controller=scheduler,
        reporting_instance=instance,
    )


def shortened(note: str) -> str:
    """The note, shortened to what an event may hold."""
    encoded = note.encode()
    return note if len(encoded) <= MAX_NOTE else encoded[: MAX_NOTE - 4].decode(errors="ignore") + " ..."


def not_scheduled(attempt: Attempt, *, error: bool, message: str, now: float) -> ExplainedCondition:
    """The condition PodScheduled=False. If the pod already has it, the transition time does not change."""
    since = next(
        (
            condition.last_transition_time
            for condition in attempt.pod.pod.status.conditions
            if condition.type == "PodScheduled" and condition.status == "False"
        ),
        None,
    )
    return ExplainedCondition(
        type="PodScheduled",
        status="False",
        reason="SchedulerError" if error else "Unschedulable",
        message=message,
        last_transition_time=since or datetime.fromtimestamp(now, UTC),
    )


def disruption_target(scheduler: str, now: float) -> ExplainedCondition:
    """The condition of a pod that is preempted."""
    return ExplainedCondition(
        type="DisruptionTarget",
        status="True",
        reason="PreemptionByScheduler",
        message=f"{scheduler}: preempting to accommodate a higher priority pod",
        last_transition_time=datetime.fromtimestamp(now, UTC),
    )
