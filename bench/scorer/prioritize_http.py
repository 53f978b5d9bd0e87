"""The latency for kube-scheduler: /prioritize over HTTP, 500 candidates of 5,000 nodes with 150,000 pods.

Compared with an aiohttp server that reads the same body and returns as many bytes; requests alternate between the
two, over one connection each.
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

from bench import clusters
from bench.output import progress, report
from bench.scorer.scorer_process import filled_bus

NODES = 5_000
CANDIDATES = 500
REQUESTS = 2_000
CYCLE = 15.0


def serve_echo(length: int, port: Connection) -> None:
    """The smallest possible server with the same language and library."""

    async def on_post(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=b" " * length, content_type="application/json")

    async def serve() -> None:
        application = web.Application(client_max_size=8 * 2**20)
        application.router.add_post("/prioritize", on_post)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(serve())


def post(connection: http.client.HTTPConnection, body: bytes) -> tuple[float, int]:
    """Milliseconds until the response is read, and its length."""
    started = time.perf_counter()
    connection.request("POST", "/prioritize", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    content = response.read()
    assert response.status == 200, content
    return (time.perf_counter() - started) * 1_000, len(content)


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def bodies(seed: int, count: int) -> list[bytes]:
    generator = random.Random(seed)
    names = [clusters.node_name(number) for number in range(NODES)]
    return [clusters.extender_body(number, generator.sample(names, CANDIDATES)) for number in range(count)]


def post_to_both(extender: str, echo_port: int, requests: list[bytes]) -> tuple[list[float], list[float]]:
    """Alternating, so that both run under the same conditions."""
    scorer = http.client.HTTPConnection(urlsplit(extender).netloc)
    echo = http.client.HTTPConnection("127.0.0.1", echo_port)
    taken: tuple[list[float], list[float]] = ([], [])
    for body in requests:
        taken[0].append(post(scorer, body)[0])
        taken[1].append(post(echo, body)[0])
    return taken


def post_for(extender: str, seconds: float, requests: list[bytes]) -> list[float]:
    """A hundred requests per second."""
    scorer = http.client.HTTPConnection(urlsplit(extender).netloc)
    taken: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        taken.append(post(scorer, requests[len(taken) % len(requests)])[0])
        time.sleep(0.01)
    return taken


async def main() -> None:
    async with filled_bus(NODES) as filled, filled.scorer() as scorer:
        await scorer.ready()
        requests = bodies(1, REQUESTS)
        connection = http.client.HTTPConnection(urlsplit(scorer.extender).netloc)
        length = (await asyncio.to_thread(post, connection, requests[0]))[1]
        receiver, sender = multiprocessing.Pipe(duplex=False)
        echo = multiprocessing.Process(target=serve_echo, args=(length, sender), daemon=True)
        echo.start()
        port = await asyncio.to_thread(receiver.recv)
        progress("idle")
        await asyncio.to_thread(post_to_both, scorer.extender, port, requests[:300])
        cpu = scorer.cpu_seconds()
        scorer_times, echo_times = await asyncio.to_thread(post_to_both, scorer.extender, port, requests)
        cpu = scorer.cpu_seconds() - cpu
        echo.terminate()
        p50, base = quantile(scorer_times, 0.5), quantile(echo_times, 0.5)
        report("prioritize_http", p50, "ms", baseline=base, target=("<=", 1.6), state="idle", quantile="p50")
        report("prioritize_http", quantile(scorer_times, 0.99), "ms", state="idle", quantile="p99")
        report("prioritize_http", max(scorer_times), "ms", state="idle", quantile="max")
        report("prioritize_http", 1e6 * cpu / len(requests), "us of CPU per request, whole process", state="idle")
        progress("with a cycle of 5,000 node messages every 15 s")

        async def publish_cycles() -> None:
            while True:
                await filled.publish_cycle(CYCLE)

        cycles = asyncio.create_task(publish_cycles())
        scorer_times = await asyncio.to_thread(post_for, scorer.extender, 3 * CYCLE, bodies(2, REQUESTS))
        cycles.cancel()
        await asyncio.wait([cycles])
        report("prioritize_http", quantile(scorer_times, 0.5), "ms", state="cycle", quantile="p50")
        report("prioritize_http", quantile(scorer_times, 0.99), "ms", target=("<=", 4.0), state="cycle", quantile="p99")
        report("prioritize_http", max(scorer_times), "ms", target=("<=", 100.0), state="cycle", quantile="max")


if __name__ == "__main__":
    asyncio.run(main())
