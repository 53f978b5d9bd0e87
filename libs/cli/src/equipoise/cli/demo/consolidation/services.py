"""The services of Equipoise beside Karpenter, and whether they have anything left to do."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import yaml

from equipoise.cli.commands.setup import create_resources
from equipoise.cli.demo.configuration import (
    EXTENDER_TIMEOUT,
    Difference,
    compressed_document,
    equipoise_document,
    scheduler_configuration,
)
from equipoise.cli.up.supervisor import Supervisor
from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.subjects import SERVICES
from equipoise.contracts.messages.consolidation import NodesBeingEmptied
from equipoise.runtime.bus import Delivery, connect
from equipoise.runtime.configuration import Nats
from equipoise.testbed.cluster import Cluster


class EmptyingProgress:
    """The nodes that are being emptied, as the leader publishes them."""

    def __init__(self) -> None:
        self.nodes: tuple[str, ...] = ()
        self.begun_at: float | None = None
        """The time at which the first one was chosen (Unix seconds)."""

        self._last_at = 0.0
        """The last time at which some were (Unix seconds)."""

    async def on_message(self, delivery: Delivery[NodesBeingEmptied]) -> None:
        self.nodes = tuple(node.node for node in delivery.message.nodes)
        if self.nodes:
            self._last_at = time.time()  # noqa: TID251  compared with the clock of the API server
            self.begun_at = self.begun_at or self._last_at

    def idle_seconds(self, since: float) -> float:
        """How long no node has been emptied, at most since this time (Unix seconds)."""
        return time.time() - max(self._last_at, since)  # noqa: TID251


@asynccontextmanager
async def running_services(
    cluster: Cluster, differences: Sequence[Difference], factor: float, report: Callable[[str], None]
) -> AsyncIterator[EmptyingProgress]:
    """The five services, as extender of kube-scheduler. `factor`: the factor by which time is compressed."""
    ports = {name: cluster.free_port() for name in (*SERVICES, "extender")}
    document = equipoise_document(
        kubeconfig=str(cluster.kubeconfig),
        prometheus_url=cluster.prometheus_url,
        nats_url=cluster.nats_url,
        ports=ports,
        neutral=False,
        differences=differences,
    )
    file = cluster.directory / "equipoise.yaml"
    file.write_text(yaml.safe_dump(compressed_document(document, factor), sort_keys=False))
    await create_resources(file)
    health = {service: f"http://127.0.0.1:{ports[service]}" for service in SERVICES}
    async with Supervisor(configuration=file, directory=cluster.directory, health=health, report=report) as supervisor:
        async with asyncio.TaskGroup() as group:
            for service in SERVICES:
                group.create_task(supervisor.ready(service))
        extender = scheduler_configuration(f"http://127.0.0.1:{ports['extender']}", timeout=EXTENDER_TIMEOUT)
        await asyncio.to_thread(cluster.restart_scheduler, extender)
        progress = EmptyingProgress()
        async with connect(Nats(url=cluster.nats_url), "demo") as bus:
            await bus.subscribe(subjects.NODES_EMPTYING, NodesBeingEmptied, progress.on_message)
            watch = asyncio.create_task(supervisor.watch())
            try:
                yield progress
            finally:
                watch.cancel()
