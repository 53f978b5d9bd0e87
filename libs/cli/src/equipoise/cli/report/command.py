"""`equipoise report`."""

from importlib.util import find_spec
from pathlib import Path

import click
from click.core import ParameterSource

from equipoise.cli.options import (
    BusOptions,
    ClusterOptions,
    cluster_options,
    json_option,
    nats_options,
    prometheus_option,
)


@click.command()
@click.option("--now", is_flag=True, help="Report the cluster as it is now: requires only Prometheus, no services.")
@prometheus_option
@click.option("--since", default="7d", show_default=True, help="Period: 30m, 12h, 7d. Advice is retained for 8 days.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Also write the report to this file.")
@nats_options
@cluster_options
@json_option
@click.pass_context
def report(
    context: click.Context,
    now: bool,
    prometheus_url: str | None,
    since: str,
    html: Path | None,
    bus: BusOptions,
    cluster: ClusterOptions,
    as_json: bool,
) -> None:
    """Report what is uneven (--now), or where the scorer would have placed pods.

    Without --now: where it would have placed those of the past days. Needs no extender entry in kube-scheduler and no
    permission to evict.

    With --now: report which nodes of the cluster of the kubeconfig are uneven now, which workloads make them so, and
    what the descheduler would change. Reads Prometheus and the API server; needs nothing else, and writes nothing.
    """
    import asyncio

    if now:
        from equipoise.cli.cluster_now.options import NowOptions
        from equipoise.cli.report.now.run import run_report_now

        if html is not None:
            raise click.UsageError("--html is of the report of the past days: omit it, or --now")
        if context.get_parameter_source("since") is not ParameterSource.DEFAULT:
            raise click.UsageError("--since is of the report of the past days: omit it, or --now")
        asyncio.run(run_report_now(NowOptions(prometheus_url=prometheus_url, cluster=cluster), as_json=as_json))
        return
    if prometheus_url is not None:
        raise click.UsageError("--prometheus is only used with --now")

    if html is not None and find_spec("equipoise.lab") is None:
        raise click.UsageError("--html is a part of the lab: run pip install 'equipoise[lab]'")

    from equipoise.cli.bus.access import run_with_bus
    from equipoise.cli.report.run import run_report
    from equipoise.contracts.configuration.duration import Duration

    try:
        period = Duration.parse(since)
    except ValueError as error:
        raise click.UsageError(f"--since: {error}") from None
    run_with_bus(bus, cluster, lambda server: run_report(period, server, as_json=as_json, html=html))
