"""Follows everything that decides where pods run, and reports every change to the state."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.requests import without_equal_status
from equipoise.runtime.kubernetes.client import (
    BUDGETS,
    CLAIMS,
    CSI_NODES,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    VOLUMES,
    Kube,
    Resource,
)
from equipoise.runtime.kubernetes.reflector import Reflector
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health

RESOURCES: Sequence[Resource[Any]] = (
    NODES, PODS, NAMESPACES, BUDGETS, CLAIMS, VOLUMES, STORAGE_CLASSES, CSI_NODES, VOLUME_ATTACHMENTS, SERVICES,
    REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS,
)  # fmt: skip

SYNC_SECONDS = 30.0
"""Seconds after which /readyz names the list that is missing."""


class ObjectWatch:
    """Runs one reflector for each kind of object."""

    def __init__(self, kube: Kube, clock: Clock, on_change: Callable[[Object | None, Object | None], None]) -> None:
        self._reflectors = [
            Reflector(kube, resource, clock=clock, on_change=on_change, trim=_with_kind(resource))
            for resource in RESOURCES
        ]
        self.synced = asyncio.Event()
        """Set when every kind has been listed."""

    async def run(self, health: Health) -> None:
        """Never returns."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())
            for reflector in self._reflectors:
                await _listed(reflector, health)
            health.warmed_up()
            self.synced.set()


async def _listed(reflector: Reflector[Any], health: Health) -> None:
    while True:
        try:
            await reflector.wait_synced(SYNC_SECONDS)
        except TimeoutError as error:
            health.set_problem("lists", str(error))
            continue
        health.set_problem("lists", None)
        return


def _with_kind(resource: Resource[Any]) -> Callable[[Object], Object]:
    """Adds the kind to an object: the items of a list lack it."""

    def trim(value: Object) -> Object:
        if isinstance(value, Pod):
            value = without_equal_status(value)
        return msgspec.structs.replace(value, kind=resource.kind)

    return trim
