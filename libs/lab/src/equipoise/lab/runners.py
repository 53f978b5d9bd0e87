"""Many replays beside one another: on this machine's processors, or on a Dask cluster."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

import msgspec

from equipoise.lab.model.trace import Trace
from equipoise.lab.replay import Plan, Replay, Settings
from equipoise.lab.results import Run


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One replay to be made."""

    plan: Plan
    settings: Settings


Runner = Callable[[Trace, Sequence[Job]], Iterator[tuple[int, Run]]]
"""Makes all replays; tells the number of each job, among those given, and its run, as they end."""


def on_processes(processes: int) -> Runner:
    """With so many processes; with one, right here."""

    def run(trace: Trace, jobs: Sequence[Job]) -> Iterator[tuple[int, Run]]:
        if processes <= 1 or len(jobs) <= 1:
            for number, job in enumerate(jobs):
                yield number, _replay(job, trace)
            return
        # Fresh processes: a copy of this one would hold whatever threads a caller has.
        fresh = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, mp_context=fresh, initializer=_share, initargs=(trace,)) as pool:
            futures = {pool.submit(_replay, job): number for number, job in enumerate(jobs)}
            try:
                for future in as_completed(futures):
                    yield futures[future], future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    return run


def on_dask(address: str) -> Runner:
    """On the workers of the Dask scheduler at this address. They need equipoise-lab of the same version.

    Raises OSError when there is no scheduler, ModuleNotFoundError without the extra `dask`.
    """

    def run(trace: Trace, jobs: Sequence[Job]) -> Iterator[tuple[int, Run]]:
        from distributed import Client
        from distributed import as_completed as as_they_end

        with Client(address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            everywhere = client.scatter(trace, broadcast=True)
            futures = [client.submit(_replay, job, everywhere, pure=False) for job in jobs]
            numbers = {future.key: number for number, future in enumerate(futures)}
            for future, result in as_they_end(futures, with_results=True, loop=client.loop):  # type: ignore[no-untyped-call]
                yield numbers[future.key], result

    return run


_trace: Trace | None = None


def _share(trace: Trace) -> None:
    global _trace  # noqa: PLW0603  sent once to each process, not with every job
    _trace = trace


def _replay(job: Job, trace: Trace | None = None) -> Run:
    trace = trace or _trace
    assert trace is not None
    return Replay(trace, job.plan, job.settings).run()
