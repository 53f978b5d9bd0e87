"""No thread starts while a service runs."""

import asyncio
import threading

from equipoise.runtime.async_tools.thread_pool import started_thread_pool


def test_functions_run_in_threads_that_have_started_before() -> None:
    """As many at the same time as there are threads."""
    threads = 3
    with started_thread_pool(threads) as pool:
        before = set(threading.enumerate())
        all_run = threading.Barrier(threads)

        async def run_all() -> None:
            asyncio.get_running_loop().set_default_executor(pool)
            await asyncio.gather(*(asyncio.to_thread(all_run.wait, 60) for _ in range(threads)))
            assert set(threading.enumerate()) == before

        asyncio.run(run_all())
