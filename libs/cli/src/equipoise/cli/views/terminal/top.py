"""Runs the live view in a terminal, or prints it once."""

import asyncio

from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.options import ClusterOptions
from equipoise.cli.terminal import print_result
from equipoise.cli.views.explanations import Explanations
from equipoise.cli.views.feed import LiveFeed
from equipoise.cli.views.terminal.screen import TopApp
from equipoise.cli.views.terminal.screen_text import show
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging


async def run_top(server: Nats, options: ClusterOptions) -> None:
    """Shows the view until the user ends it. Raises InvalidInput, ConfigurationError and BusError."""
    configure_logging(Logging(level="error"), "top")
    feed = LiveFeed(server, options, SystemClock())
    explanations = Explanations(feed.state, server, lambda: feed.bus, options)
    app = TopApp(feed.state, lambda on_tick: feed.run(on_tick, watched=lambda: True), explanations.of)
    await app.run_async()
    if app.failure is not None:
        raise app.failure


async def run_once(server: Nats, options: ClusterOptions, *, wait: float, as_json: bool) -> None:
    """Print the view once. Raises InvalidInput, ConfigurationError, BusError, and CommandFailed if no node is known."""
    configure_logging(Logging(level="error"), "top")
    feed = LiveFeed(server, options, SystemClock())
    complete = asyncio.Event()

    def on_tick() -> None:
        if feed.ready and feed.state.is_complete:
            complete.set()

    running = asyncio.create_task(feed.run(on_tick, watched=lambda: False))
    waiting = asyncio.create_task(complete.wait())
    try:
        done, _ = await asyncio.wait({running, waiting}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        if running in done:
            await running  # raises the error that ended it
        feed.state.tick(SystemClock().now())
        view = feed.state.everything()
    finally:
        for task in (running, waiting):
            task.cancel()
        await asyncio.gather(running, waiting, return_exceptions=True)
    if not view.nodes:
        problem = view.connection.problem if view.connection is not None else ""
        why = f" ({problem})" if problem else ": check that a collector runs (`equipoise doctor`)"
        raise CommandFailed(f"no node was published at {server.shown_url} within {wait:g} s{why}")
    print_result(view, show, as_json=as_json)
