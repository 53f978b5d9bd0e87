"""A real scorer and a real NATS server, with the messages of `bench.clusters` as the collector publishes them."""

import asyncio
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import yaml

from bench import clusters
from bench.output import progress
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.runtime.bus import Bus, connect
from equipoise.runtime.bus.dev_server import embedded_server
from equipoise.runtime.bus.setup import setup_streams
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.processes.loopback import PortBlock


class ScorerProcess(msgspec.Struct, kw_only=True):
    """`python -m equipoise.scorer`, and its addresses."""

    process: subprocess.Popen[bytes]
    log: Path
    extender: str
    health: str

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def ready(self) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                if (status := self.process.poll()) is not None:
                    raise RuntimeError(f"the scorer ended with status {status}: {self.log.read_text()[-2_000:]}")
                try:
                    async with session.get(f"{self.health}/readyz") as response:
                        if response.status == 200:
                            return
                except aiohttp.ClientConnectionError:
                    pass
                await asyncio.sleep(0.01)


class FilledBus(msgspec.Struct, kw_only=True):
    """A bus with the messages of a cluster, which can publish a full cycle again."""

    url: str
    directory: Path
    bus: Bus
    placements: list[NodePlacement]
    ports: PortBlock
    sequence: int = 1

    async def publish_cycle(self, seconds: float = 0.0) -> None:
        """Publish a utilization of every node, spread over this many seconds, and the cycle."""
        self.sequence += 1
        generator, now = random.Random(self.sequence), SystemClock().now()
        pause = seconds / (len(self.placements) / 100) if seconds else 0.0
        for begin in range(0, len(self.placements), 100):
            messages = [
                clusters.utilization(placement, now, generator, self.sequence)
                for placement in self.placements[begin : begin + 100]
            ]
            await self.bus.publish_many([(subjects.node_utilization(message.node), message) for message in messages])
            await asyncio.sleep(pause)
        end = clusters.cycle(len(self.placements), now, self.sequence)
        await self.bus.publish(subjects.utilization_cycle("0"), end)

    @asynccontextmanager
    async def scorer(
        self,
        *,
        module: str = "equipoise.scorer",
        environment: Mapping[str, str] | None = None,
        stdout: int | None = None,
        **settings: object,
    ) -> AsyncIterator[ScorerProcess]:
        ports = {"health": self.ports.take(), "listen": self.ports.take()}
        document = {
            "apiVersion": "equipoise.dev/v1alpha1",
            "kind": "EquipoiseConfiguration",
            "nats": {"url": self.url},
            # Benchmarks take longer than the default lifetime of a sample.
            "load": {"freshness": {"score": "1h", "eviction": "1h"}},
            "scorer": {name: f"127.0.0.1:{port}" for name, port in ports.items()} | settings,
        }
        file = self.directory / f"equipoise-{ports['listen']}.yaml"
        file.write_text(yaml.safe_dump(document))
        log_file = self.directory / "scorer.log"
        with log_file.open("ab") as log:
            process = subprocess.Popen(  # noqa: ASYNC220, S603  our own module
                [sys.executable, "-m", module],
                env={**os.environ, "EQUIPOISE_CONFIG": str(file), **(environment or {})},
                stdout=stdout,
                stderr=log,
            )
        try:
            yield ScorerProcess(
                process=process,
                log=log_file,
                extender=f"http://127.0.0.1:{ports['listen']}",
                health=f"http://127.0.0.1:{ports['health']}",
            )
        finally:
            process.terminate()
            process.wait()


@asynccontextmanager
async def filled_bus(nodes: int = 5_000, pods: int = 30) -> AsyncIterator[FilledBus]:
    generator, now = random.Random(1), SystemClock().now()
    with tempfile.TemporaryDirectory(prefix="equipoise-bench-") as name:
        directory = Path(name)
        async with embedded_server(directory / "nats") as url:
            await setup_streams(Nats(url=url), intent_max_age=Duration(60))
            async with connect(Nats(url=url), "collector") as bus:
                progress(f"filling the bus with {nodes} nodes of {pods} pods")
                for workload in clusters.workloads(now, generator):
                    await bus.publish(subjects.workload_utilization(workload.workload), workload)
                placements = [clusters.placement(number, pods, now, generator) for number in range(nodes)]
                for begin in range(0, nodes, 100):
                    part = placements[begin : begin + 100]
                    await bus.publish_many([(subjects.node_placement(message.node), message) for message in part])
                filled = FilledBus(url=url, directory=directory, bus=bus, placements=placements, ports=PortBlock())
                await filled.publish_cycle()
                yield filled
