"""No thread starts while a service runs."""

import asyncio
import gc
import threading

import pytest

from equipoise.runtime.async_tools.thread_pool import DaemonThreads, started_thread_pool


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


def daemon_threads(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


def test_daemon_threads_run_as_many_functions_at_the_same_time() -> None:
    """No thread starts for a function, and an error is that of its future."""
    threads = DaemonThreads(2, "as many")
    started = daemon_threads("as many")
    both_run = threading.Barrier(2)
    results = [threads.submit(lambda: both_run.wait(60)) for _ in range(2)]

    assert sorted(result.result(60) for result in results) == [0, 1]
    assert isinstance(threads.submit(lambda: int("x")).exception(60), ValueError)
    assert daemon_threads("as many") == started
    assert all(thread.daemon for thread in started)


def test_daemon_threads_continue_without_memory() -> None:
    """A thread that ended would not be replaced."""

    def without_memory() -> None:
        raise MemoryError

    threads = DaemonThreads(1, "without memory")

    assert isinstance(threads.submit(without_memory).exception(60), MemoryError)
    assert threads.submit(lambda: 1).result(60) == 1


@pytest.mark.parametrize("how", ["closed", "no longer used"])
def test_daemon_threads_end_with_their_user(how: str) -> None:
    threads = DaemonThreads(2, how)
    started = daemon_threads(how)
    if how == "closed":
        threads.close()
    else:
        del threads
        gc.collect()

    for thread in started:
        thread.join(60)
        assert not thread.is_alive()
