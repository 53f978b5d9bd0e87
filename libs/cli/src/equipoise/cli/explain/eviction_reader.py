"""Reads outcomes and decisions back from the bus, and prints the eviction history of a pod."""

from collections.abc import Sequence
from contextlib import aclosing

from equipoise.cli.bus import retained_messages
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.explain.eviction_history import EvictionHistory, eviction_history
from equipoise.cli.explain.eviction_text import show
from equipoise.cli.explain.scores import pod_name
from equipoise.cli.terminal import print_result
from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.descheduling import DescheduleDecision
from equipoise.contracts.messages.eviction import EvictionOutcome
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging

RETENTION = 86_400.0
"""Seconds for which outcomes and decisions are retained."""

BEFORE = 1_800.0
"""Seconds before a decision that are searched for the evaluations that led to it."""

AFTER = 1_800.0
"""Seconds after an outcome that are searched for the replacement."""

RECENT = 3_600.0
"""Seconds of decisions that are searched for a pod without outcome: a day of a big cluster is hundreds of MiB."""

MAX_OUTCOMES = 10
"""The newest outcomes that are shown: a name that is reused every few seconds may have thousands."""

DECISIONS = subjects.decision("descheduler", "*")


async def run_explain_eviction(name: str, server: Nats, *, as_json: bool) -> None:
    """The command. Raises InvalidInput, BusError, and CommandFailed if nothing is retained of the pod."""
    namespace, pod = pod_name(name)
    configure_logging(Logging(level="error"), "explain")
    found = await read_history(namespace, pod, server)
    if found.empty:
        raise CommandFailed(
            f"no eviction of {name} found: outcomes are retained for 24 hours, and no evaluation of the last hour "
            f"refused to move it. Check the name, `kubectl -n {namespace} get events`, and that a descheduler leads; "
            "`equipoise plan` shows what would move now and what would not"
        )
    print_result(found, show, as_json=as_json)


async def read_history(namespace: str, pod: str, server: Nats) -> EvictionHistory:
    """Raises BusError."""
    clock = SystemClock()
    now = clock.now()
    subject = subjects.eviction_outcome(namespace, pod)
    retained = retained_messages(server, subject, since=now - RETENTION, clock=clock)
    outcomes = [message async for _, message in retained if isinstance(message, EvictionOutcome)][-MAX_OUTCOMES:]
    spans = [(each.decided_at - BEFORE, each.settled_at + AFTER) for each in outcomes]
    decisions: list[DescheduleDecision] = []
    for begin, end in merged([*spans, (now - RECENT, now + 1.0)]):
        async with aclosing(retained_messages(server, DECISIONS, since=begin, clock=clock)) as messages:
            async for _, decision in messages:
                if not isinstance(decision, DescheduleDecision):
                    continue
                if decision.evaluated_at > end:
                    break
                decisions.append(decision)
    return eviction_history(namespace, pod, outcomes, decisions)


def merged(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The union of these spans of time, in order."""
    found: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found
