"""The five services as child processes: starts, watches, restarts and stops them."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
import msgspec

from equipoise.cli.exit_codes import CommandFailed, InvalidInput
from equipoise.contracts.bus.subjects import SERVICES, ServiceName
from equipoise.runtime.process.health import Readiness
from equipoise.testbed.processes.guard import Guard

STOP_TIMEOUT = 24.5
"""Seconds for a graceful shutdown of all services; then they are killed."""

RESTART_BACKOFF = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before the first, second, … consecutive restart."""

BACKOFF_RESET = 60.0
"""A service that ran this many seconds restarts with the shortest backoff."""

POLL_INTERVAL = 0.2
"""Seconds between checks for processes that have ended."""

INVALID_CONFIGURATION = 2
"""Exit code of a service that a restart would not help."""


class ServiceError(CommandFailed):
    """A service does not run; the message ends with the last lines of its log."""


class Supervisor:
    """Runs services with one configuration file. They stop at the end of `async with`, or when this process ends."""

    def __init__(
        self,
        *,
        configuration: Path,
        directory: Path,
        health: Mapping[ServiceName, str],
        services: Iterable[ServiceName] = SERVICES,
        report: Callable[[str], None] = lambda text: None,
        variables: Callable[[ServiceName], Mapping[str, str]] = lambda service: {},
    ) -> None:
        """`health`: URL of each service's health server, `http://127.0.0.1:8081`. Logs are written to `directory`.

        Environment variables of this process do not override the file; `variables` of a service do. `report` is called
        with every restart.
        """
        overriding = [name for name in os.environ if name.startswith("EQUIPOISE_") and "__" in name]
        self._environment = {"EQUIPOISE_CONFIG": str(configuration), **dict.fromkeys(overriding)}
        self._directory = directory
        self._health = health
        self._services = tuple(services)
        self._report = report
        self._variables = variables
        self._pids: dict[ServiceName, int] = {}
        self._started: dict[ServiceName, float] = {}
        self._failures: dict[ServiceName, int] = {}
        self._restart_at: dict[ServiceName, float] = {}

    async def __aenter__(self) -> Self:
        self._guard = Guard()
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2))
        for service in self._services:
            self.start(service)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._session.close()
            for service in reversed(self._services):
                self._guard.send(self._pids[service], signal.SIGTERM)
            async with asyncio.timeout(STOP_TIMEOUT):
                for service in self._services:
                    await self._ended(service)
        except TimeoutError:
            self._report(f"services still running after {STOP_TIMEOUT:g} s are killed")
        finally:
            self._guard.close()  # reached at once if this task is canceled again during the shutdown

    async def _ended(self, service: ServiceName) -> None:
        while self.exit_code(service) is None:  # noqa: ASYNC110  the guard is another process
            await asyncio.sleep(POLL_INTERVAL / 4)

    def log(self, service: ServiceName) -> Path:
        return self._directory / f"{service}.log"

    def start(self, service: ServiceName) -> None:
        self._pids[service] = self._guard.start(
            [sys.executable, "-m", f"equipoise.{service}"],
            log=self.log(service),
            environment={**self._environment, **self._variables(service)},
        )
        self._started[service] = time.monotonic()
        self._restart_at.pop(service, None)

    def kill(self, service: ServiceName) -> None:
        """Send SIGKILL, to simulate a crash."""
        self._guard.stop(self._pids[service], number=signal.SIGKILL)

    def exit_code(self, service: ServiceName) -> int | None:
        return self._guard.exit_code(self._pids[service])

    async def readiness(self, service: ServiceName) -> Readiness | None:
        """The body of /readyz; None without a response."""
        try:
            async with self._session.get(f"{self._health[service]}/readyz") as response:
                return msgspec.json.decode(await response.read(), type=Readiness)
        except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError):
            return None

    async def ready(self, service: ServiceName, timeout: float = 120.0) -> None:
        """Wait until the service is ready. Raises ServiceError when it ends or the timeout expires."""
        deadline = time.monotonic() + timeout
        while True:
            report = await self.readiness(service)
            if report is not None and report.ready:
                return
            code = self.exit_code(service)
            if code is not None or time.monotonic() > deadline:
                what = f"exited with code {code}" if code is not None else f"is not ready after {timeout:g} s"
                raise ServiceError(f"{service} {what}; the last lines of its log:\n{self.tail(service)}")
            await asyncio.sleep(0.1)

    def tail(self, service: ServiceName, lines: int = 15) -> str:
        log = self.log(service)
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""

    async def watch(self) -> None:
        """Restart services that end, with backoff, until canceled. Raises InvalidInput for an invalid configuration."""
        while True:
            await asyncio.sleep(POLL_INTERVAL)
            for service in self._services:
                self._check(service)

    def _check(self, service: ServiceName) -> None:
        now = time.monotonic()
        if service in self._restart_at:
            if now >= self._restart_at[service]:
                self.start(service)
            return
        code = self.exit_code(service)
        if code is None:
            return
        if code == INVALID_CONFIGURATION:
            raise InvalidInput(f"{service} rejects its configuration:\n{self.tail(service)}")
        if now - self._started[service] > BACKOFF_RESET:
            self._failures[service] = 0
        failures = self._failures.get(service, 0)
        backoff = RESTART_BACKOFF[min(failures, len(RESTART_BACKOFF) - 1)]
        self._failures[service] = failures + 1
        self._restart_at[service] = now + backoff
        self._report(f"{service} exited with code {code}, restarting in {backoff:g} s (log: {self.log(service)})")
