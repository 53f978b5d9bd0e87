"""Runs the page: a feed of the bus, an HTTP server, and one stream for each browser."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address

import click
import msgspec
from aiohttp import web

from equipoise.cli.exit_codes import CommandFailed, cancel_on_signals
from equipoise.cli.options import ClusterOptions
from equipoise.cli.views.explanations import Explanations
from equipoise.cli.views.feed import LiveFeed
from equipoise.cli.views.page.page_server import application
from equipoise.cli.views.page.viewers import Viewers
from equipoise.contracts.configuration.prices import PriceTable
from equipoise.contracts.connection_limits import ConnectionLimits
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.http_server.connections import listen
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.health import split_address
from equipoise.runtime.process.logging import configure_logging

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
SHUTDOWN_SECONDS = 1.0

LIMITS = ConnectionLimits(total=512, per_address=256)
"""A browser opens up to six connections and keeps one for the stream. `Viewers` limits the streams."""


async def run_dashboard(
    address: str, hosts: Sequence[str], server: Nats, options: ClusterOptions, *, prices: PriceTable | None
) -> None:
    """Run the command until it is interrupted. `prices`: None: those of the descheduler.

    Raises ConfigurationError, InvalidInput, CommandFailed and BusError."""
    configure_logging(Logging(level="warning"), "dashboard")
    cancel_on_signals()  # without a handler, SIGTERM does not end the first process of a container
    host, port = split_address(address)
    clock = SystemClock()
    feed = LiveFeed(server, options, clock, prices=prices)
    viewers = Viewers(f"{clock.now():.0f}", lambda: msgspec.json.encode(feed.state.everything()))
    app = application(
        feed.state,
        viewers,
        Explanations(feed.state, server, lambda: feed.bus, options),
        hosts=allowed_hosts(host, hosts),
        ready=lambda: feed.ready,
    )

    def publish() -> None:
        changes = feed.state.take_changes()
        if changes is not None:
            viewers.publish(msgspec.json.encode(changes))

    async with serving(app, host, port) as bound_address:
        click.echo(f"live page: http://{bound_address}/")
        if not is_local(host):
            click.echo(f"{address} can be reached from other machines, and the page has no login", err=True)
        try:
            await feed.run(publish, watched=lambda: len(viewers) > 0)
        finally:
            viewers.close_all()


def allowed_hosts(host: str, further: Sequence[str]) -> frozenset[str]:
    """The names allowed in the header Host: of this machine, of the listen address, and those that the user allows."""
    return LOCAL | {name.lower() for name in (host, *further) if name}


def is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host in LOCAL


@asynccontextmanager
async def serving(app: web.Application, host: str, port: int, limits: ConnectionLimits = LIMITS) -> AsyncIterator[str]:
    """Serve while the block runs; gives the address in use, HOST:PORT. Raises CommandFailed if it cannot listen."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        try:
            server = await listen(runner, host, port, limits)
        except OSError as error:
            raise CommandFailed(
                f"{host}:{port} cannot be listened on: {error.strerror or error}; use --listen HOST:PORT"
            ) from None
        ip, bound_port = server.sockets[0].getsockname()[:2]
        try:
            yield f"[{ip}]:{bound_port}" if ":" in ip else f"{ip}:{bound_port}"
        finally:
            server.close()
    finally:
        await runner.cleanup()
