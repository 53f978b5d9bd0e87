"""`equipoise status`."""

import os
from typing import TYPE_CHECKING

import click

from equipoise.cli.options import ClusterOptions, cluster_options, json_option, nats_options

if TYPE_CHECKING:
    from equipoise.runtime.configuration import Nats


@click.command()
@cluster_options
@nats_options
@json_option
def status(cluster: ClusterOptions, server: "Nats", as_json: bool) -> None:
    """Show whether evictions are allowed, which are pending, and the usage of each limit.

    Reads the eviction ledger from the API server. Whether allowed evictions are dry runs is read from the heartbeats of
    the binders on the bus, for up to 11 seconds; without NATS from --config. Exit code 1 means that it is unknown
    whether pods may be evicted.
    """
    import asyncio

    from equipoise.cli.status.run import configured, run_status

    binder = configured(cluster.configuration, os.environ)
    asyncio.run(run_status(cluster, binder, server, os.environ, as_json=as_json))
