"""Watches nodes, pods, ReplicaSets and Jobs."""

import asyncio
from collections.abc import Callable
from typing import Any, NoReturn

import structlog

from equipoise.collector.decisions.pod_times import trimmed, trimmed_owner
from equipoise.contracts.kubernetes.objects.metadata import OwnerReference
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.unreadable.known_amounts import node_with_known_amounts
from equipoise.runtime.kubernetes.client import JOBS, NODES, PODS, REPLICA_SETS, Kube
from equipoise.runtime.kubernetes.reflector import Reflector
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health

SYNC_TIMEOUT = 10.0
"""Seconds between warnings that a first list is still missing."""

CHECK_PERIOD = 1.0
"""Seconds between two reports of the problems of the watches."""

_OWNERS = {("apps", "ReplicaSet"): "replicasets", ("batch", "Job"): "jobs"}

log = structlog.get_logger()


class PlacementWatch:
    """Calls back with the object before and after each change of a node or a pod."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        health: Health,
        *,
        on_node: Callable[[Node | None, Node | None], None],
        on_pod: Callable[[Pod | None, Pod | None], None],
    ) -> None:
        self._clock = clock
        self._health = health
        self._reflectors: dict[str, Reflector[Any]] = {
            "nodes": Reflector(kube, NODES, clock=clock, on_change=on_node, trim=node_with_known_amounts),
            "pods": Reflector(kube, PODS, clock=clock, on_change=on_pod, trim=trimmed),
            "replicasets": Reflector(kube, REPLICA_SETS, clock=clock, trim=trimmed_owner),
            "jobs": Reflector(kube, JOBS, clock=clock, trim=trimmed_owner),
        }

    async def run(self) -> NoReturn:
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors.values():
                tasks.create_task(reflector.run())
            while True:
                await self._clock.sleep(CHECK_PERIOD)
                for plural, reflector in self._reflectors.items():
                    self._health.set_problem(f"watch {plural}", reflector.problem and f"{plural}: {reflector.problem}")

    async def synced(self) -> None:
        """Returns when nodes and pods were listed. Owners only refine a pod's workload, so they may be missing."""
        for plural, reflector in self._reflectors.items():
            required, listed = plural in ("nodes", "pods"), False
            while not listed:
                try:
                    await reflector.wait_synced(SYNC_TIMEOUT)
                    listed = True
                except TimeoutError as error:
                    log.warning("waiting for the first list", reason=str(error))
                    listed = not required

    def node_names(self) -> set[str]:
        """The names of all nodes in the cluster, including those that other collectors measure."""
        return {name for _, name in self._reflectors["nodes"].objects}

    def owner_of(self, workload: Workload) -> OwnerReference | None:
        """The controller of a ReplicaSet or a Job; raises LookupError when that object is not known."""
        plural = _OWNERS[workload.group, workload.kind]
        owner: WorkloadObject = self._reflectors[plural].objects[workload.namespace, workload.name]
        return owner.metadata.controller
