"""The five services as child processes of one program: started, watched, started again, ended with it."""

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

from equipoise.cli.endings import WrongInput
from equipoise.contracts.bus.subjects import SERVICES, ServiceName
from equipoise.runtime.process.health import Readiness
from equipoise.testbed.processes.guard import Guard

STOP_SECONDS = 24.5
"""Within this all services end gracefully, else they are killed."""

RESTART_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Pauses before the first, second, … restart in a row."""

STEADY_SECONDS = 60.0
"""A service that ran this long starts again with the shortest pause."""

LOOK_SECONDS = 0.2
"""Between two looks at what has ended."""

WRONG_CONFIGURATION = 2
"""A service's exit code: starting it again would not help."""


class ServiceError(RuntimeError):
    """A service does not run; the message ends with the end of its log."""


class Supervisor:
    """Runs services with one configuration file; `async with` ends them all, and so does this process's death."""

    def __init__(
        self,
        *,
        configuration: Path,
        directory: Path,
        health: Mapping[ServiceName, str],
        services: Iterable[ServiceName] = SERVICES,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`health` says where each service answers /readyz: `http://127.0.0.1:8081`. Logs go to `directory`.

        The file is the whole truth: variables of this process's environment do not override it. `say` hears which
        service ended and when it starts again.
        """
        overriding = [name for name in os.environ if name.startswith("EQUIPOISE_") and "__" in name]
        self._environment = {"EQUIPOISE_CONFIG": str(configuration), **dict.fromkeys(overriding)}
        self._directory = directory
        self._health = health
        self._services = tuple(services)
        self._say = say
        self._pids: dict[ServiceName, int] = {}
        self._started: dict[ServiceName, float] = {}
        self._failures: dict[ServiceName, int] = {}
        self._due: dict[ServiceName, float] = {}

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
            async with asyncio.timeout(STOP_SECONDS):
                for service in self._services:
                    await self._ended(service)
        except TimeoutError:
            self._say(f"not all services ended within {STOP_SECONDS:g} s: those are killed")
        finally:
            self._guard.close()  # at once when we are cancelled a second time

    async def _ended(self, service: ServiceName) -> None:
        while self.exit_code(service) is None:  # noqa: ASYNC110  the guard is another process
            await asyncio.sleep(LOOK_SECONDS / 4)

    def log(self, service: ServiceName) -> Path:
        return self._directory / f"{service}.log"

    def start(self, service: ServiceName) -> None:
        self._pids[service] = self._guard.start(
            [sys.executable, "-m", f"equipoise.{service}"], log=self.log(service), environment=self._environment
        )
        self._started[service] = time.monotonic()
        self._due.pop(service, None)

    def kill(self, service: ServiceName) -> None:
        """SIGKILL, as a crash would be."""
        self._guard.stop(self._pids[service], number=signal.SIGKILL)

    def exit_code(self, service: ServiceName) -> int | None:
        return self._guard.exit_code(self._pids[service])

    async def readiness(self, service: ServiceName) -> Readiness | None:
        """What /readyz says; None when it does not answer."""
        try:
            async with self._session.get(f"{self._health[service]}/readyz") as answer:
                return msgspec.json.decode(await answer.read(), type=Readiness)
        except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError):
            return None

    async def ready(self, service: ServiceName, timeout: float = 120.0) -> None:
        """Wait until /readyz says so. Raises ServiceError when it ends or takes too long."""
        deadline = time.monotonic() + timeout
        while True:
            report = await self.readiness(service)
            if report is not None and report.ready:
                return
            code = self.exit_code(service)
            if code is not None or time.monotonic() > deadline:
                what = f"ended with code {code}" if code is not None else f"is not ready after {timeout:g} s"
                raise ServiceError(f"{service} {what}; the end of its log:\n{self.tail(service)}")
            await asyncio.sleep(0.1)

    def tail(self, service: ServiceName, lines: int = 15) -> str:
        log = self.log(service)
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""

    async def watch(self) -> None:
        """For ever: start again what has ended, with growing pauses. Raises WrongInput for a wrong configuration."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for service in self._services:
                self._look_after(service)

    def _look_after(self, service: ServiceName) -> None:
        now = time.monotonic()
        if service in self._due:
            if now >= self._due[service]:
                self.start(service)
            return
        code = self.exit_code(service)
        if code is None:
            return
        if code == WRONG_CONFIGURATION:
            raise WrongInput(f"{service} does not accept its configuration:\n{self.tail(service)}")
        if now - self._started[service] > STEADY_SECONDS:
            self._failures[service] = 0
        failures = self._failures.get(service, 0)
        pause = RESTART_SECONDS[min(failures, len(RESTART_SECONDS) - 1)]
        self._failures[service] = failures + 1
        self._due[service] = now + pause
        self._say(f"{service} ended with code {code}, starts again in {pause:g} s (its log: {self.log(service)})")
