"""The rights that the services' accounts need: those of k8s/base, to which a test holds this table."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from equipoise.collector.decisions.sharding import lease_name
from equipoise.collector.settings import MAX_SHARDS, WHOLE_CLUSTER
from equipoise.contracts.bus.subjects import ServiceName

When = Literal["", "persistentVolumes", "metricsServer", "shards", "workloads"]


class Right(msgspec.Struct, frozen=True, kw_only=True):
    """One verb on one resource."""

    service: ServiceName
    verb: str
    group: str = ""
    resource: str
    subresource: str = ""
    name: str = ""
    """Of the one object; empty: all."""

    own: bool = False
    """In Equipoise's own namespace only; else in every one."""

    when: When = ""
    """Needed only with `protection.persistentVolumes`, with `collector.source: metrics-server`, with more than one of
    `collector.shards`, or when the cluster has such workloads.
    """

    def __str__(self) -> str:
        """As people write it: `list replicasets.apps`."""
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return " ".join(filter(None, (self.verb, f"{resource}.{self.group}".rstrip("."), self.name)))


def _rights(
    service: ServiceName, verbs: str, group: str, resources: str, *, name: str = "", own: bool = False, when: When = ""
) -> Iterable[Right]:
    for resource in resources.split():
        plural, _, subresource = resource.partition("/")
        for verb in verbs.split():
            yield Right(
                service=service, verb=verb, group=group, resource=plural, subresource=subresource, name=name, own=own,
                when=when,
            )  # fmt: skip


LEASES = "coordination.k8s.io"


def shard_leases(shards: int) -> list[str]:
    """The Leases of a fleet divided into so many; the whole has one of its own."""
    return [lease_name(WHOLE_CLUSTER, WHOLE_CLUSTER, shard, shards) for shard in range(shards)] if shards > 1 else []


NEEDED: Sequence[Right] = (
    *_rights("collector", "list watch", "", "nodes pods"),
    *_rights("collector", "list watch", "apps", "replicasets"),
    *_rights("collector", "list watch", "batch", "jobs"),
    *_rights("collector", "list", "apps", "deployments statefulsets daemonsets"),
    *_rights("collector", "list", "apps.kruise.io", "clonesets", when="workloads"),
    *_rights("collector", "list", "argoproj.io", "rollouts", when="workloads"),
    *_rights("collector", "create", LEASES, "leases", own=True),
    *_rights("collector", "get update", LEASES, "leases", name="equipoise-collector", own=True),
    *_rights("collector", "list", "metrics.k8s.io", "nodes pods", when="metricsServer"),
    *(
        right
        for name in shard_leases(MAX_SHARDS)
        for right in _rights("collector", "get update", LEASES, "leases", name=name, own=True, when="shards")
    ),
    *_rights("annotator", "get patch", "", "nodes replicationcontrollers"),
    *_rights("annotator", "get patch", "apps", "deployments statefulsets daemonsets replicasets"),
    *_rights("annotator", "get patch", "batch", "cronjobs jobs"),
    *_rights("annotator", "get patch", "apps.kruise.io", "clonesets", when="workloads"),
    *_rights("annotator", "get patch", "argoproj.io", "rollouts", when="workloads"),
    *_rights("annotator", "create list update", LEASES, "leases", own=True),
    *_rights("descheduler", "list watch", "", "nodes pods namespaces replicationcontrollers"),
    *_rights("descheduler", "list watch", "apps", "deployments replicasets statefulsets"),
    *_rights("descheduler", "list watch", "policy", "poddisruptionbudgets"),
    *_rights("descheduler", "list watch", "", "persistentvolumeclaims persistentvolumes", when="persistentVolumes"),
    *_rights("descheduler", "list watch", "apps.kruise.io", "clonesets", when="workloads"),
    *_rights("descheduler", "list watch", "argoproj.io", "rollouts", when="workloads"),
    *_rights("descheduler", "create", LEASES, "leases", own=True),
    *_rights("descheduler", "get update", LEASES, "leases", name="equipoise-descheduler", own=True),
    *_rights("binder", "get", "", "pods namespaces replicationcontrollers"),
    *_rights("binder", "get", "apps", "deployments replicasets statefulsets"),
    *_rights("binder", "get", "apps.kruise.io", "clonesets", when="workloads"),
    *_rights("binder", "get", "argoproj.io", "rollouts", when="workloads"),
    *_rights("binder", "get", "", "persistentvolumeclaims persistentvolumes", when="persistentVolumes"),
    *_rights("binder", "create", "events.k8s.io", "events"),
    *_rights("binder", "get update", "", "configmaps", name="equipoise-ledger", own=True),
    *_rights("binder", "get", LEASES, "leases", name="equipoise-descheduler", own=True),
)

EVICT = Right(service="binder", verb="create", resource="pods", subresource="eviction")
"""Alone: overlays take it away, or bind it per namespace."""
