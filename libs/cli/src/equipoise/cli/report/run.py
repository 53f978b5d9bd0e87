"""The command: reads what the scorers have told, and shows what it adds up to."""

import sys
from pathlib import Path

import msgspec
from rich.console import Console

from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.report.figures import Figures
from equipoise.cli.report.page import page
from equipoise.cli.report.text import show
from equipoise.contracts.bus.channels import CHANNELS
from equipoise.contracts.bus.streams import STREAMS
from equipoise.contracts.bus.subjects import matches
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.messages.advice import ClusterReview, PlacementAdvice
from equipoise.runtime.bus.stream_reader import history
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging

ADVICE = next(stream for stream in STREAMS if stream.name == "EQUIPOISE_ADVICE")

_ON_PIPES = 400
"""Columns where nobody looks: no line is folded."""


async def run_report(since: Duration, server: Nats, *, as_json: bool, html: Path | None) -> None:
    """Print the report of the time since so long ago; what is in its way, empty when nothing is.

    `html`: write it there as a page too. Raises BusError, and OSError when the file cannot be written.
    """
    configure_logging(Logging(level="error"), "report")
    clock = SystemClock()
    now = clock.now()
    figures = await _read(server, now - since, clock)
    if figures.empty:
        raise CommandFailed(
            f"nothing was told of the last {since}: scorers tell of every pod that is placed, and of the fleet every "
            "five minutes. Is one running and ready (its /readyz), and scorer.advice.perSecond above 0? Ask again then."
        )
    report = figures.report(now - since, now)
    if html is not None:
        html.write_text(page(report), encoding="utf-8")  # noqa: ASYNC240  one small file
    if as_json:
        print(msgspec.json.encode(report).decode())
    else:
        show(report, Console(highlight=False, width=None if sys.stdout.isatty() else _ON_PIPES))


async def _read(server: Nats, since: float, clock: SystemClock) -> Figures:
    """What cannot be read is passed over, as services do."""
    figures = Figures()
    patterns = {channel.message: channel.pattern for channel in CHANNELS}
    async for subject, payload in history(server, "tap", ADVICE, since=since, clock=clock):
        try:
            if matches(patterns[PlacementAdvice], subject):
                figures.advice(msgspec.json.decode(payload, type=PlacementAdvice))
            elif matches(patterns[ClusterReview], subject):
                figures.review(msgspec.json.decode(payload, type=ClusterReview))
        except msgspec.MsgspecError:
            continue
    return figures
