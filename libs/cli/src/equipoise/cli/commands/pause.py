"""`equipoise pause`."""

import click

from equipoise.cli.options import ClusterOptions, Output, cluster_options, output_option


@click.command()
@click.option("--why", default="equipoise pause", help="Reason, reported with every rejected eviction.")
@cluster_options
@output_option
def pause(why: str, cluster: ClusterOptions, output: Output) -> None:
    """Stop all evictions in the cluster until `equipoise resume`.

    Exit code 1 means that they are not stopped, or that this is unknown.
    """
    import asyncio

    from equipoise.cli.cluster_access.ledger_change import pause_evictions

    asyncio.run(pause_evictions(cluster.connection(), why, output=output))
