"""Serves /healthz, /readyz, /metrics and /version of a process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.process.health import Health

log = structlog.get_logger()

_SHUTDOWN_SECONDS = 2.0
"""Seconds that a running request may take at the end."""


@asynccontextmanager
async def serving_health(address: str, health: Health, metrics: CollectorRegistry, version: str) -> AsyncIterator[str]:
    """Serve while the block runs; gives the address in use, `host:port`.

    Raises ConfigurationError when the address is none or is taken.
    """
    host, port = split_address(address)

    async def on_healthz(_request: web.Request) -> web.Response:
        """A response is enough: it shows that the event loop runs."""
        return web.Response(text="ok\n")

    async def on_readyz(_request: web.Request) -> web.Response:
        report = health.report()
        body = msgspec.json.encode(report)
        return web.Response(body=body, status=200 if report.ready else 503, content_type="application/json")

    async def on_metrics(_request: web.Request) -> web.Response:
        # In a thread: rendering a large cluster's series takes longer than a score may.
        body = await asyncio.to_thread(generate_latest, metrics)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def on_version(_request: web.Request) -> web.Response:
        return web.json_response({"version": version})

    application = web.Application(client_max_size=1024)
    application.router.add_get("/healthz", on_healthz)
    application.router.add_get("/readyz", on_readyz)
    application.router.add_get("/metrics", on_metrics)
    application.router.add_get("/version", on_version)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host or None, port).start()
        except OSError as error:
            raise ConfigurationError(f"health: {address} cannot be listened on: {error.strerror or error}") from error
        name, bound = runner.addresses[0][:2]
        log.info("health", address=f"{name}:{bound}")
        yield f"{name}:{bound}"
    finally:
        await runner.cleanup()


def split_address(address: str) -> tuple[str, int]:
    """`127.0.0.1:8081`, `[::1]:8081`, `:8081` (every interface). Raises ConfigurationError."""
    host, colon, port = address.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > 65_535 or (":" in host and host[0] != "["):
        raise ConfigurationError(f"{address!r} is no address to listen on (examples: 127.0.0.1:8081, [::]:8081, :8081)")
    return host.removeprefix("[").removesuffix("]"), int(port)
