"""`equipoise dashboard`."""

import click

from equipoise.cli.options import BusOptions, ClusterOptions, cluster_options, nats_options


@click.command()
@click.option(
    "--listen",
    default="127.0.0.1:8765",
    show_default=True,
    help="Address and port of the page. It has no login: anybody who reaches it sees the cluster.",
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Further host name under which browsers may open the page, for example that of an ingress. Repeatable.",
)
@nats_options
@cluster_options
def dashboard(listen: str, hosts: tuple[str, ...], bus: BusOptions, cluster: ClusterOptions) -> None:
    """Serve a live page of the cluster: load of all nodes, moves and their reasons, limits, plan, what is unknown.

    It changes nothing. Ctrl-C ends it.
    """
    import asyncio

    from equipoise.cli.bus.access import reached
    from equipoise.cli.views.dashboard import run_dashboard

    async def serve() -> None:
        async with reached(bus, cluster) as server:
            await run_dashboard(listen, hosts, server, cluster)

    asyncio.run(serve())
