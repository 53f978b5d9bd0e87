"""The command: reads outcome and decisions back, and tells the story."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import TypeVar

import msgspec

from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.explain.eviction_history import Story, story
from equipoise.cli.explain.eviction_text import show
from equipoise.cli.explain.scores import pod_named
from equipoise.cli.terminal import console
from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.subjects import stream_of
from equipoise.contracts.messages.descheduling import DescheduleDecision
from equipoise.contracts.messages.eviction import EvictionOutcome
from equipoise.runtime.bus.stream_reader import history
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging

KEPT = 86_400.0
"""Seconds for which outcomes and decisions are kept."""

BEFORE = 1_800.0
"""Seconds before a decision in which the evaluations that led to it are looked for."""

AFTER = 1_800.0
"""Seconds after an outcome in which the replacement is looked for."""

LATELY = 3_600.0
"""Seconds of decisions that are looked through for a pod without outcome: of a big cluster a day is hundreds of MiB."""

MOST = 10
"""Outcomes that are told of, the newest: a name that comes back every few seconds may have thousands."""

DECISIONS = subjects.decision("descheduler", "*")

T = TypeVar("T", bound=msgspec.Struct)


async def run_explain_eviction(name: str, server: Nats, *, as_json: bool) -> None:
    """The command. Raises InvalidInput, BusError, and CommandFailed if nothing is retained of the pod."""
    namespace, pod = pod_named(name)
    configure_logging(Logging(level="error"), "explain")
    told = await story_of(namespace, pod, server)
    if told.empty:
        raise CommandFailed(
            f"nothing is kept of {name}: outcomes are kept for 24 hours, and no evaluation of the last hour named it. "
            f"Is that its name (`kubectl -n {namespace} get events` has evictions too), and does a descheduler lead? "
            "`equipoise plan` says what would move now, and who stays"
        )
    if as_json:
        print(msgspec.json.encode(told).decode())
    else:
        show(told, console())


async def story_of(namespace: str, pod: str, server: Nats) -> Story:
    """What the bus keeps of a pod. Raises BusError."""
    clock = SystemClock()
    now = clock.now()
    subject = subjects.eviction_outcome(namespace, pod)
    outcomes = [each async for each in _read(server, clock, subject, EvictionOutcome, now - KEPT)][-MOST:]
    spans = [(each.decided_at - BEFORE, each.settled_at + AFTER) for each in outcomes]
    decisions: list[DescheduleDecision] = []
    for begin, end in merged([*spans, (now - LATELY, now + 1.0)]):
        async for decision in _read(server, clock, DECISIONS, DescheduleDecision, begin):
            if decision.evaluated_at > end:
                break
            decisions.append(decision)
    return story(namespace, pod, outcomes, decisions)


def merged(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same times, in order and none twice."""
    found: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


async def _read(server: Nats, clock: SystemClock, pattern: str, kind: type[T], since: float) -> AsyncIterator[T]:
    """What cannot be read is passed over, as services do."""
    stream = stream_of(pattern)
    assert stream is not None
    async with aclosing(history(server, "tap", stream, since=since, clock=clock, pattern=pattern)) as kept:
        async for _, payload in kept:
            try:
                yield msgspec.json.decode(payload, type=kind)
            except msgspec.MsgspecError:
                continue
