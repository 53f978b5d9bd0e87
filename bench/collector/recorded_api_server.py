"""An API server that serves many copies of one recorded pod: a streaming list, then changes on request.

`python -m bench.collector.recorded_api_server PODS NODES` prints its port. Each line on standard input is a number of
changes, which are sent as fast as the watch accepts them.
"""

import asyncio
import re
import sys
from pathlib import Path

from aiohttp import web

RECORDED = Path(__file__).parents[1] / "data" / "pod.json"
"""A pod of a Deployment as kube-apiserver 1.36 returned it, on one line, with placeholders in capitals."""

CHUNK = 200
"""Events per write: about half a megabyte."""


class Playback:
    def __init__(self, pods: int, nodes: int) -> None:
        self._pods, self._nodes = pods, nodes
        self._parts = re.split("(NUMBER|NODE|VERSION|OWNER)", RECORDED.read_text().strip())
        self._version = pods
        self._requested: asyncio.Queue[int] = asyncio.Queue()

    def _event(self, kind: str, number: int, version: int) -> str:
        values = {
            "NUMBER": f"{number:06}",
            "NODE": f"node-{number % self._nodes:05}",
            "VERSION": str(version),
            "OWNER": f"web-{number // 30:05}",
        }
        pod = "".join([values.get(part, part) for part in self._parts])
        return f'{{"type":"{kind}","object":{pod}}}\n'

    async def on_watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if "sendInitialEvents" in request.query:
            for begin in range(0, self._pods, CHUNK):
                events = (self._event("ADDED", n, n + 1) for n in range(begin, min(begin + CHUNK, self._pods)))
                await response.write("".join(events).encode())
            await response.write(
                f'{{"type":"BOOKMARK","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{"resourceVersion":'
                f'"{self._version}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}\n'.encode()
            )
        while True:
            changes = await self._requested.get()
            for begin in range(0, changes, CHUNK):
                count = min(CHUNK, changes - begin)
                events = (
                    self._event("MODIFIED", (begin + n) % self._pods, self._version + n + 1) for n in range(count)
                )
                await response.write("".join(events).encode())
                self._version += count

    async def read_requests(self) -> None:
        while line := await asyncio.to_thread(sys.stdin.readline):
            self._requested.put_nowait(int(line))


async def serve(pods: int, nodes: int) -> None:
    playback = Playback(pods, nodes)
    application = web.Application()
    application.router.add_get("/api/v1/pods", playback.on_watch)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await playback.read_requests()  # until standard input is closed
    await asyncio.wait_for(runner.cleanup(), 1.0)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
