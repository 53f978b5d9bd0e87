"""Watches the objects of the API server that a move depends on."""

import asyncio
from functools import partial
from typing import Any

from msgspec import structs

from equipoise.contracts.hints.policy import HINTED
from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.contracts.kubernetes.objects.pod import Pod, PreferredNodes
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.contracts.kubernetes.requests import without_equal_status
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.unreadable.known_amounts import node_with_known_amounts, with_named_amounts
from equipoise.descheduler.decisions.evaluation.read_annotations import with_read_annotations
from equipoise.descheduler.decisions.evaluation.snapshot import WatchedObjects
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.runtime.kubernetes.client import (
    BUDGETS,
    CLAIMS,
    NAMESPACES,
    NODES,
    PODS,
    VOLUMES,
    WORKLOAD_RESOURCES,
    Kube,
    Resource,
)
from equipoise.runtime.kubernetes.reflector import Reflector
from equipoise.runtime.process.clock import Clock
from equipoise.scheduling.model.pod_info import PodInfo, PodReader
from equipoise.scheduling.model.volumes import claim_key


def trimmed(pod: Pod) -> Pod:
    """The pod with only the fields that decide about moves, to save memory."""
    return with_read_annotations(without_hints(without_equal_status(with_named_amounts(pod))))


def without_hints(pod: Pod) -> Pod:
    """The pod without its placement hints: they have many names, and the replacement gets other hints."""
    nodes = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if pod.spec.affinity is None or nodes is None or not nodes.preferred or HINTED not in pod.metadata.annotations:
        return pod
    own = [term for term in nodes.preferred if not _names_hosts(term)]
    affinity = structs.replace(pod.spec.affinity, node_affinity=structs.replace(nodes, preferred=own))
    return structs.replace(pod, spec=structs.replace(pod.spec, affinity=affinity))


def _names_hosts(term: PreferredNodes) -> bool:
    return [rule.key for rule in term.preference.match_expressions] == [HOSTNAME]


class ClusterWatch:
    """The watched objects. Every replica watches, so that a new leader can evaluate at once."""

    def __init__(self, kube: Kube, clock: Clock, settings: DeschedulerSettings, *, volumes: bool) -> None:
        """`volumes`: watch claims and volumes, which needs the permission to read them."""
        self._reader = PodReader()
        self._infos: dict[str, PodInfo] = {}
        self._owners: dict[Workload, WorkloadObject] = {}
        self._nodes = Reflector(kube, NODES, clock=clock, trim=node_with_known_amounts)
        self._pods = Reflector(kube, PODS, clock=clock, on_change=self._on_pod, trim=trimmed)
        self._namespaces = Reflector(kube, NAMESPACES, clock=clock, trim=with_read_annotations)
        self._budgets = Reflector(kube, BUDGETS, clock=clock, trim=with_read_annotations)
        self._workloads = [
            Reflector(
                kube,
                resource,
                clock=clock,
                on_change=partial(self._on_workload, resource),
                trim=with_read_annotations,
            )
            for resource in WORKLOAD_RESOURCES.values()
            if resource.kind in settings.workloads
        ]
        self._claims = Reflector(kube, CLAIMS, clock=clock, trim=with_read_annotations)
        self._volumes = Reflector(kube, VOLUMES, clock=clock, trim=with_read_annotations)
        self._all: list[Reflector[Any]] = [self._nodes, self._pods, self._namespaces, self._budgets]
        self._all += self._workloads
        if volumes:
            self._all += [self._claims, self._volumes]

    async def run(self) -> None:
        """Watches until canceled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._all:
                tasks.create_task(reflector.run())

    async def synced(self, timeout: float) -> None:
        """Returns once everything has been listed. Raises TimeoutError, which names the list that is missing."""
        for reflector in self._all:
            await reflector.wait_synced(timeout)

    @property
    def problem(self) -> str:
        """Why the objects may be outdated; "" when they are current."""
        return next((reflector.problem for reflector in self._all if reflector.problem), "")

    @property
    def pod_count(self) -> int:
        return len(self._pods.objects)

    def node_names(self) -> set[str]:
        return {name for _, name in self._nodes.objects}

    def objects(self) -> WatchedObjects:
        """A copy of what is watched now."""
        return WatchedObjects(
            nodes=list(self._nodes.objects.values()),
            pods=list(self._pods.objects.values()),
            namespaces={name: value for (_, name), value in self._namespaces.objects.items()},
            budgets=list(self._budgets.objects.values()),
            workloads=dict(self._owners),
            claims={claim_key(claim): claim for claim in self._claims.objects.values()},
            volumes={name: volume for (_, name), volume in self._volumes.objects.items()},
            infos=dict(self._infos),
        )

    def _on_workload(
        self, resource: Resource[WorkloadObject], before: WorkloadObject | None, after: WorkloadObject | None
    ) -> None:
        """Keeps workloads by their key as they change: to build all keys for every evaluation would take long."""
        value = after or before
        assert value is not None
        meta = value.metadata
        workload = Workload(kind=resource.kind, group=resource.group, namespace=meta.namespace, name=meta.name)
        if after is None:
            self._owners.pop(workload, None)
        else:
            self._owners[workload] = after

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        assert pod is not None
        if after is None:
            self._infos.pop(pod.metadata.uid, None)
        else:
            self._infos[pod.metadata.uid] = self._reader.read(after)
