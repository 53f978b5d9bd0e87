"""`equipoise pods`."""

import click

from equipoise.cli.completed_names import nodes
from equipoise.cli.options import (
    ClusterOptions,
    Output,
    cluster_options,
    prometheus_option,
    watch_option,
    wide_output_option,
)


@click.command()
@click.option("--node", shell_complete=nodes, help="Only the pods of this node. Defaults to all nodes.")
@prometheus_option
@cluster_options
@watch_option
@wide_output_option
def pods(
    node: str | None, prometheus_url: str | None, cluster: ClusterOptions, watch: float | None, output: Output
) -> None:
    """List pods by their real usage beside what they request, those with the largest share of their node first.

    Reads Prometheus and the API server; needs nothing else, and writes nothing.
    """
    import asyncio
    from functools import partial

    from equipoise.cli.cluster_now.listing import run_list
    from equipoise.cli.cluster_now.options import NowOptions
    from equipoise.cli.cluster_now.pod_list import pod_list, show

    options = NowOptions(prometheus_url=prometheus_url, cluster=cluster)
    asyncio.run(run_list(options, partial(pod_list, node=node), show, output=output, watch=watch))
