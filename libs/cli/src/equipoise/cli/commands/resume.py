"""`equipoise resume`."""

import os

import click

from equipoise.cli.options import ClusterOptions, Output, cluster_options, output_option


@click.command()
@click.option("--forget", is_flag=True, help="Replace a ledger that cannot be read: recent evictions no longer count.")
@click.option("--yes", "confirmed", is_flag=True, help="Confirm without a prompt. Needed without a terminal.")
@cluster_options
@output_option
def resume(forget: bool, confirmed: bool, cluster: ClusterOptions, output: Output) -> None:
    """Allow evictions again, at first with half of each limit.

    Creates a new ledger if the ledger is missing. Needs a confirmation, with the name of the cluster.
    """
    import asyncio

    from equipoise.cli.cluster_access.kubeconfig import cluster_name
    from equipoise.cli.cluster_access.ledger_change import resume_evictions
    from equipoise.cli.confirmation import confirm

    connection = cluster.connection()
    forgetting = ", and forget recent evictions" if forget else ""
    question = f"Allow evictions{forgetting} in cluster {cluster_name(connection, os.environ)}?"
    confirm(question, confirmed=confirmed, nothing_done="not resumed")
    asyncio.run(resume_evictions(connection, forget=forget, output=output))
