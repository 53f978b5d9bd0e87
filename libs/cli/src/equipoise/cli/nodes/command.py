"""`equipoise nodes`."""

import click

from equipoise.cli.options import ClusterOptions, cluster_options


@click.command()
@click.option("--prometheus", "prometheus_url", help="URL of Prometheus. Defaults to the configuration.")
@cluster_options
@click.option("-w", "--watch", is_flag=True, help="Print the nodes again whenever they were measured, until Ctrl-C.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "wide", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def nodes(prometheus_url: str | None, cluster: ClusterOptions, watch: bool, output: str) -> None:
    """List all nodes with their real load beside what their pods request, the most loaded first.

    Reads Prometheus and the API server; needs nothing else, and writes nothing.
    """
    import asyncio

    from equipoise.cli.cluster_now.command import NowOptions
    from equipoise.cli.nodes.run import run_nodes

    options = NowOptions(prometheus_url=prometheus_url, cluster=cluster)
    asyncio.run(run_nodes(options, output=output, watch=watch))
