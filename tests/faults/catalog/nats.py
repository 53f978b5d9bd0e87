"""nats-server loses what it stored."""

from faults.catalog.fault import Extent, fault
from faults.rig import Rig


async def nats_emptied(rig: Rig, extent: Extent) -> None:
    """nats-server is killed with pending intents and starts again with empty streams."""
    await rig.start("binder", 2)
    for _ in range(extent.times):
        await rig.evictions(extent.evictions)
        await rig.restart_nats_empty()
    await rig.evictions(extent.evictions)


FAULTS = (fault(nats_emptied, 11, 16, intents=20, evictions=10),)
