"""The heartbeats of the services, which several checks use."""

from collections.abc import Collection

from equipoise.cli.bus.heartbeats import read_heartbeats
from equipoise.cli.doctor.colocation_parts import installed_parts
from equipoise.cli.doctor.environment import Environment
from equipoise.contracts.bus.subjects import SERVICES, ServiceName
from equipoise.contracts.messages.health import CONFIGURATION_LIFETIME, EffectiveConfiguration, Heartbeat
from equipoise.runtime.bus import BusUnavailable
from equipoise.runtime.kubernetes.client import KubeError


async def service_heartbeats(environment: Environment) -> list[Heartbeat]:
    """The last heartbeat of each process, which are awaited once. Raises BusError."""
    if environment.nats_problem:
        raise BusUnavailable("NATS cannot be reached, see the check bus")
    async with environment.awaiting_heartbeats:
        if environment.heartbeats is None:
            expected = set(SERVICES) | await _installed(environment)
            published = published_configurations(environment)
            environment.heartbeats = await read_heartbeats(
                environment.settings.shared.nats,
                environment.clock,
                lambda heartbeats: _are_complete(heartbeats, expected, published),
                user=environment.nats_user,
            )
    return environment.heartbeats


def published_configurations(environment: Environment) -> list[EffectiveConfiguration]:
    """The published configurations of the processes that still run."""
    if isinstance(environment.effective, str):
        return []
    oldest = environment.clock.now() - CONFIGURATION_LIFETIME
    return [each for each in environment.effective if not each.stopped and each.at >= oldest]


def _are_complete(
    heartbeats: Collection[Heartbeat], services: Collection[str], published: Collection[EffectiveConfiguration]
) -> bool:
    """Whether there is a heartbeat of each service, and of each process with a configuration."""
    processes = {(each.service, each.id) for each in heartbeats}
    return {service for service, _ in processes} >= {*services} and processes >= {
        (each.service, each.id) for each in published
    }


async def _installed(environment: Environment) -> set[ServiceName]:
    """The optional services in the cluster; empty if they are unknown. Their heartbeats may still arrive in time."""
    try:
        parts = await installed_parts(environment.api(), environment.settings.shared.kubernetes.namespace)
    except KubeError:
        return set()
    return {"reclaimer"} if parts.reclaimer else set()
