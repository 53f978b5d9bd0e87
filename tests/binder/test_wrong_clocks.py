"""Clocks that are wrong for a while, and right again: limits hold by the time that passes, and are soon as before."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec
import pytest
from binder.ledgers import a_ledger, an_entry
from binder.worlds import GENEROUS, OWN, World
from builders import NOW
from hypothesis import example, given, settings
from hypothesis import strategies as st

from equipoise.binder.decisions.limits import EvictionsPerCluster
from equipoise.binder.decisions.status import ledger_status
from equipoise.binder.shell.ledger_store import resume
from equipoise.binder.state.ledger import DAY, HOUR, HourlyCount, Ledger
from equipoise.binder.state.ledger_entry import PastEviction
from equipoise.binder.state.ledger_json import encode
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.messages.eviction import Outcome

YEAR = 365 * DAY
MAX, WINDOW, GRACE = 2, 300.0, 600.0
BOUND = 20.0 + max(WINDOW, GRACE)
"""Seconds after which limits are as before: the next read of the ledger, and the longer of window and grace period."""

LIMITS = msgspec.structs.replace(
    GENEROUS,
    evictions_per_cluster=EvictionsPerCluster(max="unlimited", max_count=MAX, window=Duration(WINDOW)),
    startup_grace_period=Duration(GRACE),
    outage_threshold=Duration(DAY),  # the tests publish less often than collectors
)


class Evictions:
    """Proposes pods, and records when they were evicted, in seconds that have passed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sequence = 1
        self.times: list[float] = []

    async def propose(self) -> Outcome:
        world, before = self._world, len(self._world.evicted)
        self._sequence += 1
        await world.publish_cluster(self._sequence)
        pods = [f"{owner}-{number}" for number in range(1, 11) for owner in ("web", "db")]
        left = [pod for pod in pods if pod not in {each.name for each in world.evicted}]
        await world.propose(left[0], id=f"intent-{self._sequence}")
        self.times += [world.clock.monotonic()] * (len(world.evicted) - before)
        return world.outcomes[-1].outcome

    async def possible(self, proposals: int = MAX + 1) -> int:
        """How many of these proposals are evicted now."""
        return [await self.propose() for _ in range(proposals)].count(Outcome.EVICTED)


def written_ahead(seconds: float) -> Ledger:
    """By a binder of an earlier version, while the clock of the API server was ahead."""
    at = NOW + seconds
    return a_ledger(
        *(an_entry(f"old-{number}", settled_at=at, reserved_at=at, expires_at=at + 180) for number in range(MAX)),
        hours=(HourlyCount(begin=at - at % HOUR, evictions=MAX),),
        past=(
            PastEviction(
                intent_id="old", namespace="shop", pod="old", node="node-a", reserved_at=at, settled_at=at
            ),
        ),
        outage_ended_at=at,
        outage="the bus was unavailable for 90 s",
        created_at=at - 60,
        started_at=at - 50,
        retention=WINDOW,
        retention_needed_at=at,
    )  # fmt: skip


@pytest.mark.parametrize("seconds", [5.0, 60.0, 7_200.0, YEAR, 1_000 * YEAR])
async def test_times_of_the_future_count_from_now_on_only(world: World, seconds: float) -> None:
    """Evictions and the grace period count once for their length. The ledger, and so `equipoise status`, states why."""
    world.write_ledger(encode(written_ahead(seconds)))
    await world.start(world.binder(limits=LIMITS))
    evictions = Evictions(world)
    assert await evictions.possible() == 0
    assert world.ledger.outage.startswith("times of the ledger were ")
    await world.clock.advance(WINDOW + 10)
    assert await evictions.possible() == MAX / 2
    await world.clock.advance(GRACE)
    assert await evictions.possible() == MAX
    assert world.health.problems == []
    assert all(hour.begin <= world.clock.now() for hour in world.ledger.hours)
    assert sum(hour.evictions for hour in world.ledger.hours) == MAX + MAX / 2 + MAX


async def test_resume_ends_what_a_clock_that_was_ahead_has_written(world: World) -> None:
    """No later than the grace period after it; without a binder, too."""
    world.write_ledger(encode(written_ahead(YEAR)))
    await resume(world.kube, OWN, world.clock)
    ledger = world.ledger
    assert ledger.created_at <= NOW
    assert ledger.grace_ends_at(GRACE) == NOW + GRACE
    assert max(entry.latest for entry in ledger.entries) == NOW


async def test_resume_replaces_the_grace_period_of_an_outage(world: World) -> None:
    world.write_ledger(encode(a_ledger(outage_ended_at=NOW - 10, outage="the bus was unavailable for 90 s")))
    await resume(world.kube, OWN, world.clock)
    assert (world.ledger.started_at, world.ledger.outage_ended_at, world.ledger.outage) == (NOW, None, "")


@pytest.mark.parametrize(("skew", "direction"), [(YEAR, "ahead of"), (-YEAR, "behind"), (11.0, "ahead of")])
async def test_nothing_is_evicted_or_written_while_the_clock_of_the_api_server_is_another(
    world: World, skew: float, direction: str
) -> None:
    """The outcome, /readyz and the heartbeat state the seconds; as soon as the clocks agree, all is as before."""
    world.write_ledger(encode(a_ledger(retention=LIMITS.retention, retention_needed_at=NOW)))
    await world.start(world.binder(limits=LIMITS))
    before = world.ledger
    world.kube.skew = skew
    evictions = Evictions(world)
    await world.clock.advance(120)
    assert await evictions.propose() == Outcome.PAUSED
    for text in (world.outcomes[0].detail, *world.health.problems, world.health.evictions):
        assert f"the clock of the API server is at least {abs(skew):.0f} s {direction} this one's" in text
    assert world.ledger == before
    world.kube.skew = 0.0
    await world.clock.advance(10)
    assert world.health.problems == []
    assert await evictions.propose() == Outcome.EVICTED
    assert world.ledger.outage_ended_at is None


@pytest.mark.parametrize("seconds", [600.0, 2 * HOUR, DAY, YEAR])
@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
async def test_a_ledger_that_was_pruned_while_all_clocks_were_ahead_is_not_edited(
    world: World, seconds: float, restarted: bool
) -> None:
    """The binder drops entries by a wrong clock, and counts them in their hour."""
    limits = msgspec.structs.replace(GENEROUS, startup_grace_period=Duration(0))
    await world.start(world.binder(limits=limits))
    evictions = Evictions(world)
    for jump in (seconds, -seconds):
        assert await evictions.propose() == Outcome.EVICTED
        assert await evictions.propose() == Outcome.EVICTED
        world.clock.step(jump)
        if restarted:
            await world.start(world.binder(limits=limits))
        await world.clock.advance(60)
    assert await evictions.propose() == Outcome.EVICTED
    assert world.health.problems == []


def test_a_longer_retention_does_not_miss_entries_that_were_dropped_before() -> None:
    """A limit gets a longer window: the ledger never had the entries for it."""
    begin = NOW - NOW % HOUR
    ledger = a_ledger(
        an_entry("old", settled_at=begin + 1, reserved_at=begin, expires_at=begin + 10),
        hours=(HourlyCount(begin=begin, evictions=1),), retention=WINDOW, retention_needed_at=begin,
    )  # fmt: skip
    pruned = ledger.pruned(begin + 2_000)
    longer = pruned.retaining(2 * HOUR, begin + 2_001)
    assert pruned.entries == ()
    assert longer.problem(begin + 2_001) == ""


def test_status_and_plan_count_times_of_the_future_as_binders_will() -> None:
    """And `equipoise status` states why the limits are halved."""
    status = ledger_status(written_ahead(YEAR), LIMITS, NOW)
    assert status.halved_until == NOW + GRACE
    assert status.halved_by == f"times of the ledger were {YEAR:.0f} s ahead of the API server's clock"
    assert [each.free_at for each in status.usage if each.limit == "evictionsPerCluster"] == [NOW + WINDOW + 4.0]


def test_entries_that_were_removed_by_hand_are_missed_after_entries_were_dropped() -> None:
    """What is dropped hides only what is older."""
    begin = NOW - NOW % HOUR
    old = an_entry("old", settled_at=begin - 4_000, reserved_at=begin - 4_000, expires_at=begin - 3_900)
    hours = (HourlyCount(begin=begin - 2 * HOUR, evictions=1), HourlyCount(begin=begin, evictions=1))
    ledger = a_ledger(old, hours=hours, retention=600.0, retention_needed_at=begin, started_at=begin - DAY)
    assert "1 entries" in ledger.pruned(begin + 60).problem(begin + 60)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["all", "API server", "binder", "back"]),
        st.sampled_from([-YEAR, -DAY, -7_200.0, -310.0, -60.0, 60.0, 310.0, 7_200.0, DAY, YEAR]),
        st.sampled_from([0.0, 5.0, 30.0, 150.0, 310.0]),
    ),
    max_size=6,
)


@settings(max_examples=40, deadline=None)
@given(STEPS)
@example([("all", DAY, 0.0), ("all", -DAY, 0.0), ("all", DAY, 5.0)])
@example([("all", -YEAR, 30.0), ("all", YEAR, 0.0)])
@example([("API server", -DAY, 30.0), ("back", 0.0, 0.0)])
def test_limits_hold_by_the_time_that_passes_whatever_clocks_do(steps: list[tuple[str, float, float]]) -> None:
    """And BOUND seconds after the clocks agree again, they are those without a jump.

    Takes seconds: a binder runs through each of 40 examples.
    """

    async def run(world: World) -> None:
        await world.start(world.binder(limits=LIMITS))
        evictions = Evictions(world)
        await evictions.possible()
        for clock, seconds, wait in steps:
            if clock == "all":
                world.clock.step(seconds)
            elif clock == "API server":
                world.kube.skew += seconds
            elif clock == "binder":
                world.clock.step(seconds)
                world.kube.skew -= seconds
            else:
                world.kube.skew = 0.0
            await evictions.possible()
            await world.clock.advance(wait)
            await evictions.possible()
        for earlier, later in zip(evictions.times, evictions.times[MAX:], strict=False):
            assert later - earlier >= WINDOW, evictions.times
        world.kube.skew = 0.0
        await world.clock.advance(BOUND)
        assert await evictions.possible() == MAX
        assert world.health.problems == []

    asyncio.run(_in_a_world(run))


async def _in_a_world(run: Any) -> None:
    world = World()
    await world.populate()
    work: Coroutine[Any, Any, None] = run(world)
    try:
        await work
    finally:
        await world.stop()
