"""`equipoise status`."""

import os

import click

from equipoise.cli.options import ClusterOptions, cluster_options, json_option


@click.command()
@cluster_options
@json_option
def status(cluster: ClusterOptions, as_json: bool) -> None:
    """Show whether evictions are allowed, which are pending, and the usage of each limit.

    Reads the eviction ledger from the API server; needs no NATS.
    """
    import asyncio

    from equipoise.cli.status.run import configured_limits, run_status

    file = cluster.configuration
    limits = configured_limits(file, os.environ)
    source = f"the limits of {file}" if file else "the default limits (use --config FILE for others)"
    asyncio.run(run_status(cluster.connection(), limits, as_json=as_json, limits_source=source))
