"""Runs many replays in parallel: in local processes or on a Dask cluster."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from equipoise.lab.model.trace import Trace
from equipoise.lab.replay import Replay
from equipoise.lab.replay_plan import ReplayPlan
from equipoise.lab.results import Run

Runner = Callable[[Trace, Sequence[ReplayPlan]], Iterator[tuple[int, Run]]]
"""Runs all plans; yields the index and the run of each plan when it ends."""


def on_processes(processes: int) -> Runner:
    """Run in this many processes; with one, in this process."""

    def run(trace: Trace, plans: Sequence[ReplayPlan]) -> Iterator[tuple[int, Run]]:
        if processes <= 1 or len(plans) <= 1:
            for number, plan in enumerate(plans):
                yield number, _replay(plan, trace)
            return
        # Spawn: a forked process would inherit the locks of the caller's threads.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, mp_context=context, initializer=_begin, initargs=(trace,)) as pool:
            futures = {pool.submit(_replay, plan): number for number, plan in enumerate(plans)}
            try:
                for future in as_completed(futures):
                    yield futures[future], future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    return run


def on_dask(address: str) -> Runner:
    """Run on the workers of the Dask scheduler at this address. They need the same version of equipoise-lab.

    Raises OSError without a scheduler, ModuleNotFoundError without the extra `dask`.
    """

    def run(trace: Trace, plans: Sequence[ReplayPlan]) -> Iterator[tuple[int, Run]]:
        from distributed import Client
        from distributed import as_completed as dask_as_completed

        with Client(address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            scattered = client.scatter(trace, broadcast=True)
            futures = [client.submit(_replay, plan, scattered, pure=False) for plan in plans]
            numbers = {future.key: number for number, future in enumerate(futures)}
            for future, result in dask_as_completed(futures, with_results=True, loop=client.loop):  # type: ignore[no-untyped-call]
                yield numbers[future.key], result

    return run


_trace: Trace | None = None


def _begin(trace: Trace) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the process without a traceback
    global _trace  # noqa: PLW0603  sent once to each process instead of with every plan
    _trace = trace


def _replay(plan: ReplayPlan, trace: Trace | None = None) -> Run:
    trace = trace or _trace
    assert trace is not None
    return Replay(trace, plan).run()
