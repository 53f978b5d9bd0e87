"""docker-compose.yml as it is: its own commands, variables, mounts, checks and order, as processes on a real cluster.

The services reach the cluster with the user's kubeconfig. They ask the Prometheus of the testbed, which scrapes fake
kubelets; compose's own runs beside it, on a file without discovery. Time is compressed by a configuration that is laid
over k8s/base/equipoise.yaml; evictions stay what that file says: dry runs.
"""

import asyncio
from collections.abc import AsyncIterator

import nats
import pytest
from deployment.compose import compose_document, compose_programs
from deployment.processes import NATS_PORT, Machine
from deployment.worlds import World
from nats.aio.msg import Msg

from equipoise.contracts.bus.subjects import SERVICES

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
async def composed(world: World) -> AsyncIterator[Machine]:
    """Up in the order of `depends_on`."""
    machine = world.machine("compose", compose_programs(compose_document()))
    events = {(name, how): asyncio.Event() for name in machine.programs for how in _ARRIVALS}

    async def up(name: str) -> None:
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
            group.create_task(up(name))
    yield machine
    await asyncio.to_thread(machine.stop)


_ARRIVALS = ("service_healthy", "service_completed_successfully")


async def test_everything_comes_up_and_the_loop_proposes(world: World, composed: Machine) -> None:
    """Every health check passes, every service is ready as its own NATS user, and a move is tried dry."""
    dry_run = asyncio.Event()

    async def on_outcome(message: Msg) -> None:
        if b'"dry_run"' in message.data:
            dry_run.set()

    client = await nats.connect(
        composed.url(NATS_PORT, "nats"), user="tap", password=world.passwords["tap"], inbox_prefix=b"_INBOX.tap"
    )
    await client.subscribe("equipoise.eviction.outcome.>", cb=on_outcome)
    for service in SERVICES:
        await composed.ready(service)
    await asyncio.wait_for(dry_run.wait(), 100)
    await client.close()
    problems = {service: (await composed.readiness(service))["problems"] for service in SERVICES}
    assert not [text for texts in problems.values() for text in texts if "ermission" in text], problems
    assert not [eviction for eviction in world.cluster.evictions() if eviction.succeeded]
