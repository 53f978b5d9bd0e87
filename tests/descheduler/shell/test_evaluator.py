"""Decisions about large clusters do not block the event loop."""

import threading

import pytest

from equipoise.descheduler.shell.evaluator import MAX_PODS_INLINE, compute


@pytest.mark.parametrize(("pods", "in_thread"), [(MAX_PODS_INLINE, False), (MAX_PODS_INLINE + 1, True)])
async def test_decisions_about_large_clusters_run_in_a_thread(pods: int, in_thread: bool) -> None:
    """A second of computing must not delay heartbeats. In small clusters it takes milliseconds."""
    thread = await compute(pods, threading.get_ident)

    assert (thread != threading.get_ident()) == in_thread
