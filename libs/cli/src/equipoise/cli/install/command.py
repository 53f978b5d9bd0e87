"""`equipoise install`."""

from pathlib import Path

import click

from equipoise.cli.options import ClusterOptions, cluster_options


@click.command()
@click.option(
    "--chart",
    default="charts/equipoise",
    show_default=True,
    help="The chart: its folder in a clone, a packaged chart, or oci://REGISTRY/NAME.",
)
@click.option(
    "-f",
    "--values",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with values of the chart. May be repeated.",
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A value of the chart. May be repeated.")
@click.option("--yes", "confirmed", is_flag=True, help="Install. Without it the cluster is only checked.")
@cluster_options
def install(
    chart: str, values: tuple[Path, ...], settings: tuple[str, ...], confirmed: bool, cluster: ClusterOptions
) -> None:
    """Check the cluster, and install or upgrade Equipoise with Helm.

    The default mode, observe, has no permission to evict.
    """
    import asyncio

    from equipoise.cli.exit_codes import InvalidInput
    from equipoise.cli.install.run import Request, run_install

    if "://" not in chart and not Path(chart).exists():
        raise InvalidInput(f"there is no chart {chart}: run this in a clone of the repository, or give --chart")
    request = Request(chart=chart, values=[str(file) for file in values], settings=list(settings))
    asyncio.run(run_install(cluster.connection(), request, confirmed=confirmed))
