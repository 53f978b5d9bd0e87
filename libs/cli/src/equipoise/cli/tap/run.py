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
"""The largest number of messages in the queue while stdout is read slowly.

Then the NATS server buffers and drops them.
"""


async def run_tap(subject: str, server: Nats, *, as_json: bool) -> None:
    """Run the command, which prints one line per message until it is interrupted.

    Raises InvalidInput, BusError, and BrokenPipeError when the reader of stdout is gone.
    """
    configure_logging(Logging(format="console", level="warning"), "tap")
    show = json_printer() if as_json else text_printer()
    subscriptions = subscriptions_for(subject)
    async with connect(server, "tap", clock=SystemClock(), ends_when_refused=True) as bus:
        if sys.stdout.isatty() and sys.stderr.isatty():
            selection = f" of {subject}" if subject else ""
            click.echo(f"waiting for messages{selection} at {server.shown_url} (Ctrl-C ends this)", err=True)
        async for name, message in messages(bus, subscriptions):
            show(name, message)


async def messages(bus: Bus, subscriptions: Iterable[Subscription]) -> AsyncIterator[tuple[str, msgspec.Struct]]:
    """The subject and content of each message, without end."""
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
        if subscriptions := [(overlap, message) for overlap, message in overlaps if overlap is not None]:
            return subscriptions
    names = sorted({".".join(channel.pattern.split(".")[1:3]).rstrip(".*>") for channel in CHANNELS})
    raise InvalidInput(
        f"no service publishes on {subject!r}: use {', '.join(names)}, or no subject "
        "(write the dots of a name as _: node_example_com)"
    )


def _overlap(pattern: str, other_pattern: str) -> str | None:
    """The pattern of the subjects that both patterns match; None if there are none."""
    remaining, other_remaining = pattern.split("."), other_pattern.split(".")
    tokens: list[str] = []
    while remaining and other_remaining:
        if remaining == [">"] or other_remaining == [">"]:
            return ".".join(tokens + (other_remaining if remaining == [">"] else remaining))
        own, other = remaining.pop(0), other_remaining.pop(0)
        if own != other and "*" not in (own, other):
            return None
        tokens.append(other if own == "*" else own)
    return None if remaining or other_remaining else ".".join(tokens)
