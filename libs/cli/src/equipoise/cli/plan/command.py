"""`equipoise plan`."""

import os

import click

from equipoise.cli.options import BusOptions, ClusterOptions, cluster_options, json_option, nats_options


@click.command()
@click.option("--diff", "only_changes", is_flag=True, help="Show only what changed since the last plan shown.")
@nats_options
@cluster_options
@json_option
def plan(only_changes: bool, bus: BusOptions, cluster: ClusterOptions, as_json: bool) -> None:
    """Show which pods would move now, from where to where, and why. Nothing is proposed or evicted.

    Exit code 1 means that no plan could be read, that it is unknown whether binders evict, or that the plan is not of
    the cluster of the kubeconfig.
    """
    import asyncio

    from equipoise.cli.bus_access import with_bus
    from equipoise.cli.plan.run import run_plan

    asyncio.run(
        with_bus(
            bus,
            cluster,
            lambda server: run_plan(server, cluster, os.environ, as_json=as_json, only_changes=only_changes),
        )
    )
