"""The processes themselves: event loops, clocks, CPU, memory, descriptors, disk and configuration."""

import asyncio
import os
import resource
import signal
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from equipoise.runtime.kubernetes.client import KubeError
from faults.background import background
from faults.catalog.fault import Extent, fault
from faults.catalog.metrics import real_services
from faults.history import History
from faults.rig import Program, Rig

BLOCKED = (20.0, 5.0, 1.0)
"""Seconds for which an event loop is blocked."""

ACK_WAIT = 5.0
"""Seconds after which an intent of a binder that has ended is delivered again."""

OFFSETS = (5.0, -5.0, 600.0, -600.0)
"""Seconds of a clock."""


@asynccontextmanager
async def two_of_each(rig: Rig, *, killed: bool = False) -> AsyncIterator[list[Program]]:
    """The first process of each service, which is broken; a second binder and descheduler are not.

    `killed`: a binder may end with unsettled intents. One that is only slow keeps its intents for the usual time.
    """
    async with real_services(rig, {"binder": 2, "descheduler": 2}):
        if killed:
            await rig.recreate_consumer(ack_wait=ACK_WAIT)
        async with background(_follow_leader(rig)):
            await rig.evictions(2)
            yield [rig.programs[f"{service}-0"] for service in ("binder", "descheduler", "collector", "scorer")]
            await rig.evictions(2)


async def _follow_leader(rig: Rig) -> None:
    """The fake descheduler proposes in the name of the leader, whoever it is."""
    while True:
        with suppress(KubeError):
            await rig.propose_as_leader()
        await asyncio.sleep(0.5)


async def blocked_loops(rig: Rig, extent: Extent) -> None:
    """The event loops of binder, descheduler, collector and scorer are blocked for 1, 5 or 20 s, at the same time."""
    async with two_of_each(rig) as programs:
        for turn in range(min(extent.times, len(BLOCKED))):
            first = rig.generator.randrange(len(BLOCKED)) + turn
            for number, program in enumerate(programs):
                program.block(BLOCKED[(first + number) % len(BLOCKED)])
                await asyncio.sleep(rig.generator.random())
            await asyncio.gather(*(_responds(rig, program) for program in programs))
            await rig.evictions(1)


async def _responds(rig: Rig, program: Program) -> None:
    async def ready() -> bool:
        report = await program.readiness()
        return report is not None and bool(report["ready"])

    await rig.until(ready, f"{program.name} responds")


async def wrong_clocks(rig: Rig, extent: Extent) -> None:
    """The clocks of binder, descheduler, collector and scorer jump by 5 s or 10 min, and back, one after another."""
    async with two_of_each(rig) as programs:
        for turn in range(extent.times):
            for number, program in enumerate(programs):
                offset = OFFSETS[(rig.generator.randrange(len(OFFSETS)) + number + turn) % len(OFFSETS)]
                program.set_clock(offset)
                await rig.outcomes(4)
                program.set_clock(0.0)
            await rig.evictions(2)


async def wrong_clocks_at_start(rig: Rig, extent: Extent) -> None:
    """Two of three binders start with clocks that are wrong by 5 s or 10 min."""
    rig.descheduler.mix = rig.descheduler.mix | {"expired": 0.3}
    binders = await rig.start("binder", 3)
    await rig.recreate_consumer(ack_wait=ACK_WAIT)
    for _ in range(extent.times):
        # A clock that is slow by seconds makes an expired intent appear valid, one by minutes its samples too new.
        for program, offset in zip(binders, (-5.0, rig.generator.choice((-600.0, 5.0, 600.0))), strict=False):
            program.kill()
            await program.start(offset=offset)
        await rig.outcomes(5 * extent.evictions)
        await rig.evictions(extent.evictions)


@asynccontextmanager
async def starving(programs: Iterable[Program], share: float = 0.05, period: float = 0.2) -> AsyncIterator[None]:
    """The processes run for this share of each period: SIGSTOP needs no cgroup and no permissions."""

    async def run() -> None:
        while True:
            for number, seconds in ((signal.SIGCONT, share * period), (signal.SIGSTOP, (1.0 - share) * period)):
                for program in programs:
                    program.send(number)
                await asyncio.sleep(seconds)

    try:
        async with background(run()):
            yield
    finally:
        for program in programs:
            program.send(signal.SIGCONT)


async def starved(rig: Rig, extent: Extent) -> None:
    """Binder, descheduler, collector and scorer get 5 % of a CPU; a second binder and descheduler run normally."""
    async with two_of_each(rig) as programs:
        for _ in range(extent.times):
            async with starving(programs):
                await asyncio.sleep(10.0)
            await rig.evictions(2)


async def out_of_memory(rig: Rig, extent: Extent) -> None:
    """Binder, descheduler, collector and scorer can allocate no more memory; those that end are started again."""
    async with two_of_each(rig, killed=True) as programs:
        for _ in range(extent.times):
            for program in programs:
                program.limit(resource.RLIMIT_AS, _virtual_size(program))
            await _restarting(rig, programs, 8.0)
            for program in programs:
                program.limit(resource.RLIMIT_AS, resource.RLIM_INFINITY)
            await asyncio.gather(*(_responds(rig, program) for program in programs))
            await rig.evictions(1)


def _virtual_size(program: Program) -> int:
    return int(Path(f"/proc/{program.pid}/statm").read_text().split()[0]) * resource.getpagesize()


async def _restarting(rig: Rig, programs: Sequence[Program], seconds: float) -> None:
    """As a kubelet does."""
    end = rig.clock.now() + seconds
    while rig.clock.now() < end:
        for program in programs:
            if not program.runs:
                await program.start()
        await asyncio.sleep(0.2)


async def few_descriptors(rig: Rig, extent: Extent) -> None:
    """64 file descriptors per process, then only those in use, while clients connect and connections are aborted."""
    async with two_of_each(rig) as programs:
        for _ in range(extent.times):
            for program in programs:
                program.limit(resource.RLIMIT_NOFILE, 64)
            async with _connected(programs):
                for seconds in (4.0, 8.0):
                    rig.proxy.abort("")
                    rig.prometheus.abort("")
                    await asyncio.sleep(seconds)
                    for program in programs:
                        program.limit(resource.RLIMIT_NOFILE, len(os.listdir(f"/proc/{program.pid}/fd")))
            for program in programs:
                program.limit(resource.RLIMIT_NOFILE, 1024)
            await asyncio.gather(*(_responds(rig, program) for program in programs))
            await rig.evictions(1)


@asynccontextmanager
async def _connected(programs: Iterable[Program], count: int = 60) -> AsyncIterator[None]:
    """Idle connections to the health servers, this many for each."""
    writers: list[asyncio.StreamWriter] = []
    try:
        for program in programs:
            for _ in range(count):
                with suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", program.port)
                    writers.append(writer)
        yield
    finally:
        for writer in writers:
            writer.close()


async def full_disk(rig: Rig, extent: Extent) -> None:
    """The disk of nats-server, a small tmpfs, is full; then nats-server starts with its files on a larger disk."""
    await rig.start("binder", 2)
    for _ in range(extent.times):
        disk = await rig.restart_nats_on_small_disk()
        try:
            await rig.recreate_consumer(ack_wait=ACK_WAIT)
            await rig.evictions(extent.evictions)
            rig.recorder.storing = False
            filler = disk / "filler"
            with suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 16))
            await asyncio.sleep(8.0)
            # Until it is started again, it stores nothing more, also when the disk has room.
            filler.unlink()
        finally:
            await rig.restart_nats_on_disk(disk)
            rig.recorder.storing = True
        await rig.evictions(extent.evictions)


BINDER = ({"binder.limits": None}, {"binder.limits": {"evictionsPerWorkload": None}}, {"binder.unlimited": True})
DESCHEDULER = ({"thresholds": {"low": {"cpu": 90}, "high": {"cpu": 10}}}, {"descheduler.interval": -1})
"""Configurations that are refused."""


async def bad_configuration(rig: Rig, extent: Extent) -> None:
    """The configuration of running services is replaced by invalid ones: limits removed, low threshold above high."""
    async with two_of_each(rig, killed=True):
        binder, descheduler = rig.programs["binder-0"], rig.programs["descheduler-0"]
        for turn in range(extent.times):
            first = rig.generator.randrange(6) + turn
            for program, changes in ((binder, BINDER), (descheduler, DESCHEDULER)):
                before = await program.configuration_hash()
                valid = program.configuration.read_text()
                text = program.changed_configuration(changes[first % len(changes)]) if first % 6 else "limits: ["
                program.configuration.write_text(text)
                await rig.until(lambda program=program: _refuses(program), f"{program.name} refuses {text}")  # type: ignore[misc] # a default
                await rig.evictions(1)
                if await program.configuration_hash() != before:
                    rig.find(f"{program.name} uses an invalid configuration: {text}")
                program.kill()
                if (code := await program.exit_code_of_start()) != 2:
                    rig.find(f"{program.name} ends with code {code}: {text}")
                program.configuration.write_text(valid)
                await program.start()


async def _refuses(program: Program) -> bool:
    report = await program.readiness()
    return report is not None and any("is not used" in problem for problem in report["problems"])


def _found(history: History) -> list[str]:
    return [finding.what for finding in history.findings]


FAULTS = (
    fault(blocked_loops, 36, intents=15, evictions=5),
    fault(wrong_clocks, 23, intents=20, evictions=6),
    fault(wrong_clocks_at_start, 23, intents=20, evictions=4),
    fault(starved, 37, intents=10, evictions=6),
    fault(out_of_memory, 37, intents=10, evictions=5),
    fault(few_descriptors, 37, intents=10, evictions=5),
    fault(full_disk, 37, intents=15, evictions=8),
    fault(bad_configuration, 39, intents=10, evictions=6, also=_found),
)
