"""A scorer with its probes in a process of its own, which may have few open files.

`python -m scorer.extender_process OPEN_FILES EXTENDER_SETTINGS` prints the ports of the extender and of /healthz, and
serves until its input ends. The limit is soft: half of OPEN_FILES until the scorer raises it.
"""

import asyncio
import json
import resource
import sys

import msgspec
from builders import NOW
from prometheus_client import CollectorRegistry
from scorer.running import begin_running, fill

from equipoise.runtime.process.health import Health, serving_health
from equipoise.scorer import __main__ as program
from equipoise.scorer.settings import ExtenderSettings, ScorerSettings
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock


async def serve(settings: ScorerSettings) -> None:
    clock, registry = ManualClock(NOW), CollectorRegistry()
    health = Health(configuration_hash="", metrics=registry)
    async with MemoryBus(clock) as bus, serving_health("127.0.0.1:0", health, registry, "0") as address:
        running = await begin_running(settings, bus, clock, health, registry)
        await fill(running)
        print(
            json.dumps({"extender": await running.scorer.port, "health": int(address.rpartition(":")[2])}), flush=True
        )
        await asyncio.to_thread(sys.stdin.read)
        await running.stop()


if __name__ == "__main__":
    files = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files // 2, files))
    program.raise_file_limit()
    extender = msgspec.json.decode(sys.argv[2], type=ExtenderSettings)
    asyncio.run(serve(ScorerSettings(listen="127.0.0.1:0", extender=extender)))
