"""`equipoise nodes`."""

import click

from equipoise.cli.options import (
    ClusterOptions,
    Output,
    cluster_options,
    prometheus_option,
    watch_option,
    wide_output_option,
)


@click.command()
@prometheus_option
@cluster_options
@watch_option
@wide_output_option
def nodes(prometheus_url: str | None, cluster: ClusterOptions, watch: float | None, output: Output) -> None:
    """List all nodes with their real load beside what their pods request, the most loaded first.

    Reads Prometheus and the API server; needs nothing else, and writes nothing.
    """
    import asyncio

    from equipoise.cli.cluster_now.listing import run_list
    from equipoise.cli.cluster_now.node_list import node_list, show
    from equipoise.cli.cluster_now.options import NowOptions

    options = NowOptions(prometheus_url=prometheus_url, cluster=cluster)
    asyncio.run(run_list(options, node_list, show, output=output, watch=watch))
