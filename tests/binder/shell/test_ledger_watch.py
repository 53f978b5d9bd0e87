"""What a binder's heartbeat reports of its evictions, for the descheduler and `equipoise plan`."""

from binder.worlds import OWN, World

from equipoise.binder.shell.ledger_store import pause, resume
from equipoise.contracts.messages.health import DRY_RUN, REAL
from equipoise.runtime.kubernetes.client import CONFIG_MAPS


async def test_the_heartbeat_reports_whether_a_binder_evicts(world: World) -> None:
    """Really, or dry runs only; nothing before it has read the ledger."""
    binder = world.binder(evict=True)
    assert world.health.evictions == ""
    await world.start(binder)
    assert world.health.evictions == REAL

    await world.start(world.binder(evict=False))
    assert world.health.evictions == DRY_RUN


async def test_the_heartbeat_reports_why_a_binder_does_not_evict(world: World) -> None:
    """A pause and its reason until it ends, and a missing ledger."""
    await world.start(world.binder(evict=True))
    await pause(world.kube, OWN, "deploying")
    await world.clock.advance(10)
    assert world.health.evictions == "paused: deploying"
    await resume(world.kube, OWN, world.clock)
    await world.clock.advance(10)
    assert world.health.evictions == REAL

    (ledger,) = world.kube.stored(CONFIG_MAPS)
    world.kube.remove(CONFIG_MAPS, ledger.metadata.name, OWN)
    await world.clock.advance(10)
    assert world.health.evictions.startswith("nothing may be evicted: ")
