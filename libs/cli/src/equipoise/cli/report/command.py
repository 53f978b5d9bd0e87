"""`equipoise report`."""

from pathlib import Path

import click

from equipoise.cli.options import BusOptions, ClusterOptions, cluster_options, json_option, nats_options


@click.command()
@click.option("--since", default="7d", show_default=True, help="Period: 30m, 12h, 7d. Advice is retained for 8 days.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Also write the report to this file.")
@nats_options
@cluster_options
@json_option
def report(since: str, html: Path | None, bus: BusOptions, cluster: ClusterOptions, as_json: bool) -> None:
    """Report where the scorer would have placed the pods of the past days.

    Needs no extender entry in kube-scheduler and no permission to evict.
    """
    import asyncio

    from equipoise.cli.bus_access import with_bus
    from equipoise.cli.report.run import run_report
    from equipoise.contracts.configuration.duration import Duration

    try:
        period = Duration.parse(since)
    except ValueError as error:
        raise click.UsageError(f"--since: {error}") from None
    asyncio.run(with_bus(bus, cluster, lambda server: run_report(period, server, as_json=as_json, html=html)))
