"""The threads in which `asyncio.to_thread` runs functions."""

import threading
from concurrent.futures import ThreadPoolExecutor

THREADS = 16
"""The functions that run at the same time. Further ones wait."""


def started_thread_pool(threads: int = THREADS) -> ThreadPoolExecutor:
    """An executor whose threads have all started.

    A thread that starts later may find no memory. `Thread.start` then waits for it forever, and so does the event loop
    that has called it (https://github.com/python/cpython/issues/140746).
    """
    pool = ThreadPoolExecutor(threads)
    all_started = threading.Barrier(threads + 1)
    for _ in range(threads):
        pool.submit(all_started.wait)
    all_started.wait()
    return pool
