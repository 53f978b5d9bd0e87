"""A second installation in the cluster: its binders evict nothing."""

from binder.worlds import OWN, World
from builders import NOW
from kube_objects import a_lease

from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.kubernetes.client import LEASES

OTHER = "balance"


async def test_the_younger_installation_evicts_nothing_while_the_older_one_works(world: World) -> None:
    """The outcome, /readyz and the heartbeat name both namespaces. Evictions begin when the older one is gone."""
    world.kube.put(LEASES, a_lease(OTHER, created=NOW - 100_000))
    await world.start(world.binder())
    await world.propose("web-1", id="first")
    assert world.kube.evictions == []
    for text in (world.outcomes[0].detail, world.health.evictions, *world.health.problems):
        assert f"in namespace {OTHER}" in text
        assert OWN in text
    world.kube.remove(LEASES, "equipoise-descheduler", OTHER)
    await world.clock.advance(10)
    await world.propose("web-1", id="second")
    assert [each.outcome for each in world.outcomes] == [Outcome.PAUSED, Outcome.EVICTED]


async def test_the_older_installation_goes_on(world: World) -> None:
    await world.start(world.binder())
    world.kube.put(LEASES, a_lease(OTHER, created=NOW + 5))
    await world.clock.advance(20)
    await world.propose("web-1")
    assert len(world.evicted) == 1


async def test_one_that_appears_later_is_noticed_while_binders_run(world: World) -> None:
    """For example an installation that was scaled to zero, and is scaled up again."""
    await world.start(world.binder())
    world.kube.put(LEASES, a_lease(OTHER, created=NOW - 100_000))
    await world.clock.advance(10)
    await world.propose("web-1")
    assert [each.outcome for each in world.outcomes] == [Outcome.PAUSED]


async def test_an_intent_of_an_evicted_pod_keeps_its_outcome(world: World) -> None:
    """It is delivered again while the older installation works. Not `paused`: its pod was evicted."""
    await world.start(world.binder())
    (intent,) = await world.propose("web-1")
    await world.clock.advance(300)  # the bus drops no message with the same id any more
    world.kube.put(LEASES, a_lease(OTHER, created=NOW - 100_000))
    await world.clock.advance(10)
    assert OTHER in str(world.health.problems)
    await world.bus.publish(subjects.eviction_intent("shop", "web-1"), intent, message_id="again")
    await world.bus.settled()
    assert [each.outcome for each in world.outcomes] == [Outcome.EVICTED, Outcome.EVICTED]
