"""Reads the annotations of workloads once after a start, and retries kinds that could not be listed."""

from collections.abc import Sequence
from typing import Any

import structlog

from equipoise.collector.decisions.restored_profile import restore_problem
from equipoise.collector.shell.profile_learning import ProfileLearning
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
from equipoise.runtime.process.health import Health

KINDS: Sequence[Resource[Any]] = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, CLONE_SETS, ROLLOUTS)
"""The kinds that usually exist for longer than a day."""

RETRY_PERIOD = 300.0
"""Seconds until a kind that could not be listed is listed again."""

PROBLEM = "profile annotations"

log = structlog.get_logger()


async def restore_profiles(kube: Kube, clock: Clock, profiles: ProfileLearning, health: Health) -> None:
    """Returns when each kind was read. A kind that this cluster does not have is skipped."""
    remaining = list(KINDS)
    try:
        while remaining:
            forbidden, failed = list[Resource[Any]](), dict[Resource[Any], str]()
            for resource in remaining:
                try:
                    await _restore_kind(kube, resource, profiles)
                except NotFound:
                    log.debug("kind of workload not in this cluster", kind=resource.kind, group=resource.group)
                except Forbidden:
                    forbidden.append(resource)
                except KubeError as error:
                    failed[resource] = str(error)
            names = [f"{resource.plural}.{resource.group}" for resource in forbidden]
            health.set_problem(PROBLEM, restore_problem(names, list(dict.fromkeys(failed.values()))))
            remaining = [*forbidden, *failed]
            if remaining:
                await clock.sleep(RETRY_PERIOD)
    finally:
        health.set_problem(PROBLEM, None)


async def _restore_kind(kube: Kube, resource: Resource[Any], profiles: ProfileLearning) -> None:
    restored = 0
    async for page in kube.pages(metadata_of(resource)):
        restored += await profiles.restore({_workload(resource, found): found.metadata.annotations for found in page})
    log.info("profiles restored from annotations", kind=resource.kind, profiles=restored)


def _workload(resource: Resource[Any], found: Object) -> Workload:
    meta = found.metadata
    return Workload(kind=resource.kind, group=resource.group, namespace=meta.namespace, name=meta.name)
