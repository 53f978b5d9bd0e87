"""Reads once what stands on workloads, beside everything else; where it was refused, again after a while."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import structlog

from equipoise.collector.decisions.restored_profile import unread
from equipoise.contracts.kubernetes.objects import Object
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.runtime.kubernetes.client import (
    CLONE_SETS,
    DAEMON_SETS,
    DEPLOYMENTS,
    ROLLOUTS,
    STATEFUL_SETS,
    Forbidden,
    Kube,
    KubeError,
    NotFound,
    Resource,
    metadata_of,
)
from equipoise.runtime.process.clock import Clock

KINDS: Sequence[Resource[Any]] = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, CLONE_SETS, ROLLOUTS)
"""Whose annotations are read: those that live for longer than a day."""

AGAIN_PERIOD = 300.0
"""Seconds until what was refused is asked for again."""

PROBLEM = "profiles on workloads"

log = structlog.get_logger()


class Memory(Protocol):
    """Who takes in what is read."""

    async def remember(self, standing: Mapping[Workload, Mapping[str, str]]) -> int: ...


class Health(Protocol):
    """Where it is told what was not read."""

    def set_problem(self, key: str, text: str | None) -> None: ...


async def recollect(kube: Kube, clock: Clock, memory: Memory, health: Health) -> None:
    """Until each kind was read. One that this cluster does not have is none that is missing."""
    waiting = list(KINDS)
    try:
        while waiting:
            forbidden, failed = list[Resource[Any]](), dict[Resource[Any], str]()
            for resource in waiting:
                try:
                    await _read(kube, resource, memory)
                except NotFound:
                    log.debug("no such workloads", kind=resource.kind, group=resource.group)
                except Forbidden:
                    forbidden.append(resource)
                except KubeError as error:
                    failed[resource] = str(error)
            names = [f"{resource.plural}.{resource.group}" for resource in forbidden]
            health.set_problem(PROBLEM, unread(names, list(dict.fromkeys(failed.values()))))
            waiting = [*forbidden, *failed]
            if waiting:
                await clock.sleep(AGAIN_PERIOD)
    finally:
        health.set_problem(PROBLEM, None)


async def _read(kube: Kube, resource: Resource[Any], memory: Memory) -> None:
    profiles = 0
    async for page in kube.pages(metadata_of(resource)):
        profiles += await memory.remember({_workload(resource, found): found.metadata.annotations for found in page})
    log.info("profiles taken back from annotations", kind=resource.kind, profiles=profiles)


def _workload(resource: Resource[Any], found: Object) -> Workload:
    meta = found.metadata
    return Workload(kind=resource.kind, group=resource.group, namespace=meta.namespace, name=meta.name)
