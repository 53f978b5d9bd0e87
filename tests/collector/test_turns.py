"""Work on a whole fleet lets everything else run."""

import threading

from equipoise.collector.shell.batching import SERIES_AT_ONCE, aside, emptied


async def test_much_is_made_in_a_thread() -> None:
    """Little is not worth one."""
    here = threading.get_ident()

    assert await aside(SERIES_AT_ONCE, threading.get_ident) == here
    assert await aside(SERIES_AT_ONCE + 1, threading.get_ident) != here


def test_what_is_emptied_holds_nothing() -> None:
    """Neither the first nor the last of several."""
    first, last = {1: "one"}, {2: "two", 3: "three"}

    emptied(first, {}, last)

    assert ({}, {}) == (first, last)
