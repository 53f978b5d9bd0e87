"""Subscribes to subjects of the bus and prints each message."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable
from typing import Any

import click
import msgspec

from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.tap.text import json_printer, text_printer
from equipoise.contracts.bus.channels import CHANNELS
from equipoise.contracts.bus.subjects import PREFIX
from equipoise.runtime.bus import Bus, Delivery, connect
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging

Subscription = tuple[str, type[msgspec.Struct]]
"""A NATS pattern and the message of its subjects."""

QUEUE_SIZE = 10_000
"""Messages queued while stdout is read slowly; above that the NATS server buffers messages, and then drops them."""


async def run_tap(subject: str, server: Nats, *, as_json: bool) -> None:
    """The command: prints one line per message until it is interrupted.

    Raises InvalidInput, BusError, and BrokenPipeError when the reader of stdout is gone.
    """
    configure_logging(Logging(format="console", level="warning"), "tap")
    show = json_printer() if as_json else text_printer()
    subscriptions = subscriptions_for(subject)
    async with connect(server, "tap", clock=SystemClock(), ends_when_refused=True) as bus:
        if sys.stdout.isatty() and sys.stderr.isatty():
            of = f" of {subject}" if subject else ""
            click.echo(f"waiting for messages{of} at {server.shown_url} (Ctrl-C ends this)", err=True)
        async for name, message in messages(bus, subscriptions):
            show(name, message)


async def messages(bus: Bus, subscriptions: Iterable[Subscription]) -> AsyncIterator[tuple[str, msgspec.Struct]]:
    """Subject and message, without end."""
    received: asyncio.Queue[tuple[str, msgspec.Struct]] = asyncio.Queue(QUEUE_SIZE)

    async def on_message(delivery: Delivery[Any]) -> None:
        await received.put((delivery.subject, delivery.message))

    for pattern, kind in subscriptions:
        await bus.subscribe(pattern, kind, on_message)
    while True:
        yield await received.get()


def subscriptions_for(subject: str) -> list[Subscription]:
    """One subscription for each channel that a subject or pattern overlaps.

    The prefix is optional, and so is a trailing `.>`: `eviction` is `equipoise.eviction.>`. An empty string matches
    everything. Raises InvalidInput if no channel overlaps.
    """
    given = subject.removeprefix(f"{PREFIX}.").strip(".") or ">"
    for pattern in (given, f"{given}.>"):
        overlaps = [(_overlap(f"{PREFIX}.{pattern}", channel.pattern), channel.message) for channel in CHANNELS]
        if found := [(overlap, message) for overlap, message in overlaps if overlap is not None]:
            return found
    names = sorted({".".join(channel.pattern.split(".")[1:3]).rstrip(".*>") for channel in CHANNELS})
    raise InvalidInput(
        f"no service publishes on {subject!r}: use {', '.join(names)}, or no subject "
        "(write the dots of a name as _: node_example_com)"
    )


def _overlap(left: str, right: str) -> str | None:
    """The pattern of the subjects that both patterns match; None if there are none."""
    lefts, rights = left.split("."), right.split(".")
    tokens: list[str] = []
    while lefts and rights:
        if lefts == [">"] or rights == [">"]:
            return ".".join(tokens + (rights if lefts == [">"] else lefts))
        one, other = lefts.pop(0), rights.pop(0)
        if one != other and "*" not in (one, other):
            return None
        tokens.append(other if one == "*" else one)
    return None if lefts or rights else ".".join(tokens)
