"""`equipoise resume`."""

import click

from equipoise.cli.options import ClusterOptions, cluster_options


@click.command()
@cluster_options
def resume(cluster: ClusterOptions) -> None:
    """Allow evictions again, at first with half of each limit.

    Creates a new ledger if the ledger is missing or unreadable.
    """
    import asyncio

    from equipoise.cli.pause.run import resume_evictions

    click.echo(asyncio.run(resume_evictions(cluster.connection())))
