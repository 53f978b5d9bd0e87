"""`equipoise plan`."""

import os

import click

from equipoise.cli.options import (
    BusOptions,
    ClusterOptions,
    Output,
    cluster_options,
    nats_options,
    watch_option,
    wide_output_option,
)

MOVES_PLANNED = 3


@click.command()
@click.option("--diff", "only_changes", is_flag=True, help="Show only what changed since the last plan shown.")
@click.option("--exit-code", "with_exit_code", is_flag=True, help="Exit code 3 if at least one pod would move.")
@watch_option
@nats_options
@cluster_options
@wide_output_option
def plan(
    only_changes: bool,
    with_exit_code: bool,
    watch: float | None,
    bus: BusOptions,
    cluster: ClusterOptions,
    output: Output,
) -> None:
    """Show which pods would move now, from where to where, and why. Nothing is proposed or evicted.

    Exit code 1 means that no plan could be read, that it is unknown whether binders evict, or that the plan is not of
    the cluster of the kubeconfig. With --watch, changes are shown as they come.
    """
    from equipoise.cli.bus.access import run_with_bus
    from equipoise.cli.plan.run import run_plan

    moves = run_with_bus(
        bus,
        cluster,
        lambda server: run_plan(server, cluster, os.environ, output=output, only_changes=only_changes, watch=watch),
    )
    if with_exit_code and moves:
        raise SystemExit(MOVES_PLANNED)
