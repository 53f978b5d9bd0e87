"""`equipoise consolidate`."""

from pathlib import Path

import click

from equipoise.cli.options import (
    BusOptions,
    ClusterOptions,
    Output,
    cluster_options,
    nats_options,
    prices_option,
    wide_output_option,
)


@click.command()
@prices_option
@nats_options
@cluster_options
@wide_output_option
def consolidate(prices: Path | None, bus: BusOptions, cluster: ClusterOptions, output: Output) -> None:
    """Show which nodes the cluster could do without, by the load of every hour, and what that would save.

    The leading descheduler answers, as it would act. Nothing is changed. Exit code 1 means that no answer could be
    read, or that it is not of the cluster of the kubeconfig; 2 that the prices are invalid.
    """
    from equipoise.cli.bus.access import run_with_bus
    from equipoise.cli.consolidate.prices import read_prices
    from equipoise.cli.consolidate.run import run_consolidate

    table = None if prices is None else read_prices(prices)
    run_with_bus(bus, cluster, lambda server: run_consolidate(server, cluster, prices=table, output=output))
