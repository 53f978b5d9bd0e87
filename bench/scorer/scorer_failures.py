"""A failing scorer must not delay scheduling: 300 pods with it healthy, stopped, killed, and with invalid responses."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from bench.output import progress, report
from bench.scheduling.cluster import FrozenCluster, frozen_cluster

NODES = 50
PODS = 300
INVALID_RESPONSES = (
    b"",
    b"null",
    b"{}",
    b"<html>502 Bad Gateway</html>",
    b'[{"Host": "node-nowhere", "Score": 10}]',
    b'[{"Host": "node-0001", "Score": "ten"}]',
    b'[{"Host": "node-0001", "Score": -9000000000000000000}]',
)


@asynccontextmanager
async def invalid_responses() -> AsyncIterator[str]:
    requests = 0

    async def on_post(request: web.Request) -> web.Response:
        nonlocal requests
        await request.read()
        requests += 1
        return web.Response(body=INVALID_RESPONSES[requests % len(INVALID_RESPONSES)], content_type="application/json")

    application = web.Application(client_max_size=8 * 2**20)
    application.router.add_post("/prioritize", on_post)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def pods_per_second(frozen: FrozenCluster, *, extender: bool = True) -> float:
    """Raises TimeoutError if a pod is not bound."""
    cluster = frozen.cluster
    await asyncio.to_thread(cluster.kill, "kube-scheduler")
    offset = frozen.audit_log_size()
    await frozen.create_pods(PODS)
    await asyncio.to_thread(cluster.restart_scheduler, frozen.scheduler(extender=extender))
    times = [binding.time for binding in await frozen.bound(PODS, offset)]
    await frozen.remove_pods()
    return (len(times) - 1) / (max(times) - min(times)).total_seconds()


async def main() -> None:
    async with frozen_cluster([0.2 + 0.5 * number / NODES for number in range(NODES)]) as frozen:
        rates = {"no extender entry": await pods_per_second(frozen, extender=False)}
        async with frozen.services():
            rates["healthy"] = await pods_per_second(frozen)
            frozen.cluster.guard.send(frozen.services_pids["scorer"], signal.SIGSTOP)
            rates["black-holed (SIGSTOP)"] = await pods_per_second(frozen)
            frozen.cluster.guard.send(frozen.services_pids["scorer"], signal.SIGCONT)
            frozen.cluster.guard.stop(frozen.services_pids["scorer"], number=signal.SIGKILL)
            rates["killed (port refused)"] = await pods_per_second(frozen)
        async with invalid_responses() as url:
            frozen.extender = url
            rates["invalid responses"] = await pods_per_second(frozen)
    for state, rate in rates.items():
        progress(state)
        report("scorer_failures", rate, "pods/s", baseline=rates["no extender entry"], state=state)


if __name__ == "__main__":
    asyncio.run(main())
