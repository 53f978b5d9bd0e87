"""A service as a program: settings, logs, signals, and one run per configuration.

Exit codes: 0 stopped by a signal, 1 failed (the log has the traceback), 2 the configuration cannot be used.
"""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import structlog
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.configuration.settings import Section
from equipoise.runtime.async_tools.thread_pool import started_thread_pool
from equipoise.runtime.bus import connect
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.configuration import Configuration, ConfigurationError, load_configuration
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.heap import use_one_heap
from equipoise.runtime.process.lifecycle import Process, Runtime, Start
from equipoise.runtime.process.logging import configure_logging

S = TypeVar("S", bound=Section)
T = TypeVar("T")

STOP_LIMIT = 24.0
"""Seconds within which the service must end. Kubernetes kills it after 30."""

log = structlog.get_logger()

PERIOD = 5.0
"""Seconds between two checks of the configuration file."""

Stamp = tuple[int, int, int] | None


def stamp(path: Path) -> Stamp:
    """A value that changes with the file, even if the kubelet changes the directory behind the link of a ConfigMap.
    None without a file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


class FileWatch:
    """Detects changes of a file. A change is reported when the file is then unchanged for one period, because it may be
    written in several steps."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._settled = stamp(path)

    def changed(self) -> bool:
        previous, self._seen = self._seen, stamp(self._path)
        if self._seen != previous or self._seen == self._settled:
            return False
        self._settled = self._seen
        return True


async def next_configuration(
    watch: FileWatch, load: Callable[[], Configuration[S]], current: Configuration[S], clock: Clock, health: Health
) -> Configuration[S]:
    """Waits until the file contains another configuration for this service. Sections of other services are ignored."""
    while True:
        await clock.sleep(PERIOD)
        if not watch.changed():
            continue
        try:
            loaded = load()
        except ConfigurationError as error:
            refused(health, error)
            continue
        health.set_problem("configuration", None)
        if loaded.hash != current.hash:
            return loaded


def refused(health: Health, error: ConfigurationError) -> None:
    """Reports that the previous configuration remains in use."""
    health.set_problem("configuration", f"the changed configuration is not used: {'; '.join(str(error).splitlines())}")


class RunningService(Protocol):
    """A service, which subscribes and then runs until it is canceled."""

    async def attach(self) -> None: ...

    async def run(self) -> None: ...


def serving(create: Callable[[Runtime[S]], RunningService]) -> Start[S]:
    """A function that creates a service, subscribes and runs it."""

    async def start(runtime: Runtime[S]) -> None:
        service = create(runtime)
        await service.attach()
        await service.run()

    return start


def run(
    service: ServiceName,
    section: type[S],
    start: Start[S],
    *,
    kube: bool,
    bus: bool = True,
    stop_limit: float = STOP_LIMIT,
) -> None:
    """Runs the program of a service. It never returns, and exits with one of the codes above.

    When the configuration file changes, the service stops and starts again in the same process. An invalid
    configuration is reported in the log and in /readyz, and the previous one remains in use.
    """
    path = os.environ.get("EQUIPOISE_CONFIG") or None

    def load() -> Configuration[S]:
        return load_configuration(path, service, section, os.environ)

    try:
        watch = FileWatch(Path(path)) if path else None
        code = run_in_event_loop(_until_signalled(service, load, watch, start, kube, bus, stop_limit))
    except ConfigurationError as error:
        for line in str(error).splitlines():
            print(f"equipoise {service}: {line}", file=sys.stderr)
        code = 2
    sys.exit(code)


def run_in_event_loop(program: Coroutine[Any, Any, T]) -> T:
    """The result of a program, which runs in a new event loop with what all programs need: few garbage collections, one
    heap, and threads that have all started."""

    async def with_threads() -> T:
        asyncio.get_running_loop().set_default_executor(started_thread_pool())
        return await program

    reduce_gc_frequency()
    use_one_heap()
    return asyncio.run(with_threads())


def reduce_gc_frequency() -> None:
    """Makes the garbage collector run less often, because a full collection blocks the event loop.

    Nearly all objects are freed by their reference count. With 30,000 pods a measurement of the collector takes 1.7 s
    of CPU time instead of 4.0 s.
    """
    gc.set_threshold(100_000, 50, 100)


async def _until_signalled(
    service: ServiceName,
    load: Callable[[], Configuration[S]],
    watch: FileWatch | None,
    start: Start[S],
    kube: bool,
    bus: bool,
    stop_limit: float,
) -> int:
    """Runs the service, once with each configuration. Returns the exit code.

    If the service does not start with a changed configuration, it starts again with the previous one.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    configuration, previous = load(), None
    invalid: ConfigurationError | None = None
    while True:
        current = _Run(service, configuration, start, kube, bus, stop_limit)
        if invalid is not None:
            refused(current.process.health, invalid)
        try:
            ended = await current.run(stop, watch, load)
        except ConfigurationError as error:
            if previous is None:
                raise
            configuration, previous, invalid = previous, None, error
            continue
        if isinstance(ended, int):
            return ended
        gc.collect()  # free the previous run's state while nothing else is running
        log.info("the configuration has changed", before=configuration.hash, now=ended.hash)
        configuration, previous, invalid = ended, configuration, None


class _Run(Generic[S]):
    """A run of the service, from start to end, with one configuration."""

    def __init__(
        self,
        service: ServiceName,
        configuration: Configuration[S],
        start: Start[S],
        kube: bool,
        bus: bool,
        stop_limit: float,
    ) -> None:
        clock, metrics, shared = SystemClock(), CollectorRegistry(), configuration.shared
        configure_logging(shared.logging, service)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=metrics)
        errors = BusErrors(clock, metrics)
        self._configuration = configuration
        self._clock = clock
        self._start = start
        self._stop_limit = stop_limit
        self.process = Process(
            service=service,
            configuration=configuration,
            clock=clock,
            metrics=metrics,
            bus=(lambda: connect(shared.nats, service, clock=clock, errors=errors)) if bus else None,
            bus_problems=lambda: errors.problems,
            kube=(lambda: connect_kube(shared.kubernetes, service, clock)) if kube else None,
        )

    async def run(
        self, stop: asyncio.Event, watch: FileWatch | None, load: Callable[[], Configuration[S]]
    ) -> int | Configuration[S]:
        """Returns the exit code, or the configuration with which to continue. Raises ConfigurationError."""
        end = asyncio.Event()
        work = asyncio.create_task(self.process.run(self._start, end))
        reasons: list[asyncio.Task[Any]] = [work, asyncio.create_task(stop.wait())]
        change: asyncio.Task[Configuration[S]] | None = None
        if watch is not None:
            health = self.process.health
            change = asyncio.create_task(next_configuration(watch, load, self._configuration, self._clock, health))
            reasons.append(change)
        await asyncio.wait(reasons, return_when=asyncio.FIRST_COMPLETED)
        end.set()
        await asyncio.wait([work], timeout=self._stop_limit)
        if not work.done():
            log.error(
                "not stopped in time", seconds=self._stop_limit, tasks=[str(task) for task in asyncio.all_tasks()]
            )
            sys.stderr.flush()
            os._exit(1)  # a task that ignores cancellation would block asyncio.run for ever
        for reason in reasons:
            reason.cancel()
        code = work.result()
        if code == 0 and not stop.is_set() and change is not None and change.done():
            return change.result()
        return code
