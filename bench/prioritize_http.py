"""What kube-scheduler waits for: /prioritize over HTTP, 500 candidates of 5,000 nodes with 150,000 pods.

Against an aiohttp server that reads the same body and returns as many bytes, asked in turn over one connection each.
"""

import asyncio
import http.client
import multiprocessing
import random
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from urllib.parse import urlsplit

from aiohttp import web

from bench import fleets
from bench.line import progress, say
from bench.scorer_process import filled_bus

NODES = 5_000
CANDIDATES = 500
QUESTIONS = 2_000
CYCLE = 15.0


def serve_echo(length: int, told: Connection) -> None:
    """The least that a server in this language and library can do."""

    async def on_post(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=b" " * length, content_type="application/json")

    async def serve() -> None:
        application = web.Application(client_max_size=8 * 2**20)
        application.router.add_post("/prioritize", on_post)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        told.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(serve())


def ask(connection: http.client.HTTPConnection, body: bytes) -> tuple[float, int]:
    """Milliseconds until the answer was read, and its length."""
    begun = time.perf_counter()
    connection.request("POST", "/prioritize", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status == 200, content
    return (time.perf_counter() - begun) * 1_000, len(content)


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def bodies(seed: int, count: int) -> list[bytes]:
    chance = random.Random(seed)
    names = [fleets.node_name(number) for number in range(NODES)]
    return [fleets.question(number, chance.sample(names, CANDIDATES)) for number in range(count)]


def ask_both(extender: str, echo_port: int, questions: list[bytes]) -> tuple[list[float], list[float]]:
    """In turn, so that both see the same machine."""
    scorer = http.client.HTTPConnection(urlsplit(extender).netloc)
    echo = http.client.HTTPConnection("127.0.0.1", echo_port)
    taken: tuple[list[float], list[float]] = ([], [])
    for body in questions:
        taken[0].append(ask(scorer, body)[0])
        taken[1].append(ask(echo, body)[0])
    return taken


def ask_for(extender: str, seconds: float, questions: list[bytes]) -> list[float]:
    """A hundred questions a second."""
    scorer = http.client.HTTPConnection(urlsplit(extender).netloc)
    taken: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        taken.append(ask(scorer, questions[len(taken) % len(questions)])[0])
        time.sleep(0.01)
    return taken


async def main() -> None:
    async with filled_bus(NODES) as filled, filled.scorer() as scorer:
        await scorer.ready()
        questions = bodies(1, QUESTIONS)
        connection = http.client.HTTPConnection(urlsplit(scorer.extender).netloc)
        length = (await asyncio.to_thread(ask, connection, questions[0]))[1]
        told, telling = multiprocessing.Pipe(duplex=False)
        echo = multiprocessing.Process(target=serve_echo, args=(length, telling), daemon=True)
        echo.start()
        port = await asyncio.to_thread(told.recv)
        progress("idle")
        await asyncio.to_thread(ask_both, scorer.extender, port, questions[:300])
        spent = scorer.cpu_seconds()
        answered, echoed = await asyncio.to_thread(ask_both, scorer.extender, port, questions)
        spent = scorer.cpu_seconds() - spent
        echo.terminate()
        p50, base = quantile(answered, 0.5), quantile(echoed, 0.5)
        say("prioritize_http", p50, "ms", baseline=base, target=("<=", 1.6), state="idle", quantile="p50")
        say("prioritize_http", quantile(answered, 0.99), "ms", state="idle", quantile="p99")
        say("prioritize_http", max(answered), "ms", state="idle", quantile="max")
        say("prioritize_http", 1e6 * spent / len(questions), "us of CPU a request, whole process", state="idle")
        progress("while a cycle of 5,000 node messages comes every 15 s")

        async def say_cycles() -> None:
            while True:
                await filled.say_cycle(CYCLE)

        cycles = asyncio.create_task(say_cycles())
        answered = await asyncio.to_thread(ask_for, scorer.extender, 3 * CYCLE, bodies(2, QUESTIONS))
        cycles.cancel()
        await asyncio.wait([cycles])
        say("prioritize_http", quantile(answered, 0.5), "ms", state="cycle", quantile="p50")
        say("prioritize_http", quantile(answered, 0.99), "ms", target=("<=", 10.0), state="cycle", quantile="p99")
        say("prioritize_http", max(answered), "ms", target=("<=", 100.0), state="cycle", quantile="max")


if __name__ == "__main__":
    asyncio.run(main())
