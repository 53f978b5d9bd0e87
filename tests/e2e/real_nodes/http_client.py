"""A client that asks a server every 20 ms, each time over a new connection, whatever became of the requests before.

Runs in a pod, as `python3 -c TEXT HOST PORT`: it uses the standard library alone. Each second it prints a line of JSON
with what it has seen since its start.
"""

import asyncio
import json
import sys
import time
from contextlib import suppress

PERIOD = 0.02
TIMEOUT = 10.0
"""Seconds without a complete response after which a request has failed."""

SHOWN_FAILURES = 20


class Client:
    """Counts the requests to one server."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self.requests = 0
        """Those that have been answered, or have failed."""

        self.failed = 0
        self.slowest = 0.0
        """The time of the slowest answer, in seconds."""

        self.failures: list[str] = []
        """The first ones: when and why."""

    async def ask(self) -> None:
        """Sends one request, and counts it."""
        began, problem = time.monotonic(), ""
        try:
            async with asyncio.timeout(TIMEOUT):
                answer = await self._answer()
            if not answer.startswith(b"HTTP/1.0 200 ") or not answer.endswith(b"\r\n\r\nok"):
                problem = f"answer {answer[:100]!r}"
        except (OSError, TimeoutError) as error:
            problem = f"{type(error).__name__}: {error}"
        self.requests += 1
        if not problem:
            self.slowest = max(self.slowest, time.monotonic() - began)
            return
        self.failed += 1
        if len(self.failures) < SHOWN_FAILURES:
            self.failures.append(f"{time.strftime('%H:%M:%S', time.gmtime())} {problem}")

    async def _answer(self) -> bytes:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            return await reader.read()
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def report(self) -> str:
        return json.dumps(
            {
                "requests": self.requests,
                "failed": self.failed,
                "slowest": round(self.slowest, 3),
                "failures": self.failures,
            }
        )


async def first_answer(host: str, port: int) -> None:
    """Waits for the first answer: a node learns of a Service some moments after its pod is ready."""
    client = Client(host, port)
    while client.requests == client.failed:
        await client.ask()
        await asyncio.sleep(PERIOD)


async def main(host: str, port: int) -> None:
    """Asks until the process ends, and counts from the first answer on."""
    await first_answer(host, port)
    client = Client(host, port)
    running: set[asyncio.Task[None]] = set()
    begun = reported = time.monotonic()
    number = 0
    while True:
        number += 1
        task = asyncio.create_task(client.ask())
        running.add(task)
        task.add_done_callback(running.discard)
        if (now := time.monotonic()) - reported >= 1.0:
            reported = now
            print(client.report(), flush=True)
        await asyncio.sleep(max(0.0, begun + number * PERIOD - time.monotonic()))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
