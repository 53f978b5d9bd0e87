"""Processes of another build run beside the current ones, as during an upgrade."""

import asyncio
import os
import signal
import subprocess
import tarfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from equipoise.contracts.bus.subjects import ServiceName
from faults.catalog.binders import ACK_WAIT
from faults.catalog.deschedulers import changing_load
from faults.catalog.fault import Extent, fault
from faults.rig import Inconclusive, Program, Rig

OTHER_BUILD = "248c95eee4ecd382a88a26d0df2a65ed6341474c"
"""The last commit before services skipped messages of other types, and read unknown words: nothing is released yet.
After a release, its tag."""

CHOSEN = "EQUIPOISE_OTHER_BUILD"
"""The environment variable with another commit or tag (`--other-build`)."""

ROOT = Path(__file__).parents[3]


def sources_of(commit: str, directory: Path) -> tuple[str, ...]:
    """Exports a commit of the repository; its folders for PYTHONPATH. Raises Inconclusive if it is not there."""
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit, "libs", "services"],
        capture_output=True,
        check=False,
    )
    if archive.returncode:
        raise Inconclusive(
            f"commit {commit} cannot be exported ({archive.stderr.decode(errors='replace').strip()}): the other build "
            f"is taken from the history of a clone; choose another one with --other-build"
        )
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(directory, filter="data")
    return tuple(str(folder) for folder in sorted(directory.glob("*/*/src")))


async def mixed_versions(rig: Rig, extent: Extent) -> None:
    """Binders of another build with current deschedulers, then the reverse; each is replaced under traffic."""
    commit = os.environ.get(CHOSEN, OTHER_BUILD)
    other = await asyncio.to_thread(sources_of, commit, rig.cluster.directory / f"build-{commit[:12]}")
    await rig.purge_outcomes()
    await rig.recreate_consumer(ack_wait=ACK_WAIT)
    async with changing_load(rig):
        for _ in range(extent.times):
            await _upgrade(rig, "binder", "descheduler", other)
            await _upgrade(rig, "descheduler", "binder", other)


async def _upgrade(rig: Rig, older: ServiceName, newer: ServiceName, other: tuple[str, ...]) -> None:
    """Both replicas of one service are of the other build, and are replaced one after the other."""
    await _stop(rig, [program for name, program in rig.programs.items() if name.startswith("descheduler")])
    await rig.all_settled()  # while binders run
    await _stop(rig, list(rig.programs.values()))
    await rig.start(newer, 2)
    programs = await rig.start(older, 2, sources=other)
    await rig.evictions(1)
    for program in programs:
        await _stop(rig, [program])
        program.sources = ()
        await program.start()
        await rig.evictions(1)


async def _stop(rig: Rig, programs: Sequence[Program]) -> None:
    """As the kubelet does."""
    running = [program for program in programs if program.runs]
    for program in running:
        program.send(signal.SIGTERM)
    await rig.until(lambda: not any(program.runs for program in running), "the processes have ended")


FAULTS = (fault(mixed_versions, 41, intents=10, evictions=6),)
