"""The permissions that the ServiceAccounts of the services need. A test compares them with k8s/base."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from equipoise.collector.decisions.sharding import lease_name
from equipoise.collector.settings import MAX_SHARDS, WHOLE_CLUSTER
from equipoise.contracts.bus.subjects import ServiceName

When = Literal["", "persistentVolumes", "metricsServer", "shards", "workloads"]


class ApiPermission(msgspec.Struct, frozen=True, kw_only=True):
    """One verb on one resource."""

    service: ServiceName
    verb: str
    group: str = ""
    resource: str
    subresource: str = ""
    name: str = ""
    """Name of the object; empty: all objects."""

    own_namespace: bool = False
    """Only in the namespace of Equipoise; otherwise in every namespace."""

    when: When = ""
    """Required only with `protection.persistentVolumes`, with `collector.source: metrics-server`, with more than one of
    `collector.shards`, or if the cluster has workloads of this kind.
    """

    def __str__(self) -> str:
        """`list replicasets.apps`."""
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return " ".join(filter(None, (self.verb, f"{resource}.{self.group}".rstrip("."), self.name)))


def _each(
    service: ServiceName,
    verbs: str,
    group: str,
    resources: str,
    *,
    name: str = "",
    own_namespace: bool = False,
    when: When = "",
) -> Iterable[ApiPermission]:
    for resource in resources.split():
        plural, _, subresource = resource.partition("/")
        for verb in verbs.split():
            yield ApiPermission(
                service=service, verb=verb, group=group, resource=plural, subresource=subresource, name=name,
                own_namespace=own_namespace, when=when,
            )  # fmt: skip


LEASES = "coordination.k8s.io"


def shard_leases(shards: int) -> list[str]:
    """The names of the Leases of this number of shards; none for one shard, whose Lease has another name."""
    return [lease_name(WHOLE_CLUSTER, WHOLE_CLUSTER, shard, shards) for shard in range(shards)] if shards > 1 else []


REQUIRED: Sequence[ApiPermission] = (
    *_each("collector", "list watch", "", "nodes pods"),
    *_each("collector", "list watch", "apps", "replicasets"),
    *_each("collector", "list watch", "batch", "jobs"),
    *_each("collector", "list", "apps", "deployments statefulsets daemonsets"),
    *_each("collector", "list", "apps.kruise.io", "clonesets", when="workloads"),
    *_each("collector", "list", "argoproj.io", "rollouts", when="workloads"),
    *_each("collector", "create", LEASES, "leases", own_namespace=True),
    *_each("collector", "get update", LEASES, "leases", name="equipoise-collector", own_namespace=True),
    *_each("collector", "list", "metrics.k8s.io", "nodes pods", when="metricsServer"),
    *(
        permission
        for name in shard_leases(MAX_SHARDS)
        for permission in _each(
            "collector", "get update", LEASES, "leases", name=name, own_namespace=True, when="shards"
        )
    ),
    *_each("annotator", "get patch", "", "nodes replicationcontrollers"),
    *_each("annotator", "get patch", "apps", "deployments statefulsets daemonsets replicasets"),
    *_each("annotator", "get patch", "batch", "cronjobs jobs"),
    *_each("annotator", "get patch", "apps.kruise.io", "clonesets", when="workloads"),
    *_each("annotator", "get patch", "argoproj.io", "rollouts", when="workloads"),
    *_each("annotator", "create list update", LEASES, "leases", own_namespace=True),
    *_each("descheduler", "list watch", "", "nodes pods namespaces replicationcontrollers"),
    *_each("descheduler", "list watch", "apps", "deployments replicasets statefulsets"),
    *_each("descheduler", "list watch", "policy", "poddisruptionbudgets"),
    *_each("descheduler", "list watch", "", "persistentvolumeclaims persistentvolumes", when="persistentVolumes"),
    *_each("descheduler", "list watch", "apps.kruise.io", "clonesets", when="workloads"),
    *_each("descheduler", "list watch", "argoproj.io", "rollouts", when="workloads"),
    *_each("descheduler", "create", LEASES, "leases", own_namespace=True),
    *_each("descheduler", "get update", LEASES, "leases", name="equipoise-descheduler", own_namespace=True),
    *_each("binder", "get", "", "pods namespaces replicationcontrollers"),
    *_each("binder", "get", "apps", "deployments replicasets statefulsets"),
    *_each("binder", "get", "apps.kruise.io", "clonesets", when="workloads"),
    *_each("binder", "get", "argoproj.io", "rollouts", when="workloads"),
    *_each("binder", "get", "", "persistentvolumeclaims persistentvolumes", when="persistentVolumes"),
    *_each("binder", "create", "events.k8s.io", "events"),
    *_each("binder", "get update", "", "configmaps", name="equipoise-ledger", own_namespace=True),
    *_each("binder", "get", LEASES, "leases", name="equipoise-descheduler", own_namespace=True),
)

EVICT = ApiPermission(service="binder", verb="create", resource="pods", subresource="eviction")
"""Separate: overlays remove it, or grant it per namespace."""
