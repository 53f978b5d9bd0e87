"""`equipoise resume`."""

import click

from equipoise.cli.options import ClusterOptions, cluster_options


@click.command()
@click.option("--forget", is_flag=True, help="Replace a ledger that cannot be read: recent evictions no longer count.")
@cluster_options
def resume(forget: bool, cluster: ClusterOptions) -> None:
    """Allow evictions again, at first with half of each limit.

    Creates a new ledger if the ledger is missing.
    """
    import asyncio

    from equipoise.cli.pause.run import resume_evictions

    click.echo(asyncio.run(resume_evictions(cluster.connection(), forget=forget)))
