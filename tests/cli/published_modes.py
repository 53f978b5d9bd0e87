"""What binders and a leading descheduler publish of themselves: `equipoise status` reads the mode from it at once."""

from datetime import UTC, datetime
from typing import Any

from cli.buses import Bus
from cli.http_clusters import OWN, HttpCluster

from equipoise.cli.effective.settings import default_settings
from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.messages.health import EffectiveConfiguration
from equipoise.runtime.bus.nats.nats_bus import open_bus
from equipoise.runtime.process.clock import SystemClock


async def publish_configuration(bus: Bus, id: str, limits: dict[str, Any], *, evict: bool = True) -> None:
    """Publish what a binder that runs with these limits publishes."""
    now = SystemClock().now()
    defaults = default_settings()
    binder = {**defaults["binder"], "evict": evict, "limits": {**defaults["binder"]["limits"], **limits}}
    message = EffectiveConfiguration(
        service="binder",
        id=id,
        version="1",
        hash=id,
        settings={"thresholds": defaults["thresholds"], "binder": binder},
        evictions="real" if evict else "dry run",
        started_at=now - 100,
        at=now,
    )
    await publish_message(bus, "binder", message)


async def publish_message(bus: Bus, service: ServiceName, message: EffectiveConfiguration) -> None:
    async with open_bus(bus.settings(service), service, SystemClock(), None) as connection:
        await connection.publish(subjects.configuration(service, message.id), message)


async def publish_leader(bus: Bus, cluster: HttpCluster) -> None:
    """It holds the Lease of the cluster, so the bus belongs to it."""
    now = SystemClock().now()
    renewed = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "descheduler-1", "leaseDurationSeconds": 600, "renewTime": renewed}
    cluster.leases = [{"metadata": {"name": "equipoise-descheduler", "namespace": OWN}, "spec": spec}]
    leader = EffectiveConfiguration(
        service="descheduler",
        id="descheduler-1",
        version="1",
        hash="",
        settings={},
        leading=True,
        started_at=now,
        at=now,
    )
    await publish_message(bus, "descheduler", leader)


async def end_configuration(bus: Bus, id: str) -> None:
    ended = EffectiveConfiguration(
        service="binder", id=id, version="1", hash="", settings={}, started_at=0, at=0, stopped=True
    )
    await publish_message(bus, "binder", ended)
