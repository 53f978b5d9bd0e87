"""`equipoise dashboard`."""

from pathlib import Path

import click

from equipoise.cli.options import BusOptions, ClusterOptions, cluster_options, nats_options, prices_option


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
@prices_option
@nats_options
@cluster_options
def dashboard(
    listen: str, hosts: tuple[str, ...], prices: Path | None, bus: BusOptions, cluster: ClusterOptions
) -> None:
    """Serve a live page of the cluster: what is uneven, what could be saved, load of all nodes, moves, limits, plan.

    It changes nothing. Ctrl-C ends it.
    """
    import asyncio

    from equipoise.cli.bus.access import reached
    from equipoise.cli.consolidate.prices import read_prices
    from equipoise.cli.views.page.dashboard import run_dashboard

    table = None if prices is None else read_prices(prices)

    async def serve() -> None:
        async with reached(bus, cluster) as server:
            await run_dashboard(listen, hosts, server, cluster, prices=table)

    asyncio.run(serve())
