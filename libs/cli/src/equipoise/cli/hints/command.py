"""`equipoise hints`."""

import click

from equipoise.cli.options import ClusterOptions, Output, cluster_options, wide_output_option


@click.command()
@click.argument("name", metavar="NAMESPACE[/WORKLOAD]")
@cluster_options
@wide_output_option
def hints(name: str, cluster: ClusterOptions, output: Output) -> None:
    """Show the placement hints that new pods of a workload get, or those of a whole namespace.

    WORKLOAD is a name, or kind and name: Deployment.web. The hints are read from the API server.
    """
    import asyncio

    from equipoise.cli.hints.run import run_hints

    asyncio.run(run_hints(name, cluster, output=output))
