"""`equipoise hints`."""

import click

from equipoise.cli.options import (
    BusOptions,
    ClusterOptions,
    Output,
    cluster_options,
    nats_options,
    wide_output_option,
)


@click.command()
@click.argument("name", metavar="NAMESPACE[/WORKLOAD]")
@nats_options
@cluster_options
@wide_output_option
def hints(name: str, bus: BusOptions, cluster: ClusterOptions, output: Output) -> None:
    """Show the placement hints that new pods of a workload get, or those of a whole namespace.

    WORKLOAD is a name, or kind and name: Deployment.web. The hints are read from the API server. If there are none, the
    settings of the running services are read from the bus.
    """
    import asyncio

    from equipoise.cli.hints.run import run_hints

    asyncio.run(run_hints(name, bus, cluster, output=output))
