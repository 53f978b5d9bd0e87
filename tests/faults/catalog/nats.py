"""One nats-server is killed, loses what it stored, or has broken streams."""

import asyncio
import os
import random
import shutil
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from equipoise.contracts.bus.channels import CHANNELS
from equipoise.contracts.bus.streams import WORKERS, stream_of
from faults import cluster_setup
from faults.catalog.deschedulers import descheduling
from faults.catalog.fault import Extent, fault
from faults.history import Alarm, History
from faults.invariants.bus import broken_streams_are_named
from faults.rig import INTENT_STREAM, OUTCOMES, Inconclusive, Program, Rig

ACK_WAIT = 3.0
"""Seconds after which an intent is delivered again whose acknowledgement was lost; by default 60."""

Damage = Callable[[Path, random.Random], None]


async def nats_emptied(rig: Rig, extent: Extent) -> None:
    """nats-server is killed with pending intents and starts again with empty streams."""
    await rig.start("binder", 2)
    for _ in range(extent.times):
        await rig.evictions(extent.evictions)
        await rig.restart_nats_empty()
    await rig.evictions(extent.evictions)


async def nats_killed(rig: Rig, extent: Extent) -> None:
    """nats-server is killed with pending intents, and starts with its storage 5 s later; in the long form also 60 s."""
    await rig.recreate_consumer(ack_wait=ACK_WAIT)
    await rig.start("binder", 2)
    for seconds in extent.nats_down:
        await rig.evictions(extent.evictions)
        await rig.until(lambda: bool(rig.recorder.pending()), "an intent is pending")
        rig.cluster.kill("nats-server")
        await asyncio.sleep(seconds)
        await asyncio.to_thread(rig.cluster.restart, "nats-server")
        await rig.reconnected()
    await rig.evictions(extent.evictions)


def truncate(store: Path, generator: random.Random) -> None:
    """The last KiB of every file of messages are missing, as after a power failure without fsync."""
    for file in sorted(store.rglob("*.blk")):
        os.truncate(file, max(0, file.stat().st_size - 1024 * generator.randint(1, 32)))


def flip_bits(store: Path, generator: random.Random) -> None:
    """One bit of every file of messages is wrong, and one of the metadata of half of the streams and consumers."""
    files = sorted(store.rglob("*.blk"))
    files += [file for file in sorted(store.rglob("meta.inf")) if generator.random() < 0.5]
    for file in files:
        content = bytearray(file.read_bytes())
        if content:
            content[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
            file.write_bytes(content)


async def power_lost(rig: Rig, extent: Extent) -> None:
    """Binders and nats-server lose power: its files are truncated, or a copy of its storage from before is restored."""
    await rig.recreate_consumer(ack_wait=ACK_WAIT)
    store = rig.cluster.directory / "jetstream"
    copy = rig.cluster.directory / "jetstream.copy"
    binders = await rig.start("binder", 2)
    for number in range(1 + extent.times):
        await rig.evictions(extent.evictions // 2)
        rig.cluster.kill("nats-server", signal.SIGSTOP)
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(store, copy)
        rig.cluster.kill("nats-server", signal.SIGCONT)
        await rig.evictions(extent.evictions // 2)
        for binder in binders:
            binder.kill()
        rig.cluster.kill("nats-server")
        if number % 2:
            shutil.rmtree(store)
            copy.rename(store)
        else:
            truncate(store, rig.generator)
        await _restart_with_losses(rig)
        await _repair(rig, await rig.start("binder", 2))
    await rig.evictions(extent.evictions)


async def bits_flipped(rig: Rig, extent: Extent) -> None:
    """nats-server is killed and starts with wrong bits in its files; `equipoise setup` replaces lost streams."""
    await rig.recreate_consumer(ack_wait=ACK_WAIT)
    binders = await rig.start("binder", 2)
    for _ in range(extent.times):
        await rig.evictions(extent.evictions)
        rig.cluster.kill("nats-server")
        flip_bits(rig.cluster.directory / "jetstream", rig.generator)
        await _restart_with_losses(rig)
        await _repair(rig, binders)
    # nats-server does not write a wrong meta.inf again: it would lose these streams at every further restart.
    await rig.restart_nats_empty()
    await rig.evictions(extent.evictions)


async def _restart_with_losses(rig: Rig) -> None:
    rig.recorder.streams_emptied()
    await asyncio.to_thread(rig.cluster.restart, "nats-server")
    await rig.reconnected()
    rig.recorder.streams_emptied()


FOLLOWED_BY_BINDERS = {
    stream.name
    for channel in CHANNELS
    if "binder" in channel.subscribers and (stream := stream_of(channel.pattern)) is not None
}


async def _repair(rig: Rig, binders: Sequence[Program]) -> None:
    """As an administrator does who reads /readyz."""
    max_pending = rig.descheduler.max_pending
    rig.descheduler.max_pending = 0  # new messages may end the problem before it is named
    missing = await rig.missing_streams()
    for stream in [stream for stream in missing if stream in FOLLOWED_BY_BINDERS][:1]:  # setup then repairs all
        await _alarm(rig, f"{stream} after the loss", stream, binders)
    if missing:
        await rig.repair_streams()
    rig.descheduler.max_pending = max_pending


class Breakage(msgspec.Struct, frozen=True):
    """Something that an administrator can do to a stream."""

    what: str
    stream: str
    service: str
    """Whose processes must name it."""


BREAKAGES = (
    Breakage("deleted", INTENT_STREAM.name, "binder"),
    Breakage("deleted", OUTCOMES, "binder"),
    Breakage("deleted", "EQUIPOISE_UTILIZATION", "descheduler"),
    Breakage("without consumer", INTENT_STREAM.name, "binder"),
    Breakage("full", INTENT_STREAM.name, "descheduler"),
    Breakage("of someone else", INTENT_STREAM.name, "descheduler"),
)


async def streams_broken(rig: Rig, extent: Extent) -> None:
    """Streams or the consumer are deleted, full, or replaced by someone else's; then `equipoise setup` runs."""
    async with descheduling(rig) as deschedulers:
        programs = {"binder": [rig.programs[name] for name in ("binder-0", "binder-1")], "descheduler": deschedulers}
        for breakage in rig.generator.sample(BREAKAGES, min(len(BREAKAGES), 2 + extent.times)):
            await rig.evictions(1)
            repair = await _break(rig, breakage)
            what = f"{breakage.stream} {breakage.what}"
            await _alarm(rig, what, breakage.stream, programs[breakage.service], repair)
        await rig.evictions(2)


async def _break(rig: Rig, breakage: Breakage) -> Callable[[], Awaitable[None]]:
    """Returns what must be done before setup can repair it."""
    foreign = "SOMEONE_ELSE"
    async with rig.jetstream() as streams:
        if breakage.what == "without consumer":
            await streams.delete_consumer(breakage.stream, WORKERS)
        elif breakage.what == "full":
            config = (await streams.stream_info(breakage.stream)).config
            await streams.update_stream(config.evolve(max_bytes=1))
        else:
            await streams.delete_stream(breakage.stream)
            if breakage.what == "of someone else":
                await streams.add_stream(name=foreign, subjects=list(INTENT_STREAM.subjects))

    async def prepare() -> None:
        if breakage.what == "of someone else":
            async with rig.jetstream() as streams:
                await streams.delete_stream(foreign)

    return prepare


async def _nothing() -> None:
    pass


async def _alarm(
    rig: Rig,
    what: str,
    stream: str,
    programs: Sequence[Program],
    repair: Callable[[], Awaitable[None]] = _nothing,
) -> None:
    """Records how long it takes until all programs name a stream, and until none does after setup has run."""
    rig.recorder.streams_emptied()
    at = rig.clock.now()

    async def seconds(named: bool) -> float | None:
        since = rig.clock.now()

        async def all_agree() -> bool:
            reports = [await program.readiness() for program in programs]
            return all(report and (stream in " ".join(report["problems"])) is named for report in reports)

        try:
            await rig.until(all_agree, f"{what}: {'named' if named else 'no longer named'}")
        except Inconclusive:
            return None
        return rig.clock.now() - since

    named = await seconds(True)
    await repair()
    await rig.repair_streams()
    cleared = await seconds(False)
    rig.recorder.streams_emptied()
    rig.recorder.alarms.append(Alarm(at=at, what=what, named=named, cleared=cleared))


def named_in_time(history: History) -> list[str]:
    return broken_streams_are_named(history, cluster_setup.guarantees())


async def reordered(rig: Rig, extent: Extent) -> None:
    """Intents arrive in random order, up to ten minutes after they were decided."""
    await rig.start("binder", 2)
    for _ in range(extent.times):
        await rig.evictions(extent.evictions)
        await rig.descheduler.publish_late(40, up_to=600.0)
        await rig.outcomes(40)
    await rig.evictions(extent.evictions)


FAULTS = (
    fault(nats_emptied, 16, intents=20, evictions=10),
    fault(nats_killed, 11, intents=20, evictions=8),
    fault(power_lost, 14, intents=20, evictions=8, also=named_in_time),
    fault(bits_flipped, 15, intents=20, evictions=8, also=named_in_time),
    fault(streams_broken, 16, intents=10, evictions=4, also=named_in_time),
    fault(reordered, 18, intents=40, evictions=8),
)
