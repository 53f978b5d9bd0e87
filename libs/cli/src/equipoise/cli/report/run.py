"""Reads placement advice and cluster reviews from the bus, and prints the report."""

import math
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.text import Text

from equipoise.cli.bus.messages import retained_messages
from equipoise.cli.cluster_now.waiting import NodesThatWait
from equipoise.cli.effective.next_level import read_next_level
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.reclaimed.reading import MAX_AGE, read_reclaimed
from equipoise.cli.report import sentences
from equipoise.cli.report.figures import MAX_ROWS, PlacementReport, ReportTotals
from equipoise.cli.report.idle import IdleCapacity, idle_capacity
from equipoise.cli.report.waiting import read_waiting
from equipoise.cli.terminal import print_result, print_section, table
from equipoise.contracts.bus.subjects import PREFIX
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.messages.advice import ClusterReview, PlacementAdvice
from equipoise.runtime.bus import BusError
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.logging import configure_logging

ADVICE = f"{PREFIX}.advice.>"


async def run_report(since: Duration, server: Nats, *, as_json: bool, html: Path | None) -> None:
    """Run the command. `html`: also write a page to this file.

    Raises BusError, OSError if the file cannot be written, and CommandFailed if there is no advice.
    """
    configure_logging(Logging(level="error"), "report")
    clock = SystemClock()
    now = clock.now()
    totals = ReportTotals()
    async for _, message in retained_messages(server, ADVICE, since=now - since, clock=clock):
        if isinstance(message, PlacementAdvice):
            totals.add_advice(message)
        elif isinstance(message, ClusterReview):
            totals.add_review(message)
    if totals.empty:
        raise CommandFailed(
            f"no advice within the last {since}: scorers publish it for every placed pod, and a review every five "
            "minutes. Check that a scorer is running and ready (/readyz), and that scorer.advice.perSecond is above 0"
        )
    waiting = await _waiting(server, clock)
    required = waiting is not msgspec.UNSET and waiting.required
    report = msgspec.structs.replace(
        totals.report(now - since, now, require_pressure=required),
        idle=await _idle(server, clock),
        waiting=waiting,
        next_level=await _next_level(server, clock),
    )
    if html is not None:
        from equipoise.cli.report.page import page  # it needs the lab, which may not be installed

        html.write_text(page(report), encoding="utf-8")  # noqa: ASYNC240  one small file
    print_result(report, show, as_json=as_json)


async def _next_level(server: Nats, clock: Clock) -> str:
    """Which level of trust is advised; empty if none is, or if it is unknown."""
    try:
        return await read_next_level(server, clock)
    except BusError as error:
        click.echo(f"whether a level of moves is advised is unknown: {error}", err=True)
        return ""


async def _waiting(server: Nats, clock: Clock) -> NodesThatWait | msgspec.UnsetType:
    """The nodes on which pods wait; unset if that is not known."""
    try:
        return await read_waiting(server, clock) or msgspec.UNSET
    except BusError as error:
        click.echo(f"on which nodes pods wait is unknown: {error}", err=True)
        return msgspec.UNSET


async def _idle(server: Nats, clock: Clock) -> IdleCapacity | msgspec.UnsetType:
    """The idle capacity; unset if there is no reclaimer, or if the bus cannot be read."""
    try:
        messages = await read_reclaimed(server, clock)
    except BusError as error:
        click.echo(f"idle capacity is unknown: {error}", err=True)
        return msgspec.UNSET
    return idle_capacity(messages, clock.now(), MAX_AGE) if messages else msgspec.UNSET


_MAX_BAR = 24


def show(report: PlacementReport, to: Console) -> None:
    """Sentences, workloads and nodes with the most regret, nodes above their thresholds, and notes."""
    lines = (
        sentences.placements, sentences.regret, sentences.hints, sentences.avoidable, sentences.spread, sentences.idle,
        sentences.waiting, sentences.next_level,
    )  # fmt: skip
    for sentence in lines:
        if text := sentence(report):
            to.print(Text(text))
    for title, color, (name, *numbers), rows in sentences.tables(report):
        bars = table(name, *(f"{number}>" for number in numbers), "")
        for cells, share in rows[:MAX_ROWS]:
            bars.add_row(*cells, Text("█" * math.ceil(_MAX_BAR * share), color))
        more = len(rows) - MAX_ROWS
        print_section(to, title + (f", and {more} more" if more > 0 else ""), bars)
    for note in sentences.notes(report):
        to.print()
        to.print(Text(note, style="dim"))
