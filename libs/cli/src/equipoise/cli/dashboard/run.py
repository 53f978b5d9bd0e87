"""Runs the page: a feed of the bus, an HTTP server, and one stream for each browser."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address

import click
import msgspec
from aiohttp import web

from equipoise.cli.dashboard.server import application
from equipoise.cli.dashboard.viewers import Viewers
from equipoise.cli.exit_codes import CommandFailed, cancel_on_signals
from equipoise.cli.live.explanations import Explanations
from equipoise.cli.live.feed import LiveFeed
from equipoise.cli.options import ClusterOptions
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.health import split_address
from equipoise.runtime.process.logging import configure_logging

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
SHUTDOWN_SECONDS = 1.0


async def run_dashboard(listen: str, hosts: Sequence[str], server: Nats, options: ClusterOptions) -> None:
    """Run the command until it is interrupted. Raises ConfigurationError, InvalidInput, CommandFailed and BusError."""
    configure_logging(Logging(level="warning"), "dashboard")
    cancel_on_signals()  # the first process of a container does not end at a signal that it does not handle
    host, port = split_address(listen)
    clock = SystemClock()
    feed = LiveFeed(server, options, clock)
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

    async with serving(app, host, port) as address:
        click.echo(f"live page: http://{address}/")
        if not is_local(host):
            click.echo(f"{listen} can be reached from other machines, and the page has no login", err=True)
        try:
            await feed.run(publish, watched=lambda: len(viewers) > 0)
        finally:
            viewers.close_all()


def allowed_hosts(host: str, further: Sequence[str]) -> frozenset[str]:
    """Names in the header Host: this machine, the address that is listened on, and what the user allows."""
    return LOCAL | {name.lower() for name in (host, *further) if name}


def is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host in LOCAL


@asynccontextmanager
async def serving(app: web.Application, host: str, port: int) -> AsyncIterator[str]:
    """Serve while the block runs; gives the address in use, HOST:PORT. Raises CommandFailed if it is taken."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host or None, port)
        try:
            await site.start()
        except OSError as error:
            raise CommandFailed(
                f"{host}:{port} cannot be listened on: {error.strerror or error}; use --listen HOST:PORT"
            ) from None
        name, bound = runner.addresses[0][:2]
        yield f"[{name}]:{bound}" if ":" in name else f"{name}:{bound}"
    finally:
        await runner.cleanup()
