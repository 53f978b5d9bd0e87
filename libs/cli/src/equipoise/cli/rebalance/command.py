"""`equipoise rebalance`."""

import os

import click

from equipoise.cli.options import (
    BusOptions,
    ClusterOptions,
    FiniteRange,
    Output,
    cluster_options,
    nats_options,
    output_option,
)


@click.command()
@click.option("--plan", is_flag=True, help="Show what would be done; the default. Writes nothing.")
@click.option("--apply", is_flag=True, help="Start the campaign, after a question. Needs --name.")
@click.option("--status", is_flag=True, help="Show the last campaign.")
@click.option("--pause", is_flag=True, help="Return to the usual limits until --resume.")
@click.option("--resume", is_flag=True, help="Continue a paused campaign, after a question.")
@click.option("--abort", is_flag=True, help="End the campaign. The usual limits hold again.")
@click.option("--name", help="Name of the campaign, as that of a Kubernetes object. Events and outcomes contain it.")
@click.option("--moves", type=click.IntRange(1, 500), help="The most moves. Default: those of the plan, up to 200.")
@click.option("--target-spread", type=FiniteRange(0, 100), help="End at this spread of the nodes, in points.")
@click.option("--expires", help="End after this time, such as 4h; at most 7d. Default: twice the time of the plan.")
@click.option("--yes", "confirmed", is_flag=True, help="Confirm without a prompt. Needed without a terminal.")
@nats_options
@cluster_options
@output_option
def rebalance(
    name: str | None,
    moves: int | None,
    target_spread: float | None,
    expires: str | None,
    confirmed: bool,
    bus: BusOptions,
    cluster: ClusterOptions,
    output: Output,
    **actions: bool,
) -> None:
    """Level the nodes once, with a budget and an end: after new nodes, a zone that returned, or an upgrade.

    The strategies, protections and levels are those of every evaluation. The budget of the campaign replaces only the
    limits per time of the cluster and of namespaces. It ends by itself, or when the cluster becomes worse than planned.
    """
    import asyncio

    from equipoise.cli.bus.access import run_with_bus
    from equipoise.cli.rebalance import run

    chosen = [each for each, given in actions.items() if given] or ["plan"]
    if len(chosen) > 1:
        raise click.UsageError(f"choose one of {', '.join(f'--{each}' for each in chosen)}")
    action = chosen[0]
    if action in ("plan", "apply"):
        options = run.campaign_options(name, moves, target_spread, expires, needs_name=action == "apply")
        prepared = run_with_bus(bus, cluster, lambda server: run.prepare(server, cluster, options))
        if action == "plan":
            run.show_plan(prepared, output=output)
        else:
            run.confirm_start(prepared, options, confirmed=confirmed)
            asyncio.run(run.start(cluster.connection(), prepared, options, output=output))
    elif action == "status":
        asyncio.run(run.show_status(cluster, os.environ, output=output))
    else:
        if action == "resume":
            run.confirm_resume(cluster.connection(), os.environ, confirmed=confirmed)
        asyncio.run(run.change(cluster.connection(), action, output=output))
