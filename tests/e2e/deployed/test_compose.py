"""docker-compose.yml, unchanged: its commands, variables, mounts, health checks and order, as processes.

The services connect to a real cluster with the user's kubeconfig. They query the Prometheus of the testbed, which
scrapes fake kubelets; the one of compose runs too, without targets. Time is compressed by overriding
k8s/base/equipoise.yaml; as in that file, evictions are dry runs.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest
from deployment.compose import compose_document, compose_programs
from deployment.installation import DeployedCluster
from deployment.processes import Machine
from nats.aio.msg import Msg

from equipoise.contracts.bus.subjects import SERVICES

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
async def composed(deployed: DeployedCluster) -> AsyncIterator[Machine]:
    """Started in the order of `depends_on`."""
    machine = deployed.machine("compose", compose_programs(compose_document()))
    events = {(name, condition): asyncio.Event() for name in machine.programs for condition in _CONDITIONS}

    async def start(name: str) -> None:
        for other, condition in machine.programs[name].after.items():
            await events[other, condition].wait()
        await machine.start(name)
        if machine.programs[name].health_command:
            await machine.healthy(name)
            events[name, "service_healthy"].set()
        else:
            await machine.completed(name)
            events[name, "service_completed_successfully"].set()

    async with asyncio.timeout(180), asyncio.TaskGroup() as group:
        for name in machine.programs:
            group.create_task(start(name))
    yield machine
    await asyncio.to_thread(machine.stop)


_CONDITIONS = ("service_healthy", "service_completed_successfully")


async def test_every_service_becomes_ready_and_a_move_is_proposed(deployed: DeployedCluster, composed: Machine) -> None:
    """Every health check passes, every service is ready as its own NATS user, and an eviction is run dry."""
    dry_run = asyncio.Event()

    async def on_outcome(message: Msg) -> None:
        if b'"dry_run"' in message.data:
            dry_run.set()

    client = await composed.nats_client("tap")
    await client.subscribe("equipoise.eviction.outcome.>", cb=on_outcome)
    for service in SERVICES:
        await composed.ready(service)
    await asyncio.wait_for(dry_run.wait(), 100)
    await client.close()
    problems = {service: (await composed.readiness(service))["problems"] for service in SERVICES}
    assert not [text for texts in problems.values() for text in texts if "ermission" in text], problems
    assert not [eviction for eviction in deployed.cluster.evictions() if eviction.succeeded]
