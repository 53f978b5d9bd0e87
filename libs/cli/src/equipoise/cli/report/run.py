"""Reads placement advice and cluster reviews from the bus, and prints the report."""

from pathlib import Path

import msgspec

from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.report.figures import ReportTotals
from equipoise.cli.report.page import page
from equipoise.cli.report.text import show
from equipoise.cli.terminal import console, print_json
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


async def run_report(since: Duration, server: Nats, *, as_json: bool, html: Path | None) -> None:
    """The command. `html`: also write a page to this file.

    Raises BusError, OSError if the file cannot be written, and CommandFailed if there is no advice.
    """
    configure_logging(Logging(level="error"), "report")
    clock = SystemClock()
    now = clock.now()
    totals = await _read(server, now - since, clock)
    if totals.empty:
        raise CommandFailed(
            f"no advice within the last {since}: scorers publish it for every placed pod, and a review every five "
            "minutes. Check that a scorer is running and ready (/readyz), and that scorer.advice.perSecond is above 0"
        )
    report = totals.report(now - since, now)
    if html is not None:
        html.write_text(page(report), encoding="utf-8")  # noqa: ASYNC240  one small file
    if as_json:
        print_json(report)
    else:
        show(report, console())


async def _read(server: Nats, since: float, clock: SystemClock) -> ReportTotals:
    """Messages that cannot be decoded are skipped, as services do."""
    totals = ReportTotals()
    patterns = {channel.message: channel.pattern for channel in CHANNELS}
    async for subject, payload in history(server, "tap", ADVICE, since=since, clock=clock):
        try:
            if matches(patterns[PlacementAdvice], subject):
                totals.add_advice(msgspec.json.decode(payload, type=PlacementAdvice))
            elif matches(patterns[ClusterReview], subject):
                totals.add_review(msgspec.json.decode(payload, type=ClusterReview))
        except msgspec.MsgspecError:
            continue
    return totals
