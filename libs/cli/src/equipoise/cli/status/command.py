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

    Reads the eviction ledger from the API server. Whether allowed evictions are dry runs is read from the heartbeats of
    the binders on the bus, for up to 11 seconds; without NATS from --config. Exit code 1 means that it is unknown
    whether pods may be evicted.
    """
    import asyncio

    from equipoise.cli.status.run import configured, run_status

    binder = configured(cluster.configuration, os.environ)
    asyncio.run(run_status(cluster, binder, bus, os.environ, output=output, watch=watch))
