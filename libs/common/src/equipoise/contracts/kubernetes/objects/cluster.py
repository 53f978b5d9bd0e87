"""Namespaces and their quotas, and the objects in which programs keep their state: ConfigMaps, Leases and Events."""

from typing import Any

from equipoise.contracts.kubernetes.objects.metadata import ApiValue, Int64, Object, ObjectReference, Time


class NamespaceStatus(ApiValue, frozen=True, kw_only=True):
    phase: str = ""


class Namespace(Object, frozen=True, kw_only=True):
    status: NamespaceStatus = NamespaceStatus()


class ResourceQuotaStatus(ApiValue, frozen=True, kw_only=True):
    hard: dict[str, str] = {}
    used: dict[str, str] = {}


class ResourceQuota(Object, frozen=True, kw_only=True):
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class ConfigMap(Object, frozen=True, kw_only=True):
    data: dict[str, str] = {}


class LeaseSpec(ApiValue, frozen=True, kw_only=True):
    holder_identity: str = ""
    lease_duration_seconds: Int64 = 0
    acquire_time: Time | None = None
    renew_time: Time | None = None
    lease_transitions: Int64 = 0


class Lease(Object, frozen=True, kw_only=True):
    spec: LeaseSpec = LeaseSpec()


class Event(Object, frozen=True, kw_only=True, omit_defaults=False):
    """An Event of events.k8s.io/v1. `note` holds at most 1,024 bytes. `type` has no default in the API server."""

    event_time: Time | None = None
    type: str = "Normal"
    reason: str = ""
    action: str = ""
    note: str = ""
    regarding: ObjectReference = ObjectReference()
    reporting_controller: str = ""
    reporting_instance: str = ""
    series: dict[str, Any] | None = None
