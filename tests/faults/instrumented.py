"""Runs a service as `python -m equipoise.<service>` does, with what the tests need inside its process.

`python -m faults.instrumented equipoise.binder CONTROL SAMPLES`. A thread writes to the file SAMPLES how late the event
loop is, and its number of tasks. At the start and at SIGUSR1, the process reads the JSON file CONTROL:

    offset   seconds that are added to the clock of this process
    block    seconds for which the event loop is blocked, at the signal only
"""

import asyncio
import json
import os
import runpy
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TextIO

from aiohttp import ClientRequest, ClientResponse
from aiohttp.connector import Connection

SENT = "X-Sent"
"""The header of eviction requests and of changes of pods with the Unix time in seconds at which they were written to
their connection."""

PERIOD = 0.2
"""Seconds between two measurements."""

real_time = time.time  # noqa: TID251  the clock that is shifted


class Policy(asyncio.DefaultEventLoopPolicy):
    """Remembers the loop that `asyncio.run` creates."""

    loop: asyncio.AbstractEventLoop | None = None

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        self.loop = super().new_event_loop()
        return self.loop


class Waited:
    """Seconds for which a thread was ready to run and waited for a CPU: lag that is not of this process."""

    def __init__(self, thread: str) -> None:
        """`thread`: its path below /proc."""
        self._file = -1
        with suppress(OSError):  # not on Linux
            self._file = os.open(f"/proc/{thread}/schedstat", os.O_RDONLY)

    def seconds(self) -> float:
        # The file remains open: a process that has reached its limit of descriptors cannot open it.
        return int(os.pread(self._file, 100, 0).split()[1]) / 1e9 if self._file >= 0 else 0.0


def measure(policy: Policy, samples: TextIO) -> None:
    """Measures from the time at which a measurement is due: this thread cannot run while C code blocks the loop."""
    main, own = Waited(f"self/task/{os.getpid()}"), Waited("thread-self")
    while True:
        due = time.monotonic() + PERIOD
        waited = main.seconds() + own.seconds()
        time.sleep(PERIOD)
        loop, done, found = policy.loop, threading.Event(), [0.0, 0]
        if loop is None or not loop.is_running():
            continue

        def count(found: list[float] = found, done: threading.Event = done) -> None:
            found[:] = time.monotonic(), len(asyncio.all_tasks())
            done.set()

        with suppress(RuntimeError):  # the loop has just been closed
            loop.call_soon_threadsafe(count)
            if done.wait(60.0):
                lag = found[0] - due - (main.seconds() + own.seconds() - waited)
                sample = {"at": real_time(), "lag": round(max(0.0, lag), 4), "tasks": found[1]}
                samples.write(json.dumps(sample) + "\n")
                samples.flush()


def mark_evictions() -> None:
    """The proxy that reads an eviction request may itself wait for a CPU: it does not know when it was sent."""
    send = ClientRequest.send

    async def send_marked(request: ClientRequest, connection: Connection) -> ClientResponse:
        path = request.url.path
        if (request.method == "POST" and path.endswith("/eviction")) or (
            request.method == "PATCH" and "/pods/" in path
        ):
            request.headers[SENT] = str(real_time())
        return await send(request, connection)

    ClientRequest.send = send_marked  # type: ignore[method-assign]


def main() -> None:
    module, control, samples = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    offset = 0.0

    def apply() -> float:
        nonlocal offset
        document = json.loads(control.read_text())
        offset = document["offset"]
        return float(document["block"])

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        time.sleep(apply())

    apply()
    time.time = lambda: real_time() + offset  # noqa: TID251  a machine with another clock
    signal.signal(signal.SIGUSR1, on_signal)
    mark_evictions()
    policy = Policy()
    asyncio.set_event_loop_policy(policy)
    threading.Thread(target=measure, args=(policy, samples.open("a")), daemon=True).start()
    sys.argv[:] = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
