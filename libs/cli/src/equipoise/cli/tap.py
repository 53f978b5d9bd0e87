"""A readable live view of the bus: what each service says, a line a message."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

import msgspec

from equipoise.cli.endings import WrongInput
from equipoise.contracts.bus.subjects import CHANNELS, PREFIX
from equipoise.contracts.messages.advice import ClusterReview, PlacementAdvice
from equipoise.contracts.messages.annotation import AnnotationWritten
from equipoise.contracts.messages.descheduling import DescheduleDecision
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome
from equipoise.contracts.messages.health import Heartbeat
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.score import ScoreDecision
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization
from equipoise.runtime.bus import Bus, Delivery, connect
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging

Said = tuple[str, msgspec.Struct]
"""A subject and what was said on it."""

WAITING = 10_000
"""Messages that may wait for a slow reader of our output; beyond, the bus itself waits and then drops."""

NARROWEST_NAME, WIDEST_NAME = 24, 64
"""Columns of a subject."""


def covered(subject: str) -> list[tuple[str, type[msgspec.Struct]]]:
    """What to listen to for a subject or pattern, with the message of each: one entry per channel that it touches.

    The prefix may be left out, and so may what follows: `eviction` is `eviction.>`. Nothing means everything.
    """
    wanted = subject.removeprefix(f"{PREFIX}.").strip(".") or ">"
    for pattern in (wanted, f"{wanted}.>"):
        common = [(_common(f"{PREFIX}.{pattern}", channel.pattern), channel.message) for channel in CHANNELS]
        if found := [(both, message) for both, message in common if both is not None]:
            return found
    return []


def _common(left: str, right: str) -> str | None:
    """The pattern of those subjects that both patterns match; None when there are none."""
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


def channels_of(subject: str) -> list[tuple[str, type[msgspec.Struct]]]:
    """`covered`, or WrongInput when nothing is ever said there."""
    if patterns := covered(subject):
        return patterns
    kinds = sorted({".".join(channel.pattern.split(".")[1:3]).rstrip(".*>") for channel in CHANNELS})
    raise WrongInput(
        f"nothing is ever said on {subject!r}: try {', '.join(kinds)}, or nothing at all "
        "(the dots of a name are written _: node_example_com)"
    )


async def heard(bus: Bus, patterns: Iterable[tuple[str, type[msgspec.Struct]]]) -> AsyncIterator[Said]:
    """Every message of these subjects, for ever."""
    arrived: asyncio.Queue[Said] = asyncio.Queue(WAITING)

    async def on_message(delivery: Delivery[Any]) -> None:
        await arrived.put((delivery.subject, delivery.message))

    for pattern, kind in patterns:
        await bus.listen(pattern, kind, on_message)
    while True:
        yield await arrived.get()


async def run_tap(subject: str, server: Nats, *, as_json: bool) -> None:
    """The command: a line a message on standard output, until it is stopped. Colours only on a terminal.

    Raises WrongInput, BusError, and BrokenPipeError when nobody reads any more.
    """
    patterns = channels_of(subject)
    configure_logging(Logging(level="warning"), "tap")
    show = _json_line if as_json else _lines_for_people()
    async with connect(server, "tap", clock=SystemClock()) as bus:
        async for said_on, message in heard(bus, patterns):
            show(said_on, message)


def _json_line(said_on: str, message: msgspec.Struct) -> None:
    print(msgspec.json.encode({"subject": said_on, "message": message}).decode(), flush=True)


def _lines_for_people() -> Callable[[str, msgspec.Struct], None]:
    """Subject and message in two columns: coloured and folded on a terminal, a line a message elsewhere."""
    width = NARROWEST_NAME

    def name_of(said_on: str) -> str:
        nonlocal width
        name = said_on.removeprefix(f"{PREFIX}.")
        width = max(width, min(len(name), WIDEST_NAME))
        return name

    def plain(said_on: str, message: msgspec.Struct) -> None:
        print(f"{name_of(said_on):<{width}}  {describe(message)}", flush=True)

    if not sys.stdout.isatty():
        return plain

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)

    def folded(said_on: str, message: msgspec.Struct) -> None:
        name = name_of(said_on)
        line = Table.grid(padding=(0, 2), expand=True)
        line.add_column(width=min(width, console.width // 2), overflow="fold")
        line.add_column(ratio=1)
        line.add_row(Text(name, style=_colour_of(name)), Text(describe(message)))
        console.print(line)

    return folded


def describe(message: msgspec.Struct) -> str:
    """One line for people."""
    teller = _TELLERS.get(type(message))
    return teller(message) if teller is not None else msgspec.json.encode(message).decode()


def _colour_of(name: str) -> str:
    kind = name.split(".", 1)[0]
    return {"eviction": "bold red", "decision": "yellow", "annotation": "magenta", "health": "dim"}.get(kind, "cyan")


def _cores(amount: Resources) -> str:
    cpu = "?" if amount.cpu is None else f"{amount.cpu:.2f} cores"
    memory = "?" if amount.memory is None else f"{amount.memory / 2**30:.2f} GiB"
    return f"{cpu}, {memory}"


def _percent(amount: Resources) -> str:
    return ", ".join(
        f"{name} {'?' if value is None else f'{value:.0%}'}"
        for name, value in (("cpu", amount.cpu), ("memory", amount.memory))
    )


def _node(message: NodeUtilization) -> str:
    windows = "   ".join(f"{name} {_cores(window.mean)}" for name, window in message.windows.items())
    age = message.queried_at - message.sampled_at
    return f"{windows or 'nothing known'}   ({len(message.pods)} pods, sample {age:.1f} s old)"


def _workload(message: WorkloadUtilization) -> str:
    windows = "   ".join(f"{name} {_cores(window.mean)}" for name, window in message.windows.items())
    return f"{windows or 'nothing known'} per replica ({message.replicas} measured)"


def _cycle(message: UtilizationCycle) -> str:
    return f"round {message.cycle}: {message.fresh} of {message.expected} nodes fresh {message.problem}".rstrip()


def _placement(message: NodePlacement) -> str:
    state = "gone" if message.removed else "ready" if message.ready else "not ready"
    return f"{state}, {len(message.pods)} pods, {len(message.gone)} lately gone"


def _intent(message: EvictionIntent) -> str:
    return f"should leave {message.node} for {message.target or 'anywhere'}: {message.reason}"


def _outcome(message: EvictionOutcome) -> str:
    return f"{message.outcome} from {message.node} (for {message.target or 'anywhere'}) {message.detail}".rstrip()


def _annotation(message: AnnotationWritten) -> str:
    return (
        f"{message.object}: {', '.join(f'{key}={value}' for key, value in message.annotations.items())} ({message.why})"
    )


def _score(message: ScoreDecision) -> str:
    best = ", ".join(f"{node.node} {node.extender_score} ({node.score:.0f})" for node in message.best[:5])
    demand = f"expects {_cores(message.demand)} ({message.demand_source})"
    return f"{'neutral: ' + message.why if message.neutral else best}; {demand}; {message.considered} nodes"


def _advice(message: PlacementAdvice) -> str:
    if message.rank is None or message.regret is None or message.best is None:
        return f"on {message.node}: {message.why}"
    place = f"on {message.node}: rank {message.rank} of {message.considered}"
    return place if message.rank == 1 else f"{place}, {message.regret:.0f} points worse than {message.best.node}"


def _review(message: ClusterReview) -> str:
    over = ", ".join(f"{node} {seconds:.0f} s" for node, seconds in list(message.over.items())[:8])
    return f"{message.seen:.0f} s seen, {message.nodes:.0f} nodes; over their marks: {over or 'none'}"


def _deschedule(message: DescheduleDecision) -> str:
    hot = [f"{node.node} ({_percent(node.load)})" for node in message.nodes if node.state == "hot"]
    said = f"{len(message.intents)} intents" if message.intents else message.why
    said += f"; {len(message.dry_run_moves)} moves assumed in dry run" if message.dry_run_moves else ""
    return f"hot: {', '.join(hot[:8]) or 'none'}; {said}; {len(message.refused)} moves refused"


def _health(message: Heartbeat) -> str:
    state = "ready" if message.ready else "not ready"
    leading = {True: ", leading", False: ", standing by", None: ""}[message.leading]
    problems = f": {'; '.join(message.problems)}" if message.problems else ""
    return f"{state}{leading}{problems}"


_TELLERS: Mapping[type[msgspec.Struct], Callable[[Any], str]] = {
    NodeUtilization: _node,
    WorkloadUtilization: _workload,
    UtilizationCycle: _cycle,
    NodePlacement: _placement,
    EvictionIntent: _intent,
    EvictionOutcome: _outcome,
    AnnotationWritten: _annotation,
    ScoreDecision: _score,
    PlacementAdvice: _advice,
    ClusterReview: _review,
    DescheduleDecision: _deschedule,
    Heartbeat: _health,
}
