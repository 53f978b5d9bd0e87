"""The Events for the owner of a pod, why it was evicted or cannot be, and the one at the end of a campaign."""

import hashlib
from datetime import UTC, datetime

from equipoise.binder.state.campaign import Campaign
from equipoise.contracts.kubernetes.objects.cluster import Event
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, ObjectReference
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.contracts.messages.eviction import EvictionIntent
from equipoise.contracts.plain_text import plain_text

CONTROLLER = "equipoise.dev/binder"

_LEDGER = "equipoise-ledger"
_NOTE_BYTES = 1_024
_INSTANCE_LENGTH = 128
_NAME_LENGTH = 230


def pod_reference(intent: EvictionIntent) -> ObjectReference:
    return ObjectReference(
        api_version="v1", kind="Pod", namespace=intent.namespace, name=intent.pod, uid=intent.pod_uid
    )


def workload_reference(workload: WorkloadObject) -> ObjectReference:
    meta = workload.metadata
    return ObjectReference(
        api_version=workload.api_version, kind=workload.kind, namespace=meta.namespace, name=meta.name, uid=meta.uid
    )


def fence_probe(namespace: str, name: str, now: float) -> Event:
    """A valid Event of this name in the namespace of Equipoise."""
    return Event(
        metadata=ObjectMeta(name=name, namespace=namespace),
        event_time=_event_time(now),
        reason="FenceCheck",
        action="Checking",
        regarding=_ledger(namespace),
        reporting_controller=CONTROLLER,
        reporting_instance="binder",
    )


def campaign_event(campaign: Campaign, namespace: str, now: float, instance: str) -> Event:
    """The Event that a campaign has ended, in the namespace of Equipoise. Every binder gives it the same name."""
    digest = hashlib.sha256(f"{campaign.name} {campaign.started_at}".encode()).hexdigest()[:16]
    moves = f"{campaign.used} of {campaign.budget} moves"
    return Event(
        metadata=ObjectMeta(name=f"{_LEDGER}.{digest}", namespace=namespace),
        event_time=_event_time(now),
        type="Warning" if campaign.stopped else "Normal",
        reason="CampaignStopped" if campaign.stopped else "CampaignEnded",
        action="Rebalancing",
        note=_note(f'Campaign "{campaign.name}" made {moves} and has ended: {campaign.ended}'),
        regarding=_ledger(namespace),
        reporting_controller=CONTROLLER,
        reporting_instance=instance[:_INSTANCE_LENGTH] or "binder",
    )


def intent_event(
    intent: EvictionIntent,
    now: float,
    instance: str,
    regarding: ObjectReference,
    *,
    refusal: str = "",
    campaign: str = "",
) -> Event:
    """The Event that the pod was evicted, or, with a `refusal`, that it cannot be until its owner changes something.

    `campaign`: the name of the campaign to which the move belongs.

    There is one Event per intent and object: both determine its name, so that a second write conflicts.
    """
    digest = hashlib.sha256(f"{intent.id} {regarding.kind}".encode()).hexdigest()[:16]
    pod = "Pod" if regarding.kind == "Pod" else f"Pod {intent.pod}"
    part_of = f' in campaign "{campaign}"' if campaign else ""
    note = f'{pod} evicted from node "{intent.node}"{part_of} by the reason "{intent.reason}"'
    if refusal:
        note = f"{pod} cannot be evicted: {refusal}"
    return Event(
        metadata=ObjectMeta(name=f"{regarding.name[:_NAME_LENGTH]}.{digest}", namespace=intent.namespace),
        event_time=_event_time(now),
        type="Warning" if refusal else "Normal",
        reason="EvictionRefused" if refusal else "Descheduled",
        action="Migrating",
        note=_note(note),
        regarding=regarding,
        reporting_controller=CONTROLLER,
        reporting_instance=instance[:_INSTANCE_LENGTH] or "binder",
    )


def _ledger(namespace: str) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="ConfigMap", namespace=namespace, name=_LEDGER)


def _note(text: str) -> str:
    return plain_text(text, _NOTE_BYTES).encode()[:_NOTE_BYTES].decode(errors="ignore")


def _event_time(now: float) -> datetime:
    """The time of an Event, never a whole second: the API server requires six digits, and msgspec would write none."""
    time = datetime.fromtimestamp(now, UTC)
    return time.replace(microsecond=time.microsecond or 1)
