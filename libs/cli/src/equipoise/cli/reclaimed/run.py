"""Reads the last evaluation of each node and prints it."""

from collections.abc import Sequence
from functools import partial

from equipoise.cli.bus.cluster import bus_cluster
from equipoise.cli.exit_codes import CommandFailed, InvalidInput
from equipoise.cli.options import ClusterOptions, Output
from equipoise.cli.reclaimed.nodes import SortBy, by, summary_of
from equipoise.cli.reclaimed.reading import RETENTION, read_nodes
from equipoise.cli.reclaimed.show import ReclaimedList, show
from equipoise.cli.terminal import duration, print_result
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging


async def run_reclaimed(
    server: Nats, options: ClusterOptions, *, only: Sequence[str], sort: SortBy, max_age: float, output: Output
) -> None:
    """Run the command. `only`: names of nodes; empty: all. `max_age`: seconds.

    Raises BusError, InvalidInput for a node that was not evaluated, and CommandFailed if none was.
    """
    configure_logging(Logging(level="error"), "reclaimed")
    cluster, clock = bus_cluster(options, server), SystemClock()
    nodes = await read_nodes(server, clock, max_age=max_age)
    if not nodes:
        raise CommandFailed(
            f"no node was evaluated within the last {duration(RETENTION)}: set reclaimer.enabled to true, and check "
            "that a reclaimer is running and ready (/readyz)"
        )
    if unknown := sorted(set(only) - {node.node for node in nodes}):
        raise InvalidInput(f"--node {unknown[0]}: the reclaimer has not evaluated a node of this name")
    shown = sorted((node for node in nodes if not only or node.node in only), key=by(sort))
    result = ReclaimedList(cluster=cluster, at=clock.now(), summary=summary_of(shown), nodes=shown)
    print_result(result, partial(show, wide=output == "wide"), output=output)
