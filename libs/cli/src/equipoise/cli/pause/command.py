"""`equipoise pause`."""

import click

from equipoise.cli.options import ClusterOptions, cluster_options


@click.command()
@click.option("--why", default="equipoise pause", help="Reason, reported with every rejected eviction.")
@cluster_options
def pause(why: str, cluster: ClusterOptions) -> None:
    """Stop all evictions in the cluster until `equipoise resume`."""
    import asyncio

    from equipoise.cli.pause.run import pause_evictions

    click.echo(asyncio.run(pause_evictions(cluster.connection(), why)))
