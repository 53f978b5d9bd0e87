"""Three nats-servers with three replicas of each stream: one is killed, cut off, or damaged."""

import asyncio
import shutil
from pathlib import Path

from nats_servers import SERVERS, others

from faults.catalog.fault import Extent, fault
from faults.catalog.nats import ACK_WAIT, flip_bits, truncate
from faults.rig import INTENT_STREAM, OUTCOMES, Rig

STREAMS_THAT_MATTER = (INTENT_STREAM.name, OUTCOMES, "EQUIPOISE_DECISION")
"""The last one has the events of the harness."""


async def leader_killed(rig: Rig, extent: Extent) -> None:
    """The server that leads a stream is killed, evictions continue without it, and it starts again."""
    await rig.recreate_consumer(ack_wait=ACK_WAIT)
    await rig.start("binder", 2)
    for number in range(2 * extent.times):
        await rig.evictions(extent.evictions // 2)
        leader = await rig.nats.leader(STREAMS_THAT_MATTER[number % len(STREAMS_THAT_MATTER)])
        await rig.nats.kill(leader)
        await rig.evictions(extent.evictions // 2)
        await rig.nats.start(leader)
        await rig.nats.healthy()
    await rig.evictions(extent.evictions)


async def nats_partitioned(rig: Rig, extent: Extent) -> None:
    """The server that leads the queue is cut off with a binder: in both directions, then in one."""
    await rig.recreate_consumer(ack_wait=ACK_WAIT)
    alone = rig.nats_without_harness
    rest = others(alone)
    rig.nats_urls = {"binder-0": rig.nats.url_of(*rest), "binder-1": rig.nats.url_of(alone)}
    await rig.start("binder", 2)
    for _ in range(extent.times):
        for one_way in (False, True):
            await rig.nats.lead(INTENT_STREAM.name, alone)
            await rig.evictions(extent.evictions // 2)
            if not one_way:
                rig.nats.network.isolate(alone)
            elif rig.generator.random() < 0.5:
                rig.nats.network.cut(alone, *rest)
            else:
                for other in rest:
                    rig.nats.network.cut(other, alone)
            await rig.evictions(extent.evictions // 2)
            rig.nats.network.heal()
            await rig.nats.healthy()
    await rig.evictions(extent.evictions)


async def one_store_damaged(rig: Rig, extent: Extent) -> None:
    """All servers lose power. One starts with truncated files, an older copy of its storage, or wrong bits."""
    await rig.recreate_consumer(ack_wait=ACK_WAIT)
    await rig.start("binder", 2)
    damages = ["truncated", "restored", "flipped"]
    rig.generator.shuffle(damages)
    for number in range(max(2, extent.times)):
        damaged = rig.generator.choice(SERVERS)
        copy = rig.nats.directory(damaged) / "copy"
        await rig.evictions(extent.evictions // 2)
        await _copy(rig, damaged, copy)
        await rig.evictions(extent.evictions // 2)
        await rig.nats.kill(*SERVERS)
        store = rig.nats.directory(damaged) / "jetstream"
        match damages[number % len(damages)]:
            case "truncated":
                truncate(store, rig.generator)
            case "flipped":
                flip_bits(store, rig.generator)
            case "restored":
                shutil.rmtree(store)
                copy.rename(store)
        await rig.nats.start(*SERVERS)
        await rig.reconnected()
        await rig.evictions(extent.evictions // 2)
        await rig.nats.healthy()
    await rig.evictions(extent.evictions)


async def _copy(rig: Rig, server: str, copy: Path) -> None:
    """Of the storage at one moment: while the server does not run."""
    await rig.nats.kill(server)
    shutil.rmtree(copy, ignore_errors=True)
    await asyncio.to_thread(shutil.copytree, rig.nats.directory(server) / "jetstream", copy)
    await rig.nats.start(server)
    await rig.nats.healthy()


FAULTS = (
    fault(leader_killed, 12, intents=20, evictions=8, nats_servers=3),
    fault(nats_partitioned, 13, intents=20, evictions=8, nats_servers=3),
    fault(one_store_damaged, 14, 15, intents=20, evictions=8, nats_servers=3),
)
