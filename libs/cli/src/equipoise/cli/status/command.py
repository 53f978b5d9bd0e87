"""`equipoise status`."""

import os

import click

from equipoise.cli.options import (
    BusOptions,
    ClusterOptions,
    Output,
    cluster_options,
    nats_options,
    watch_option,
    wide_output_option,
)


@click.command()
@cluster_options
@nats_options
@watch_option
@wide_output_option
def status(cluster: ClusterOptions, bus: BusOptions, watch: float | None, output: Output) -> None:
    """Show whether evictions are allowed, which are pending, and the usage of each limit.

    Reads the eviction ledger from the API server, and the settings of the running binders from the bus: their limits,
    and whether evictions are dry runs. --config FILE shows how the file differs from these settings. Exit code 1 means
    that it is unknown whether pods may be evicted.
    """
    import asyncio

    from equipoise.cli.status.run import run_status

    asyncio.run(run_status(cluster, bus, os.environ, output=output, watch=watch))
