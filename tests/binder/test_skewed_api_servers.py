"""Several API servers whose clocks differ: by two seconds in each direction from the true time."""

import itertools
from typing import Any

import msgspec
import pytest
from binder.worlds import GENEROUS, OWN, World

from equipoise.binder.decisions.limits import EvictionsPerCluster, EvictionsPerWorkload
from equipoise.binder.shell.ledger_store import create_ledger, pause, resume
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.kubernetes.client import CONFIG_MAPS
from equipoise.testbed.memory.faults import Call

WINDOW = 300.0
LIMITS = msgspec.structs.replace(
    GENEROUS,
    evictions_per_cluster=EvictionsPerCluster(max="unlimited", max_count=1, window=Duration(WINDOW)),
    evictions_per_workload=EvictionsPerWorkload(max=1, window=Duration(WINDOW)),
    startup_grace_period=Duration(0),
)


class OtherServer:
    """The same cluster, through an API server whose clock is ahead."""

    def __init__(self, world: World, skew: float) -> None:
        self._kube = world.kube
        self._skew = skew

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kube, name)

    def server_time_bounds(self, now: float) -> tuple[float, float]:
        return now + self._skew, now + self._skew


async def evict_five_pods(world: World) -> None:
    """Proposes pods every second from before the end of each window."""
    await world.clock.advance(5)  # the ledger has just been created
    pods = [f"{owner}-{number}" for number in range(1, 11) for owner in ("web", "db")]
    for number in range(100):
        left = [pod for pod in pods if pod not in {each.name for each in world.evicted}]
        before = len(world.evicted)
        await world.publish_cluster(number + 2)
        await world.propose(left[number % len(left)], id=f"intent-{number}")
        if len(world.evicted) == 5:
            return
        await world.clock.advance(WINDOW - 7 if len(world.evicted) > before else 1)


def assert_limits_hold(world: World) -> None:
    times = [each.at for each in world.evicted]
    assert len(times) == 5
    assert all(later - earlier >= WINDOW for earlier, later in itertools.pairwise(times)), times
    pods = [each.name for each in world.evicted]
    assert len(pods) == len(set(pods))
    assert {each.outcome for each in world.outcomes} <= {Outcome.EVICTED, Outcome.REJECTED_LIMIT}


@pytest.mark.parametrize("skews", [(2.0, -2.0), (-2.0, 2.0)], ids=["ahead first", "behind first"])
async def test_limits_hold_for_one_binder_that_reaches_both_in_turn(world: World, skews: tuple[float, float]) -> None:
    """Behind a load balancer, each request may reach the other one."""
    requests = 0

    async def alternate(_: Call) -> None:
        nonlocal requests
        requests += 1
        world.kube.skew = skews[requests % 2]

    world.kube.on_call = alternate
    await world.start(world.binder(limits=LIMITS))
    await evict_five_pods(world)
    assert_limits_hold(world)


@pytest.mark.parametrize("first", [2.0, -2.0])
async def test_limits_hold_for_binders_that_reach_different_ones(world: World, first: float) -> None:
    """Each has one connection, which it keeps. They take the intents in turn."""
    await world.start(world.binder(limits=LIMITS, kube=OtherServer(world, first)))  # type: ignore[arg-type]
    await world.start(world.binder(limits=LIMITS, kube=OtherServer(world, -first)))  # type: ignore[arg-type]
    await evict_five_pods(world)
    assert_limits_hold(world)


async def test_pause_and_resume_hold_on_the_other_server(world: World) -> None:
    """A resume by the server that is ahead does not stop evictions on the one that is behind."""
    ahead, behind = OtherServer(world, 2.0), OtherServer(world, -2.0)
    await world.start(world.binder(limits=LIMITS, kube=behind))  # type: ignore[arg-type]
    await world.clock.advance(5)
    await pause(ahead, OWN, "")  # type: ignore[arg-type]
    await world.propose("web-1", id="first")
    await resume(ahead, OWN, world.clock)  # type: ignore[arg-type]
    await world.propose("web-1", id="second")
    assert [each.outcome for each in world.outcomes] == [Outcome.PAUSED, Outcome.EVICTED]


async def test_a_ledger_that_the_other_server_dated_is_used_after_seconds(world: World) -> None:
    """Intents that were decided before its creation are stale: a server that is behind takes some for those."""
    world.kube.remove(CONFIG_MAPS, "equipoise-ledger", OWN)
    await create_ledger(OtherServer(world, 2.0), OWN, world.clock)  # type: ignore[arg-type]
    await world.start(world.binder(limits=LIMITS, kube=OtherServer(world, -2.0)))  # type: ignore[arg-type]
    await world.propose("web-1", id="first")
    await world.clock.advance(4)
    await world.propose("web-1", id="second")
    assert [each.outcome for each in world.outcomes] == [Outcome.REJECTED_STALE, Outcome.EVICTED]
