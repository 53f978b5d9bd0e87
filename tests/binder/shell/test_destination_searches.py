"""Searches for a node that takes a replacement, beside other work."""

import asyncio

from equipoise.binder.decisions.destination_check import DestinationSearch, Obstacle
from equipoise.binder.shell.destination_searches import FIRST_STEPS, DestinationSearches


def searching(name: str, steps: int, log: list[str]) -> DestinationSearch:
    for _ in range(steps):
        log.append(name)
        yield
    return Obstacle(why=f"{name} found none")


async def test_other_tasks_run_during_a_long_search_and_other_long_searches_wait() -> None:
    log = list[str]()
    searches = DestinationSearches()

    async def others() -> None:
        for _ in range(3):
            log.append("other")
            await asyncio.sleep(0)

    first, second, _ = await asyncio.gather(
        searches.run(searching("first", FIRST_STEPS + 3, log)),
        searches.run(searching("second", FIRST_STEPS + 2, log)),
        others(),
    )

    assert (Obstacle(why="first found none"), Obstacle(why="second found none")) == (first, second)
    begun = [*["first"] * (FIRST_STEPS + 1), *["second"] * FIRST_STEPS]
    assert [*begun, "other", "first", "other", "first", "other", "second", "second"] == log


async def test_a_search_that_ends_in_its_first_steps_waits_for_no_other() -> None:
    log = list[str]()
    searches = DestinationSearches()
    long = asyncio.create_task(searches.run(searching("long", 100, log)))
    await asyncio.sleep(0)

    assert Obstacle(why="short found none") == await searches.run(searching("short", FIRST_STEPS - 1, log))
    assert not long.done()
    await long
