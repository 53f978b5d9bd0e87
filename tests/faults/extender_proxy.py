"""A proxy between kube-scheduler and the scorer, which measures and records what the scorer responds."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from equipoise.runtime.process.clock import Clock
from faults.fault_proxy import FaultProxy
from faults.history import ExtenderExchange
from faults.recording import Recorder

TICK = 0.01
"""Seconds between two measurements of how late this process is."""


@dataclass
class Response:
    """Of the scorer, as far as it was received."""

    status: int | None = None
    body: bytes = b""
    caller_waits: bool = True


class Meter:
    """Records exchanges with the scorer. Their seconds do not include the time in which a process waited for a CPU."""

    def __init__(self, recorder: Recorder, clock: Clock, pid: Callable[[], int]) -> None:
        """`pid` of the scorer."""
        self._recorder = recorder
        self._clock = clock
        self._pid = pid
        self._late = 0.0
        self._tick = time.monotonic()
        self._broken = 0
        self._breaks = 0

    async def run(self) -> None:
        """Measures the lateness of this process, until cancelled."""
        while True:
            self._tick = time.monotonic()
            await asyncio.sleep(TICK)
            self._late += max(0.0, time.monotonic() - self._tick - TICK)

    @contextmanager
    def scorer_broken(self) -> Iterator[None]:
        """While entered, the harness has killed or suspended the scorer."""
        self._breaks += 1
        self._broken += 1
        try:
            yield
        finally:
            self._broken -= 1

    @contextmanager
    def exchange(self, verb: str, request: bytes) -> Iterator[Response]:
        """From the request to the end of the block, which completes the response."""
        at, begun, waited = self._clock.now(), time.monotonic(), self._waited()
        broken, breaks = self._broken, self._breaks
        response = Response()
        try:
            yield response
        except asyncio.CancelledError:
            response.caller_waits = False
            raise
        finally:
            self._recorder.exchanges.append(
                ExtenderExchange(
                    at=at,
                    verb=verb,
                    hosts=tuple(json.loads(request).get("NodeNames") or ()),
                    status=response.status,
                    body=response.body,
                    seconds=max(0.0, time.monotonic() - begun - (self._waited() - waited)),
                    scorer_runs=not broken and breaks == self._breaks,
                    caller_waited=response.caller_waits,
                )
            )

    def _waited(self) -> float:
        """Seconds in which this process or the scorer's main thread could have run and did not."""
        late = self._late + max(0.0, time.monotonic() - self._tick - TICK)
        try:
            _, delayed, _ = Path(f"/proc/{self._pid()}/schedstat").read_text().split()
        except OSError:  # it was killed
            return late
        return late + int(delayed) / 1e9


class ExtenderProxy(FaultProxy):
    """Faults happen between kube-scheduler and the measurement: the scorer's own responses are recorded."""

    def __init__(self, upstream: str, port: int, meter: Meter, **more: Any) -> None:
        super().__init__(upstream, port, **more)
        self._meter = meter

    async def fetch(
        self, request: web.Request, body: bytes, *, query: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        with self._meter.exchange(request.path[1:], body) as response:
            code, headers, text = await super().fetch(request, body, query=query)
            response.status, response.body = code, text
        return code, headers, text

    async def forward(self, request: web.Request, body: bytes) -> web.StreamResponse:
        code, headers, text = await self.fetch(request, body)
        return web.Response(status=code, headers=headers, body=text)
