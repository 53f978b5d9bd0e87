"""What nats-server does with three replicas of which one has damaged files, without Equipoise.

Known upstream: nats-io/nats-server#7549.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import nats.errors
import nats.js.errors
import pytest
from bus_worlds import PATIENCE
from nats.js.api import StreamConfig
from nats_servers import SERVERS, NatsServers, nats_servers

STREAM = "EVENTS"
MESSAGES = 200


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[NatsServers]:
    async with nats_servers(tmp_path) as servers:
        yield servers


async def create_stream(servers: NatsServers) -> None:
    async with asyncio.timeout(PATIENCE), servers.client() as client:
        while True:
            try:
                await client.jetstream().add_stream(StreamConfig(name=STREAM, subjects=["events"], num_replicas=3))
            except (nats.errors.Error, nats.js.errors.Error, TimeoutError):
                await asyncio.sleep(0.1)  # JetStream has no leader yet
            else:
                return


async def publish(servers: NatsServers, numbers: range) -> None:
    """Until each is acknowledged."""
    async with servers.client() as client:
        for number in numbers:
            await client.jetstream().publish("events", f"{number} {'x' * 300}".encode())


async def read(servers: NatsServers) -> set[int]:
    """The numbers that the leader of the stream has."""
    async with servers.client() as client:
        stream = client.jetstream()
        state = (await stream.stream_info(STREAM)).state
        found = set()
        for sequence in range(state.first_seq, state.last_seq + 1):
            try:
                message = await stream.get_msg(STREAM, sequence)
            except nats.js.errors.NotFoundError:
                continue
            found.add(int((message.data or b"").split()[0]))
        return found


def flip_a_bit(servers: NatsServers, name: str) -> None:
    """In the middle of the messages, not in the log of Raft."""
    (file,) = (servers.directory(name) / "jetstream").glob(f"*/streams/{STREAM}/msgs/*.blk")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.weekly  # 30 s
async def test_a_server_with_a_damaged_file_leads_a_stream_without_messages_that_the_others_have(
    servers: NatsServers,
) -> None:
    """One wrong bit, and the messages after it are missing: the snapshot of Raft says that the server has them.

    A server writes a snapshot when it stops, and about every two minutes. If this test fails, nats-server repairs its
    replicas: `Rig._stored_events` then needs the messages of one leader only.
    """
    await create_stream(servers)
    await servers.healthy()
    await publish(servers, range(MESSAGES))
    for name in SERVERS:
        await servers.stop(name)
        await servers.start(name)
        await servers.healthy()
    damaged, *intact = SERVERS
    await servers.kill(*SERVERS)
    flip_a_bit(servers, damaged)
    await servers.start(*SERVERS)
    await servers.healthy()
    await servers.lead(STREAM, damaged)
    assert len(await read(servers)) < MESSAGES
    await servers.healthy()  # all replicas are current, it says
    for name in intact:
        await servers.lead(STREAM, name)
        assert await read(servers) == set(range(MESSAGES))

    await servers.stop(damaged)  # the repair that docs/reliability.md describes
    shutil.rmtree(servers.directory(damaged) / "jetstream")
    await servers.start(damaged)
    await servers.healthy()
    await servers.lead(STREAM, damaged)
    assert await read(servers) == set(range(MESSAGES))
