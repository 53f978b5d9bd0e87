"""The newest outcomes of evictions, of which `equipoise explain eviction` can explain one."""

from collections import deque
from collections.abc import Sequence
from contextlib import aclosing

import msgspec
from rich.console import Console
from rich.text import Text

from equipoise.cli.bus.access import with_bus
from equipoise.cli.bus.cluster import BusCluster, bus_cluster
from equipoise.cli.bus.messages import retained_messages
from equipoise.cli.explain.eviction import RETENTION, result_text
from equipoise.cli.options import BusOptions, ClusterOptions, Output
from equipoise.cli.terminal import day_and_time, print_result, table
from equipoise.contracts.bus.channels import EVICTION_OUTCOMES
from equipoise.contracts.messages.eviction import EvictionOutcome
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging

MAX_SHOWN = 20


class RecentOutcomes(msgspec.Struct, frozen=True, kw_only=True):
    """The newest outcomes of the last 24 hours, oldest first."""

    cluster: BusCluster
    outcomes: Sequence[EvictionOutcome]


async def run_recent_outcomes(bus: BusOptions, options: ClusterOptions, *, output: Output) -> None:
    """Run the command without the name of a pod. Raises BusError and CommandFailed."""
    configure_logging(Logging(level="error"), "explain")

    async def read(server: Nats) -> RecentOutcomes:
        cluster = bus_cluster(options, server)
        clock = SystemClock()
        newest: deque[EvictionOutcome] = deque(maxlen=MAX_SHOWN)
        since = clock.now() - RETENTION
        async with aclosing(retained_messages(server, EVICTION_OUTCOMES.pattern, since=since, clock=clock)) as messages:
            async for _, message in messages:
                if isinstance(message, EvictionOutcome):
                    newest.append(message)
        return RecentOutcomes(cluster=cluster, outcomes=tuple(newest))

    print_result(await with_bus(bus, options, read), show, output=output)


def show(recent: RecentOutcomes, to: Console) -> None:
    """Prints a table, and the command that explains the newest outcome."""
    to.print(Text(str(recent.cluster)))
    if not recent.outcomes:
        to.print("no eviction and no dry run in the last 24 hours: `equipoise plan` shows what would move now")
        return
    rows = table("time", "pod", "from", "to", "outcome")
    for outcome in recent.outcomes:
        name = f"{outcome.namespace}/{outcome.pod}"
        rows.add_row(day_and_time(outcome.settled_at), name, outcome.node, outcome.target, result_text(outcome))
    to.print(rows)
    newest = recent.outcomes[-1]
    to.print()
    to.print(Text(f"equipoise explain eviction {newest.namespace}/{newest.pod}"))
    to.print("  why this pod was chosen, and what became of it", highlight=False)
