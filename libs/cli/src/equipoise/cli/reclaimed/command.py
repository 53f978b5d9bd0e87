"""`equipoise colocation nodes`."""

from typing import TYPE_CHECKING

import click

from equipoise.cli import completed_names
from equipoise.cli.options import (
    BusOptions,
    ClusterOptions,
    FiniteRange,
    Output,
    cluster_options,
    nats_options,
    wide_output_option,
)

if TYPE_CHECKING:
    from equipoise.cli.reclaimed.nodes import SortBy


@click.command("nodes")
@click.option(
    "--node",
    "only",
    multiple=True,
    shell_complete=completed_names.nodes,
    help="Only this node; can be given several times.",
)
@click.option(
    "--sort",
    type=click.Choice(["batch", "mid", "free", "age", "name"]),
    default="batch",
    show_default=True,
    help="By the cores that pods can still request of a band, or that are idle now; the most first. age: the oldest "
    "evaluation first.",
)
@click.option(
    "--max-age",
    type=FiniteRange(min=1),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="A node that was not evaluated for longer is not part of the totals.",
)
@nats_options
@cluster_options
@wide_output_option
def reclaimed(
    only: tuple[str, ...],
    sort: "SortBy",
    max_age: float,
    bus: BusOptions,
    cluster: ClusterOptions,
    output: Output,
) -> None:
    """Show what each node offers to co-located pods, for how long, and what is requested of it.

    Reads the last evaluation of each node by the reclaimer from the bus. It changes nothing.
    """
    from equipoise.cli.bus.access import run_with_bus
    from equipoise.cli.reclaimed.run import run_reclaimed

    run_with_bus(
        bus,
        cluster,
        lambda server: run_reclaimed(server, cluster, only=only, sort=sort, max_age=max_age, output=output),
    )
