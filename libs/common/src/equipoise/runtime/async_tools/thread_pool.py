"""Threads that have all started before they are used.

A thread that starts later may find no memory. `Thread.start` then waits for it forever, and so does the event loop that
has called it (https://github.com/python/cpython/issues/140746).
"""

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, TypeVar

THREADS = 16
"""The functions that `asyncio.to_thread` runs at the same time. Further ones wait."""

T = TypeVar("T")


def started_thread_pool(threads: int = THREADS) -> ThreadPoolExecutor:
    """An executor whose threads have all started."""
    pool = ThreadPoolExecutor(threads)
    all_started = threading.Barrier(threads + 1)
    for _ in range(threads):
        pool.submit(all_started.wait)
    all_started.wait()
    return pool


class DaemonThreads:
    """Threads for which a process that ends does not wait, unlike those of an executor."""

    def __init__(self, threads: int, name: str) -> None:
        """`threads`: the functions that run at the same time. `name`: the name of each thread."""
        self._functions = SimpleQueue[Callable[[], None] | None]()
        for _ in range(threads):
            threading.Thread(target=_run_all, args=(self._functions,), name=name, daemon=True).start()
        self.close: Callable[[], Any] = weakref.finalize(self, _end, self._functions, threads)
        """Ends the threads when they have run what was submitted."""

    def submit(self, function: Callable[[], T]) -> "Future[T]":
        """The future result of a function. It runs even if nobody waits for it any more."""
        result: Future[T] = Future()
        result.set_running_or_notify_cancel()  # so it cannot be canceled: the thread sets it in any case

        def run() -> None:
            try:
                result.set_result(function())
            except BaseException as error:
                result.set_exception(error)

        self._functions.put(run)
        return result


def _run_all(functions: "SimpleQueue[Callable[[], None] | None]") -> None:
    while True:
        try:
            if (function := functions.get()) is None:
                return
            function()
        except MemoryError:
            continue  # a thread that ends is not replaced
        function = None  # what it refers to is freed before the next one


def _end(functions: "SimpleQueue[Callable[[], None] | None]", threads: int) -> None:
    for _ in range(threads):
        functions.put(None)
